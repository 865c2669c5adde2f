// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/nest_emitter.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/remainder_checks.h"
#include "passes/cpu/sink_loops.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// A shape op on the way whose operand is worth storing when an expression has too many paths.
ValueId cutPoint(const NestState &state, OpId op) {
  const Opcode opcode = state.fn.opcode(op);
  if (opcode != Opcode::Trans && opcode != Opcode::Reshape) {
    return {};
  }
  const ValueId operand = state.fn.operand(op, 0);
  return state.stored(operand) ? ValueId{} : operand;
}

// A value that has to be stored before a nest at `position` can compute `root`; invalid if none.
ValueId unreadyValue(const NestState &state, OpId position, ValueId root, bool force) {
  const Function &fn = state.fn;
  ValueId unready;
  ValueId cut;
  int32_t nodes = 0;
  walkExpression(state, root, [&](const ExpressionNode &node) {
    if (unready.valid() || state.stored(node.value)) {
      return false;
    }
    const OpId op = fn.def(node.value);
    const bool sunk = sunkSlot(state, node.value).has_value();
    check(sunk || !fn.type(node.value).isTile() || (op.valid() && isInlinable(fn, op)),
          "a tile from elsewhere is stored before it is read");
    const Keep keep = force && node.value == root && node.sameElement ? Keep::inline_
                                                                       : state.keep(node.value);
    const bool onTheWay = node.sameElement && fn.defBlock(node.value) == fn.block(position);
    if (keep == Keep::definition || (keep == Keep::first_use && !onTheWay)) {
      unready = node.value;
    }
    if (!cut.valid() && !sunk && !sunkLoopAround(state, op).valid()) {
      cut = cutPoint(state, op);
    }
    return ++nodes <= kNestCosts.maxNodes;
  });
  return unready.valid() || nodes <= kNestCosts.maxNodes ? unready : cut;
}

// The op of `block` in which `position` lies, or which it is.
OpId ancestorIn(const Function &fn, BlockId block, OpId position) {
  while (fn.block(position) != block) {
    position = fn.parentOp(fn.block(position));
    check(position.valid(), "a tile is stored inside the block that defines it");
  }
  return position;
}

void prepare(NestState &state, OpId position, std::span<const ValueId> values, bool force) {
  for (ValueId root : values) {
    for (ValueId value = unreadyValue(state, position, root, force); value.valid();
         value = unreadyValue(state, position, root, force)) {
      storeTile(state, value, position);
    }
  }
}

} // namespace

void prepareExpression(NestState &state, OpId position, const NestWork &work) {
  prepare(state, position, work.values, false);
  prepare(state, position, work.pointers, false);
}

void storeTile(NestState &state, ValueId tile, OpId position) {
  if (state.stored(tile)) {
    return;
  }
  position = ancestorIn(state.fn, state.fn.defBlock(tile), position);
  // A sunk loop makes all that it carries at once.
  const OpId op = state.fn.def(tile);
  const std::vector<ValueId> tiles =
      op.valid() && state.plan.sunk[op] ? usedTiles(state.fn, op) : std::vector{tile};
  const RootScope scope(state, op.valid() ? op : state.root);
  prepare(state, position, tiles, true);
  const Type type = state.fn.type(tile);
  NestWork work{type.shape(), {tiles.begin(), tiles.end()}};
  work.bufferWrites = int32_t(tiles.size());
  Builder before(state.fn, position);
  Values buffers;
  for (ValueId stored : tiles) {
    buffers.push_back(allocBuffer(before, type.shape(), state.fn.type(stored).element()));
  }
  NestShape &shape = chosenShape(state, type.shape(), [&](std::optional<unsigned> axis) { return chooseLanes(state, work, axis); });
  emitNest(state, position, shape,
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             for (size_t i = 0; i < tiles.size(); ++i) {
               elements.write(buffers[i], indices, elements.compute(tiles[i], indices));
             }
           });
  for (size_t i = 0; i < tiles.size(); ++i) {
    state.buffer.set(tiles[i], buffers[i]);
  }
}

MadeNest emitLoops(NestState &state, OpId position, std::span<const int32_t> extents, LaneChoice choice,
                   const NestBody &body) {
  Function &fn = state.fn;
  llvm::SmallVector<unsigned, 4> order;
  for (unsigned axis = 0; axis < extents.size(); ++axis) {
    if (axis != choice.axis) {
      order.push_back(axis);
    }
  }
  order.push_back(choice.axis);
  std::vector<int64_t> looped;
  for (unsigned axis : order) {
    looped.push_back(extents[axis]);
  }
  Builder before(fn, position);
  const OpId nest = before.op(Opcode::Nest, {});
  const BlockId block = fn.region(nest);
  fn.setAttr(nest, Attr::extents, AttrValue(looped));
  fn.setAttr(nest, Attr::lanes, AttrValue(int64_t{choice.lanes}));
  ElementBuilder::Indices indices(extents.size());
  for (unsigned axis : order) {
    indices[axis] = fn.addArg(block, Type::scalar(Elem::I32));
  }
  ElementBuilder elements(state, block, nest);
  elements.setSpace(extents, indices);
  body(elements, indices);
  elements.builder().yield({});
  elements.finish();
  return {nest, elements.made()};
}

void emitNest(NestState &state, OpId position, NestShape &shape, const NestBody &body) {
  const MadeNest made = emitLoops(state, position, shape.extents, {shape.laneAxis, shape.lanes}, body);
  unrollNest(state, shape, made.op, made.size);
}

void emitNest(NestState &state, OpId position, std::span<const int32_t> extents, LaneChoice fixed,
              const NestBody &body) {
  NestShape &shape = fixedShape(state, extents, fixed);
  const MadeNest made = emitLoops(state, position, extents, {shape.laneAxis, shape.lanes}, body);
  unrollNest(state, shape, made.op, made.size, fixed.unrolls);
}

void emitNest(NestState &state, OpId position, const NestWork &work, const NestBody &body) {
  prepareExpression(state, position, work);
  NestShape &shape = chosenShape(state, work.shape, [&](std::optional<unsigned> axis) { return chooseLanes(state, work, axis); });
  emitWithRemainderChecks(state, position, work, shape.laneAxis, [&](OpId place) { emitNest(state, place, shape, body); });
}

void zeroFill(NestState &state, OpId position, ValueId buffer, std::array<int32_t, 2> rows,
              std::array<int32_t, 2> columns) {
  const std::array<int32_t, 2> extents{rows[1] - rows[0], columns[1] - columns[0]};
  if (extents[0] <= 0 || extents[1] <= 0) {
    return;
  }
  const Type element = Type::scalar(state.fn.type(buffer).elem());
  const uint32_t fitting = std::max(state.target.vectorBytes, 16) / element.elementBytes();
  const LaneChoice choice{
      1, int32_t(std::min<uint64_t>(fitting, llvm::PowerOf2Ceil(uint64_t(extents[1]))))};
  emitNest(state, position, extents, choice,
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             const ValueId row = elements.shiftIndex(indices[0], rows[0]);
             const ValueId column = elements.shiftIndex(indices[1], columns[0]);
             elements.write(buffer, {row, column}, elements.builder().zero(element));
           });
}

} // namespace libtile::passes
