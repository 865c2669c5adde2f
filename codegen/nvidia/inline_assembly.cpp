// SPDX-License-Identifier: Apache-2.0
// PTX that LLVM has no instruction for, and shared memory as a whole.
#include "codegen/nvidia/emitter.h"

#include "codegen/llvm_compat.h"
#include "ir/ops.h"
#include "passes/gpu/shared_accesses.h"

#include <llvm/IR/InlineAsm.h>

namespace libtile::codegen::nvidia {

namespace {

bool isHalf(const llvm::Value *bits) {
  const auto *cast = llvm::dyn_cast<llvm::BitCastInst>(bits);
  return cast != nullptr && cast->getSrcTy()->isHalfTy();
}

// Of the base: of the buffer that needs most.
uint64_t arenaAlignment(const ir::Function &fn) {
  int64_t align = 128;
  for (const ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == ir::Opcode::Alloc && fn.hasAttr(op, ir::Attr::align)) {
      align = std::max(align, fn.getInt(op, ir::Attr::align));
    }
  }
  return static_cast<uint64_t>(align);
}

} // namespace

std::string AssemblyOperands::number(const std::string &constraint) {
  constraints_ += (count_ == 0 ? "" : ",") + constraint;
  return "$" + std::to_string(count_++);
}

std::string AssemblyOperands::result(const char *constraint) { return number(constraint); }

std::string AssemblyOperands::use(llvm::Value *value, const char *constraint) {
  values_.push_back(value);
  return number(constraint);
}

std::string AssemblyOperands::address(const AccessAddress &address, std::string &before) {
  std::string where = use(address.pointer, "l");
  if (address.index != nullptr) {
    const bool wide = address.index->getType()->isIntegerTy(64);
    const std::string index = use(address.index, wide ? "l" : "r");
    before += ".reg .b64 a;\n\t" + std::string(wide ? "mad.lo.s64" : "mad.wide.s32") + " a, " +
              index + ", " + std::to_string(address.scale) + ", " + where + ";\n\t";
    where = "a";
  }
  return "[" + where + (address.bytes == 0 ? "" : "+" + std::to_string(address.bytes)) + "]";
}

llvm::Value *Emitter::assembly(const std::string &text, const std::string &constraints,
                               llvm::Type *result, llvm::ArrayRef<llvm::Value *> operands,
                               bool effects, bool convergent) {
  llvm::SmallVector<llvm::Type *, 16> types;
  for (llvm::Value *operand : operands) {
    types.push_back(operand->getType());
  }
  auto *type = llvm::FunctionType::get(result, types, false);
  const std::string all =
      effects ? constraints + (constraints.empty() ? "~{memory}" : ",~{memory}") : constraints;
  llvm::CallInst *call =
      builder_.CreateCall(type, llvm::InlineAsm::get(type, text, all, effects), operands);
  call->addFnAttr(llvm::Attribute::NoUnwind);
  if (convergent) {
    call->addFnAttr(llvm::Attribute::Convergent);
    call->addFnAttr(llvm::Attribute::NoDuplicate);
  }
  return call;
}

llvm::Value *Emitter::assembly(const std::string &text, const AssemblyOperands &operands,
                               llvm::Type *result) {
  const bool scratch = text.starts_with(".reg");
  return assembly(scratch ? "{ " + text + " }" : text, operands.constraints(), result,
                  operands.values(), true);
}

void Emitter::barrier() {
  if (fn_.numWarps == 1) {
    assembly("bar.warp.sync 0xffffffff;", "", builder_.getVoidTy(), {}, true, true);
  } else {
    // Barrier 0 is the whole block's, a producer among them.
    const bool isWhole = passes::blockWarps(fn_) == fn_.numWarps;
    assembly(isWhole ? "bar.sync 0;" : "bar.sync 1, " + std::to_string(fn_.numWarps * target_.warpSize) + ";", "",
             builder_.getVoidTy(), {}, true, true);
  }
}

// Named barriers, from the third on, one a team: where it waits, those arrive who give it the turn.
void Emitter::turnBarrier(const char *instruction, int32_t teamsOn) {
  const int32_t threads = target_.registerTeam * target_.warpSize, teams = fn_.numWarps / target_.registerTeam;
  llvm::Value *team = builder_.CreateUDiv(thread_, i32(threads));
  team = builder_.CreateURem(builder_.CreateAdd(team, i32(teamsOn)), i32(teams));
  assembly("bar." + std::string(instruction) + " $0, " + std::to_string(2 * threads) + ";", "r", builder_.getVoidTy(),
           {builder_.CreateAdd(team, i32(2))}, true, true);
}

void Emitter::lowerBeginTurns(ir::OpId) {
  const int32_t last = fn_.numWarps - target_.registerTeam;
  llvm::BasicBlock *given = newBlock("turns.begin"), *after = newBlock("turns");
  builder_.CreateCondBr(builder_.CreateICmpUGE(thread_, i32(last * target_.warpSize)), given, after);
  builder_.SetInsertPoint(given);
  turnBarrier("arrive", 1);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void Emitter::lowerTakeTurn(ir::OpId) { turnBarrier("sync", 0); }

void Emitter::lowerGiveTurn(ir::OpId) { turnBarrier("arrive", 1); }

llvm::Value *Emitter::sharedBase() {
  constexpr const char *kName = "libtile_shared";
  llvm::GlobalVariable *base = module_.getGlobalVariable(kName, true);
  if (base == nullptr) {
    llvm::Type *type = llvm::ArrayType::get(builder_.getInt8Ty(), 0);
    base = new llvm::GlobalVariable(module_, type, false, llvm::GlobalValue::ExternalLinkage,
                                    nullptr, kName, nullptr, llvm::GlobalValue::NotThreadLocal, 3);
    base->setAlignment(llvm::Align(arenaAlignment(fn_)));
  }
  return base;
}

// Both go through the memory form, whose elements lie side by side in a vector.
Regs Emitter::packWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> elements,
                        unsigned wordBytes) {
  const unsigned bytes = type.elementBytes();
  llvm::Type *whole = builder_.getIntNTy(8 * bytes);
  const unsigned perWord = std::max(1u, wordBytes / bytes);
  ir::check(bytes <= wordBytes && elements.size() % perWord == 0, "elements fill whole words");
  Regs words;
  for (size_t first = 0; first < elements.size(); first += perWord) {
    llvm::SmallVector<llvm::Value *, 8> parts;
    for (unsigned i = 0; i < perWord; ++i) {
      llvm::Value *part = elementwise_.toMemory(type, elements[first + i]);
      parts.push_back(part->getType()->isPointerTy() ? builder_.CreatePtrToInt(part, whole)
                                                     : builder_.CreateBitCast(part, whole));
    }
    if (perWord == 1) {
      words.push_back(parts[0]);
      continue;
    }
    // Halves go in as such: two conversions and their word are one instruction.
    if (llvm::all_of(parts, isHalf)) {
      for (llvm::Value *&part : parts) {
        part = llvm::cast<llvm::BitCastInst>(part)->getOperand(0);
      }
    }
    llvm::Value *vector =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(parts[0]->getType(), perWord));
    for (unsigned i = 0; i < perWord; ++i) {
      vector = builder_.CreateInsertElement(vector, parts[i], uint64_t{i});
    }
    words.push_back(builder_.CreateBitCast(vector, builder_.getIntNTy(8 * wordBytes)));
  }
  return words;
}

Regs Emitter::unpackWords(const ir::Type &type, llvm::ArrayRef<llvm::Value *> words,
                          unsigned wordBytes, unsigned count) {
  const unsigned bytes = type.elementBytes();
  llvm::Type *whole = builder_.getIntNTy(8 * bytes);
  llvm::Type *memory = elementwise_.memoryType(type);
  const unsigned perWord = std::max(1u, wordBytes / bytes);
  Regs out;
  for (unsigned i = 0; i < count; ++i) {
    llvm::Value *word = words[i / perWord];
    if (perWord > 1) {
      word = builder_.CreateBitCast(word, llvm::FixedVectorType::get(whole, perWord));
      word = builder_.CreateExtractElement(word, uint64_t{i % perWord});
    }
    word = memory->isPointerTy() ? builder_.CreateIntToPtr(word, memory)
                                 : builder_.CreateBitCast(word, memory);
    out.push_back(elementwise_.fromMemory(type, word));
  }
  return out;
}

} // namespace libtile::codegen::nvidia
