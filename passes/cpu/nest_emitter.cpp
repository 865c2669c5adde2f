// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/nest_emitter.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/remainder_checks.h"
#include "passes/cpu/sink_loops.h"
#include "passes/expand_functions.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// An access as the lanes see it.
enum class Step : uint8_t { Same, Next, Far };

struct Access {
  llvm::SmallVector<Step, 4> steps; // one for each axis of the space
};

Access accessOf(unsigned rank, const IndexPath &path,
                const std::function<Step(unsigned)> &stepAlong) {
  Access access;
  access.steps.assign(rank, path.reshapes == 0 ? Step::Same : Step::Far);
  for (unsigned axis = 0; axis < path.axes.size(); ++axis) {
    if (path.axes[axis] != IndexPath::kNoAxis) {
      access.steps[path.axes[axis]] = stepAlong(axis);
    }
  }
  return access;
}

Step pointerStep(const NestState &state, ValueId pointer, unsigned axis) {
  const Type &type = state.fn.type(pointer);
  if (type.dim(axis) == 1) {
    return Step::Same;
  }
  const auto stride = state.facts.access().constantStride(pointer, axis);
  if (!stride) {
    return Step::Far;
  }
  return *stride == 0 ? Step::Same
                      : *stride == type.pointee().elementBytes() ? Step::Next : Step::Far;
}

// A buffer's last axis is the dense one.
Step bufferStep(unsigned axis, unsigned rank) { return axis + 1 == rank ? Step::Next : Step::Far; }

std::vector<Access> accessesOf(const NestState &state, const NestWork &work) {
  const unsigned rank = work.shape.size();
  std::vector<Access> accesses;
  for (ValueId root : work.values) {
    walkExpression(state, root, [&](const ExpressionNode &node) {
      const OpId op = state.fn.def(node.value);
      if (state.stored(node.value)) {
        const unsigned last = state.fn.type(node.value).rank();
        accesses.push_back(
            accessOf(rank, node.path, [&](unsigned axis) { return bufferStep(axis, last); }));
      } else if (op.valid() && state.fn.opcode(op) == Opcode::Load) {
        const ValueId pointer = state.fn.operand(op, 0);
        accesses.push_back(accessOf(
            rank, node.path, [&](unsigned axis) { return pointerStep(state, pointer, axis); }));
      }
      return true;
    });
  }
  const IndexPath whole = IndexPath::identity(rank);
  for (ValueId pointer : work.pointers) {
    accesses.push_back(
        accessOf(rank, whole, [&](unsigned axis) { return pointerStep(state, pointer, axis); }));
  }
  for (int32_t i = 0; i < work.bufferWrites; ++i) {
    accesses.push_back(accessOf(rank, whole, [&](unsigned axis) { return bufferStep(axis, rank); }));
  }
  return accesses;
}

int32_t stepCost(Step step, int32_t lanes) {
  return step == Step::Same   ? kNestCosts.uniformAccess
         : step == Step::Next ? kNestCosts.contiguousAccess
                              : kNestCosts.gatherPerLane * lanes;
}

// Bytes of the widest element that the lanes compute with; 16-bit floats are computed as f32.
uint32_t widestElement(const NestState &state, std::span<const ValueId> values) {
  uint32_t widest = 1;
  for (ValueId root : values) {
    walkExpression(state, root, [&](const ExpressionNode &node) {
      const Type &type = state.fn.type(node.value);
      const OpId op = state.fn.def(node.value);
      if (node.part != Part::Element || type.isBool()) {
        return node.part == Part::Element;
      }
      const bool computed = op.valid() && isElementwise(state.fn.opcode(op)) &&
                            state.fn.opcode(op) != Opcode::Load && type.isFloating() &&
                            !staysNarrow(state.fn, op, state.target);
      widest = std::max({widest, type.elementBytes(), computed ? 4U : 1U});
      return true;
    });
  }
  return widest;
}

// Whether f32 from memory is rounded to bf16 and no more: two registers of f32 are one of bf16, which is made with
// fewer instructions than its halves.
bool onlyRounds(const NestState &state, std::span<const ValueId> values) {
  const Function &fn = state.fn;
  bool rounds = false;
  for (ValueId value : values) {
    const OpId op = fn.def(value);
    if (fn.type(value).isBool()) {
      continue;
    }
    if (!op.valid() || fn.opcode(op) != Opcode::FpTrunc || fn.type(value).elem() != Elem::BF16) {
      return false;
    }
    const ValueId wide = fn.operand(op, 0);
    const OpId source = fn.def(wide);
    const bool isRead = state.stored(wide) || (source.valid() && fn.opcode(source) == Opcode::Load);
    if (!isRead || fn.type(wide).elem() != Elem::F32) {
      return false;
    }
    rounds = true;
  }
  return rounds;
}

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
    const Keep keep = force && node.value == root && node.sameElement ? Keep::Inline
                                                                       : state.keep(node.value);
    const bool onTheWay = node.sameElement && fn.defBlock(node.value) == fn.block(position);
    if (keep == Keep::AtDefinition || (keep == Keep::FirstUse && !onTheWay)) {
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

int32_t lanesFor(const NestState &state, std::span<const ValueId> values, int32_t extent) {
  const uint32_t vectorBytes = std::max(state.target.vectorBytes, 16);
  const uint32_t lanes = std::max(1U, vectorBytes / widestElement(state, values));
  return int32_t(std::min<uint64_t>(lanes, llvm::PowerOf2Ceil(uint64_t(extent))));
}

int32_t unrollFor(const NestState &state, BodySize size, int32_t extent, int32_t lanes) {
  const int32_t steps = extent / lanes;
  if (size.carried > 0) {
    const int32_t registers =
        std::max(state.target.vectorRegisters, 16) - kNestCosts.sunkOtherRegisters;
    const int32_t vectors =
        std::min({steps, registers / int32_t(size.carried), kNestCosts.sunkVectors,
                  kNestCosts.sunkUnrolledOps / int32_t(std::max(size.ops, 1U))});
    return int32_t(llvm::bit_floor(uint32_t(std::max(vectors, 1))));
  }
  if (steps >= 4 && size.ops <= uint32_t(kNestCosts.opsForUnroll4)) {
    return 4;
  }
  return steps >= 2 && size.ops <= 2 * uint32_t(kNestCosts.opsForUnroll4) ? 2 : 1;
}

LaneChoice chooseLanes(const NestState &state, const NestWork &work) {
  const std::vector<Access> accesses = accessesOf(state, work);
  LaneChoice best;
  double least = 0;
  for (unsigned axis = work.shape.size(); axis-- > 0;) {
    const int32_t extent = work.shape[axis];
    const bool one = work.inOrder && int(axis) == work.reducedAxis;
    int32_t lanes = one ? 1 : lanesFor(state, work.values, extent);
    if (!one && 2 * lanes <= extent && onlyRounds(state, work.values)) {
      lanes *= 2;
    }
    double cost = 2;
    for (const Access &access : accesses) {
      cost += stepCost(access.steps[axis], lanes);
    }
    const int32_t vectors = (extent + lanes - 1) / lanes;
    cost *= vectors;
    cost += int(axis) == work.reducedAxis && work.shape.size() > 1 ? kNestCosts.joinLanes : 0;
    cost /= extent;
    if (axis + 1 == work.shape.size() || cost < least) {
      least = cost;
      best = {axis, lanes};
    }
  }
  return best;
}

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
  prepare(state, position, tiles, true);
  const Type type = state.fn.type(tile);
  NestWork work{type.shape(), {tiles.begin(), tiles.end()}};
  work.bufferWrites = int32_t(tiles.size());
  Builder before(state.fn, position);
  Values buffers;
  for (ValueId stored : tiles) {
    buffers.push_back(allocBuffer(before, type.shape(), state.fn.type(stored).element()));
  }
  emitNest(state, position, type.shape(), chooseLanes(state, work),
           [&](ElementBuilder &elements, const ElementBuilder::Indices &indices) {
             for (size_t i = 0; i < tiles.size(); ++i) {
               elements.write(buffers[i], indices, elements.compute(tiles[i], indices));
             }
           });
  for (size_t i = 0; i < tiles.size(); ++i) {
    state.buffer.set(tiles[i], buffers[i]);
  }
}

void emitNest(NestState &state, OpId position, std::span<const int32_t> extents, LaneChoice choice,
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
  const int32_t unroll = unrollFor(state, elements.made(), extents[choice.axis], choice.lanes);
  if (unroll > 1 && (choice.lanes > 1 || choice.unrolls) && !state.rarelyRun) {
    fn.setAttr(nest, Attr::unroll, AttrValue(int64_t{unroll}));
  }
}

void emitNest(NestState &state, OpId position, const NestWork &work, const NestBody &body) {
  prepareExpression(state, position, work);
  const LaneChoice choice = chooseLanes(state, work);
  emitWithRemainderChecks(state, position, work, choice.axis, [&](OpId place) {
    emitNest(state, place, work.shape, choice, body);
  });
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
