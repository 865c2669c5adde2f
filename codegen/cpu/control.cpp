// SPDX-License-Identifier: Apache-2.0
// for, while and if. Their conditions are scalars of the kernel, hence uniform; inside of lanes the
// values that they carry are vectors throughout.
#include "codegen/cpu/emitter.h"

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::ValueId;
using llvm::Value;

Value *Emitter::uniformCondition(ValueId value) {
  if (lanes_.count > 1 && isVarying(value)) {
    throw ir::InternalError("a loop or branch inside of lanes depends on the lane");
  }
  return scalar(value);
}

Value *Emitter::carriedIn(ValueId value) { return inForm(value, carriesVarying()); }

llvm::Type *Emitter::carriedType(ValueId value) {
  return Elementwise::widen(elementwise_.registerType(fn_.type(value)),
                            carriesVarying() ? lanes_.count : 1);
}

std::vector<Value *> Emitter::yielded(ir::BlockId block, unsigned skip) {
  std::vector<Value *> values;
  for (ValueId value : fn_.operands(fn_.last(block)).subspan(skip)) {
    values.push_back(carriedIn(value));
  }
  return values;
}

// The last iteration is found from the distance to `hi`, so the index never overflows.
void Emitter::emitFor(ir::OpId op) {
  Value *lo = uniformCondition(fn_.operand(op, 0));
  Value *hi = uniformCondition(fn_.operand(op, 1));
  Value *step = uniformCondition(fn_.operand(op, 2));
  const bool isUnsigned = fn_.getBool(op, Attr::is_unsigned);
  const bool stops = fn_.getBool(op, Attr::stop);
  Value *zero = elementwise_.intLike(step, 0);
  Value *isDown = isUnsigned ? builder_.getFalse() : builder_.CreateICmpSLT(step, zero);
  Value *below = isUnsigned ? builder_.CreateICmpULT(lo, hi) : builder_.CreateICmpSLT(lo, hi);
  Value *above = builder_.CreateICmpSGT(lo, hi);
  Value *enters = builder_.CreateSelect(isDown, above, below);
  Value *stride = builder_.CreateSelect(isDown, builder_.CreateNeg(step), step);
  const ir::BlockId body = fn_.region(op);
  const std::span<const ValueId> inits = fn_.operands(op).subspan(3);
  std::vector<Value *> carried;
  for (ValueId init : inits) {
    carried.push_back(carriedIn(init));
  }
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *head = newBlock("for");
  llvm::BasicBlock *exit = newBlock("for.end");
  openScope(builder_.CreateCondBr(enters, head, exit), false, fn_.effects(op));
  builder_.SetInsertPoint(head);
  llvm::PHINode *index = builder_.CreatePHI(lo->getType(), 2);
  index->addIncoming(lo, entry);
  define(fn_.arg(body, 0), index, depth(), false);
  std::vector<llvm::PHINode *> phis, results;
  for (unsigned i = 0; i < carried.size(); ++i) {
    phis.push_back(builder_.CreatePHI(carried[i]->getType(), 2));
    phis[i]->addIncoming(carried[i], entry);
    define(fn_.arg(body, i + 1), phis[i], depth(), carriesVarying());
    results.push_back(llvm::PHINode::Create(carried[i]->getType(), 2, "", exit));
    results[i]->addIncoming(carried[i], entry);
  }
  emitBlock(body);
  const std::vector<Value *> next = yielded(body, stops ? 1 : 0);
  Value *left =
      builder_.CreateSelect(isDown, builder_.CreateSub(index, hi), builder_.CreateSub(hi, index));
  Value *again = builder_.CreateICmpUGT(left, stride);
  if (stops) {
    again = builder_.CreateAnd(
        again, builder_.CreateNot(uniformCondition(fn_.operand(fn_.last(body), 0))));
  }
  Value *nextIndex = builder_.CreateAdd(index, step);
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  builder_.CreateCondBr(again, head, exit);
  index->addIncoming(nextIndex, latch);
  closeScope();
  builder_.SetInsertPoint(exit);
  for (unsigned i = 0; i < carried.size(); ++i) {
    phis[i]->addIncoming(next[i], latch);
    results[i]->addIncoming(next[i], latch);
    define(fn_.result(op, i), results[i], depth(), carriesVarying());
  }
}

void Emitter::emitWhile(ir::OpId op) {
  const ir::BlockId cond = fn_.region(op, 0);
  const ir::BlockId body = fn_.region(op, 1);
  const bool stops = fn_.getBool(op, Attr::stop);
  std::vector<Value *> carried;
  for (ValueId init : fn_.operands(op)) {
    carried.push_back(carriedIn(init));
  }
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *head = newBlock("while");
  llvm::BasicBlock *inside = newBlock("while.body");
  llvm::BasicBlock *exit = newBlock("while.end");
  openScope(builder_.CreateBr(head), false, fn_.effects(op));
  builder_.SetInsertPoint(head);
  std::vector<llvm::PHINode *> phis;
  for (unsigned i = 0; i < carried.size(); ++i) {
    phis.push_back(builder_.CreatePHI(carried[i]->getType(), 2));
    phis[i]->addIncoming(carried[i], entry);
    define(fn_.arg(cond, i), phis[i], depth(), carriesVarying());
    define(fn_.arg(body, i), phis[i], depth(), carriesVarying());
  }
  emitBlock(cond);
  Value *goesOn = uniformCondition(fn_.operand(fn_.last(cond), 0));
  llvm::BasicBlock *tested = builder_.GetInsertBlock();
  builder_.CreateCondBr(goesOn, inside, exit);
  builder_.SetInsertPoint(inside);
  emitBlock(body);
  const std::vector<Value *> next = yielded(body, stops ? 1 : 0);
  Value *stop = stops ? uniformCondition(fn_.operand(fn_.last(body), 0)) : nullptr;
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  if (stops) {
    builder_.CreateCondBr(stop, exit, head);
  } else {
    builder_.CreateBr(head);
  }
  closeScope();
  builder_.SetInsertPoint(exit);
  for (unsigned i = 0; i < carried.size(); ++i) {
    phis[i]->addIncoming(next[i], latch);
    llvm::PHINode *result = builder_.CreatePHI(carried[i]->getType(), 2);
    result->addIncoming(phis[i], tested);
    if (stops) {
      result->addIncoming(next[i], latch);
    }
    define(fn_.result(op, i), result, depth(), carriesVarying());
  }
}

void Emitter::emitIf(ir::OpId op) {
  Value *cond = uniformCondition(fn_.operand(op, 0));
  llvm::BasicBlock *blocks[2] = {newBlock("if"), newBlock("if.else")};
  llvm::BasicBlock *merge = newBlock("if.end");
  llvm::Instruction *jump = builder_.CreateCondBr(cond, blocks[0], blocks[1]);
  std::vector<llvm::PHINode *> phis;
  for (ValueId result : fn_.results(op)) {
    phis.push_back(llvm::PHINode::Create(carriedType(result), 2, "", merge));
  }
  for (unsigned side = 0; side < 2; ++side) {
    const ir::BlockId region = fn_.region(op, side);
    openScope(jump, false, fn_.effects(op));
    builder_.SetInsertPoint(blocks[side]);
    emitBlock(region);
    const std::vector<Value *> values = yielded(region, 0);
    for (unsigned i = 0; i < phis.size(); ++i) {
      phis[i]->addIncoming(values[i], builder_.GetInsertBlock());
    }
    builder_.CreateBr(merge);
    closeScope();
  }
  builder_.SetInsertPoint(merge);
  for (unsigned i = 0; i < phis.size(); ++i) {
    define(fn_.result(op, i), phis[i], depth(), carriesVarying());
  }
}

} // namespace libtile::codegen::cpu
