// SPDX-License-Identifier: Apache-2.0
// Loops over the elements of a nest: scalar loops around, lanes in the last dimension. Extents are
// numbers, so each loop runs at least once and its end is known: full steps, then one masked tail.
#include "codegen/cpu/emitter.h"

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::ValueId;
using llvm::Value;

void Emitter::countedLoop(Range range, ir::Effects effects, std::vector<Value *> &carried,
                          LoopBody body) {
  llvm::BasicBlock *entry = builder_.GetInsertBlock();
  llvm::BasicBlock *head = newBlock("loop");
  openScope(builder_.CreateBr(head), true, effects);
  builder_.SetInsertPoint(head);
  if (range.begin + range.step >= range.end) {
    body(builder_.getInt64(range.begin));
    closeScope();
    return;
  }
  llvm::BasicBlock *exit = newBlock("loop.end");
  llvm::PHINode *index = builder_.CreatePHI(builder_.getInt64Ty(), 2);
  index->addIncoming(builder_.getInt64(range.begin), entry);
  std::vector<llvm::PHINode *> phis;
  for (Value *&value : carried) {
    phis.push_back(builder_.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, entry);
    value = phis.back();
  }
  body(index);
  // The end is far below 2^63.
  Value *next = builder_.CreateAdd(index, builder_.getInt64(range.step), "", true, true);
  const int64_t steps = (range.end - range.begin + range.step - 1) / range.step;
  Value *again = builder_.CreateICmpNE(next, builder_.getInt64(range.begin + steps * range.step));
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  builder_.CreateCondBr(again, head, exit);
  index->addIncoming(next, latch);
  for (unsigned i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(carried[i], latch);
  }
  closeScope();
  builder_.SetInsertPoint(exit);
}

Emitter::Lanes Emitter::enterLanes(unsigned count, unsigned valid, Value *base) {
  const Lanes outer = lanes_;
  lanes_ = {numLanes_++, depth(), count, valid, base};
  return outer;
}

void Emitter::bindIndex(ValueId argument, Value *index) {
  define(argument, builder_.CreateTrunc(index, builder_.getInt32Ty()), depth(), false);
}

void Emitter::bindLaneIndex(ValueId argument) {
  llvm::Type *int32 = builder_.getInt32Ty();
  Value *exact = builder_.CreateTrunc(lanes_.base, int32);
  if (lanes_.count > 1) {
    exact = builder_.CreateAdd(splat(exact, lanes_.count), iota(int32));
  }
  Form &form = define(argument, exact, depth(), true);
  form.affine = true;
  form.anchor = builder_.getInt32(0);
  form.anchorDepth = 0;
  form.stride = 1;
}

void Emitter::emitNest(ir::OpId op) {
  ir::check(!fn_.getInts(op, Attr::extents).empty(), "a nest has a dimension");
  emitNestAxis(op, 0);
}

void Emitter::emitNestAxis(ir::OpId op, unsigned axis) {
  const std::span<const int64_t> extents = fn_.getInts(op, Attr::extents);
  const bool isLast = axis + 1 == extents.size();
  if (isLast && lanes_.count == 1) {
    emitNestLanes(op);
    return;
  }
  std::vector<Value *> none;
  countedLoop({0, extents[axis], 1}, fn_.effects(op), none, [&](Value *index) {
    bindIndex(fn_.arg(fn_.region(op), axis), index);
    if (isLast) {
      emitBlock(fn_.region(op));
    } else {
      emitNestAxis(op, axis + 1);
    }
  });
}

void Emitter::emitNestLanes(ir::OpId op) {
  const ir::BlockId body = fn_.region(op);
  const ValueId argument = fn_.args(body).back();
  const int64_t extent = fn_.getInts(op, Attr::extents).back();
  const int64_t lanes = std::max<int64_t>(fn_.getInt(op, Attr::lanes), 1);
  const int64_t unroll = std::max<int64_t>(fn_.getInt(op, Attr::unroll), 1);
  const ir::Effects effects = fn_.effects(op);
  const auto steps = [&](Range range, unsigned copies, unsigned valid) {
    std::vector<Value *> none;
    countedLoop(range, effects, none, [&](Value *index) {
      for (unsigned copy = 0; copy < copies; ++copy) {
        Value *base = builder_.CreateAdd(index, builder_.getInt64(copy * lanes), "", true, true);
        const Lanes outer = enterLanes(lanes, valid, base);
        bindLaneIndex(argument);
        emitBlock(body);
        forgetValues();
        lanes_ = outer;
      }
    });
  };
  const int64_t full = extent / lanes * lanes;
  const int64_t unrolled = full / (lanes * unroll) * (lanes * unroll);
  if (unrolled > 0) {
    steps({0, unrolled, lanes * unroll}, unroll, lanes);
  }
  if (full > unrolled) {
    steps({unrolled, full, lanes}, 1, lanes);
  }
  if (extent > full) {
    steps({full, extent, lanes}, 1, extent - full);
  }
}

} // namespace libtile::codegen::cpu
