// SPDX-License-Identifier: Apache-2.0
// The registers of phis. The assembler sees through copies, but where many lie on one side of a branch it keeps them: phis behind
// branches and loops, and sums of matrices, go without.
#include "codegen/nvidia/ptx/function.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>

namespace libtile::codegen::nvidia::ptx {

namespace {

using Blocks = llvm::DenseSet<const llvm::BasicBlock *>;

// Of the loop that goes back from `latch` to `header`.
Blocks blocksOfLoop(const llvm::BasicBlock *header, const llvm::BasicBlock *latch) {
  Blocks found = {header};
  llvm::SmallVector<const llvm::BasicBlock *, 8> pending = {latch};
  while (!pending.empty()) {
    const llvm::BasicBlock *block = pending.pop_back_val();
    if (found.insert(block).second) {
      pending.append(llvm::pred_begin(block), llvm::pred_end(block));
    }
  }
  return found;
}

// Whether the result may be the register of an operand: of integers what is added to 0, say, in one lane of several.
bool mayBeOperand(const llvm::Instruction &it) {
  return llvm::isa<llvm::CastInst, llvm::InsertElementInst, llvm::ExtractElementInst, llvm::ShuffleVectorInst, llvm::ExtractValueInst,
                   llvm::FreezeInst, llvm::SelectInst, llvm::GetElementPtrInst>(it) ||
         (llvm::isa<llvm::BinaryOperator, llvm::IntrinsicInst>(it) && it.getType()->isIntOrIntVectorTy());
}

// Its register is its own: a result of assembly that nothing else takes.
bool isOwnResult(const llvm::Value &value) {
  const auto *part = llvm::dyn_cast<llvm::ExtractValueInst>(&value);
  const auto *made = llvm::dyn_cast<llvm::CallInst>(part != nullptr ? part->getAggregateOperand() : &value);
  return made != nullptr && made->isInlineAsm() && llvm::all_of(made->users(), [&](const llvm::User *user) {
    const auto *other = llvm::dyn_cast<llvm::ExtractValueInst>(user);
    return part == nullptr || other == part || (other != nullptr && other->getIndices()[0] != part->getIndices()[0]);
  });
}

} // namespace

// Whether the value, or what may be the same register, is read outside of the blocks; a phi reads it where it comes from.
bool FunctionWriter::escapes(const llvm::Value &value, const Blocks &blocks) const {
  llvm::SmallVector<const llvm::Value *, 8> pending = {&value};
  llvm::DenseSet<const llvm::Value *> seen;
  while (!pending.empty()) {
    const llvm::Value *read = pending.pop_back_val();
    for (const llvm::Instruction *reader : readersOf(read)) {
      const auto *phi = llvm::dyn_cast<llvm::PHINode>(reader);
      if (phi == nullptr && !blocks.contains(reader->getParent())) {
        return true;
      }
      for (unsigned i = 0; phi != nullptr && i < phi->getNumIncomingValues(); ++i) {
        if (phi->getIncomingValue(i) == read && !blocks.contains(phi->getIncomingBlock(i))) {
          return true;
        }
      }
      if (phi == nullptr && mayBeOperand(*reader) && seen.insert(reader).second) {
        pending.push_back(reader);
      }
    }
  }
  return false;
}

Operand FunctionWriter::registerOf(const llvm::PHINode &phi) {
  const llvm::PHINode *like = loopPhiLike(phi);
  return like != nullptr && live_.contains(like) && held_[like].whole ? held_[like].whole : text_.fresh(sizeOf(phi.getType()));
}

void FunctionWriter::holdPhis() {
  for (const llvm::BasicBlock *block : order_) {
    for (const llvm::PHINode &phi : block->phis()) {
      if (!live_.contains(&phi)) {
        continue;
      }
      const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(phi.getType());
      if (vector == nullptr || bitsOf(vector) <= 64) {
        hold(phi, registerOf(phi));
        changeInPlace(phi);
        continue;
      }
      Operands elements;
      for (unsigned i = 0; i < vector->getNumElements(); ++i) {
        elements.push_back(text_.fresh(sizeOf(vector->getElementType())));
      }
      hold(phi, std::move(elements));
    }
  }
  for (const llvm::BasicBlock *block : order_) {
    for (const llvm::Instruction &it : *block) {
      const auto *call = llvm::dyn_cast<llvm::CallInst>(&it);
      if (call != nullptr && call->isInlineAsm()) {
        for (const auto &[result, argument] : tiedArguments(*call)) {
          wantInPlace(*call, result, *call->getArgOperand(argument));
        }
      }
    }
  }
}

// Behind a loop the phi of the loop that starts from and goes on with the same values, and that nobody behind the loop asks for: one
// register is both. Null: there is none.
const llvm::PHINode *FunctionWriter::loopPhiLike(const llvm::PHINode &phi) const {
  if (phi.getNumIncomingValues() != 2) {
    return nullptr;
  }
  for (const unsigned side : {0U, 1U}) {
    const llvm::BasicBlock *latch = phi.getIncomingBlock(side), *before = phi.getIncomingBlock(1 - side);
    for (const llvm::BasicBlock *header : llvm::successors(latch)) {
      if (header == phi.getParent() || !dominators_.dominates(header, latch)) {
        continue;
      }
      for (const llvm::PHINode &each : header->phis()) {
        const bool alike = each.getNumIncomingValues() == 2 && each.getType() == phi.getType() && each.getBasicBlockIndex(before) >= 0 &&
                           each.getBasicBlockIndex(latch) >= 0 &&
                           each.getIncomingValueForBlock(latch) == phi.getIncomingValue(side) &&
                           each.getIncomingValueForBlock(before) == phi.getIncomingValue(1 - side);
        if (alike && !escapes(each, blocksOfLoop(header, latch))) {
          return &each;
        }
      }
    }
  }
  return nullptr;
}

// Where one side of a branch changes what assembly in front of the branch has made, and nothing else asks for it, the phi behind both
// is that register: a score that is masked, say. The assembler would move all of them on the other side.
void FunctionWriter::changeInPlace(const llvm::PHINode &phi) {
  const llvm::BasicBlock *branch = dominators_.getNode(phi.getParent())->getIDom()->getBlock();
  if (phi.getNumIncomingValues() != 2) {
    return;
  }
  for (const unsigned side : {0U, 1U}) {
    const auto *value = llvm::dyn_cast<llvm::Instruction>(phi.getIncomingValue(side));
    const auto *part = llvm::dyn_cast_or_null<llvm::ExtractValueInst>(value);
    const auto *made = llvm::dyn_cast_or_null<llvm::CallInst>(part != nullptr ? part->getAggregateOperand() : value);
    const llvm::BasicBlock *other = phi.getIncomingBlock(1 - side);
    if (made == nullptr || !made->isInlineAsm() || value->getParent() != branch || made->getParent() != branch || other == branch ||
        other->getSinglePredecessor() != branch) {
      continue;
    }
    const bool diesHere = llvm::all_of(readersOf(value), [&](const llvm::Instruction *reader) {
      return reader == &phi || reader->getParent() == other;
    });
    const auto key = std::pair<const llvm::Value *, unsigned>(made, part != nullptr ? part->getIndices()[0] : 0);
    if (diesHere && isOwnResult(*value) && !inPlace_.contains(key)) {
      inPlace_[key] = held_[&phi].whole;
      selectInPlace(*value, phi, *other);
      return;
    }
  }
}

// Where the other block selects between the value and something else, which is all that reads the value, it does so in that register.
void FunctionWriter::selectInPlace(const llvm::Value &value, const llvm::PHINode &phi, const llvm::BasicBlock &other) {
  const auto *selected = llvm::dyn_cast<llvm::SelectInst>(phi.getIncomingValueForBlock(&other));
  const auto onlyThese = [&](const llvm::Instruction *reader) { return reader == &phi || reader == selected; };
  if (selected != nullptr && selected->getType()->isFloatTy() && selected->getParent() == &other && !sunkTo_.contains(selected) &&
      readersOf(selected).size() == 1 && llvm::all_of(readersOf(&value), onlyThese)) {
    wanted_[selected] = held_[&phi].whole;
  }
}

// In one loop, and in none inside of it. Else what one has written the other would change again and again.
bool FunctionWriter::areAsOften(const llvm::Instruction &a, const llvm::Instruction &b) const {
  return loops_.getLoopFor(a.getParent()) == loops_.getLoopFor(b.getParent());
}

// What the assembly's result is taken as, if it has a register of its own; else null.
const llvm::Value *FunctionWriter::ownResult(const llvm::CallInst &assembly, unsigned result) const {
  const llvm::Value *value = &assembly;
  if (assembly.getType()->isStructTy()) {
    const auto found = llvm::find_if(assembly.users(), [&](const llvm::User *user) {
      const auto *part = llvm::dyn_cast<llvm::ExtractValueInst>(user);
      return part != nullptr && part->getIndices()[0] == result;
    });
    value = found == assembly.user_end() ? nullptr : *found;
  }
  return value != nullptr && isOwnResult(*value) ? value : nullptr;
}

// The phi of a loop that goes on with the result, and with none of another way round, and that all have read before `at`, or at it;
// null: there is none.
const llvm::PHINode *FunctionWriter::phiFor(const llvm::CallInst &assembly, unsigned result, const llvm::Instruction &at) const {
  const llvm::Value *value = ownResult(assembly, result);
  for (const llvm::Instruction *reader : readersOf(value)) {
    const auto *phi = llvm::dyn_cast<llvm::PHINode>(reader);
    if (value != nullptr && phi != nullptr && phi->getNumIncomingValues() == 2 && held_.lookup(phi).whole && isReadBefore(*phi, at)) {
      return phi;
    }
  }
  return nullptr;
}

// The register that the result may be written to: that of the phi that goes on with it, or of what it begins as, if nobody else reads
// that. None: a fresh one.
Operand FunctionWriter::placeOfResult(const llvm::CallInst &assembly, unsigned result, const llvm::Value *before) {
  if (const Operand place = inPlace_.lookup({&assembly, result})) {
    return place;
  }
  const llvm::Value *own = ownResult(assembly, result);
  const auto *phi = llvm::dyn_cast_or_null<llvm::PHINode>(before);
  const auto *maker = llvm::dyn_cast_or_null<llvm::Instruction>(before);
  const bool isOnlyReader = own != nullptr && maker != nullptr && readersOf(before).size() == 1 && areAsOften(*maker, assembly);
  if (isOnlyReader && phi != nullptr && llvm::is_contained(phi->incoming_values(), own)) {
    return held_[phi].whole;
  }
  if (const llvm::PHINode *other = phiFor(assembly, result, assembly)) {
    return held_[other].whole;
  }
  return isOnlyReader && phi == nullptr && isOwnResult(*before) ? whole(before) : Operand();
}

// Products that a sum of matrices begins as are computed in its registers: it is rescaled, say.
void FunctionWriter::wantInPlace(const llvm::CallInst &assembly, unsigned result, const llvm::Value &before) {
  const auto *product = llvm::dyn_cast<llvm::BinaryOperator>(&before);
  if (product == nullptr || product->getOpcode() != llvm::Instruction::FMul || product->getParent() != assembly.getParent() ||
      !product->getType()->isFloatTy() || readersOf(product).size() != 1 || inPlace_.contains({&assembly, result})) {
    return;
  }
  if (const llvm::PHINode *phi = phiFor(assembly, result, *product)) {
    wanted_[product] = held_[phi].whole;
  }
}

// Whether all that read the phi of a loop, or what may be the same register, come before that instruction in an iteration, or are it.
// Assembly may read it when it has written results.
bool FunctionWriter::isReadBefore(const llvm::PHINode &phi, const llvm::Instruction &at) const {
  if (!dominators_.dominates(phi.getParent(), at.getParent()) || !areAsOften(phi, at)) {
    return false;
  }
  llvm::SmallVector<const llvm::Value *, 4> pending = {&phi};
  llvm::DenseSet<const llvm::Value *> seen;
  while (!pending.empty()) {
    for (const llvm::Instruction *reader : readersOf(pending.pop_back_val())) {
      const bool isIt = reader == &at && !llvm::isa<llvm::CallInst>(at);
      const bool isBefore = reader->getParent() == at.getParent() ? reader->comesBefore(&at) : dominators_.dominates(reader->getParent(), at.getParent());
      if (llvm::isa<llvm::PHINode>(reader) || (!isBefore && !isIt) || sunkTo_.contains(reader)) {
        return false;
      }
      if (mayBeOperand(*reader) && reader != &at && seen.insert(reader).second) {
        pending.push_back(reader);
      }
    }
  }
  return true;
}

} // namespace libtile::codegen::nvidia::ptx
