// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/chunk_dot_loops.h"

#include "ir/ops.h"
#include "passes/cpu/kept_panels.h"
#include "passes/cpu/mask_ends.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/cpu/rows_in_place.h"
#include "passes/cpu/sums_ahead.h"

#include <algorithm>
#include <limits>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI1 = Type::scalar(Elem::I1);
const Type kI32 = Type::scalar(Elem::I32);
const Type kI64 = Type::scalar(Elem::I64);

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

class LoopChunker {
public:
  LoopChunker(NestState &state, OpId loop, const PlannedChunks &planned)
      : state_(state), fn_(state.fn), loop_(loop), planned_(planned), body_(fn_.region(loop)),
        ivType_(fn_.type(fn_.arg(body_, 0))), chunk_(planned.iterations) {
    for (OpId dot : planned.dots) {
      chunked_.push_back({dot, *contractOf(state, dot), {}, {}, {}, {}, {}});
    }
  }

  ChunkedLoop run() {
    accumulators_ = openHomes(state_, loop_, /*mayBeEmpty=*/true);
    for (ChunkedDot &dot : chunked_) {
      dot.packed = allocPacked(state_, {loop_, loop_}, dot.shape, chunk_ * stepOf(dot), slotsOf(dot) != 0);
      allocPanels(dot);
      if (state_.plan.inPlace[dot.dot]) {
        Builder before(fn_, loop_);
        dot.packed.rows = allocBuffer(before, std::array{dot.shape.paddedM}, kI64);
      }
      lookAhead(dot);
    }
    makeOuterLoop();
    carryColumns();
    std::ranges::for_each(chunked_, [&](ChunkedDot &dot) { takePanel(dot); });
    contract();
    return chunked_;
  }

private:
  // Elements of the reduction in one iteration, padding included.
  int32_t stepOf(const ChunkedDot &dot) const {
    return dot.shape.packedK(fn_.type(fn_.operand(dot.dot, 0)).dim(1));
  }

  int32_t slotsOf(const ChunkedDot &dot) const {
    const auto found = planned_.kept.find(dot.dot);
    return found == planned_.kept.end() ? 0 : found->second;
  }

  void allocPanels(ChunkedDot &dot) {
    if (const int32_t slots = slotsOf(dot); slots != 0) {
      const PackedShapes shapes = packedShapes(dot.shape, chunk_ * stepOf(dot));
      Builder before(fn_, loop_);
      dot.packed.b = allocKept(before, slots, shapes.b, Type::scalar(shapes.elemB));
    }
  }

  void lookAhead(ChunkedDot &dot) {
    if (const auto planned = planned_.stores.find(dot.dot); planned != planned_.stores.end()) {
      const OpId store = planned->second;
      Builder before(fn_, loop_);
      dot.packed.ahead = allocBuffer(before, std::array{dot.shape.paddedM}, kI64);
      dot.packed.aheadBytes = fn_.type(fn_.operand(store, 1)).elementBytes();
      tabulateStore(state_, store, loop_, dot.packed.ahead);
    }
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
    const ValueId first = first_ = fn_.addArg(block, ivType_);
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
    isLast_ = inside.cmp(CmpPred::ule, left, size);
    const ValueId end = inside.make(Opcode::Add, {lo, inside.make(Opcode::Mul, {size, step})});
    const ValueId hi = inside.make(Opcode::Select, {more, end, fn_.operand(loop_, 1)});
    fn_.setOperand(loop_, 0, lo);
    fn_.setOperand(loop_, 1, hi);
  }

  // The inner loop carries where each dot's next iteration packs. That is behind what this one packs, or where the masks
  // of both its operands end: what lies behind is 0 in both, and is packed over or left out.
  void carryColumns() {
    for (ChunkedDot &dot : chunked_) {
      const auto [column, columns] = carry(Builder(fn_, loop_).i32(0));
      dot.column = column;
      columns_.push_back(columns);
      Builder end(fn_, fn_.last(body_));
      const ValueId next = end.make(Opcode::Add, {column, packedIn(end, dot)});
      fn_.addOperand(fn_.last(body_), next);
      direct_.push_back(dot.packed.rows.valid() ? carryDirect(dot, next) : ValueId{});
    }
  }

  // What decides on an operand's numbers in a chunk, and on how many there are.
  Values keysFor(const ChunkedDot &dot, unsigned operand) {
    const ValueId next = fn_.operand(fn_.last(body_), fn_.defIndex(dot.column) - 1);
    const auto keys = keysOf(fn_, state_.facts, loop_, outer_, std::array{fn_.operand(dot.dot, operand), next});
    check(keys.has_value(), "what is kept follows from what is known");
    return *keys;
  }

  // The chunk's slot, by its number, and whether it lies there.
  void takePanel(ChunkedDot &dot) {
    FindingsPlace findings{.loop = loop_, .chunks = outer_, .first = first_};
    if (const int32_t slots = slotsOf(dot); slots != 0) {
      const Values keys = keysFor(dot, 1);
      Builder before(fn_, loop_);
      const ValueId number = before.make(Opcode::UDiv, {first_, before.constInt(ivType_, chunk_)});
      ValueId slot = before.make(Opcode::UMin, {number, before.constInt(ivType_, slots - 1)});
      if (ivType_ != kI32) {
        slot = before.make(ivType_.elementBits() > 32 ? Opcode::Trunc : Opcode::ZExt, {slot}, kI32);
      }
      dot.packed.b = keptSlot(before, dot.packed.b, slot);
      dot.isKept = recall(before, slots, slot, keys);
      findings.panelSlot = slot;
      findings.isPanelKept = dot.isKept;
      findings.panelSlots = slots;
    }
    if (dot.shape.unit.flushes) {
      dot.findings = keepFindings(state_, dot.shape, findings, planned_.findings.contains(dot.dot) ? std::optional(keysFor(dot, 0)) : std::nullopt);
    }
  }

  // Columns whose rows are read in place: those of all iterations up to the first that has no whole rows.
  ValueId carryDirect(ChunkedDot &dot, ValueId nextColumn) {
    const auto [direct, result] = carry(Builder(fn_, loop_).i32(0));
    const ValueId before = carry(Builder(fn_, loop_).constInt(Type::scalar(Elem::I1), 1)).first;
    const ValueId whole = areWholeRows(fn_, dot.dot);
    dot.inPlace = Builder(fn_, dot.dot).make(Opcode::And, {whole, before});
    Builder end(fn_, fn_.last(body_));
    fn_.addOperand(fn_.last(body_), end.make(Opcode::Select, {dot.inPlace, nextColumn, direct}));
    fn_.addOperand(fn_.last(body_), dot.inPlace);
    return result;
  }

  // A number in the inner loop, and what it is behind the loop; the next one is left to the caller.
  std::pair<ValueId, ValueId> carry(ValueId first) {
    fn_.addOperand(loop_, first);
    const ValueId result = fn_.addResult(loop_, fn_.type(first));
    return {fn_.addArg(body_, fn_.type(first)), result};
  }

  // Of one iteration, in whole steps of the unit.
  ValueId packedIn(Builder &builder, const ChunkedDot &dot) {
    const auto a = zerosBehind(fn_, fn_.operand(dot.dot, 0), 1);
    const auto b = zerosBehind(fn_, fn_.operand(dot.dot, 1), 0);
    if (!a || !b) {
      return builder.i32(stepOf(dot));
    }
    const int32_t extent = fn_.type(fn_.operand(dot.dot, 0)).dim(1);
    ValueId length = lengthOf(builder, *a, extent);
    if (*a != *b) {
      length = builder.make(Opcode::SMax, {length, lengthOf(builder, *b, extent)});
    }
    const ValueId unit = builder.i32(dot.shape.unit.stepK());
    const ValueId last = builder.make(Opcode::Add, {length, builder.i32(dot.shape.unit.stepK() - 1)});
    return builder.make(Opcode::Sub, {last, builder.make(Opcode::URem, {last, unit})});
  }

  // clamp(limit - base, 0, extent), or the extent where sums with the base leave 32 bits.
  ValueId lengthOf(Builder &builder, const MaskEnd &end, int32_t extent) {
    const ValueId all = builder.constInt(kI64, extent);
    ValueId left = builder.make(Opcode::SExt, {end.limit}, kI64);
    ValueId wraps;
    if (const ValueId sum = baseOf(builder, end); sum.valid()) {
      const ValueId base = builder.make(Opcode::SExt, {sum}, kI64);
      left = builder.make(Opcode::Sub, {left, base});
      const ValueId greatest = builder.make(Opcode::Add, {base, builder.constInt(kI64, extent - 1)});
      wraps = builder.cmp(CmpPred::sgt, greatest, builder.constInt(kI64, std::numeric_limits<int32_t>::max()));
    }
    left = builder.make(Opcode::SMin, {builder.make(Opcode::SMax, {left, builder.zero(kI64)}), all});
    left = wraps.valid() ? builder.make(Opcode::Select, {wraps, all, left}) : left;
    return builder.make(Opcode::Trunc, {left}, kI32);
  }

  void contract() {
    const OpId yield = fn_.last(fn_.block(loop_));
    for (size_t i = 0; i < chunked_.size(); ++i) {
      const ChunkedDot &dot = chunked_[i];
      const unsigned slot = fn_.defIndex(fn_.operand(dot.dot, 2)) - 1;
      const ValueId acc = accumulators_.buffers[slot];
      const ValueId empty = accumulators_.empty[slot] ? carryEmpty(acc, columns_[i]) : Builder(fn_, yield).constInt(kI1, 0);
      emitContract(state_, yield, dot.shape, dot.packed, acc, {columns_[i], empty, direct_[i], isLast_, dot.findings});
    }
  }

  // Whether no chunk has written the sums yet, as the outer loop carries it. If none does they are zeros.
  ValueId carryEmpty(ValueId acc, ValueId columns) {
    Builder before(fn_, outer_);
    fn_.addOperand(outer_, before.constInt(kI1, 1));
    const ValueId result = fn_.addResult(outer_, kI1), empty = fn_.addArg(fn_.block(loop_), kI1);
    const OpId yield = fn_.last(fn_.block(loop_));
    Builder end(fn_, yield);
    fn_.addOperand(yield, end.make(Opcode::And, {empty, end.cmp(CmpPred::eq, columns, end.i32(0))}));
    const OpId position = openBranches(fn_, fn_.next(outer_), result)[0];
    const Type sums = fn_.type(acc);
    state_.rarelyRun = true;
    zeroFill(state_, position, acc, {0, sums.dim(0)}, {0, sums.dim(1)});
    state_.rarelyRun = false;
    return empty;
  }

  NestState &state_;
  Function &fn_;
  OpId loop_;
  const PlannedChunks &planned_;
  BlockId body_;
  Type ivType_;
  int32_t chunk_; // iterations
  ChunkedLoop chunked_;
  TileHomes accumulators_;
  ValueId trips_;
  ValueId first_; // the chunk's first iteration, in the outer loop
  ValueId isLast_; // an i1 in the outer loop: no chunk comes behind this one
  OpId outer_;
  Values columns_, direct_; // what the inner loop carried, by dot
  std::vector<unsigned> scalars_;
};

} // namespace

ChunkedLoop chunkDotLoop(NestState &state, OpId loop, const PlannedChunks &planned) {
  return LoopChunker(state, loop, planned).run();
}

} // namespace libtile::passes
