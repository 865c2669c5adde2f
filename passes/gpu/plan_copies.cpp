// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_copies.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/row_copies.h"
#include "passes/gpu/shared_layouts.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::Use;
using ir::ValueId;

constexpr int32_t kLeastCopy = 4; // bytes that a thread copies asynchronously

int32_t neighbours(const Layout &layout, unsigned axis) {
  int32_t run = 1;
  for (const ir::Coords &basis : layout.bases(ir::HwDim::Reg)) {
    ir::Coords next(layout.rank(), 0);
    next[axis] = run;
    if (basis != next) {
      break;
    }
    run *= 2;
  }
  return run;
}

// The axis along which a thread's registers are neighbours; any for one register.
unsigned contiguousAxis(const Layout &layout) {
  for (unsigned axis = layout.rank(); axis-- > 0;) {
    if (neighbours(layout, axis) > 1) {
      return axis;
    }
  }
  return layout.rank() - 1;
}

// The slot of rows that all read without bank conflicts.
std::optional<Layout> rowSlot(const ir::Function &fn, OpId load, std::span<const Layout> readers, int64_t elements, const ir::Target &target) {
  const Type type = fn.type(fn.result(load));
  const Layout &threads = fn.layout(type.layout());
  const auto bytes = static_cast<int32_t>(type.elementBytes());
  auto slot = slotOfRows(threads, static_cast<int32_t>(elements));
  const bool isWhole = slot && slot->size(ir::HwDim::Offset) == type.numElements() && !fn.hasAttr(load, ir::Attr::cache);
  const auto isFree = [&](const Layout &reader) {
    const BufferAccess access = readAccess(reader, *slot, bytes, target.sharedReads);
    return access.elements > 1 && bankConflicts(reader, *slot, bytes, access, target.sharedReads) == 0;
  };
  return isWhole && std::ranges::all_of(readers, isFree) ? slot : std::nullopt;
}

} // namespace

bool isInShared(const ir::Function &fn, Use use, const ir::Target &target) {
  const ir::DotUnit &unit = unitOf(fn, use.op, target);
  return use.operand == 2 ? false : use.operand == 0 ? unit.a.inShared : unit.b.inShared;
}

bool isReadInPlace(const ir::Function &fn, Use use, const ir::Target &target) {
  if (fn.opcode(use.op) == Opcode::Trans) {
    const auto uses = fn.uses(fn.result(use.op));
    return !uses.empty() && std::ranges::all_of(uses, [&](Use next) { return isReadInPlace(fn, next, target); });
  }
  return fn.opcode(use.op) == Opcode::Dot && use.operand < 2 && readsByItself(unitOf(fn, use.op, target)) && isInShared(fn, use, target);
}

std::optional<PlannedLoad> planCopy(const ir::Function &fn, const Facts &facts, OpId load, const ir::Target &target, bool byRows) {
  const ValueId value = fn.result(load), pointers = fn.operand(load, 0);
  const Type type = fn.type(value);
  const auto bytes = static_cast<int32_t>(type.elementBytes());
  const Layout &writer = fn.layout(type.layout());
  const unsigned fast = contiguousAxis(writer);
  if (!canLieAlong(fn, value, fast, target)) {
    return std::nullopt;
  }
  const AccessFacts access = facts.access();
  int64_t elements = access.maxVectorElements(pointers, fast, target.maxVectorBytes);
  if (fn.numOperands(load) > 1) {
    elements = std::min(elements, access.equalGroup(fn.operand(load, 1), fast));
  }
  elements = std::min<int64_t>(elements, neighbours(writer, fast));
  const auto vectorBytes = static_cast<int32_t>(elements * bytes);
  const bool isAsync = target.asyncCopy && vectorBytes >= kLeastCopy;
  std::vector<Layout> readers = convertedLayouts(fn, value);
  PlannedLoad planned{.load = load, .vectorBytes = vectorBytes};
  if (const auto slot = byRows && vectorBytes == target.rowCopy ? rowSlot(fn, load, readers, elements, target) : std::nullopt) {
    planned.slot = *slot;
    planned.slotBytes = int64_t{planned.slot.size(ir::HwDim::Offset)} * bytes;
    return planned;
  }
  // A unit reads the slot, not the threads.
  if (std::ranges::any_of(fn.uses(value), [&](Use use) { return isReadInPlace(fn, use, target); })) {
    readers.push_back(writer);
    planned.slot = matrixLayout(type.shape(), fast, bytes, readers);
    planned.align = kMatrixAlignment;
  } else {
    planned.slot = chooseBuffer(type.shape(), {.writers = {&writer, 1},
                                               .readers = readers,
                                               .elementBytes = bytes,
                                               .minUnitBytes = isAsync ? vectorBytes : 0,
                                               .fastAxis = isAsync ? static_cast<int32_t>(fast) : readers.empty() ? static_cast<int32_t>(type.rank()) - 1 : -1,
                                               .reads = target.sharedReads});
  }
  planned.slotBytes = int64_t{planned.slot.size(ir::HwDim::Offset)} * bytes;
  planned.byRegisters = !isAsync || writeAccess(writer, planned.slot, bytes).elements * bytes < vectorBytes;
  return planned;
}

bool addAhead(const ir::Function &fn, LoopPlan &plan, std::vector<ValueId> work) {
  const ir::BlockId body = fn.region(plan.loop);
  std::vector<OpId> ops = plan.ahead;
  std::vector<unsigned> carried = plan.carriedAhead;
  while (!work.empty()) {
    const ValueId value = work.back();
    work.pop_back();
    if (fn.isDefinedOutside(value, body)) {
      continue;
    }
    if (fn.isArg(value)) {
      const unsigned position = fn.defIndex(value);
      if (position == 0 || std::count(carried.begin(), carried.end(), position - 1) != 0) {
        continue;
      }
      carried.push_back(position - 1);
      work.push_back(fn.operand(fn.last(body), position - 1));
      continue;
    }
    const OpId op = fn.def(value);
    if (std::count(ops.begin(), ops.end(), op) != 0) {
      continue;
    }
    if (!fn.effects(op).pure() || fn.block(op) != body || !fn.regions(op).empty() || fn.opcode(op) == Opcode::Dot) {
      return false;
    }
    ops.push_back(op);
    work.insert(work.end(), fn.operands(op).begin(), fn.operands(op).end());
  }
  std::sort(carried.begin(), carried.end());
  plan.carriedAhead = std::move(carried);
  plan.ahead.clear();
  for (const OpId op : fn.opsIn(body)) {
    if (std::count(ops.begin(), ops.end(), op) != 0) {
      plan.ahead.push_back(op);
    }
  }
  return true;
}

} // namespace libtile::passes
