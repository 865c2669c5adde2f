// SPDX-License-Identifier: Apache-2.0
// Loops are visited inner first, so a value leaves as many loops as it can in one run; within a
// loop ops go in text order, so operands leave before their users.
#include "passes/hoist_loop_invariants.h"

#include "ir/ops.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {

using ir::BlockId;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

bool isHoistable(const Function &fn, OpId op) {
  return fn.opcode(op) != Opcode::Dot && fn.opcode(op) != Opcode::If && !isLoop(fn.opcode(op)) &&
         !fn.results(op).empty() && fn.effects(op).pure() && !fn.type(fn.result(op)).isBuffer();
}

// Values that the op or its regions use are defined outside of the block.
bool isInvariant(const Function &fn, OpId op, BlockId loopBody) {
  const auto outside = [&](ValueId value) { return fn.isDefinedOutside(value, loopBody); };
  if (!std::ranges::all_of(fn.operands(op), outside)) {
    return false;
  }
  for (BlockId region : fn.regions(op)) {
    for (OpId inner : fn.walk(region)) {
      for (ValueId value : fn.operands(inner)) {
        if (!outside(value) && fn.isDefinedOutside(value, region)) {
          return false;
        }
      }
    }
  }
  return true;
}

} // namespace

bool hoistLoopInvariants(Function &fn, const PassContext &) {
  bool changed = false;
  std::vector<OpId> ops = fn.walk();
  std::ranges::reverse(ops);
  for (OpId loop : ops) {
    if (!isLoop(fn.opcode(loop))) {
      continue;
    }
    for (BlockId body : fn.regions(loop)) {
      for (OpId op : fn.opsIn(body)) {
        if (isHoistable(fn, op) && isInvariant(fn, op, body)) {
          fn.unlink(op);
          fn.insertBefore(loop, op);
          changed = true;
        }
      }
    }
  }
  return changed;
}

} // namespace libtile::passes
