// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/shared_accesses.h"

#include "ir/ops.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/shared_layouts.h"
#include "passes/gpu/reduce_plan.h"
#include "passes/gpu/scan_plan.h"

namespace libtile::passes {

using ir::Opcode;
using ir::OpId;

namespace {

// slot + 1, or 0 behind the last one: as LoopRings::nextSlot makes it.
bool isNextSlot(const ir::Function &fn, ir::ValueId next, ir::ValueId slot, int64_t slots) {
  if (fn.defOpcode(next) != Opcode::Select) {
    return false;
  }
  const OpId select = fn.def(next);
  const ir::ValueId wraps = fn.operand(select, 0), sum = fn.operand(select, 2);
  return fn.constantInt(fn.operand(select, 1)) == 0 && fn.defOpcode(sum) == Opcode::Add && fn.operand(fn.def(sum), 0) == slot &&
         fn.constantInt(fn.operand(fn.def(sum), 1)) == 1 && fn.defOpcode(wraps) == Opcode::Cmp && fn.operand(fn.def(wraps), 0) == sum &&
         fn.getEnum<ir::CmpPred>(fn.def(wraps), ir::Attr::predicate) == ir::CmpPred::eq &&
         fn.constantInt(fn.operand(fn.def(wraps), 1)) == slots;
}

} // namespace

bool tellsOthers(const ir::Function &fn, OpId op) {
  const Opcode opcode = fn.opcode(op);
  const bool atomic = opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas;
  const bool changing = opcode == Opcode::Clock ||
                        (opcode == Opcode::Load && fn.getBool(op, ir::Attr::is_volatile));
  return (atomic || changing) && fn.type(fn.result(op)).isScalar() && !fn.unused(fn.result(op));
}

std::vector<SharedObject> sharedObjects(const ir::Function &fn) {
  std::vector<SharedObject> objects;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Alloc) {
      const ir::Type type = fn.type(fn.result(op));
      const int64_t elements = type.layout().valid()
                                   ? fn.layout(type.layout()).size(ir::HwDim::Offset)
                                   : type.numElements();
      const int64_t align = fn.hasAttr(op, ir::Attr::align) ? fn.getInt(op, ir::Attr::align) : 128;
      objects.push_back({op, elements * type.elementBytes(), align});
    } else if (fn.opcode(op) == Opcode::Reduce && fn.type(fn.operand(op, 0)).isTile()) {
      if (const int64_t bytes = planReduce(fn, op).scratch.bytes; bytes > 0) {
        objects.push_back({op, bytes, 16});
      }
    } else if (fn.opcode(op) == Opcode::Scan) {
      if (const int64_t bytes = planScan(fn, op).scratchBytes; bytes > 0) {
        objects.push_back({op, bytes, 16});
      }
    } else if (tellsOthers(fn, op) && fn.numWarps > 1) {
      objects.push_back({op, fn.type(fn.result(op)).elementBytes(), 16});
    }
  }
  return objects;
}

bool isBufferView(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::BufferSlot ||
         (fn.opcode(op) == Opcode::Trans && fn.type(fn.operand(op, 0)).isBuffer());
}

OpId allocOf(const ir::Function &fn, ir::ValueId buffer) {
  OpId op = fn.def(buffer);
  while (op.valid() && isBufferView(fn, op)) {
    op = fn.def(fn.operand(op, 0));
  }
  ir::check(op.valid() && fn.opcode(op) == Opcode::Alloc, "a buffer comes from an alloc");
  return op;
}

RingPhase phaseOf(const ir::Function &fn, ir::ValueId buffer) {
  OpId view = fn.def(buffer);
  while (fn.opcode(view) == Opcode::Trans) {
    view = fn.def(fn.operand(view, 0));
  }
  if (fn.opcode(view) != Opcode::BufferSlot || fn.defOpcode(fn.operand(view, 0)) != Opcode::Alloc) {
    return {};
  }
  const ir::ValueId slot = fn.operand(view, 1);
  const int64_t slots = fn.type(fn.operand(view, 0)).dim(0);
  if (!fn.isArg(slot) || fn.defBlock(slot) == fn.body() || fn.defIndex(slot) == 0) {
    return {};
  }
  const ir::BlockId body = fn.defBlock(slot);
  const OpId loop = fn.parentOp(body);
  if (fn.opcode(loop) != Opcode::For || fn.getBool(loop, ir::Attr::stop)) {
    return {};
  }
  const auto first = fn.constantInt(fn.operand(loop, 2 + fn.defIndex(slot)));
  const bool goesRound = isNextSlot(fn, fn.operand(fn.last(body), fn.defIndex(slot) - 1), slot, slots);
  return first && *first >= 0 && *first < slots && goesRound ? RingPhase{body, *first, slots} : RingPhase{};
}

bool meetsInside(const ir::Function &fn, OpId op) {
  return fn.opcode(op) != Opcode::Alloc && fn.hasAttr(op, ir::Attr::offset);
}

OpId producerAround(const ir::Function &fn, OpId op) {
  while (op.valid() && fn.opcode(op) != Opcode::Producer) {
    op = fn.block(op) == fn.body() ? OpId{} : fn.parentOp(fn.block(op));
  }
  return op;
}

int32_t blockWarps(const ir::Function &fn) {
  for (const OpId op : fn.opsIn(fn.body())) {
    if (fn.opcode(op) == Opcode::Producer) {
      return fn.numWarps + static_cast<int32_t>(fn.getInt(op, ir::Attr::count));
    }
  }
  return fn.numWarps;
}

int32_t clusterOf(const ir::Function &fn) {
  for (const OpId op : fn.opsIn(fn.body())) {
    if (fn.opcode(op) == Opcode::ClusterBarrier) {
      return static_cast<int32_t>(fn.getInt(op, ir::Attr::count));
    }
  }
  return 1;
}

bool sharesBlocks(const ir::Function &fn) {
  return std::ranges::any_of(fn.opsIn(fn.body()), [&](OpId op) { return fn.opcode(op) == Opcode::Worker; });
}

bool isOverPrograms(const ir::Function &fn, OpId loop) {
  return fn.opcode(loop) == Opcode::For && fn.defOpcode(fn.operand(loop, 0)) == Opcode::Worker;
}

bool startsDot(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Dot && fn.type(fn.operand(op, 2)).isPlace();
}

ir::LayoutId ownersOf(const ir::Function &fn, OpId op, const ir::SharedReads &reads) {
  const ir::Opcode opcode = fn.opcode(op);
  const bool isRead = opcode == ir::Opcode::BufferRead, isCopy = opcode == ir::Opcode::AsyncCopy;
  if (!isRead && !isCopy && opcode != ir::Opcode::BufferWrite) {
    return {};
  }
  const OpId view = fn.def(fn.operand(op, isCopy ? 1 : 0));
  const bool isWhole = fn.opcode(view) == ir::Opcode::Alloc || (fn.opcode(view) == ir::Opcode::BufferSlot && fn.defOpcode(fn.operand(view, 0)) == ir::Opcode::Alloc);
  const ir::Type tile = fn.type(isRead ? fn.result(op) : isCopy ? fn.operand(op, 0) : fn.operand(op, 1));
  const ir::Type whole = fn.type(fn.result(view));
  const ir::Layout &layout = fn.layout(tile.layout());
  // Axes that a reshape makes others of give a thread other elements of the buffer, be the layout the same.
  if (!isWhole || !tile.sameShape(whole) || holdsReplicas(layout)) {
    return {};
  }
  // Lanes read and write matrices for each other.
  const ir::Layout &buffer = fn.layout(whole.layout());
  const auto bytes = static_cast<int32_t>(tile.elementBytes());
  const bool isByMatrices = isRead   ? readAccess(layout, buffer, bytes, reads).kind != AccessKind::Vector
                            : isCopy ? false
                                     : matrixWriteAccess(layout, buffer, bytes, reads).has_value();
  return isByMatrices ? ir::LayoutId{} : tile.layout();
}

std::vector<SharedAccess> sharedAccesses(const ir::Function &fn, OpId op) {
  if (meetsInside(fn, op)) {
    return {{op, true}, {op, false}};
  }
  std::vector<SharedAccess> accesses;
  const bool writes = fn.ownEffects(op).has(ir::Effects::WritesBuffer);
  for (const ir::ValueId operand : fn.operands(op)) {
    if (fn.type(operand).isBuffer() && !isBufferView(fn, op)) {
      accesses.push_back({allocOf(fn, operand), writes, phaseOf(fn, operand)});
    }
  }
  return accesses;
}

} // namespace libtile::passes
