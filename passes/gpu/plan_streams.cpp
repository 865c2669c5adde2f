// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_streams.h"

#include "ir/ops.h"
#include "passes/gpu/plan_copies.h"
#include "passes/gpu/refuse_loops.h"

#include <algorithm>

namespace libtile::passes {

using ir::Opcode;
using ir::OpId;

bool isStream(const ir::Function &fn, OpId loop) {
  return fn.getInt(loop, ir::Attr::num_stages) > 1 &&
         std::ranges::none_of(fn.walk(fn.region(loop)), [&](OpId op) { return fn.opcode(op) == Opcode::Dot; });
}

// "": it runs ahead, and the plan has it.
static std::string planLoad(const ir::Function &fn, const Facts &facts, LoopPlan &plan, OpId load, const ir::Target &target) {
  if (const char *why = loadRefusal(fn, facts, load)) {
    return why;
  }
  PlannedLoad planned{.load = load, .carried = true};
  if (fn.type(fn.result(load)).isTile()) {
    const std::optional<PlannedLoad> copy = planCopy(fn, facts, load, target, false);
    if (!copy || copy->byRegisters) {
      return "no copy ahead: neighbours of fewer than 4 bytes, or not aligned";
    }
    planned = *copy;
  }
  // What is outside is selected where the tile is read.
  const std::span<const ir::ValueId> needed = fn.operands(load).first(std::min(fn.numOperands(load), 2U));
  if (!addAhead(fn, plan, {needed.begin(), needed.end()})) {
    return "no copy ahead: the addresses depend on what the loop computes";
  }
  plan.loads.push_back(std::move(planned));
  return "";
}

std::optional<LoopPlan> planStream(const ir::Function &fn, const Facts &facts, OpId loop, const PassContext &context,
                                   std::vector<std::pair<OpId, std::string>> &refusals) {
  if (!context.target.asyncCopy) {
    return std::nullopt; // the hint means nothing there
  }
  if (const char *why = loopRefusal(fn, facts, loop)) {
    refusals.emplace_back(loop, why);
    return std::nullopt;
  }
  LoopPlan plan{.loop = loop};
  for (const OpId op : fn.opsIn(fn.region(loop))) {
    if (fn.opcode(op) == Opcode::Load && !fn.unused(fn.result(op))) {
      if (std::string why = planLoad(fn, facts, plan, op, context.target); !why.empty()) {
        refusals.emplace_back(op, std::move(why));
      }
    }
  }
  const bool hasTiles = std::ranges::any_of(plan.loads, [](const PlannedLoad &load) { return !load.carried; });
  return hasTiles ? std::optional(std::move(plan)) : std::nullopt;
}

} // namespace libtile::passes
