// SPDX-License-Identifier: Apache-2.0
// Loops over the elements of a nest: scalar loops around, lanes in the last dimension. Extents are
// numbers, so each loop runs at least once and its end is known: full steps, then one masked tail.
//
// The masks of most kernels compare the lane index with a bound that the loop does not change
// (`cols < n`). The unrolled steps take such compares for true and run below the bound only; single
// masked vectors do what is left of the extent:
//
//   end = clamp(n - start, 0, extent) in whole steps     (64 bits: nothing wraps below the bound)
//   for i = 0, end, step       no masks
//   for i = end, extent, lanes masks
//
// What the loops hoist is read at least once by one of them.
//
// Where the last dimension has an end, the unrolled steps run below it as well, and single vectors up to it.
#include "codegen/cpu/emitter.h"
#include "codegen/cpu/streams.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen::cpu {

using ir::Attr;
using ir::CmpPred;
using ir::Opcode;
using ir::ValueId;
using llvm::Value;

void Emitter::countedLoop(Range range, ir::Effects effects, std::vector<Value *> &carried,
                          LoopBody body) {
  if (range.below != nullptr) {
    Value *end = restEnd(range.below, range.end, range.step);
    return restLoop(builder_.getInt64(range.begin), end, range.step, effects, carried, body);
  }
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

bool Emitter::takenForTrue(ir::OpId op) {
  if (lanes_.limits == nullptr || lanes_.count == 1 || fn_.opcode(op) != Opcode::Cmp) {
    return false;
  }
  Limits *limits = nullptr;
  const ValueId left = fn_.operand(op, 0);
  const ValueId right = fn_.operand(op, 1);
  const auto predicate = static_cast<CmpPred>(fn_.getInt(op, Attr::predicate));
  const bool isSigned = predicate == CmpPred::slt || predicate == CmpPred::sle;
  const bool orEqual = predicate == CmpPred::sle || predicate == CmpPred::ule;
  const bool isBound = isSigned || predicate == CmpPred::ult || predicate == CmpPred::ule;
  if (!isBound || !isVarying(left) || isVarying(right) || !form(left).counts ||
      form(left).exact->getType()->getScalarSizeInBits() > 32) {
    return false;
  }
  // The outermost that knows both sides.
  const unsigned depth = std::max(form(left).anchorDepth, depthOf(right));
  for (Limits *around = lanes_.limits; around != nullptr; around = around->outer) {
    limits = depth <= around->depth ? around : limits;
  }
  if (limits == nullptr || llvm::is_contained(limits->compares, op)) {
    return limits != nullptr;
  }
  limits->compares.push_back(op);
  atDepth(limits->depth, [&] {
    llvm::Type *wide = builder_.getInt64Ty();
    const auto extend = [&](Value *value) {
      return isSigned ? builder_.CreateSExt(value, wide) : builder_.CreateZExt(value, wide);
    };
    Value *below = builder_.CreateSub(extend(scalar(right)), extend(form(left).anchor));
    limits->below.push_back(orEqual ? builder_.CreateAdd(below, builder_.getInt64(1)) : below);
  });
  return true;
}

// Where as many whole steps as every limit and `last` allow end.
Value *Emitter::stepsBelow(const Limits &limits, int64_t last, int64_t step) {
  namespace I = llvm::Intrinsic;
  Value *end = builder_.getInt64(last);
  for (Value *below : limits.below) {
    end = builder_.CreateBinaryIntrinsic(I::smin, below, end);
  }
  Value *begin = limits.begin != nullptr ? limits.begin : builder_.getInt64(0);
  end = builder_.CreateBinaryIntrinsic(I::smax, end, begin);
  return builder_.CreateSub(end, builder_.CreateURem(builder_.CreateSub(end, begin), builder_.getInt64(step)));
}

// The end of a dimension, counted from the last, as an i64; null if it has none.
Value *Emitter::endOf(ir::OpId op, unsigned fromLast) {
  const std::span<const ValueId> ends = fn_.operands(op);
  return fromLast >= ends.size()
             ? nullptr
             : builder_.CreateSExt(scalar(ends[ends.size() - 1 - fromLast]), builder_.getInt64Ty());
}

void Emitter::limitedLoop(Range range, int64_t full, Value *end, ir::OpId op, std::vector<Value *> &carried,
                          StepBody body, LoopBody rest, LoopBody front) {
  llvm::BasicBlock *head = newBlock("loop");
  llvm::BasicBlock *exit = newBlock("loop.end");
  const ir::Effects effects = fn_.effects(op);
  const int64_t lanes = fn_.getInt(op, Attr::lanes);
  openScope(builder_.CreateBr(head), true, effects);
  builder_.SetInsertPoint(head);
  llvm::PHINode *index = builder_.CreatePHI(builder_.getInt64Ty(), 2);
  const std::vector<Value *> initial = carried;
  std::vector<llvm::PHINode *> phis;
  for (Value *&value : carried) {
    phis.push_back(builder_.CreatePHI(value->getType(), 2));
    value = phis.back();
  }
  Limits limits{depth() - 1};
  if (end != nullptr) {
    limits.below.push_back(end);
  }
  body(index, range.step / lanes, &limits);
  Value *next = builder_.CreateAdd(index, builder_.getInt64(range.step), "", true, true);
  Value *stop = nullptr, *lines = nullptr, *restOfStream = nullptr;
  atDepth(depth() - 1, [&] {
    stop = stepsBelow(limits, full, range.step);
    lines = limits.perLine != 0 ? stepsBelow(limits, full, limits.perLine) : stop;
    restOfStream = limits.begin != nullptr ? streamEnd(op, limits, lines, end) : nullptr;
  });
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  builder_.CreateCondBr(builder_.CreateICmpNE(next, stop), head, exit);
  llvm::Instruction *jump = scopes_[depth() - 1].jump;
  llvm::BasicBlock *entry = jump->getParent();
  closeScope();
  const bool limited = !limits.below.empty() || limits.begin != nullptr;
  Value *begin = limits.begin != nullptr ? limits.begin : builder_.getInt64(0);
  if (limited) {
    jump->eraseFromParent();
    builder_.SetInsertPoint(entry);
    if (limits.begin != nullptr) {
      std::vector<Value *> none;
      // By whole vectors that end there, whose first lanes are in front of the row.
      Value *vectors = builder_.CreateAnd(builder_.CreateAdd(begin, builder_.getInt64(lanes - 1)), builder_.getInt64(-lanes));
      restLoop(builder_.CreateSub(begin, vectors), begin, lanes, effects, none, front);
      entry = builder_.GetInsertBlock();
    }
    builder_.CreateCondBr(builder_.CreateICmpNE(stop, begin), head, exit);
  }
  builder_.SetInsertPoint(exit);
  index->addIncoming(begin, entry);
  index->addIncoming(next, latch);
  for (unsigned i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(initial[i], entry);
    phis[i]->addIncoming(carried[i], latch);
    if (limited) {
      llvm::PHINode *result = builder_.CreatePHI(carried[i]->getType(), 2);
      result->addIncoming(initial[i], entry);
      result->addIncoming(carried[i], latch);
      carried[i] = result;
    }
  }
  if (limits.begin != nullptr) {
    if (limits.perLine < range.step) {
      restLoop(stop, lines, limits.perLine, effects, carried, [&](Value *line) { body(line, limits.perLine / lanes, &limits); });
    }
    restLoop(lines, restOfStream, lanes, effects, carried, rest);
  } else if (limited) {
    restLoop(stop, restEnd(end, full, lanes), lanes, effects, carried, rest);
  } else if (range.end < full) {
    countedLoop({range.end, full, lanes}, effects, carried, rest);
  }
}

// Whole vectors up to `end`, at most `full`.
Value *Emitter::restEnd(Value *end, int64_t full, int64_t lanes) {
  if (end == nullptr) {
    return builder_.getInt64(full);
  }
  Value *last = builder_.CreateAdd(end, builder_.getInt64(lanes - 1));
  Value *whole = builder_.CreateSub(last, builder_.CreateURem(last, builder_.getInt64(lanes)));
  return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::umin, whole, builder_.getInt64(full));
}

// From `begin`, which may be the end already.
void Emitter::restLoop(Value *begin, Value *end, int64_t step, ir::Effects effects,
                       std::vector<Value *> &carried, LoopBody body) {
  llvm::BasicBlock *head = newBlock("rest");
  llvm::BasicBlock *exit = newBlock("rest.end");
  openScope(builder_.CreateCondBr(builder_.CreateICmpNE(begin, end), head, exit), true, effects);
  const std::vector<Value *> initial = carried;
  builder_.SetInsertPoint(head);
  llvm::PHINode *index = builder_.CreatePHI(builder_.getInt64Ty(), 2);
  std::vector<llvm::PHINode *> phis;
  for (Value *&value : carried) {
    phis.push_back(builder_.CreatePHI(value->getType(), 2));
    value = phis.back();
  }
  body(index);
  Value *next = builder_.CreateAdd(index, builder_.getInt64(step), "", true, true);
  llvm::BasicBlock *latch = builder_.GetInsertBlock();
  builder_.CreateCondBr(builder_.CreateICmpNE(next, end), head, exit);
  llvm::BasicBlock *entry = scopes_[depth() - 1].jump->getParent();
  closeScope();
  builder_.SetInsertPoint(exit);
  index->addIncoming(begin, entry);
  index->addIncoming(next, latch);
  for (unsigned i = 0; i < phis.size(); ++i) {
    phis[i]->addIncoming(initial[i], entry);
    phis[i]->addIncoming(carried[i], latch);
    llvm::PHINode *result = builder_.CreatePHI(carried[i]->getType(), 2);
    result->addIncoming(initial[i], entry);
    result->addIncoming(carried[i], latch);
    carried[i] = result;
  }
}

Group Emitter::enterLanes(unsigned count, unsigned valid, Value *base, unsigned copies,
                          Limits *limits, int64_t run, Value *on, bool isRest) {
  Group outer = std::exchange(group_, {});
  for (unsigned copy = 0; copy < copies; ++copy) {
    Value *at = copy == 0 ? base
                          : builder_.CreateAdd(base, builder_.getInt64(copy * count), "", true, true);
    group_.push_back({numLanes_++, depth(), count, valid, at, limits, copy, {}, run, on, isRest});
  }
  while (forms_.size() <= copies) {
    forms_.emplace_back(fn_.numValues());
  }
  lanes_ = group_.front();
  return outer;
}

void Emitter::leaveLanes(Group outer) {
  group_ = std::move(outer);
  lanes_ = group_.front();
}

void Emitter::eachVector(llvm::function_ref<void(unsigned copy)> body) {
  Group whole = group_;
  for (unsigned copy = 0; copy < whole.size(); ++copy) {
    group_.assign(1, whole[copy]);
    lanes_ = whole[copy];
    body(copy);
  }
  leaveLanes(std::move(whole));
}

void Emitter::bindIndex(ValueId argument, Value *index) {
  define(argument, builder_.CreateTrunc(index, builder_.getInt32Ty()), depth(), false);
}

void Emitter::bindLaneIndex(ValueId argument) {
  for (Lanes &lanes : group_) {
    lanes.index = argument;
  }
  lanes_ = group_.front();
  llvm::Type *int32 = builder_.getInt32Ty();
  Value *first = builder_.CreateTrunc(lanes_.base, int32);
  if (lanes_.count > 1) {
    first = builder_.CreateAdd(splat(first, lanes_.count), iota(int32));
  }
  eachVector([&](unsigned copy) {
    Value *distance = elementwise_.intLike(first, copy * lanes_.count);
    Value *exact = copy == 0 ? first : builder_.CreateAdd(first, distance);
    Form &form = define(argument, exact, depth(), true);
    form.affine = true;
    form.anchor = builder_.getInt32(0);
    form.anchorDepth = 0;
    form.stride = 1;
    form.counts = true;
  });
}

void Emitter::emitNestOp(ir::OpId op) {
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
  Value *end = isLast ? nullptr : endOf(op, extents.size() - 1 - axis);
  countedLoop({0, extents[axis], 1, end}, fn_.effects(op), none, [&](Value *index) {
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
  const std::span<const int64_t> extents = fn_.getInts(op, Attr::extents);
  const int64_t extent = extents.back();
  // Behind the end of one row of several lies what another program, or none, needs.
  const bool isOneRow = std::ranges::all_of(extents.first(extents.size() - 1), [](int64_t n) { return n == 1; });
  const int64_t lanes = std::max<int64_t>(fn_.getInt(op, Attr::lanes), 1);
  const int64_t unroll = std::max<int64_t>(fn_.getInt(op, Attr::unroll), 1);
  const ir::Effects effects = fn_.effects(op);
  std::vector<Value *> none;
  const auto step = [&](Value *index, unsigned copies, unsigned valid, Limits *limits, Value *on = nullptr) {
    const unsigned together = lanes > 1 ? copies : 1;
    for (unsigned copy = 0; copy < copies; copy += together) {
      Value *base = builder_.CreateAdd(index, builder_.getInt64(copy * lanes), "", true, true);
      const bool isRest = copies != unroll || valid != lanes || on != nullptr;
      Group outer = enterLanes(lanes, valid, base, together, limits, isOneRow ? extent : 0, on, isRest);
      bindLaneIndex(argument);
      emitBlock(body);
      forgetValues();
      leaveLanes(std::move(outer));
    }
  };
  const auto steps = [&](Range range, unsigned copies, unsigned valid) {
    countedLoop(range, effects, none,
                [&](Value *index) { step(index, copies, valid, nullptr); });
  };
  const int64_t full = extent / lanes * lanes;
  const int64_t unrolled = full / (lanes * unroll) * (lanes * unroll);
  if (lanes > 1 && unrolled > lanes * unroll) {
    Value *begin = nullptr; // of the whole steps, where some may store past the caches
    limitedLoop({0, unrolled, lanes * unroll}, full, endOf(op), op, none,
                [&](Value *index, unsigned copies, Limits *limits) {
                  limits->mayStream = mayStream(fn_, op, target_);
                  step(index, copies, lanes, limits);
                  begin = limits->begin;
                },
                [&](Value *index) {
                  step(index, 1, lanes, nullptr, begin != nullptr ? lanesBelow(builder_, builder_.CreateSub(builder_.getInt64(extent), index), lanes) : nullptr);
                },
                [&](Value *index) { step(index, 1, lanes, nullptr, lanesFrom(builder_, builder_.CreateNeg(index), lanes)); });
    if (begin != nullptr) {
      return;
    }
  } else {
    if (unrolled > 0) {
      steps({0, unrolled, lanes * unroll}, unroll, lanes);
    }
    if (full > unrolled) {
      steps({unrolled, full, lanes}, 1, lanes);
    }
  }
  if (extent > full) {
    steps({full, extent, lanes}, 1, extent - full);
  }
}

} // namespace libtile::codegen::cpu
