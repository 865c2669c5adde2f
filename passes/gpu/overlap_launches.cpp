// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/overlap_launches.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Builder;
using ir::Effects;
using ir::Opcode;
using ir::OpId;

bool has(const ir::Function &fn, Opcode opcode) {
  return std::ranges::any_of(fn.walk(), [&](OpId op) { return fn.opcode(op) == opcode; });
}

// Of global memory: copies and reductions of boxes name a map. What the user's instructions do nobody knows, and lines that programs
// print come behind those of the launch before.
bool accesses(const ir::Function &fn, OpId op) {
  const Effects effects = fn.ownEffects(op);
  if (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal) || fn.hasAttr(op, Attr::map) ||
      fn.opcode(op) == Opcode::Assembly || fn.opcode(op) == Opcode::Print) {
    return true;
  }
  return std::ranges::any_of(fn.regions(op), [&](ir::BlockId region) {
    return std::ranges::any_of(fn.opsIn(region), [&](OpId inner) { return accesses(fn, inner); });
  });
}

} // namespace

bool overlapLaunches(ir::Function &fn, const PassContext &context) {
  if (!context.overlapsLaunches || !context.target.gridDependencies || has(fn, Opcode::GridWait)) {
    return false;
  }
  OpId first = fn.first(fn.body());
  while (first != fn.last(fn.body()) && !accesses(fn, first)) {
    first = fn.next(first);
  }
  Builder builder(fn, first);
  if (!has(fn, Opcode::LaunchDependents)) {
    builder.op(Opcode::LaunchDependents, {});
  }
  builder.op(Opcode::GridWait, {});
  return true;
}

} // namespace libtile::passes
