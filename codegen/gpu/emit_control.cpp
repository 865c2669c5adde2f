// SPDX-License-Identifier: Apache-2.0
// Structured control flow as branches and phis; a carried tile is one phi a register.
#include "codegen/gpu/emitter.h"
#include "ir/ops.h"

namespace libtile::codegen::gpu {

using ir::Attr;

constexpr unsigned kHalfWord = 2; // bytes

llvm::BasicBlock *Emitter::newBlock(const char *name) {
  return llvm::BasicBlock::Create(context_, name, kernel_);
}

// Halves go through branches two by two: a register of its own for each would be half empty.
bool Emitter::isCarriedByWords(ir::ValueId value) const {
  const ir::Type type = fn_.type(value);
  return type.isTile() && type.elementBytes() == kHalfWord && numRegs(value) % 2 == 0;
}

// The registers of all values, one behind the other.
Regs Emitter::carried(std::span<const ir::ValueId> values) {
  Regs flat;
  for (ir::ValueId value : values) {
    const Regs own = isCarriedByWords(value) ? packWords(fn_.type(value).element(), regs(value), 2 * kHalfWord) : regs(value);
    flat.insert(flat.end(), own.begin(), own.end());
  }
  return flat;
}

// The inverse of carried.
void Emitter::bind(std::span<const ir::ValueId> values, llvm::ArrayRef<llvm::Value *> flat) {
  size_t at = 0;
  for (ir::ValueId value : values) {
    const bool byWords = isCarriedByWords(value);
    const unsigned count = numRegs(value) / (byWords ? 2 : 1);
    const llvm::ArrayRef<llvm::Value *> own = flat.slice(at, count);
    set(value, byWords ? unpackWords(fn_.type(value).element(), own, 2 * kHalfWord, 2 * count) : Regs(own.begin(), own.end()));
    at += count;
  }
}

// One phi for each register, with its first incoming value, where the builder stands.
Regs Emitter::phis(llvm::ArrayRef<llvm::Value *> incoming, llvm::BasicBlock *from) {
  Regs out;
  for (llvm::Value *value : incoming) {
    llvm::PHINode *phi = builder_.CreatePHI(value->getType(), 2);
    phi->addIncoming(value, from);
    out.push_back(phi);
  }
  return out;
}

void Emitter::addIncoming(llvm::ArrayRef<llvm::Value *> phis, llvm::ArrayRef<llvm::Value *> values,
                          llvm::BasicBlock *from) {
  for (size_t i = 0; i < phis.size(); ++i) {
    llvm::cast<llvm::PHINode>(phis[i])->addIncoming(values[i], from);
  }
}

//   if (lo < hi) do { body } while (hi - iv > step, unsigned: without overflow; iv += step, !stop)
void Emitter::lowerFor(ir::OpId op) {
  const std::span<const ir::ValueId> operands = fn_.operands(op);
  const std::span<const ir::ValueId> inits = operands.subspan(3);
  llvm::Value *lo = scalar(operands[0]);
  llvm::Value *hi = scalar(operands[1]);
  llvm::Value *step = scalar(operands[2]);
  const bool isUnsigned = fn_.getBool(op, Attr::is_unsigned);
  llvm::Value *zero = llvm::ConstantInt::get(step->getType(), 0);
  const bool rises = isUnsigned || facts_.range(operands[2]).lo >= 0;
  llvm::Value *down = rises ? static_cast<llvm::Value *>(builder_.getFalse())
                            : builder_.CreateICmpSLT(step, zero);
  llvm::Value *size = builder_.CreateSelect(down, builder_.CreateNeg(step), step);
  llvm::Value *up = isUnsigned ? builder_.CreateICmpULT(lo, hi) : builder_.CreateICmpSLT(lo, hi);
  llvm::Value *enter = builder_.CreateSelect(down, builder_.CreateICmpSGT(lo, hi), up);

  llvm::BasicBlock *before = builder_.GetInsertBlock();
  llvm::BasicBlock *body = newBlock("for");
  llvm::BasicBlock *after = newBlock("for.end");
  const Regs initial = carried(inits);
  builder_.CreateCondBr(enter, body, after);

  builder_.SetInsertPoint(body);
  const ir::BlockId region = fn_.region(op);
  llvm::PHINode *index = builder_.CreatePHI(lo->getType(), 2);
  index->addIncoming(lo, before);
  const std::span<const ir::ValueId> args = fn_.args(region).subspan(1);
  const Regs state = phis(initial, before);
  set(fn_.arg(region, 0), index);
  bind(args, state);
  emitBlock(region);

  std::span<const ir::ValueId> yielded = fn_.operands(fn_.last(region));
  const bool hasStop = fn_.getBool(op, Attr::stop);
  llvm::Value *stop = hasStop ? scalar(yielded[0]) : nullptr;
  const Regs next = carried(yielded.subspan(hasStop ? 1 : 0));
  llvm::Value *left =
      builder_.CreateSelect(down, builder_.CreateSub(index, hi), builder_.CreateSub(hi, index));
  llvm::Value *again = builder_.CreateICmpUGT(left, size);
  if (stop != nullptr) {
    again = builder_.CreateAnd(again, builder_.CreateNot(stop));
  }
  endIteration(op);
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  index->addIncoming(builder_.CreateAdd(index, step), latch);
  addIncoming(state, next, latch);
  builder_.CreateCondBr(again, body, after);

  builder_.SetInsertPoint(after);
  const Regs results = phis(initial, before);
  addIncoming(results, next, latch);
  bind(fn_.results(op), results);
}

void Emitter::lowerWhile(ir::OpId op) {
  llvm::BasicBlock *before = builder_.GetInsertBlock();
  llvm::BasicBlock *head = newBlock("while");
  llvm::BasicBlock *body = newBlock("while.body");
  llvm::BasicBlock *after = newBlock("while.end");
  const Regs initial = carried(fn_.operands(op));
  builder_.CreateBr(head);

  builder_.SetInsertPoint(head);
  const std::span<const ir::ValueId> conditionArgs = fn_.args(fn_.region(op, 0));
  const Regs state = phis(initial, before);
  bind(conditionArgs, state);
  emitBlock(fn_.region(op, 0));
  llvm::Value *condition = scalar(fn_.operand(fn_.last(fn_.region(op, 0)), 0));
  llvm::BasicBlock *decided = builder_.GetInsertBlock();
  builder_.CreateCondBr(condition, body, after);

  builder_.SetInsertPoint(body);
  bind(fn_.args(fn_.region(op, 1)), state);
  emitBlock(fn_.region(op, 1));
  const std::span<const ir::ValueId> yielded = fn_.operands(fn_.last(fn_.region(op, 1)));
  const bool hasStop = fn_.getBool(op, Attr::stop);
  const Regs next = carried(yielded.subspan(hasStop ? 1 : 0));
  endIteration(op);
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  addIncoming(state, next, latch);
  if (hasStop) {
    builder_.CreateCondBr(scalar(yielded[0]), after, head);
  } else {
    builder_.CreateBr(head);
  }

  builder_.SetInsertPoint(after);
  Regs results = state;
  if (hasStop) {
    results = phis(state, decided);
    addIncoming(results, next, latch);
  }
  bind(fn_.results(op), results);
}

void Emitter::lowerIf(ir::OpId op) {
  llvm::BasicBlock *blocks[] = {newBlock("then"), newBlock("else")};
  llvm::BasicBlock *after = newBlock("if.end");
  builder_.CreateCondBr(scalar(fn_.operand(op, 0)), blocks[0], blocks[1]);
  Regs yielded[2];
  for (unsigned branch : {0u, 1u}) {
    builder_.SetInsertPoint(blocks[branch]);
    emitBlock(fn_.region(op, branch));
    yielded[branch] = carried(fn_.operands(fn_.last(fn_.region(op, branch))));
    blocks[branch] = builder_.GetInsertBlock();
    builder_.CreateBr(after);
  }
  builder_.SetInsertPoint(after);
  const Regs results = phis(yielded[0], blocks[0]);
  addIncoming(results, yielded[1], blocks[1]);
  bind(fn_.results(op), results);
}

// The op around the region reads what it yields.
void Emitter::lowerYield(ir::OpId) {}

void Emitter::lowerReturn(ir::OpId) { builder_.CreateRetVoid(); }

} // namespace libtile::codegen::gpu
