// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/nest_shapes.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_costs.h"
#include "passes/expand_functions.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/Support/MathExtras.h>

#include <algorithm>
#include <limits>

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

// What fits the body.
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

NestShape &followed(NestState &state, std::span<const int32_t> extents) {
  const auto planned = state.plan.nests.find(state.root);
  const uint32_t nth = state.made[state.root];
  check(planned != state.plan.nests.end() && nth < planned->second.size() &&
            llvm::equal(planned->second[nth].extents, extents),
        "nests are made as they are planned");
  state.made.set(state.root, nth + 1);
  return planned->second[nth];
}

NestShape &added(NestState &state, std::span<const int32_t> extents, LaneChoice choice) {
  return state.plan.nests[state.root].emplace_back(
      NestShape{{extents.begin(), extents.end()}, choice.axis, choice.lanes});
}

NestPins *pinsOf(NestState &state) {
  const auto found = state.plan.pins.find(state.root);
  return found == state.plan.pins.end() ? nullptr : &found->second;
}

bool isPowerUpTo(int64_t value, int64_t most) { return value >= 1 && value <= most && llvm::isPowerOf2_64(uint64_t(value)); }

void pinLanes(NestState &state, std::span<const int32_t> extents, const NestPins &pins, LaneChoice &choice) {
  const auto refuse = [&](const std::string &reason) { refusePin(state.fn, state.root, Attr::lanes, reason); };
  // Elements of a byte fill two registers.
  const auto most = int64_t(std::min<uint64_t>(2 * std::max(state.target.vectorBytes, 16), llvm::PowerOf2Ceil(uint64_t(extents[choice.axis]))));
  if (!isPowerUpTo(*pins.lanes, most)) {
    refuse("they are a power of two up to " + std::to_string(most) + " along axis " + std::to_string(choice.axis));
  }
  if (choice.inOrder && *pins.lanes > 1) {
    refuse("elements along axis " + std::to_string(choice.axis) + " are combined one after the other");
  }
  choice.lanes = int32_t(*pins.lanes);
}

int32_t plannedUnroll(NestState &state, const NestShape &shape, BodySize size) {
  NestPins *pins = pinsOf(state);
  if (pins == nullptr || !pins->unroll) {
    return unrollFor(state, size, shape.extents[shape.laneAxis], shape.lanes);
  }
  if (!isPowerUpTo(*pins->unroll, kNestCosts.pinnedVectors)) {
    refusePin(state.fn, state.root, Attr::unroll, "it is a power of two up to " + std::to_string(kNestCosts.pinnedVectors));
  }
  pins->unrollHeeded = true;
  return int32_t(*pins->unroll);
}

} // namespace

int32_t lanesFor(const NestState &state, std::span<const ValueId> values, int32_t extent) {
  const uint32_t vectorBytes = std::max(state.target.vectorBytes, 16);
  const uint32_t lanes = std::max(1U, vectorBytes / widestElement(state, values));
  return int32_t(std::min<uint64_t>(lanes, llvm::PowerOf2Ceil(uint64_t(extent))));
}

LaneChoice chooseLanes(const NestState &state, const NestWork &work, std::optional<unsigned> only) {
  const std::vector<Access> accesses = accessesOf(state, work);
  LaneChoice best;
  double least = std::numeric_limits<double>::infinity();
  for (unsigned axis = work.shape.size(); axis-- > 0;) {
    if (only && axis != *only) {
      continue;
    }
    const int32_t extent = work.shape[axis];
    const bool one = work.inOrder && int(axis) == work.reducedAxis;
    int32_t lanes = one ? 1 : lanesFor(state, work.values, extent);
    if (!one && 2 * lanes <= extent && onlyRounds(state, work.values)) {
      lanes *= 2;
    }
    double cost = kNestCosts.vectorOfLoop;
    for (const Access &access : accesses) {
      cost += stepCost(access.steps[axis], lanes);
    }
    const int32_t vectors = (extent + lanes - 1) / lanes;
    cost *= vectors;
    cost += int(axis) == work.reducedAxis && work.shape.size() > 1 ? kNestCosts.joinLanes : 0;
    cost /= extent;
    if (cost < least) {
      least = cost;
      best = {.axis = axis, .lanes = lanes, .inOrder = one};
    }
  }
  return best;
}

std::optional<unsigned> pinnedLaneAxis(const NestState &state) {
  const auto found = state.plan.pins.find(state.root);
  return found == state.plan.pins.end() || !found->second.laneAxis ? std::nullopt : std::optional(unsigned(*found->second.laneAxis));
}

bool gathersAlong(const NestState &state, const NestWork &work, unsigned axis) {
  return llvm::any_of(accessesOf(state, work), [&](const Access &access) { return access.steps[axis] == Step::Far; });
}

NestShape &chosenShape(NestState &state, std::span<const int32_t> extents, LaneChooser choose) {
  if (state.follows) {
    return followed(state, extents);
  }
  NestPins *pins = pinsOf(state);
  if (pins == nullptr) {
    return added(state, extents, choose({}));
  }
  if (pins->laneAxis && (*pins->laneAxis < 0 || *pins->laneAxis >= int64_t(extents.size()))) {
    refusePin(state.fn, state.root, Attr::lane_axis, "a nest of it has " + std::to_string(extents.size()) + " axes");
  }
  LaneChoice choice = choose(pins->laneAxis);
  if (pins->lanes) {
    pinLanes(state, extents, *pins, choice);
  }
  pins->lanesHeeded = true;
  return added(state, extents, choice);
}

NestShape &fixedShape(NestState &state, std::span<const int32_t> extents, LaneChoice choice) {
  return state.follows ? followed(state, extents) : added(state, extents, choice);
}

void unrollNest(NestState &state, NestShape &shape, OpId nest, BodySize size, bool singleElements) {
  if (state.rarelyRun) {
    return;
  }
  if (!state.follows && (shape.lanes > 1 || singleElements)) {
    shape.unroll = plannedUnroll(state, shape, size);
  }
  if (shape.unroll > 1) {
    state.fn.setAttr(nest, Attr::unroll, AttrValue(int64_t{shape.unroll}));
  }
}

} // namespace libtile::passes
