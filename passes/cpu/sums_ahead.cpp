// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/sums_ahead.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_emitter.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// Whether each element of the tile can be computed in front of the op, from nothing in memory.
bool isKnownBefore(const NestView &nests, ValueId root, OpId before) {
  const Function &fn = nests.fn;
  const auto isBehind = [&](ValueId value) {
    if (fn.isArg(value) || fn.block(fn.def(value)) != fn.block(before)) {
      return false; // of the same block or of one around it, since both ops are in one
    }
    OpId op = before;
    while (op.valid() && op != fn.def(value)) {
      op = fn.next(op);
    }
    return op.valid();
  };
  bool known = true;
  walkExpression(nests, root, [&](const ExpressionNode &node) {
    const OpId op = fn.def(node.value);
    if (!isBehind(node.value)) {
      return false;
    }
    known = known && isInlinable(fn, op) && fn.opcode(op) != Opcode::Load &&
            std::ranges::none_of(fn.operands(op), [&](ValueId operand) { return !fn.type(operand).isTile() && isBehind(operand); });
    return known;
  });
  return known;
}

} // namespace

OpId storeOfSums(const NestView &nests, const Facts &facts, OpId loop, ValueId result) {
  const Function &fn = nests.fn;
  for (OpId op = fn.next(loop); op.valid(); op = fn.next(op)) {
    if (fn.opcode(op) != Opcode::Store || fn.type(fn.operand(op, 1)).rank() != 2) {
      continue;
    }
    const ValueId pointers = fn.operand(op, 0), value = fn.operand(op, 1);
    const int64_t bytes = fn.type(value).elementBytes();
    bool holdsSums = false;
    walkExpression(nests, value, [&](const ExpressionNode &node) {
      holdsSums = holdsSums || (node.value == result && node.sameElement);
      return !holdsSums;
    });
    if (holdsSums && facts.access().constantStride(pointers, 1) == bytes && isKnownBefore(nests, pointers, loop)) {
      return op;
    }
  }
  return {};
}

void tabulateStore(NestState &state, OpId store, OpId position, ValueId rows) {
  const ValueId pointers = state.fn.operand(store, 0);
  const int32_t m = state.fn.type(pointers).dim(0), all = state.fn.type(rows).dim(0);
  const auto tabulate = [&](int32_t first, int32_t count) {
    emitNest(state, position, std::array{count}, {0, lanesFor(state, std::array{pointers}, count)},
             [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
               const ValueId row = elements.shiftIndex(indices[0], first);
               const ValueId from = first < m ? row : elements.index(m - 1);
               elements.write(rows, {row}, elements.element(pointers, {from, elements.index(0)}));
             });
  };
  tabulate(0, m);
  if (all > m) {
    tabulate(m, all - m);
  }
}

} // namespace libtile::passes
