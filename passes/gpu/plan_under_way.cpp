// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_under_way.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::OpId;
using ir::ValueId;

// What the loop carries goes to the dot alone, and the dot's result back.
bool isHandedOn(const ir::Function &fn, OpId dot) {
  const BlockId body = fn.block(dot);
  const ValueId acc = fn.operand(dot, 2), sum = fn.result(dot);
  if (!fn.isArg(acc) || fn.defBlock(acc) != body || fn.uses(acc).size() != 1 || fn.uses(sum).size() != 1) {
    return false;
  }
  const ir::Use use = fn.uses(sum)[0];
  return use.op == fn.last(body) && use.operand + 1 == fn.defIndex(acc);
}

bool readsRings(const ir::Function &fn, const LoopPlan &plan, OpId dot) {
  return std::ranges::all_of(fn.operands(dot).first(2), [&](ValueId operand) {
    return std::ranges::any_of(plan.loads,
                               [&](const PlannedLoad &load) { return fn.result(load.load) == operand; });
  });
}

} // namespace

void planUnderWay(const ir::Function &fn, LoopPlan &plan, const ir::Target &target) {
  const BlockId body = fn.region(plan.loop);
  bool all = true;
  plan.underWay.clear();
  for (const OpId op : fn.walk(body)) {
    if (fn.opcode(op) == ir::Opcode::Dot && readsByItself(unitOf(fn, op, target))) {
      plan.underWay.push_back(op);
      all = all && fn.block(op) == body && isHandedOn(fn, op) && readsRings(fn, plan, op) &&
            (!fn.hasAttr(op, Attr::behind) || fn.getInt(op, Attr::behind) == 1);
    }
  }
  if (!all) {
    endAtOnce(fn, plan);
  }
}

void endAtOnce(const ir::Function &fn, LoopPlan &plan) {
  for (const OpId op : plan.underWay) {
    if (fn.getInt(op, Attr::behind) == 1) {
      throw ir::UserError("the dot cannot end one iteration later: the loop uses its result, an operand is not "
                          "copied ahead, another dot ends at once, or there is no room for a slot more",
                          fn.locationOf(op));
    }
  }
  plan.underWay.clear();
}

} // namespace libtile::passes
