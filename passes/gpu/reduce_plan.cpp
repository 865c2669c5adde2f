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

// The one commutative op that the combination is, where nothing else stands in it.
std::optional<Opcode> onlyOp(const ir::Function &fn, OpId reduce) {
  const ir::BlockId combine = fn.region(reduce);
  const bool alone = fn.results(reduce).size() == 1 && fn.next(fn.first(combine)) == fn.last(combine);
  return alone ? commutativeCombination(fn, reduce, 0) : std::nullopt;
}

// Bits of a hardware coordinate that move along the axis. Each basis of the layouts that passes
// make moves along one axis, and no two move to the same place.
std::vector<ReduceStep> stepsOf(const Layout &layout, HwDim dim, unsigned axis,
                                ReduceStep::Kind kind) {
  std::vector<ReduceStep> steps;
  const Layout::Bases &bases = layout.bases(dim);
  for (size_t bit = 0; bit < bases.size(); ++bit) {
    if (bases[bit][axis] == 0 || (layout.canonicalBits(dim) >> bit & 1) == 0) {
      continue;
    }
    for (unsigned d = 0; d < layout.rank(); ++d) {
      if (d != axis && bases[bit][d] != 0) {
        throw ir::Unsupported("a reduction over a layout whose bits move along two axes");
      }
    }
    steps.push_back({kind, static_cast<int32_t>(bit), bases[bit][axis]});
  }
  return steps;
}

bool byDistance(const ReduceStep &a, const ReduceStep &b) { return a.distance < b.distance; }

// The warps are joined in one step, so nothing may lie between their bits.
void checkNeighbours(std::span<const ReduceStep> steps, std::span<const ReduceStep> warps,
                     const ir::Location &location) {
  for (const ReduceStep &step : steps) {
    if (!warps.empty() && step.kind != ReduceStep::Kind::Warp &&
        step.distance > warps.front().distance && step.distance < warps.back().distance) {
      throw ir::Unsupported("an ordered reduction over warps that are not neighbours", location);
    }
  }
}

} // namespace

int64_t scratchBytesOf(const ReducePlan &plan, const ir::Type &element, int32_t numWarps) {
  const int64_t slots = int64_t{plan.entries} * numWarps << plan.rowLaneBits.size();
  return (slots * element.elementBytes() + 15) / 16 * 16;
}

ReducePlan planReduce(const ir::Function &fn, OpId reduce) {
  const ir::Type type = fn.type(fn.operand(reduce, 0));
  const Layout &layout = fn.layout(type.layout());
  ReducePlan plan;
  plan.axis = static_cast<unsigned>(fn.getInt(reduce, ir::Attr::axis));
  plan.commutative = onlyOp(fn, reduce);
  using Kind = ReduceStep::Kind;
  std::vector<ReduceStep> registers = stepsOf(layout, HwDim::Reg, plan.axis, Kind::Register);
  const std::vector<ReduceStep> lanes = stepsOf(layout, HwDim::Lane, plan.axis, Kind::Lane);
  std::vector<ReduceStep> warps = stepsOf(layout, HwDim::Warp, plan.axis, Kind::Warp);
  std::sort(warps.begin(), warps.end(), byDistance);
  for (const ReduceStep &step : warps) {
    plan.warpBits.push_back(step.bit);
  }
  const int32_t rows = layout.canonicalBits(HwDim::Lane);
  for (size_t bit = 0; bit < layout.bases(HwDim::Lane).size(); ++bit) {
    if (layout.bases(HwDim::Lane)[bit][plan.axis] == 0 && (rows >> bit & 1) != 0) {
      plan.rowLaneBits.push_back(static_cast<int32_t>(bit));
    }
  }
  plan.steps = std::move(registers);
  const ReduceStep repeat{Kind::Repeat, 0, layout.subtile()[plan.axis]};
  if (plan.commutative && layout.repeats()[plan.axis] > 1) {
    plan.steps.push_back(repeat);
  }
  plan.steps.insert(plan.steps.end(), lanes.begin(), lanes.end());
  if (!warps.empty()) {
    plan.steps.push_back({Kind::Warp, 0, warps.front().distance});
  }
  if (!plan.commutative) {
    if (layout.repeats()[plan.axis] > 1) {
      plan.steps.push_back(repeat);
    }
    std::stable_sort(plan.steps.begin(), plan.steps.end(), byDistance);
    checkNeighbours(plan.steps, warps, fn.locationOf(reduce));
  }
  if (!warps.empty()) {
    // Registers of the tile that the steps before the warps' have not joined.
    int32_t entries = 1;
    for (unsigned d = 0; d < layout.rank(); ++d) {
      entries *= layout.repeats()[d];
    }
    entries <<= layout.withoutReplicatedRegs().bases(HwDim::Reg).size();
    for (const ReduceStep &step : plan.steps) {
      if (step.kind == Kind::Warp) {
        break;
      }
      entries /= step.kind == Kind::Register ? 2
                 : step.kind == Kind::Repeat ? layout.repeats()[plan.axis]
                                             : 1;
    }
    plan.entries = entries;
    for (const ir::ValueId input : fn.operands(reduce)) {
      plan.scratchBytes += scratchBytesOf(plan, fn.type(input).element(), fn.numWarps);
    }
  }
  return plan;
}

} // namespace libtile::passes
