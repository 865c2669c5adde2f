// SPDX-License-Identifier: Apache-2.0
// Rewrites loops as their plans say (plan_pipeline.h). The loop keeps its trip count; it carries
// three things more: the values that the addresses take, as they are stages - 1 iterations later,
// and the numbers of the slots to read and to fill; accumulators of dots that end one iteration later
// become places. Copies past the last iteration are masked off:
// they put zeros into a slot that nobody reads.
//
// Where boxes are copied, each slot has a counter of arrivals, and the loop carries the parity of its phase as
// well. Boxes past the last iteration are not copied, so that none is under way when the loop ends.
#include "passes/gpu/plan_pipeline.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/shared_layouts.h"
#include "passes/polynomial_code.h"

#include <algorithm>
#include <array>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

class Rewriter {
public:
  Rewriter(ir::Function &fn, const LoopPlan &plan)
      : fn_(fn), plan_(plan), loop_(plan.loop), body_(fn.region(plan.loop)) {}

  void run() {
    Builder before(fn_, loop_);
    makeRings(before);
    makeArrivals(before);
    addMaps();
    step_ = fn_.constantInt(fn_.operand(loop_, 2)).value();
    for (const unsigned position : plan_.carriedAhead) {
      ahead_.push_back(fn_.operand(loop_, 3 + position));
    }
    for (int32_t stage = 0; stage + 1 < plan_.stages; ++stage) {
      copyAhead(before, fn_.operand(loop_, 0), stage, before.i32(stage));
    }
    carry(before);
    const OpId end = fn_.last(body_);
    Builder inside(fn_, fn_.first(body_));
    wait(inside, plan_.stages - 2);
    if (arrivals_.valid()) {
      inside.op(Opcode::ArrivalsWait, std::array{counterOf(inside, readSlot_), parity_});
    }
    copyAhead(inside, fn_.arg(body_, 0), plan_.stages - 1, fillSlot_);
    for (size_t i = 0; i < plan_.loads.size(); ++i) {
      readSlot(inside, i);
    }
    // The first of them may be where `inside` stands.
    inside.setBefore(end);
    for (const PlannedLoad &planned : plan_.loads) {
      fn_.erase(planned.load);
    }
    for (const ValueId value : ahead_) {
      fn_.addOperand(end, value);
    }
    const auto [nextRead, wraps] = nextSlot(inside, readSlot_);
    fn_.addOperand(end, nextRead);
    fn_.addOperand(end, nextSlot(inside, fillSlot_).first);
    if (arrivals_.valid()) {
      const ValueId other = inside.make(Opcode::Sub, {inside.i32(1), parity_});
      fn_.addOperand(end, inside.make(Opcode::Select, {wraps, other, parity_}));
    }
    // What is still under way are zeros, but they must not land in another buffer's bytes.
    Builder after(fn_, fn_.next(loop_));
    after.loc = fn_.loc(loop_);
    wait(after, 0);
    if (arrivals_.valid()) {
      after.op(Opcode::ArrivalsEnd, std::array{arrivals_});
    }
    if (!plan_.underWay.empty()) {
      makePlaces(before, after);
    }
  }

private:
  [[nodiscard]] int64_t numBoxes() const {
    return std::ranges::count_if(plan_.loads, [](const PlannedLoad &load) { return load.box.has_value(); });
  }

  // A counter a slot, at which each box of the slot arrives.
  void makeArrivals(Builder &builder) {
    if (numBoxes() == 0) {
      return;
    }
    const int32_t one[] = {1}, order[] = {0};
    counter_ = Type::buffer(one, Elem::I64, fn_.internLayout(bufferLayout(one, one, order)));
    const int32_t shape[] = {plan_.slots(), 1};
    const ir::LayoutId layout = fn_.internLayout(ringLayout(bufferLayout(one, one, order), plan_.slots()));
    arrivals_ = builder.make(Opcode::Alloc, {}, Type::buffer(shape, Elem::I64, layout));
    const OpId init = builder.op(Opcode::ArrivalsInit, std::array{arrivals_});
    fn_.setAttr(init, Attr::count, ir::AttrValue(numBoxes()));
  }
  ValueId counterOf(Builder &builder, ValueId slot) {
    return builder.make(Opcode::BufferSlot, {arrivals_, slot}, counter_);
  }

  // Equal ones are one.
  void addMaps() {
    const auto number = [](auto &list, const auto &item) {
      const auto found = std::ranges::find(list, item);
      const auto at = found - list.begin();
      if (found == list.end()) {
        list.push_back(item);
      }
      return int64_t{at};
    };
    for (const PlannedLoad &planned : plan_.loads) {
      maps_.push_back(planned.box ? number(fn_.maps, planned.box->map) : -1);
      if (planned.box) {
        std::ranges::for_each(planned.box->guards, [&](const ir::Guard &guard) { number(fn_.guards, guard); });
      }
    }
  }

  void makeRings(Builder &builder) {
    for (const PlannedLoad &planned : plan_.loads) {
      const Type tile = fn_.type(fn_.result(planned.load));
      std::vector<int32_t> shape = {plan_.slots()};
      shape.insert(shape.end(), tile.shape().begin(), tile.shape().end());
      const ir::LayoutId layout = fn_.internLayout(ringLayout(planned.slot, plan_.slots()));
      builder.loc = fn_.loc(planned.load);
      rings_.push_back(builder.make(Opcode::Alloc, {}, Type::buffer(shape, tile.elem(), layout)));
      if (planned.align > 0) {
        fn_.setAttr(fn_.def(rings_.back()), Attr::align, ir::AttrValue(int64_t{planned.align}));
      }
    }
    builder.loc = fn_.loc(loop_);
  }

  // The loop's new arguments, after those it has.
  void carry(Builder &before) {
    const auto add = [&](ValueId init) {
      fn_.addOperand(loop_, init);
      fn_.addResult(loop_, fn_.type(init));
      return fn_.addArg(body_, fn_.type(init));
    };
    for (ValueId &value : ahead_) {
      value = add(value);
    }
    readSlot_ = add(before.i32(0));
    fillSlot_ = add(before.i32(plan_.stages - 1));
    parity_ = arrivals_.valid() ? add(before.i32(0)) : ValueId{};
  }

  // The dots of an iteration end behind those of the next one.
  void makePlaces(Builder &before, Builder &after) {
    Builder behind(fn_, fn_.next(plan_.underWay.back()));
    wait(behind, static_cast<int32_t>(plan_.underWay.size()), Opcode::DotWait);
    wait(after, 0, Opcode::DotWait);
    for (const OpId dot : plan_.underWay) {
      const unsigned carried = fn_.defIndex(fn_.operand(dot, 2)) - 1;
      const Type tile = fn_.type(fn_.result(dot));
      const Type place = Type::place(tile.shape(), tile.elem(), tile.layout());
      const ValueId init = fn_.operand(loop_, 3 + carried), sum = fn_.result(loop_, carried);
      before.loc = after.loc = fn_.loc(dot);
      const ValueId value = after.make(Opcode::PlaceRead, {sum}, tile);
      fn_.replaceAllUses(sum, value);
      fn_.setOperand(fn_.def(value), 0, sum);
      fn_.setOperand(loop_, 3 + carried, before.make(Opcode::PlaceWrite, {init}, place));
      for (const ValueId handed : {sum, fn_.operand(dot, 2), fn_.result(dot)}) {
        fn_.setType(handed, place);
      }
    }
  }

  [[nodiscard]] bool threadsCopy() const { return numBoxes() < static_cast<int64_t>(plan_.loads.size()); }

  void wait(Builder &builder, int32_t count, Opcode opcode = Opcode::AsyncWait) {
    if (opcode == Opcode::AsyncWait && !threadsCopy()) {
      return;
    }
    const OpId op = builder.op(opcode, {});
    fn_.setAttr(op, Attr::count, ir::AttrValue(int64_t{count}));
  }

  // Copies what iteration `iteration + distance` loads, and advances ahead_ by one iteration.
  void copyAhead(Builder &builder, ValueId iteration, int32_t distance, ValueId slot) {
    const Type type = fn_.type(iteration);
    const Type wide = Type::scalar(Elem::I64);
    const bool isUnsigned = fn_.getBool(loop_, Attr::is_unsigned);
    const auto widen = [&](ValueId value) {
      return type.elementBits() == 64
                 ? value
                 : builder.make(isUnsigned ? Opcode::ZExt : Opcode::SExt, {value}, wide);
    };
    const ValueId index =
        builder.make(Opcode::Add, {widen(iteration), builder.constInt(wide, distance * step_)});
    const ValueId valid = builder.cmp(CmpPred::slt, index, widen(fn_.operand(loop_, 1)));
    ir::IndexMap<ValueId, ValueId> map;
    map.set(fn_.arg(body_, 0),
            type.elementBits() == 64 ? index : builder.make(Opcode::Trunc, {index}, type));
    for (size_t i = 0; i < ahead_.size(); ++i) {
      map.set(fn_.arg(body_, 1 + plan_.carriedAhead[i]), ahead_[i]);
    }
    for (const OpId op : plan_.ahead) {
      builder.insert(fn_.copyOp(op, map));
    }
    const auto mapped = [&](ValueId value) { return map[value].valid() ? map[value] : value; };
    for (size_t i = 0; i < plan_.loads.size(); ++i) {
      if (plan_.loads[i].box) {
        copyBox(builder, i, slot, valid, mapped);
      } else {
        copyLoad(builder, i, slot, valid, mapped);
      }
    }
    if (threadsCopy()) {
      builder.op(Opcode::AsyncCommit, {});
    }
    const OpId end = fn_.last(body_);
    for (size_t i = 0; i < ahead_.size(); ++i) {
      ahead_[i] = mapped(fn_.operand(end, plan_.carriedAhead[i]));
    }
  }

  template <class Mapped>
  void copyLoad(Builder &builder, size_t index, ValueId slot, ValueId valid, Mapped mapped) {
    const OpId load = plan_.loads[index].load;
    builder.loc = fn_.loc(load);
    const ValueId pointers = mapped(fn_.operand(load, 0));
    const Type maskType = fn_.type(pointers).withElement(Elem::I1);
    ValueId mask = builder.make(Opcode::Splat, {valid}, maskType);
    if (fn_.numOperands(load) > 1) {
      mask = builder.make(Opcode::And, {mapped(fn_.operand(load, 1)), mask});
    }
    const ValueId operands[] = {pointers, slotOf(builder, index, slot), mask};
    const OpId copy = builder.op(Opcode::AsyncCopy, operands);
    if (const ir::AttrValue *cache = fn_.findAttr(load, Attr::cache)) {
      fn_.setAttr(copy, Attr::cache, *cache);
    }
  }

  template <class Mapped>
  void copyBox(Builder &builder, size_t index, ValueId slot, ValueId valid, Mapped mapped) {
    const PlannedLoad &planned = plan_.loads[index];
    builder.loc = fn_.loc(planned.load);
    std::vector<ValueId> operands = {slotOf(builder, index, slot), counterOf(builder, slot), valid};
    for (const Polynomial &coordinate : planned.box->coordinates) {
      operands.push_back(makeCoordinate(builder, coordinate, mapped));
    }
    const OpId copy = builder.op(Opcode::CopyBox, operands);
    fn_.setAttr(copy, Attr::map, ir::AttrValue(maps_[index]));
  }

  // The polynomial's number in 32 bits, the nearest if it has none there: that lies outside of any array, too.
  template <class Mapped>
  ValueId makeCoordinate(Builder &builder, const Polynomial &coordinate, Mapped mapped) {
    if (coordinate.isConstant()) {
      return builder.i32(static_cast<int32_t>(std::clamp<int64_t>(coordinate.constant(), INT32_MIN, INT32_MAX)));
    }
    const Type wide = Type::scalar(Elem::I64);
    ValueId sum = makeNumber(builder, coordinate, mapped);
    sum = builder.make(Opcode::SMin, {sum, builder.constInt(wide, INT32_MAX)});
    sum = builder.make(Opcode::SMax, {sum, builder.constInt(wide, INT32_MIN)});
    return builder.make(Opcode::Trunc, {sum}, Type::scalar(Elem::I32));
  }

  ValueId slotOf(Builder &builder, size_t index, ValueId slot) {
    const PlannedLoad &planned = plan_.loads[index];
    const Type tile = fn_.type(fn_.result(planned.load));
    const Type type = Type::buffer(tile.shape(), tile.elem(), fn_.internLayout(planned.slot));
    return builder.make(Opcode::BufferSlot, {rings_[index], slot}, type);
  }

  // Uses of the load read the slot, under the layout that they convert to.
  void readSlot(Builder &builder, size_t index) {
    const OpId load = plan_.loads[index].load;
    builder.loc = fn_.loc(load);
    const ValueId slot = slotOf(builder, index, readSlot_);
    const ValueId value = fn_.result(load);
    const std::vector<ir::Use> uses(fn_.uses(value).begin(), fn_.uses(value).end());
    for (const ir::Use use : uses) {
      Builder reader(fn_, use.op);
      if (fn_.opcode(use.op) == Opcode::ConvertLayout) {
        const ValueId converted = fn_.result(use.op);
        fn_.replaceAllUses(converted, reader.make(Opcode::BufferRead, {slot}, fn_.type(converted)));
        fn_.erase(use.op);
      } else {
        fn_.setOperand(use.op, use.operand,
                       reader.make(Opcode::BufferRead, {slot}, fn_.type(value)));
      }
    }
  }

  // The slot behind, and whether that is the first one again.
  std::pair<ValueId, ValueId> nextSlot(Builder &builder, ValueId slot) {
    const ValueId next = builder.make(Opcode::Add, {slot, builder.i32(1)});
    const ValueId wraps = builder.cmp(CmpPred::eq, next, builder.i32(plan_.slots()));
    return {builder.make(Opcode::Select, {wraps, builder.i32(0), next}), wraps};
  }

  ir::Function &fn_;
  const LoopPlan &plan_;
  const OpId loop_;
  const BlockId body_;
  int64_t step_ = 0;
  std::vector<ValueId> rings_;
  std::vector<ValueId> ahead_; // carried values as they are for the next copy, as in carriedAhead
  ValueId readSlot_, fillSlot_;
  // Of boxes: counters, their type, the parity of the slot to read; and the map of each load, -1: none.
  ValueId arrivals_, parity_;
  Type counter_;
  std::vector<int64_t> maps_;
};

} // namespace

void applyPlan(ir::Function &fn, const Plan &plan) {
  for (const LoopPlan &loop : plan.loops) {
    Rewriter(fn, loop).run();
  }
}

} // namespace libtile::passes
