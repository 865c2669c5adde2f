// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_residency.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"

#include <algorithm>
#include <set>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// What the dots of the loop take: registers of a thread for their sums, and bytes of shared memory for operands that
// stay there from before the loop.
struct Held {
  int64_t sums = 0, bytes = 0;
};

Held heldBy(const ir::Function &fn, const LoopPlan &plan, const ir::Target &target) {
  Held held;
  std::set<uint32_t> counted;
  const ir::BlockId body = fn.region(plan.loop);
  for (const OpId op : fn.walk(body)) {
    if (fn.opcode(op) != Opcode::Dot) {
      continue;
    }
    held.sums += fn.layout(fn.type(fn.result(op)).layout()).size(ir::HwDim::Reg);
    const ir::DotUnit &unit = unitOf(fn, op, target);
    for (const unsigned operand : {0U, 1U}) {
      const ValueId tile = untransposed(fn, fn.operand(op, operand));
      if ((operand == 0 ? unit.a : unit.b).inShared && fn.isDefinedOutside(tile, body) && counted.insert(tile.index).second) {
        held.bytes += fn.type(tile).numElements() * fn.type(tile).elementBytes();
      }
    }
  }
  return held;
}

} // namespace

void keepNeighbours(const ir::Function &fn, LoopPlan &plan, const PassContext &context) {
  const ir::Target &target = context.target;
  const Held held = heldBy(fn, plan, target);
  // Beside the sums a thread has addresses, descriptors and numbers of slots.
  const int64_t threads = int64_t{fn.numWarps} * target.warpSize;
  const int64_t byRegisters = target.registers / (threads * (held.sums + 40));
  const auto leavesOne = [&] {
    const int64_t bytes = plan.slots() * plan.slotBytes() + held.bytes;
    return std::min(byRegisters, target.sharedMemory / std::max<int64_t>(bytes, 1)) < 2;
  };
  const LoopPlan asWanted = plan;
  const bool isPinned =
      std::ranges::any_of(plan.underWay, [&](OpId dot) { return fn.hasAttr(dot, Attr::behind); });
  if (leavesOne() && !isPinned) {
    plan.underWay.clear();
  }
  const bool isGiven = context.numStages > 0 || fn.getInt(plan.loop, Attr::num_stages) > 0;
  while (leavesOne() && !isGiven && plan.underWay.empty() && plan.stages > 2) {
    --plan.stages;
  }
  if (leavesOne()) {
    plan = asWanted; // alone in any case
  }
}

} // namespace libtile::passes
