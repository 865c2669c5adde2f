// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/along_axis.h"

#include "ir/ops.h"
#include "passes/cpu/branches.h"

namespace libtile::passes {

using namespace ir;

AlongAxis::AlongAxis(NestState &state, OpId op)
    : state_(state), fn_(state.fn), op_(op), axis_(int(fn_.getInt(op, Attr::axis))),
      shape_(fn_.type(fn_.operand(op, 0)).shape().begin(),
             fn_.type(fn_.operand(op, 0)).shape().end()) {}

NestShape &AlongAxis::choose(NestWork work) {
  work.values.append(fn_.operands(op_).begin(), fn_.operands(op_).end());
  work.reducedAxis = axis_;
  prepareExpression(state_, op_, work);
  const bool inLanes = flattenBranches(fn_, fn_.region(op_));
  if (!inLanes) {
    return fixedShape(state_, shape_, {unsigned(axis_), 1});
  }
  return chosenShape(state_, shape_, [&](std::optional<unsigned> axis) { return chooseLanes(state_, work, axis); });
}

OpId AlongAxis::emit(Opcode inner, const std::vector<Type> &results, NestShape &shape,
                     const Fill &fill, const After &after) {
  if (shape_.size() == 1) {
    Builder before(fn_, op_);
    const OpId made = before.op(inner, {}, results);
    ElementBuilder elements(state_, fn_.region(made, 0), made);
    fillElements(made, elements, {}, shape.lanes, fill);
    elements.finish();
    return made;
  }
  const bool ownLanes = int(shape.laneAxis) == axis_;
  const llvm::SmallVector<int32_t, 4> outer = outerShape();
  LaneChoice nestChoice{unsigned(outer.size()) - 1, 1};
  if (!ownLanes) {
    nestChoice = {shape.laneAxis - (int(shape.laneAxis) > axis_ ? 1 : 0), shape.lanes};
  }
  OpId made;
  const MadeNest nest = emitLoops(state_, op_, outer, nestChoice, [&](ElementBuilder &elements, const Indices &indices) {
    const BlockId body = elements.builder().block();
    made = elements.builder().op(inner, {}, results);
    elements.enter(fn_.region(made, 0));
    fillElements(made, elements, indices, ownLanes ? shape.lanes : 1, fill);
    elements.leave(body);
    after(made, elements, indices);
  });
  if (!ownLanes) {
    unrollNest(state_, shape, nest.op, nest.size);
  }
  return made;
}

void AlongAxis::fillElements(OpId inner, ElementBuilder &elements, const Indices &outer,
                             int32_t lanes, const Fill &fill) {
  const Indices indices = withIndex(outer, fn_.region(inner, 0));
  elements.setSpace(shape_, indices);
  const uint32_t before = elements.made().ops;
  Values yielded;
  for (ValueId input : std::vector<ValueId>(fn_.operands(op_).begin(), fn_.operands(op_).end())) {
    yielded.push_back(elements.element(input, indices));
  }
  elements.builder().yield(yielded);
  const BlockId combine = fn_.region(op_), copy = fn_.region(inner, 1);
  IndexMap<ValueId, ValueId> map;
  for (ValueId arg : std::vector<ValueId>(fn_.args(combine).begin(), fn_.args(combine).end())) {
    map.set(arg, fn_.addArg(copy, fn_.type(arg)));
  }
  fn_.copyOps(combine, copy, map);
  fn_.setAttr(inner, Attr::extent, AttrValue(int64_t{shape_[axis_]}));
  fn_.setAttr(inner, Attr::lanes, AttrValue(int64_t{lanes}));
  fill(inner, elements, outer, {elements.made().ops - before, elements.made().carried});
}

AlongAxis::Indices AlongAxis::withIndex(Indices outer, BlockId region) {
  outer.insert(outer.begin() + axis_, fn_.addArg(region, Type::scalar(Elem::I32)));
  return outer;
}

llvm::SmallVector<int32_t, 4> AlongAxis::outerShape() const {
  llvm::SmallVector<int32_t, 4> outer = shape_;
  outer.erase(outer.begin() + axis_);
  return outer;
}

} // namespace libtile::passes
