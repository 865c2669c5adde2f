// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/reduce_plan.h"

#include "ir/ops.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;
using ir::Opcode;
using ir::OpId;

std::vector<ReduceStep> stepsOf(const ir::Function &fn, OpId reduce, HwDim dim,
                                ReduceStep::Kind kind) {
  const Layout &layout = fn.layout(fn.type(fn.operand(reduce, 0)).layout());
  const auto axis = static_cast<unsigned>(fn.getInt(reduce, ir::Attr::axis));
  std::vector<ReduceStep> steps;
  for (const AxisBit &bit : bitsAlong(layout, dim, axis, fn.locationOf(reduce))) {
    steps.push_back({kind, bit.bit, bit.distance});
  }
  return steps;
}

bool byDistance(const ReduceStep &a, const ReduceStep &b) { return a.distance < b.distance; }

// The warps are joined in one step, so nothing may lie between their bits.
bool areNeighbours(std::span<const ReduceStep> warps, std::span<const ReduceStep> steps) {
  return warps.empty() || std::ranges::none_of(steps, [&](const ReduceStep &step) {
           return step.kind != ReduceStep::Kind::Warp && step.distance > warps.front().distance &&
                  step.distance < warps.back().distance;
         });
}

} // namespace

bool joinsInOrder(const ir::Function &fn, OpId reduce) {
  using Kind = ReduceStep::Kind;
  std::vector<ReduceStep> warps = stepsOf(fn, reduce, HwDim::Warp, Kind::Warp);
  std::sort(warps.begin(), warps.end(), byDistance);
  return combinesInAnyOrder(fn, reduce) || (areNeighbours(warps, stepsOf(fn, reduce, HwDim::Lane, Kind::Lane)) &&
                                             areNeighbours(warps, stepsOf(fn, reduce, HwDim::Reg, Kind::Register)));
}

ReducePlan planReduce(const ir::Function &fn, OpId reduce) {
  const ir::Type type = fn.type(fn.operand(reduce, 0));
  const Layout &layout = fn.layout(type.layout());
  ReducePlan plan;
  plan.axis = static_cast<unsigned>(fn.getInt(reduce, ir::Attr::axis));
  plan.commutative = onlyCombination(fn, reduce);
  plan.inOrder = !combinesInAnyOrder(fn, reduce);
  using Kind = ReduceStep::Kind;
  std::vector<ReduceStep> registers = stepsOf(fn, reduce, HwDim::Reg, Kind::Register);
  const std::vector<ReduceStep> lanes = stepsOf(fn, reduce, HwDim::Lane, Kind::Lane);
  std::vector<ReduceStep> warps = stepsOf(fn, reduce, HwDim::Warp, Kind::Warp);
  std::sort(warps.begin(), warps.end(), byDistance);
  for (const ReduceStep &step : warps) {
    plan.warpBits.push_back(step.bit);
  }
  plan.steps = std::move(registers);
  const ReduceStep repeat{Kind::Repeat, 0, layout.subtile()[plan.axis]};
  if (!plan.inOrder && layout.repeats()[plan.axis] > 1) {
    plan.steps.push_back(repeat);
  }
  plan.steps.insert(plan.steps.end(), lanes.begin(), lanes.end());
  if (!warps.empty()) {
    plan.steps.push_back({Kind::Warp, 0, warps.front().distance});
  }
  if (plan.inOrder) {
    if (layout.repeats()[plan.axis] > 1) {
      plan.steps.push_back(repeat);
    }
    std::stable_sort(plan.steps.begin(), plan.steps.end(), byDistance);
    if (!areNeighbours(warps, plan.steps)) {
      throw ir::Unsupported("an ordered reduction over warps that are not neighbours", fn.locationOf(reduce));
    }
  }
  if (!warps.empty()) {
    // What the steps before the warps' have not joined: registers of the tile, and lanes that hold other elements. In
    // order, lanes may come behind the warps.
    int32_t entries = distinctRegisters(layout);
    int32_t rows = layout.canonicalBits(HwDim::Lane);
    for (const ReduceStep &step : plan.steps) {
      if (step.kind == Kind::Warp) {
        break;
      }
      entries /= step.kind == Kind::Register ? 2
                 : step.kind == Kind::Repeat ? layout.repeats()[plan.axis]
                                             : 1;
      rows &= step.kind == Kind::Lane ? ~(1 << step.bit) : -1;
    }
    plan.scratch = makeWarpScratch(fn, reduce, entries, rows);
  }
  return plan;
}

} // namespace libtile::passes
