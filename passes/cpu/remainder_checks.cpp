// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/remainder_checks.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/sink_loops.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// The axis along which the tile counts up by one and outside of which it has one element.
int countingAxis(const NestState &state, ValueId tile) {
  const Type &type = state.fn.type(tile);
  int found = IndexPath::kNoAxis;
  for (unsigned axis = 0; axis < type.rank(); ++axis) {
    if (type.dim(axis) == 1) {
      continue;
    }
    if (found != IndexPath::kNoAxis || state.facts.access().constantStride(tile, axis) != 1) {
      return IndexPath::kNoAxis;
    }
    found = int(axis);
  }
  return found;
}

// The tile's elements follow from scalars and indices alone, in front of the nest too.
bool isArithmetic(const NestState &state, ValueId tile) {
  bool pure = true;
  walkExpression(state, tile, [&](const ExpressionNode &node) {
    const OpId op = state.fn.def(node.value);
    pure &= !state.stored(node.value) && op.valid() && isInlinable(state.fn, op) &&
            state.fn.opcode(op) != Opcode::Load && !sunkLoopAround(state, op).valid();
    return pure;
  });
  return pure;
}

// Remainders by one number of consecutive indices along the nest's lanes.
std::vector<OpId> remaindersAlong(const NestState &state, const NestWork &work, unsigned laneAxis) {
  const Function &fn = state.fn;
  std::vector<OpId> found;
  const auto look = [&](const ExpressionNode &node) {
    const OpId op = fn.def(node.value);
    const bool remainder = op.valid() && (fn.opcode(op) == Opcode::SRem || fn.opcode(op) == Opcode::URem);
    if (remainder && node.part == Part::Address && node.path.reshapes == 0) {
      const int axis = countingAxis(state, fn.operand(op, 0));
      if (axis != IndexPath::kNoAxis && node.path.axes[axis] == int(laneAxis) &&
          state.facts.isUniform(fn.operand(op, 1)) && isArithmetic(state, fn.operand(op, 0)) &&
          isArithmetic(state, fn.operand(op, 1)) && std::ranges::find(found, op) == found.end()) {
        found.push_back(op);
      }
    }
    return true;
  };
  for (ValueId root : work.values) {
    walkExpression(state, root, look);
  }
  for (ValueId pointer : work.pointers) {
    walkExpression(state, pointer, [&](const ExpressionNode &node) {
      return look({node.value, node.path, node.sameElement, Part::Address});
    });
  }
  return found;
}

// 0 <= first and first + extent - 1 < n, in 64 bits.
ValueId inRange(NestState &state, OpId position, OpId remainder) {
  Function &fn = state.fn;
  ElementBuilder elements(state, position);
  Builder &builder = elements.builder();
  const Type type = fn.type(fn.operand(remainder, 0));
  const Type wide = Type::scalar(Elem::I64);
  const auto first = [&](unsigned operand) {
    const ElementBuilder::Indices origin(type.rank(), elements.index(0));
    const ValueId value = elements.element(fn.operand(remainder, operand), origin);
    return type.elem() == Elem::I64 ? value : builder.make(Opcode::SExt, {value}, wide);
  };
  const ValueId start = first(0);
  const ValueId last =
      builder.make(Opcode::Add, {start, builder.constInt(wide, type.numElements() - 1)});
  const ValueId low = builder.cmp(CmpPred::sge, start, builder.zero(wide));
  const ValueId high = builder.cmp(CmpPred::slt, last, first(1));
  // In 64 bits the sum itself may wrap.
  const ValueId order = builder.cmp(CmpPred::sge, last, start);
  return builder.make(Opcode::And, {builder.make(Opcode::And, {low, high}), order});
}

} // namespace

void emitWithRemainderChecks(NestState &state, OpId position, const NestWork &work,
                             unsigned laneAxis, const std::function<void(OpId)> &emit) {
  const std::vector<OpId> remainders = remaindersAlong(state, work, laneAxis);
  if (remainders.empty()) {
    emit(position);
    return;
  }
  Function &fn = state.fn;
  Builder before(fn, position);
  ValueId condition;
  for (OpId remainder : remainders) {
    const ValueId one = inRange(state, position, remainder);
    condition = condition.valid() ? before.make(Opcode::And, {condition, one}) : one;
  }
  const OpId branch = before.op(Opcode::If, std::array{condition});
  for (unsigned i = 0; i < 2; ++i) {
    Builder inside(fn, fn.region(branch, i));
    inside.loc = fn.loc(position);
    inside.yield({});
    for (OpId remainder : remainders) {
      state.instead.set(fn.result(remainder), i == 0 ? fn.operand(remainder, 0) : ValueId{});
    }
    state.rarelyRun = i == 1;
    emit(fn.last(fn.region(branch, i)));
  }
  state.rarelyRun = false;
}

} // namespace libtile::passes
