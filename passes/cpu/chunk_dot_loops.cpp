// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/chunk_dot_loops.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

// The dot accumulates tile `i` of the loop's carried values and does nothing else with it.
bool accumulates(const Function &fn, OpId loop, OpId dot, unsigned i) {
  const BlockId body = fn.region(loop);
  const ValueId acc = fn.arg(body, i + 1);
  return fn.operand(fn.last(body), i) == fn.result(dot) && fn.operand(dot, 2) == acc &&
         fn.uses(acc).size() == 1 && fn.uses(fn.result(dot)).size() == 1;
}

// The dots of a loop that has the shape; empty if it has not.
std::vector<OpId> dotsOf(const NestState &state, OpId loop) {
  const Function &fn = state.fn;
  const auto step = fn.opcode(loop) == Opcode::For ? fn.constantInt(fn.operand(loop, 2)) : std::nullopt;
  if (!step || *step <= 0 || fn.getBool(loop, Attr::stop)) {
    return {};
  }
  std::vector<OpId> dots;
  for (OpId op : fn.opsIn(fn.region(loop))) {
    if (fn.opcode(op) == Opcode::Dot && contractOf(state, op)) {
      dots.push_back(op);
    } else if (fn.opcode(op) != Opcode::Yield && !isInlinable(fn, op)) {
      const Effects effects = fn.ownEffects(op);
      const bool scalar = !std::ranges::any_of(fn.operands(op), [&](ValueId v) { return isTile(fn, v); });
      if (!scalar || !effects.removable() || !fn.regions(op).empty()) {
        return {};
      }
    }
  }
  unsigned tiles = 0;
  for (unsigned i = 0; i < fn.results(loop).size(); ++i) {
    if (isTile(fn, fn.result(loop, i))) {
      ++tiles;
      const bool found = std::ranges::any_of(
          dots, [&](OpId dot) { return accumulates(fn, loop, dot, i); });
      if (!found) {
        return {};
      }
    }
  }
  return tiles == dots.size() ? dots : std::vector<OpId>{};
}

class LoopChunker {
public:
  LoopChunker(NestState &state, OpId loop, std::vector<OpId> dots)
      : state_(state), fn_(state.fn), loop_(loop), body_(fn_.region(loop)), dots_(std::move(dots)),
        ivType_(fn_.type(fn_.arg(body_, 0))) {}

  std::optional<ChunkedLoop> run() {
    if (!chooseChunk()) {
      return std::nullopt;
    }
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

  bool chooseChunk() {
    for (OpId dot : dots_) {
      chunked_.push_back({dot, *contractOf(state_, dot), {}, {}});
      const int32_t iterations =
          iterationsPerChunk(state_.target, chunked_.back().shape, stepOf(chunked_.back()));
      chunk_ = chunk_ == 0 ? iterations : std::min(chunk_, iterations);
    }
    const auto lo = fn_.constantInt(fn_.operand(loop_, 0));
    const auto hi = fn_.constantInt(fn_.operand(loop_, 1));
    const int64_t step = *fn_.constantInt(fn_.operand(loop_, 2));
    if (lo && hi && *lo >= 0 && *hi >= *lo) {
      chunk_ = int32_t(std::min<int64_t>(chunk_, (*hi - *lo + step - 1) / step));
    }
    return chunk_ > 1;
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
  std::vector<OpId> dots_;
  Type ivType_;
  int32_t chunk_ = 0;
  ChunkedLoop chunked_;
  TileHomes accumulators_;
  ValueId trips_;
  OpId outer_;
  std::vector<unsigned> scalars_;
};

} // namespace

std::optional<ChunkedLoop> chunkDotLoop(NestState &state, OpId loop) {
  std::vector<OpId> dots = dotsOf(state, loop);
  return dots.empty() ? std::nullopt : LoopChunker(state, loop, std::move(dots)).run();
}

} // namespace libtile::passes
