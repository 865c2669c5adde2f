// SPDX-License-Identifier: Apache-2.0
// The walk over a function: which instructions are needed, the order of blocks, what they hand to each other.
#include "codegen/nvidia/ptx/function.h"

#include "ir/diagnostic.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/DebugInfoMetadata.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/Instructions.h>

namespace libtile::codegen::nvidia::ptx {

FunctionWriter::FunctionWriter(const llvm::Function &fn, SourceFiles &files)
    : fn_(fn), layout_(fn.getDataLayout()), files_(files), dominators_(const_cast<llvm::Function &>(fn)),
      loops_(dominators_) {}

std::string FunctionWriter::body() {
  orderBlocks();
  findLive();
  sink();
  loadArguments();
  holdPhis();
  for (size_t i = 0; i < order_.size(); ++i) {
    next_ = i + 1 < order_.size() ? order_[i + 1] : nullptr;
    here_ = static_cast<unsigned>(i + 1);
    made_.clear();
    block(*order_[i]);
  }
  return locals_ + text_.declarations() + "\n" + text_.str();
}

// ---- what is needed

namespace {

bool hasEffects(const llvm::Instruction &it) {
  if (const auto *call = llvm::dyn_cast<llvm::CallInst>(&it)) {
    if (const auto *assembly = llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand())) {
      return assembly->hasSideEffects();
    }
  }
  return it.isTerminator() || it.mayHaveSideEffects();
}

} // namespace

void FunctionWriter::findLive() {
  llvm::SmallVector<const llvm::Value *, 64> pending;
  for (const llvm::BasicBlock *block : order_) {
    for (const llvm::Instruction &it : *block) {
      if (hasEffects(it)) {
        pending.push_back(&it);
      }
    }
  }
  while (!pending.empty()) {
    const llvm::Value *value = pending.pop_back_val();
    const auto *it = llvm::dyn_cast<llvm::Instruction>(value);
    if (!live_.insert(value).second || it == nullptr) {
      continue;
    }
    needs(*it, layout_, [&](const llvm::Value *needed) {
      if (llvm::isa<llvm::Instruction, llvm::Argument>(needed)) {
        readers_[needed].push_back(it);
        pending.push_back(needed);
      }
    });
  }
}

llvm::ArrayRef<const llvm::Instruction *> FunctionWriter::readersOf(const llvm::Value *value) const {
  const auto found = readers_.find(value);
  return found != readers_.end() ? llvm::ArrayRef(found->second) : llvm::ArrayRef<const llvm::Instruction *>();
}

// ---- where it is needed

const llvm::BasicBlock *FunctionWriter::placeOf(const llvm::Instruction &it) const {
  const auto found = sunkTo_.find(&it);
  return found != sunkTo_.end() ? found->second : it.getParent();
}

// Behind a loop, if all that use it are there; else null.
const llvm::BasicBlock *FunctionWriter::sinkingPlace(const llvm::Instruction &it) const {
  const llvm::BasicBlock *place = nullptr;
  const auto add = [&](const llvm::BasicBlock *used) {
    if (!places_.contains(used)) { // no way leads there
      return;
    }
    place = place == nullptr ? used : dominators_.findNearestCommonDominator(place, used);
  };
  for (const llvm::Instruction *reader : readersOf(&it)) {
    const auto *phi = llvm::dyn_cast<llvm::PHINode>(reader);
    if (phi == nullptr) {
      add(placeOf(*reader));
      continue;
    }
    for (unsigned i = 0; i < phi->getNumIncomingValues(); ++i) {
      phi->getIncomingValue(i) == &it ? add(phi->getIncomingBlock(i)) : void();
    }
  }
  const llvm::BasicBlock *from = it.getParent();
  if (place == nullptr || place == from || loops_.getLoopFor(place) != loops_.getLoopFor(from)) {
    return nullptr;
  }
  const unsigned first = places_.lookup(from), last = places_.lookup(place);
  for (unsigned i = first; i < last; ++i) {
    const llvm::Loop *loop = loops_.getLoopFor(order_[i]);
    if (loop != nullptr && loop != loops_.getLoopFor(from)) {
      return place;
    }
  }
  return nullptr;
}

bool FunctionWriter::maySink(const llvm::Instruction &it) const {
  return !hasEffects(it) && live_.contains(&it) &&
         !llvm::isa<llvm::PHINode, llvm::LoadInst, llvm::AllocaInst, llvm::CallInst, llvm::ExtractValueInst>(it);
}

// What is only needed behind a loop would take registers in it; but a few truths lie in registers of their own, where what they
// compare would not.
void FunctionWriter::sink() {
  constexpr size_t kFew = 8; // about as many as the machine has registers for them
  for (const llvm::BasicBlock *block : llvm::reverse(order_)) {
    size_t truths = 0;
    const auto isTruth = [](const llvm::Instruction &it) { return it.getType()->isIntegerTy(1); };
    for (const llvm::Instruction &it : *block) {
      truths += isTruth(it) && maySink(it) && sinkingPlace(it) != nullptr ? 1 : 0;
    }
    for (const llvm::Instruction &it : llvm::reverse(*block)) {
      const llvm::BasicBlock *place = maySink(it) && (!isTruth(it) || truths > kFew) ? sinkingPlace(it) : nullptr;
      if (place != nullptr) {
        sunk_[place].push_back(&it);
        sunkTo_[&it] = place;
      }
    }
  }
}

// ---- blocks

// Each block behind those that it is dominated by, and behind its condition what holds if that is true.
void FunctionWriter::orderBlocks() {
  llvm::DenseSet<const llvm::BasicBlock *> seen;
  llvm::SmallVector<std::pair<const llvm::BasicBlock *, unsigned>, 16> path; // and how many successors are still to be visited
  const auto visit = [&](const llvm::BasicBlock *block) {
    if (seen.insert(block).second) {
      path.emplace_back(block, llvm::succ_size(block));
    }
  };
  visit(&fn_.getEntryBlock());
  while (!path.empty()) {
    auto &[block, left] = path.back();
    if (left == 0) {
      order_.push_back(block);
      path.pop_back();
    } else {
      --left;
      visit(*std::next(llvm::succ_begin(block), left));
    }
  }
  std::reverse(order_.begin(), order_.end());
  for (size_t i = 0; i < order_.size(); ++i) {
    places_[order_[i]] = static_cast<unsigned>(i + 1);
  }
}

std::string FunctionWriter::label(const llvm::BasicBlock &block) const { return "$L_" + std::to_string(places_.lookup(&block)); }

void FunctionWriter::block(const llvm::BasicBlock &block) {
  if (here_ > 1) {
    text_.raw(label(block), ":");
  }
  const auto write = [this](const llvm::Instruction &it) {
    line(it);
    visit(const_cast<llvm::Instruction &>(it)); // which the visitors only read
  };
  for (const llvm::Instruction *it : llvm::reverse(sunk_[&block])) {
    write(*it);
  }
  for (const llvm::Instruction &it : block) {
    if (live_.contains(&it) && !sunkTo_.contains(&it)) {
      write(it);
    }
  }
}

void FunctionWriter::line(const llvm::Instruction &it) {
  const llvm::DebugLoc &at = it.getDebugLoc();
  if (!at || at.getLine() == 0) {
    return;
  }
  const unsigned file = files_.numberOf(at->getFile());
  const auto place = std::pair(file, std::pair(at.getLine(), at.getCol()));
  if (place != place_) {
    place_ = place;
    text_.raw("\t.loc\t", file, " ", at.getLine(), " ", at.getCol());
  }
}

// What the phis of `to` are when it is entered from `from`.
FunctionWriter::Copies FunctionWriter::copiesBetween(const llvm::BasicBlock &from, const llvm::BasicBlock &to) {
  Copies copies;
  const auto add = [&](Operand target, Operand source) {
    if (target != source) {
      copies.push_back({target, source});
    }
  };
  for (const llvm::PHINode &phi : to.phis()) {
    const llvm::Value *value = phi.getIncomingValueForBlock(&from);
    if (!live_.contains(&phi) || llvm::isa<llvm::UndefValue>(value)) {
      continue;
    }
    if (const Operand target = held_[&phi].whole) {
      add(target, whole(value));
      continue;
    }
    const Operands targets = held_[&phi].elements;
    for (unsigned i = 0; i < targets.size(); ++i) {
      add(targets[i], element(value, i));
    }
  }
  return copies;
}

Operand FunctionWriter::copied(Operand source) {
  const Operand out = text_.fresh(source.size);
  text_.line(moveOf(source.size), out, ", ", source);
  return out;
}

// All are read before one is written.
void FunctionWriter::copy(Copies copies) {
  const Registers written = targetsOf(copies);
  for (Copy &each : copies) {
    if (each.source.isRegister() && written.contains(keyOf(each.source))) {
      each.source = copied(each.source);
    }
  }
  for (const Copy &each : copies) {
    text_.line(moveOf(each.target.size), each.target, ", ", each.source);
  }
}

FunctionWriter::Registers FunctionWriter::targetsOf(const Copies &copies) {
  Registers targets;
  for (const Copy &each : copies) {
    targets.insert(keyOf(each.target));
  }
  return targets;
}

void FunctionWriter::jump(const llvm::BasicBlock &to) {
  if (&to != next_) {
    text_.line("bra.uni ", label(to));
  }
}

// Copies of both ways out come before the branch. Others belong to one: the other way may need what they overwrite.
void FunctionWriter::visitBranchInst(llvm::BranchInst &it) {
  const llvm::BasicBlock &from = *it.getParent(), &yes = *it.getSuccessor(0);
  Copies toYes = copiesBetween(from, yes);
  if (it.isUnconditional()) {
    copy(std::move(toYes));
    return jump(yes);
  }
  const llvm::BasicBlock &no = *it.getSuccessor(1);
  Copies toNo = copiesBetween(from, no), common;
  Operand on = inRegister(it.getCondition());
  const Registers isInNo = targetsOf(toNo);
  llvm::copy_if(toYes, std::back_inserter(common), [&](const Copy &each) {
    return isInNo.contains(keyOf(each.target)) && llvm::is_contained(toNo, each);
  });
  const Registers written = targetsOf(common);
  for (Copies *copies : {&toYes, &toNo}) {
    llvm::erase_if(*copies, [&](const Copy &each) { return written.contains(keyOf(each.target)); });
    for (Copy &each : *copies) {
      each.source = each.source.isRegister() && written.contains(keyOf(each.source)) ? copied(each.source) : each.source;
    }
  }
  on = written.contains(keyOf(on)) ? copied(on) : on;
  copy(std::move(common));
  if (toYes.empty() && !(&yes == next_ && toNo.empty())) {
    text_.line("@", on, " bra ", label(yes));
  } else if (toNo.empty()) {
    text_.line("@!", on, " bra ", label(no));
    copy(std::move(toYes));
    return jump(yes);
  } else {
    const std::string edge = "$L_edge" + std::to_string(++edges_);
    text_.line("@!", on, " bra ", edge);
    copy(std::move(toYes));
    text_.line("bra.uni ", label(yes));
    text_.raw(edge, ":");
  }
  copy(std::move(toNo));
  jump(no);
}

void FunctionWriter::visitReturnInst(llvm::ReturnInst &it) {
  if (const llvm::Value *value = it.getReturnValue()) {
    const Operand result = inRegister(value);
    text_.line(result.size == Size::B64 ? "st.param.b64 [result], " : "st.param.b32 [result], ", result);
  }
  text_.line("ret");
}

void FunctionWriter::visitInstruction(llvm::Instruction &it) {
  throw ir::Unsupported(std::string("no PTX is known for LLVM's ") + it.getOpcodeName());
}

// ---- arguments

void FunctionWriter::loadArguments() {
  const std::string name = nameOf(fn_);
  for (const llvm::GlobalVariable &each : fn_.getParent()->globals()) {
    if (each.getAddressSpace() == kShared) {
      bases_[&each] = whole(&each);
    }
  }
  for (const llvm::Argument &argument : fn_.args()) {
    if (!live_.contains(&argument)) {
      continue;
    }
    const std::string parameter = name + "_param_" + std::to_string(argument.getArgNo());
    const Operand value = text_.fresh(sizeOf(argument.getType()));
    if (argument.hasByValAttr()) { // where the launch has put it
      const Operand place = text_.fresh(Size::B64);
      text_.line("mov.b64 ", place, ", ", parameter);
      text_.line("cvta.param.u64 ", value, ", ", place);
    } else {
      text_.line("ld.param.b", std::max(8U, bitsOf(argument.getType())), " ", value, ", [", parameter, "]");
    }
    held_[&argument].whole = value;
  }
}

} // namespace libtile::codegen::nvidia::ptx
