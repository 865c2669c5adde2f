// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_around.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// Units of inner loops read the tile by themselves, maybe transposed, and nobody else does.
bool feedsInnerDots(const ir::Function &fn, OpId loop, ValueId tile, const ir::Target &target) {
  return !fn.unused(tile) && std::ranges::all_of(fn.uses(tile), [&](ir::Use use) {
    if (fn.opcode(use.op) == Opcode::Trans) {
      return feedsInnerDots(fn, loop, fn.result(use.op), target);
    }
    if (fn.opcode(use.op) != Opcode::Dot || use.operand > 1 || fn.block(use.op) == fn.region(loop)) {
      return false;
    }
    const ir::DotUnit &unit = unitOf(fn, use.op, target);
    return readsByItself(unit) && (use.operand == 0 ? unit.a : unit.b).inShared;
  });
}

} // namespace

LoopPlan planAround(const ir::Function &fn, OpId loop, const Facts &facts, const PassContext &context) {
  LoopPlan plan{.loop = loop, .stages = 1, .byProducer = true};
  for (const OpId op : fn.opsIn(fn.region(loop))) {
    const bool isCandidate = fn.opcode(op) == Opcode::Load && fn.type(fn.result(op)).isTile() &&
                             !fn.ownEffects(op).has(ir::Effects::Ordered) && isZeroOutside(fn, op) &&
                             feedsInnerDots(fn, loop, fn.result(op), context.target);
    std::string why;
    if (auto box = isCandidate ? planBox(fn, op, facts, context, why) : std::nullopt) {
      plan.loads.push_back(boxedLoad(fn, op, std::move(*box)));
    }
  }
  return plan;
}

} // namespace libtile::passes
