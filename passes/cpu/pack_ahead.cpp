// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/pack_ahead.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// From what is the same, by an op of the loop that is computed wherever it is needed.
bool isComputedAgain(const Function &fn, const CpuPlan &plan, ValueId value, BlockId body) {
  const OpId op = fn.def(value);
  if (!op.valid() || !isInlinable(fn, op) || fn.opcode(op) == Opcode::Load || plan.tiles[value].keep != Keep::inline_) {
    return false;
  }
  return std::ranges::all_of(fn.operands(op), [&](ValueId operand) {
    return fn.type(operand).isTile() || fn.isDefinedOutside(operand, body);
  });
}

bool isSameEachTime(const NestView &nests, const CpuPlan &plan, ValueId operand, BlockId body) {
  bool isSame = true;
  walkExpression(nests, operand, [&](const ExpressionNode &node) {
    const bool isOutside = nests.fn.isDefinedOutside(node.value, body);
    isSame = isSame && (isOutside || (!nests.stored(node.value) && isComputedAgain(nests.fn, plan, node.value, body)));
    return isSame && !isOutside;
  });
  return isSame;
}

OpId packingPlace(const NestView &nests, const CpuPlan &plan, OpId dot, ValueId operand) {
  const Function &fn = nests.fn;
  OpId place = dot;
  for (OpId loop = fn.parentOp(fn.block(place)); loop.valid() && fn.opcode(loop) == Opcode::For; loop = fn.parentOp(fn.block(place))) {
    if (!isSameEachTime(nests, plan, operand, fn.region(loop))) {
      break;
    }
    place = loop;
  }
  return place;
}

} // namespace

PackingPlaces packingPlaces(const NestView &nests, const CpuPlan &plan, OpId dot) {
  return {packingPlace(nests, plan, dot, nests.fn.operand(dot, 0)), packingPlace(nests, plan, dot, nests.fn.operand(dot, 1))};
}

} // namespace libtile::passes
