// SPDX-License-Identifier: Apache-2.0
// PTX that LLVM has no instruction for.
#include "codegen/nvidia/nvidia_emitter.h"

#include "codegen/llvm_compat.h"
#include "ir/ops.h"
#include "passes/gpu/shared_accesses.h"

#include <algorithm>

namespace libtile::codegen::nvidia {

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

namespace {

// The registers that a constraint names, by their letter.
struct RegisterKind {
  char letter;
  unsigned bits;
  bool isFloat;
};
constexpr RegisterKind kKinds[] = {{'b', 1, false},  {'h', 16, false}, {'r', 32, false},
                                   {'l', 64, false}, {'f', 32, true},  {'d', 64, true}};

// A word of so many bits goes into the register: as it is, or below zeros.
const RegisterKind &kindOf(const ir::Function &fn, ir::OpId op, const std::string &constraint,
                           unsigned bits) {
  const auto *kind = std::ranges::find(kKinds, constraint[0], &RegisterKind::letter);
  if (kind == std::end(kKinds)) {
    throw ir::Unsupported("the constraint `" + constraint + "` of inline assembly on an NVIDIA target",
                          fn.locationOf(op));
  }
  const bool fits = kind->bits == 1 ? bits == 8 : kind->isFloat ? kind->bits == bits : kind->bits >= bits;
  if (!fits) {
    throw ir::UserError("a register `" + constraint + "` of inline assembly has " +
                            std::to_string(kind->bits) + " bits, but its elements have " +
                            std::to_string(bits),
                        fn.locationOf(op));
  }
  return *kind;
}

} // namespace

llvm::Type *NvidiaEmitter::assemblyRegister(ir::OpId op, const std::string &constraint, unsigned bits) {
  const RegisterKind &kind = kindOf(fn_, op, constraint, bits);
  return !kind.isFloat ? builder_.getIntNTy(kind.bits) : kind.bits == 32 ? builder_.getFloatTy() : builder_.getDoubleTy();
}

llvm::Value *NvidiaEmitter::assembly(const std::string &text, const AssemblyOperands &operands,
                               llvm::Type *result) {
  const bool scratch = text.starts_with(".reg");
  return assembly(scratch ? "{ " + text + " }" : text, operands.constraints(), result,
                  operands.values(), true);
}

// Named barriers, from the third on, one a team: where it waits, those arrive who give it the turn.
void NvidiaEmitter::turnBarrier(const char *instruction, int32_t teamsOn) {
  const int32_t threads = target_.registerTeam * target_.warpSize, teams = fn_.numWarps / target_.registerTeam;
  llvm::Value *team = builder_.CreateUDiv(warpNumber(), i32(target_.registerTeam));
  team = builder_.CreateURem(builder_.CreateAdd(team, i32(teamsOn)), i32(teams));
  assembly("bar." + std::string(instruction) + " $0, " + std::to_string(2 * threads) + ";", "r", builder_.getVoidTy(),
           {builder_.CreateAdd(team, i32(2))}, true, true);
}

void NvidiaEmitter::lowerBeginTurns(ir::OpId) {
  const int32_t last = fn_.numWarps - target_.registerTeam;
  llvm::BasicBlock *given = newBlock("turns.begin"), *after = newBlock("turns");
  builder_.CreateCondBr(builder_.CreateICmpUGE(warpNumber(), i32(last)), given, after);
  builder_.SetInsertPoint(given);
  turnBarrier("arrive", 1);
  builder_.CreateBr(after);
  builder_.SetInsertPoint(after);
}

void NvidiaEmitter::lowerTakeTurn(ir::OpId) { turnBarrier("sync", 0); }

void NvidiaEmitter::lowerGiveTurn(ir::OpId) { turnBarrier("arrive", 1); }

} // namespace libtile::codegen::nvidia
