// SPDX-License-Identifier: Apache-2.0
// Constants, indices, and ops that only rename registers.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

#include "passes/gpu/layout_maps.h"

namespace libtile::codegen::gpu {

using ir::Attr;

void Emitter::lowerConstant(ir::OpId op) {
  const ir::ValueId result = fn_.result(op);
  if (!indexOp(op)) {
    set(result, Regs(numRegs(result), elementwise_.constant(fn_, op)));
  }
}

void Emitter::lowerProgramId(ir::OpId op) {
  const int64_t axis = fn_.getInt(op, Attr::axis);
  if (fn_.numOperands(op) == 0) {
    return set(fn_.result(op), programIndex(axis));
  }
  llvm::Value *number = scalar(fn_.operand(op, 0));
  for (int64_t faster = 0; faster < axis; ++faster) {
    number = builder_.CreateUDiv(number, gridExtent(faster));
  }
  set(fn_.result(op), axis == 2 ? number : builder_.CreateURem(number, gridExtent(axis)));
}

void Emitter::lowerNumPrograms(ir::OpId op) { set(fn_.result(op), gridExtent(fn_.getInt(op, Attr::axis))); }

// Of the user's grid: where programs share blocks, that of blocks is another one.
llvm::Value *Emitter::gridExtent(int64_t axis) {
  const size_t others = fn_.params.size() + fn_.maps.size();
  return kernel_->arg_size() > others ? kernel_->getArg(static_cast<unsigned>(others + static_cast<size_t>(axis))) : programCount(axis);
}

void Emitter::lowerWorker(ir::OpId op) { set(fn_.result(op), programIndex(0)); }

void Emitter::lowerNumWorkers(ir::OpId op) { set(fn_.result(op), programCount(0)); }

// Each thread would read another time.
void Emitter::lowerClock(ir::OpId op) { set(fn_.result(op), tellOthers(op, clock())); }

void Emitter::lowerArange(ir::OpId op) {
  const ir::ValueId result = fn_.result(op);
  if (indexOp(op)) {
    return;
  }
  Regs out;
  for (unsigned reg = 0; reg < numRegs(result); ++reg) {
    out.push_back(
        builder_.CreateAdd(coord(layoutOf(result), reg, 0), i32(fn_.getInt(op, Attr::start))));
  }
  set(result, std::move(out));
}

void Emitter::lowerSplat(ir::OpId op) {
  if (addressOp(op) || indexOp(op)) {
    return;
  }
  set(fn_.result(op), Regs(numRegs(fn_.result(op)), scalar(fn_.operand(op, 0))));
}

void Emitter::renameRegisters(ir::OpId op) {
  if (addressOp(op) || indexOp(op)) {
    return;
  }
  const std::optional<std::vector<int32_t>> map = passes::shapeRegisterMap(fn_, op);
  if (!map) {
    throw ir::InternalError(std::string(fn_.opInfo(op).mnemonic) +
                                " between layouts that move data",
                            fn_.locationOf(op));
  }
  const Regs &from = regs(fn_.operand(op, 0));
  Regs out;
  for (int32_t reg : *map) {
    out.push_back(from[reg]);
  }
  set(fn_.result(op), std::move(out));
}

void Emitter::lowerBroadcast(ir::OpId op) { renameRegisters(op); }
void Emitter::lowerExpandDims(ir::OpId op) { renameRegisters(op); }
void Emitter::lowerReshape(ir::OpId op) { renameRegisters(op); }
void Emitter::lowerTrans(ir::OpId op) {
  if (fn_.type(fn_.result(op)).isBuffer()) {
    return set(fn_.result(op), scalar(fn_.operand(op, 0)));
  }
  renameRegisters(op);
}
void Emitter::lowerSlice(ir::OpId op) { renameRegisters(op); }
void Emitter::lowerHint(ir::OpId op) {
  if (!addressOp(op) && !indexOp(op)) {
    set(fn_.result(op), regs(fn_.operand(op, 0)));
  }
}
void Emitter::lowerHold(ir::OpId op) {
  const size_t registers = regs(fn_.operand(op, 0)).size();
  set(fn_.result(op), Regs(registers));
  hold(op, 0, registers);
}
void Emitter::hold(ir::OpId op, size_t first, size_t end) {
  const ir::Type type = fn_.type(fn_.result(op)).element();
  const auto count = static_cast<unsigned>(end - first), perWord = std::max(1U, 4 / type.elementBytes());
  const size_t whole = end - count % perWord;
  if (whole != end && count > 1) { // what fills no word is held one by one
    if (first != whole) {
      hold(op, first, whole);
    }
    for (size_t r = whole; r < end; ++r) {
      hold(op, r, r + 1);
    }
    return;
  }
  Regs elements;
  for (size_t r = first; r < end; ++r) {
    elements.push_back(registerOf(fn_.operand(op, 0), r));
  }
  const unsigned bytes = std::min(std::max(4U, type.elementBytes()), count * type.elementBytes());
  Regs words = packWords(type, elements, bytes);
  for (llvm::Value *&word : words) {
    // A word of 8 bytes is another one where half of it is.
    llvm::Type *whole = word->getType();
    llvm::Value *low = holdWord(builder_.CreateZExtOrTrunc(word, builder_.getInt32Ty()));
    word = bytes <= 4 ? builder_.CreateTrunc(low, whole)
                      : builder_.CreateOr(builder_.CreateAnd(word, llvm::ConstantInt::get(whole, ~0xffffffffULL)), builder_.CreateZExt(low, whole));
  }
  std::ranges::copy(unpackWords(type, words, bytes, count), values_[fn_.result(op).index].begin() + static_cast<std::ptrdiff_t>(first));
}
void Emitter::lowerAssume(ir::OpId) {}

} // namespace libtile::codegen::gpu
