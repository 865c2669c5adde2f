// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/store_boxes.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/eliminate_dead_code.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/loop_rings.h"
#include "passes/gpu/lower_conversions.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_residency.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

namespace libtile::passes {

using ir::Attr;
using ir::Builder;
using ir::Effects;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// No other op touches the array, or orders what it does.
static bool isAlone(const ir::Function &fn, OpId store, ValueId array, const Facts &facts) {
  return std::ranges::none_of(fn.walk(), [&](OpId op) {
    const Effects effects = fn.ownEffects(op);
    if (op == store) {
      return false;
    }
    if (fn.hasAttr(op, Attr::map)) {
      const ir::TensorMap &map = fn.maps[static_cast<size_t>(fn.getInt(op, Attr::map))];
      return mayOverlap(fn, fn.arg(fn.body(), map.param), array);
    }
    if (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal)) {
      const auto bases = basePointers(fn, fn.operand(op, 0), facts);
      return bases.empty() || acquires(fn, op) || releases(fn, op) ||
             std::ranges::any_of(bases, [&](ValueId base) { return mayOverlap(fn, base, array); });
    }
    return fn.opcode(op) == Opcode::Assembly && fn.getBool(op, Attr::is_volatile);
  });
}

std::optional<PlannedBox> planStoreAlone(const ir::Function &fn, OpId store, ValueId tile, const Facts &facts, const PassContext &context) {
  if (!context.copiesBoxes || !context.target.boxCopy) {
    return std::nullopt;
  }
  auto box = planStore(fn, store, tile, facts, context);
  const bool hasMap = box && (fn.maps.size() < ir::TensorMap::kMost || std::ranges::find(fn.maps, box->map) != fn.maps.end());
  return hasMap && isAlone(fn, store, fn.arg(fn.body(), box->map.param), facts) ? std::move(box) : std::nullopt;
}

static void rewrite(ir::Function &fn, const BoxStore &store) {
  const Type tile = fn.type(store.tile);
  const ValueId buffer =
      Builder(fn, store.outermost).make(Opcode::Alloc, {}, Type::buffer(tile.shape(), tile.elem(), fn.internLayout(store.box.slot)));
  fn.setAttr(fn.def(buffer), Attr::align, ir::AttrValue(int64_t{kMatrixAlignment}));
  for (const OpId op : store.waits) {
    Builder(fn, op).op(Opcode::StoreWait, std::array{buffer});
  }
  Builder at(fn, store.access);
  at.op(Opcode::BufferWrite, std::array{buffer, store.tile});
  std::vector<ValueId> operands = {buffer};
  for (const Polynomial &coordinate : store.box.coordinates) {
    operands.push_back(makeCoordinate(at, coordinate, [](ValueId value) { return value; }));
  }
  const OpId made = at.op(Opcode::StoreBox, operands);
  fn.setAttr(made, Attr::map, ir::AttrValue(addMap(fn, store.box)));
  if (fn.opcode(store.access) == Opcode::AtomicRmw) {
    fn.setAttr(made, Attr::adds, ir::AttrValue(true));
  }
  fn.erase(store.access);
}

// With the buffers that conversions are going to take, whose time may be the box's.
static int64_t bytesOfAll(const ir::Function &fn, const PassContext &context) {
  ir::Function lowered = fn.clone();
  lowerConversions(lowered, context);
  return sharedBytes(lowered);
}

bool storeByBoxes(ir::Function &fn, const PassContext &context, const AsksForBox &asks, const PlansBox &plan) {
  bool changed = false;
  std::optional<Facts> facts; // of the function as it is
  for (const OpId op : fn.walk()) {
    if (!asks(fn, op)) {
      continue;
    }
    if (!facts) {
      facts = computeFacts(fn);
    }
    const auto store = plan(fn, op, *facts);
    if (!store) {
      continue;
    }
    ir::Function made = fn.clone();
    rewrite(made, *store);
    if (keepsNeighbour(fn, bytesOfAll(fn, context), bytesOfAll(made, context), context.target)) {
      fn = std::move(made);
      facts.reset();
      changed = true;
    }
  }
  if (changed) {
    eliminateDeadCode(fn, context); // addresses and conversions
  }
  return changed;
}

namespace {

// What threads have of a tile that is stored, in front of its conversion.
ValueId asThreadsHave(const ir::Function &fn, OpId store) {
  const ValueId value = fn.operand(store, 1);
  const OpId op = fn.def(value);
  return op.valid() && fn.opcode(op) == Opcode::ConvertLayout ? fn.operand(op, 0) : value;
}

// Threads of a warp make rows of it among themselves, and store without a barrier: as fast, and no buffer.
bool staysInWarps(const ir::Function &fn, ValueId from, ValueId to, const ir::Target &target) {
  const Type type = fn.type(from);
  return planConversion(fn.layout(type.layout()), fn.layout(fn.type(to).layout()), type.shape(), static_cast<int32_t>(type.elementBytes()), target.sharedReads)
             .kind != Conversion::Kind::Shared;
}

bool isPlain(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Store && fn.block(op) == fn.body() && fn.type(fn.operand(op, 1)).rank() == 2 &&
         std::ranges::none_of(std::array{Attr::cache, Attr::evict, Attr::is_volatile, Attr::sem, Attr::within}, [&](Attr attr) { return fn.hasAttr(op, attr); });
}

// Of dots whose unit reads by itself: which elements a thread has of their sums.
std::set<ir::LayoutId> unitLayouts(const ir::Function &fn, const ir::Target &target) {
  std::set<ir::LayoutId> layouts;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Dot && readsByItself(unitOf(fn, op, target))) {
      layouts.insert(fn.type(fn.result(op)).layout());
    }
  }
  return layouts;
}

// No warp needs another for it, nor room in shared memory.
bool threadsDoAlone(Opcode opcode) {
  constexpr std::array kAlone = {Opcode::Arange,  Opcode::Broadcast, Opcode::Constant, Opcode::ExpandDims,
                                 Opcode::Load,    Opcode::PtrAdd,    Opcode::Splat,    Opcode::Store};
  return ir::isElementwise(opcode) || std::ranges::find(kAlone, opcode) != kAlone.end();
}

// Until there nothing takes the room of what is stored: the op, or the kernel's end.
OpId nextToTakeRoom(const ir::Function &fn, OpId store) {
  OpId op = fn.next(store);
  while (op != fn.last(fn.block(store)) && threadsDoAlone(fn.opcode(op))) {
    op = fn.next(op);
  }
  return op;
}

} // namespace

bool storeBoxes(ir::Function &fn, const PassContext &context) {
  const std::set<ir::LayoutId> layouts = unitLayouts(fn, context.target);
  const auto asks = [&](const ir::Function &now, OpId op) {
    if (layouts.empty() || !isPlain(now, op)) {
      return false;
    }
    const ValueId tile = asThreadsHave(now, op);
    return layouts.contains(now.type(tile).layout()) && (context.storesBoxes || !staysInWarps(now, tile, now.operand(op, 1), context.target));
  };
  return storeByBoxes(fn, context, asks, [&](const ir::Function &now, OpId op, const Facts &facts) -> std::optional<BoxStore> {
    const ValueId tile = asThreadsHave(now, op);
    auto box = planStoreAlone(now, op, tile, facts, context);
    return box ? std::optional(BoxStore{op, tile, std::move(*box), op, {nextToTakeRoom(now, op)}}) : std::nullopt;
  });
}

} // namespace libtile::passes
