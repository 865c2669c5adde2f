// SPDX-License-Identifier: Apache-2.0
// The rings of a planned loop in code: buffers, counters of arrivals, copies of boxes into slots, what reads them.
// Both rewrites of loops (apply_plan.cpp, apply_producer.cpp) are made of these.
#pragma once

#include "ir/builder.h"
#include "passes/gpu/plan_pipeline.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <utility>
#include <vector>

namespace libtile::passes {

// The value that stands for one of the loop's where a copy is made.
using Mapped = llvm::function_ref<ir::ValueId(ir::ValueId)>;

// The box's map and guards go to the function. The map's number.
[[nodiscard]] int64_t addMap(ir::Function &fn, const PlannedBox &box);
// The coordinate of a box where the builder stands, an i32.
[[nodiscard]] ir::ValueId makeCoordinate(ir::Builder &builder, const Polynomial &coordinate, Mapped mapped);

class LoopRings {
public:
  LoopRings(ir::Function &fn, const LoopPlan &plan) : fn_(fn), plan_(plan) {}

  // A buffer for each load, where the builder stands; maps and guards of boxes go to the function.
  void make(ir::Builder &builder);
  [[nodiscard]] ir::ValueId slotOf(ir::Builder &builder, size_t load, ir::ValueId slot) const;
  // Counters for all slots, each of `count` arrivals a phase, of each program of a cluster if there is one; and one of them.
  [[nodiscard]] ir::ValueId makeCounters(ir::Builder &builder, int64_t count, int32_t cluster = 1) const;
  [[nodiscard]] ir::ValueId counterOf(ir::Builder &builder, ir::ValueId counters, ir::ValueId slot) const;
  // Copies the load's box, where `on` is true; it arrives at the slot's counter. Gives the op.
  ir::OpId copyBox(ir::Builder &builder, size_t load, ir::ValueId slot, ir::ValueId counters, ir::ValueId on, Mapped mapped) const;
  // Uses of the load read its slot, under the layout that they convert to; where that is not 0 outside, they select.
  void readSlot(ir::Builder &builder, size_t load, ir::ValueId slot) const;
  // The slot behind, and whether that is the first one again.
  [[nodiscard]] std::pair<ir::ValueId, ir::ValueId> nextSlot(ir::Builder &builder, ir::ValueId slot) const;
  // The op is one for all programs of the cluster, if there is one.
  void setCluster(ir::OpId op, int32_t cluster) const;
  // The parity of the next slot's phase.
  [[nodiscard]] static ir::ValueId nextParity(ir::Builder &builder, ir::ValueId parity, ir::ValueId wraps);
  // Accumulators of the dots that end one iteration later become places. The builders stand in front of the loop and
  // behind it; gives one that stands behind the wait for the dots of the iteration before.
  [[nodiscard]] ir::Builder makePlaces(ir::Builder &before, ir::Builder &after) const;

private:
  ir::Function &fn_;
  const LoopPlan &plan_;
  std::vector<ir::ValueId> rings_;
  std::vector<int64_t> maps_; // of each load, -1: none
};

} // namespace libtile::passes
