// SPDX-License-Identifier: Apache-2.0
// Programs of a cluster (option num_ctas, Target::mostCluster): neighbours along axis 0 of the grid, which run at once on
// multiprocessors that write into each other's shared memory. Where they want the same box, each copies a part of it for all, so
// that the cache is asked once:
//
//   producer of each program                      consumers
//   wait until the slot is free in all programs   wait until the slot has arrived
//   same box: copy my part, to all of them        read the slot, dots
//   else:     copy the box                        arrive, in all programs: the slot is free
//
// Whether neighbours want the same box is found out once, in front of the loop: each program computes the coordinates of the others
// from their ids, which it knows. They run through loops in step, so only loops of which all programs run as many iterations have
// shared slots. A launch whose grid is not a multiple of the cluster has none: code asks how large its cluster is.
//
// Source: PTX ISA, cp.async.bulk.tensor with .multicast::cluster; barrier.cluster.
#pragma once

#include "ir/builder.h"
#include "passes/gpu/plan_pipeline.h"
#include "passes/gpu/programs_apart.h"

namespace libtile::passes {

// Requires: what a producer copies is planned. Decides Plan::cluster and PlannedLoad::shared; a refusal says why programs of a cluster
// that was asked for share nothing.
void planCluster(const ir::Function &fn, const PassContext &context, Plan &plan);

// Makes code that finds out what is shared, in a producer, outside of all loops.
class ClusterCode {
public:
  // `mapped`: values of the kernel, there.
  ClusterCode(const Plan &plan, ir::Builder &builder, const ir::IndexMap<ir::ValueId, ir::ValueId> &mapped);
  // An i1: all programs of the cluster want the same boxes of this load.
  [[nodiscard]] ir::ValueId wantSame(const PlannedLoad &load);

private:
  ir::Builder &builder_;
  const ir::IndexMap<ir::ValueId, ir::ValueId> &mapped_;
  DifferingValues differing_;
  const int32_t programs_;
};

} // namespace libtile::passes
