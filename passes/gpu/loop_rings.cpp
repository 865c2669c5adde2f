// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/loop_rings.h"

#include "ir/ops.h"
#include "passes/gpu/carry_place.h"
#include "passes/gpu/plan_boxes.h"
#include "passes/gpu/shared_layouts.h"
#include "passes/polynomial_code.h"

#include <algorithm>
#include <array>

namespace libtile::passes {

using ir::Attr;
using ir::Builder;
using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

constexpr int32_t kOne[] = {1}, kOrder[] = {0};

// The item's number in the list. Equal ones are one.
template <class T> int64_t numberIn(std::vector<T> &list, const T &item) {
  const auto found = std::ranges::find(list, item);
  const int64_t at = found - list.begin();
  if (found == list.end()) {
    list.push_back(item);
  }
  return at;
}

} // namespace

int64_t addMap(ir::Function &fn, const PlannedBox &box) {
  std::ranges::for_each(box.guards, [&](const ir::Guard &guard) { numberIn(fn.guards, guard); });
  return numberIn(fn.maps, box.map);
}

void LoopRings::make(Builder &builder) {
  const ir::LocationId location = builder.loc;
  for (const PlannedLoad &planned : plan_.loads) {
    if (planned.carried) {
      rings_.emplace_back();
      maps_.push_back(-1);
      continue;
    }
    const Type tile = fn_.type(fn_.result(planned.load));
    std::vector<int32_t> shape = {plan_.slots()};
    shape.insert(shape.end(), tile.shape().begin(), tile.shape().end());
    const ir::LayoutId layout = fn_.internLayout(ringLayout(planned.slot, plan_.slots()));
    builder.loc = fn_.loc(planned.load);
    rings_.push_back(builder.make(Opcode::Alloc, {}, Type::buffer(shape, tile.elem(), layout)));
    if (planned.align > 0) {
      fn_.setAttr(fn_.def(rings_.back()), Attr::align, ir::AttrValue(int64_t{planned.align}));
    }
    maps_.push_back(planned.box ? addMap(fn_, *planned.box) : -1);
  }
  builder.loc = location;
}

ValueId LoopRings::slotOf(Builder &builder, size_t load, ValueId slot) const {
  const PlannedLoad &planned = plan_.loads[load];
  const Type tile = fn_.type(fn_.result(planned.load));
  const Type type = Type::buffer(tile.shape(), tile.elem(), fn_.internLayout(planned.slot));
  return builder.make(Opcode::BufferSlot, {rings_[load], slot}, type);
}

ValueId LoopRings::makeCounters(Builder &builder, int64_t count, int32_t cluster) const {
  const int32_t shape[] = {plan_.slots(), 1};
  const ir::LayoutId layout = fn_.internLayout(ringLayout(bufferLayout(kOne, kOne, kOrder), plan_.slots()));
  const ValueId counters = builder.make(Opcode::Alloc, {}, Type::buffer(shape, Elem::I64, layout));
  const OpId init = builder.op(Opcode::ArrivalsInit, std::array{counters});
  fn_.setAttr(init, Attr::count, ir::AttrValue(count));
  setCluster(init, cluster);
  return counters;
}

ValueId LoopRings::counterOf(Builder &builder, ValueId counters, ValueId slot) const {
  const Type one = Type::buffer(kOne, Elem::I64, fn_.internLayout(bufferLayout(kOne, kOne, kOrder)));
  return builder.make(Opcode::BufferSlot, {counters, slot}, one);
}

OpId LoopRings::copyBox(Builder &builder, size_t load, ValueId slot, ValueId counters, ValueId on, Mapped mapped) const {
  const PlannedLoad &planned = plan_.loads[load];
  builder.loc = fn_.loc(planned.load);
  std::vector<ValueId> operands = {slotOf(builder, load, slot), counterOf(builder, counters, slot), on};
  for (const Polynomial &coordinate : planned.box->coordinates) {
    operands.push_back(makeCoordinate(builder, coordinate, mapped));
  }
  const OpId copy = builder.op(Opcode::CopyBox, operands);
  fn_.setAttr(copy, Attr::map, ir::AttrValue(maps_[load]));
  return copy;
}

void LoopRings::setCluster(OpId op, int32_t cluster) const {
  if (cluster > 1) {
    fn_.setAttr(op, Attr::cluster, ir::AttrValue(int64_t{cluster}));
  }
}

// The polynomial's number in 32 bits; the least one if it has none there: a box there lies outside of any array, too, and the
// machine takes it, unlike one that starts at no multiple of 16 bytes.
ValueId makeCoordinate(Builder &builder, const Polynomial &coordinate, Mapped mapped) {
  if (coordinate.isConstant()) {
    const int64_t number = coordinate.constant();
    return builder.i32(number >= INT32_MIN && number <= INT32_MAX ? static_cast<int32_t>(number) : INT32_MIN);
  }
  const ValueId number = makeNumber(builder, coordinate, mapped);
  const ValueId narrow = builder.make(Opcode::Trunc, {number}, Type::scalar(Elem::I32));
  const ValueId again = builder.make(Opcode::SExt, {narrow}, Type::scalar(Elem::I64));
  return builder.make(Opcode::Select, {builder.cmp(CmpPred::eq, again, number), narrow, builder.i32(INT32_MIN)});
}

void LoopRings::readSlot(Builder &builder, size_t load, ValueId slot) const {
  const OpId op = plan_.loads[load].load;
  builder.loc = fn_.loc(op);
  const ValueId buffer = slotOf(builder, load, slot);
  const ValueId value = fn_.result(op);
  const std::vector<ir::Use> uses(fn_.uses(value).begin(), fn_.uses(value).end());
  const bool isZero = isZeroOutside(fn_, op);
  for (const ir::Use use : uses) {
    Builder reader(fn_, use.op);
    if (!isZero) {
      const ValueId read = reader.make(Opcode::BufferRead, {buffer}, fn_.type(value));
      fn_.setOperand(use.op, use.operand, reader.make(Opcode::Select, {fn_.operand(op, 1), read, fn_.operand(op, 2)}));
    } else if (fn_.opcode(use.op) == Opcode::ConvertLayout) {
      const ValueId converted = fn_.result(use.op);
      fn_.replaceAllUses(converted, reader.make(Opcode::BufferRead, {buffer}, fn_.type(converted)));
      fn_.erase(use.op);
    } else {
      fn_.setOperand(use.op, use.operand, reader.make(Opcode::BufferRead, {buffer}, fn_.type(value)));
    }
  }
}

std::pair<ValueId, ValueId> LoopRings::nextSlot(Builder &builder, ValueId slot) const {
  const ValueId next = builder.make(Opcode::Add, {slot, builder.i32(1)});
  const ValueId wraps = builder.cmp(CmpPred::eq, next, builder.i32(plan_.slots()));
  return {builder.make(Opcode::Select, {wraps, builder.i32(0), next}), wraps};
}

ValueId LoopRings::nextParity(Builder &builder, ValueId parity, ValueId wraps) {
  const ValueId other = builder.make(Opcode::Sub, {builder.i32(1), parity});
  return builder.make(Opcode::Select, {wraps, other, parity});
}

Builder LoopRings::makePlaces(Builder &before, Builder &after) const {
  const auto wait = [&](Builder &builder, size_t count) {
    fn_.setAttr(builder.op(Opcode::DotWait, {}), Attr::count, ir::AttrValue(static_cast<int64_t>(count)));
  };
  Builder behind(fn_, fn_.next(plan_.underWay.back()));
  wait(behind, plan_.underWay.size());
  wait(after, 0);
  for (const OpId dot : plan_.underWay) {
    carryPlace(fn_, dot, before, after);
  }
  return behind;
}

} // namespace libtile::passes
