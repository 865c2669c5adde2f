// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/chunk_dot_loops.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

class LoopChunker {
public:
  LoopChunker(NestState &state, OpId loop, const PlannedChunks &planned)
      : state_(state), fn_(state.fn), loop_(loop), body_(fn_.region(loop)),
        ivType_(fn_.type(fn_.arg(body_, 0))), chunk_(planned.iterations) {
    for (OpId dot : planned.dots) {
      chunked_.push_back({dot, *contractOf(state, dot), {}, {}});
    }
  }

  ChunkedLoop run() {
    accumulators_ = openHomes(state_, loop_);
    for (ChunkedDot &dot : chunked_) {
      dot.packed = allocPacked(state_, loop_, dot.shape, chunk_ * stepOf(dot));
    }
    makeOuterLoop();
    countIterations();
    contract();
    return chunked_;
  }

private:
  // Elements of the reduction in one iteration, padding included.
  int32_t stepOf(const ChunkedDot &dot) const {
    return dot.shape.packedK(fn_.type(fn_.operand(dot.dot, 0)).dim(1));
  }

  // hi > lo ? (hi - lo - 1) / step + 1 : 0, unsigned.
  ValueId tripCount(Builder &builder) {
    const ValueId lo = fn_.operand(loop_, 0);
    const ValueId hi = fn_.operand(loop_, 1);
    const bool isUnsigned = fn_.getBool(loop_, Attr::is_unsigned);
    const ValueId one = builder.constInt(ivType_, 1);
    const ValueId span =
        builder.make(Opcode::Sub, {builder.make(Opcode::Sub, {hi, lo}), one});
    const ValueId trips = builder.make(
        Opcode::Add, {builder.make(Opcode::UDiv, {span, fn_.operand(loop_, 2)}), one});
    const ValueId some = builder.cmp(isUnsigned ? CmpPred::ugt : CmpPred::sgt, hi, lo);
    return builder.make(Opcode::Select, {some, trips, builder.zero(ivType_)});
  }

  void makeOuterLoop() {
    Builder builder(fn_, loop_);
    trips_ = tripCount(builder);
    Values operands{builder.zero(ivType_), trips_, builder.constInt(ivType_, chunk_)};
    std::vector<Type> results;
    for (unsigned i = 0; i < fn_.results(loop_).size(); ++i) {
      if (!isTile(fn_, fn_.result(loop_, i))) {
        scalars_.push_back(i);
        operands.push_back(fn_.operand(loop_, i + 3));
        results.push_back(fn_.type(fn_.result(loop_, i)));
      }
    }
    outer_ = builder.op(Opcode::For, operands, results);
    fn_.setAttr(outer_, Attr::is_unsigned, AttrValue(int64_t{1}));
    const BlockId block = fn_.region(outer_);
    const ValueId first = fn_.addArg(block, ivType_);
    Values next;
    for (unsigned i = 0; i < scalars_.size(); ++i) {
      fn_.setOperand(loop_, scalars_[i] + 3, fn_.addArg(block, results[i]));
      fn_.replaceAllUses(fn_.result(loop_, scalars_[i]), fn_.result(outer_, i));
      next.push_back(fn_.result(loop_, scalars_[i]));
    }
    Builder inside(fn_, block);
    inside.loc = fn_.loc(loop_);
    setBounds(inside, first);
    fn_.unlink(loop_);
    fn_.append(block, loop_);
    inside.yield(next);
  }

  // The inner loop's part of [lo, hi): the original hi in the last chunk, so that no sum overflows.
  void setBounds(Builder &inside, ValueId first) {
    const ValueId step = fn_.operand(loop_, 2);
    const ValueId lo = inside.make(
        Opcode::Add, {fn_.operand(loop_, 0), inside.make(Opcode::Mul, {first, step})});
    const ValueId size = inside.constInt(ivType_, chunk_);
    const ValueId left = inside.make(Opcode::Sub, {trips_, first});
    const ValueId more = inside.cmp(CmpPred::ugt, left, size);
    const ValueId end = inside.make(Opcode::Add, {lo, inside.make(Opcode::Mul, {size, step})});
    const ValueId hi = inside.make(Opcode::Select, {more, end, fn_.operand(loop_, 1)});
    fn_.setOperand(loop_, 0, lo);
    fn_.setOperand(loop_, 1, hi);
  }

  // The inner loop carries the number of iterations done in this chunk.
  void countIterations() {
    Builder before(fn_, loop_);
    fn_.addOperand(loop_, before.i32(0));
    fn_.addResult(loop_, kI32);
    const ValueId done = fn_.addArg(body_, kI32);
    Builder start(fn_, fn_.first(body_));
    for (ChunkedDot &dot : chunked_) {
      dot.column = start.make(Opcode::Mul, {done, start.i32(stepOf(dot))});
    }
    const ValueId next = start.make(Opcode::Add, {done, start.i32(1)});
    fn_.addOperand(fn_.last(body_), next);
  }

  void contract() {
    const OpId yield = fn_.last(fn_.block(loop_));
    Builder after(fn_, yield);
    for (const ChunkedDot &dot : chunked_) {
      const ValueId k =
          after.make(Opcode::Mul, {fn_.results(loop_).back(), after.i32(stepOf(dot))});
      emitContract(state_, yield, dot.shape, dot.packed, accumulatorOf(dot.dot), k);
    }
  }

  ValueId accumulatorOf(OpId dot) const {
    return accumulators_.buffers[fn_.defIndex(fn_.operand(dot, 2)) - 1];
  }

  NestState &state_;
  Function &fn_;
  OpId loop_;
  BlockId body_;
  Type ivType_;
  int32_t chunk_; // iterations
  ChunkedLoop chunked_;
  TileHomes accumulators_;
  ValueId trips_;
  OpId outer_;
  std::vector<unsigned> scalars_;
};

} // namespace

ChunkedLoop chunkDotLoop(NestState &state, OpId loop, const PlannedChunks &planned) {
  return LoopChunker(state, loop, planned).run();
}

} // namespace libtile::passes
