// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/shared_accesses.h"

#include "ir/ops.h"
#include "passes/gpu/reduce_plan.h"
#include "passes/gpu/scan_plan.h"

namespace libtile::passes {

using ir::Opcode;
using ir::OpId;

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

bool sharesBlocks(const ir::Function &fn) {
  return std::ranges::any_of(fn.opsIn(fn.body()), [&](OpId op) { return fn.opcode(op) == Opcode::Worker; });
}

bool isOverPrograms(const ir::Function &fn, OpId loop) {
  return fn.opcode(loop) == Opcode::For && fn.defOpcode(fn.operand(loop, 0)) == Opcode::Worker;
}

bool startsDot(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Dot && fn.type(fn.operand(op, 2)).isPlace();
}

std::vector<SharedAccess> sharedAccesses(const ir::Function &fn, OpId op) {
  if (meetsInside(fn, op)) {
    return {{op, true}, {op, false}};
  }
  std::vector<SharedAccess> accesses;
  const bool writes = fn.ownEffects(op).has(ir::Effects::WritesBuffer);
  for (const ir::ValueId operand : fn.operands(op)) {
    if (fn.type(operand).isBuffer() && !isBufferView(fn, op)) {
      accesses.push_back({allocOf(fn, operand), writes});
    }
  }
  return accesses;
}

} // namespace libtile::passes
