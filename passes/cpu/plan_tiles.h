// SPDX-License-Identifier: Apache-2.0
// Decides which tiles are worth storing, before any nest is made: an inline value that several nests
// would compute, at a cost above NestCosts::recompute, is kept (Keep::first_use); so is an expensive
// value that a nest reads many times over (a broadcast along an axis other than the last). One used
// in a deeper loop, or at the end of a deep chain of ops, is stored where it is defined.
//
// A sunk loop (sink_loops.h) is decided for as a whole: where several nests need its results, one nest
// stores them all. What its body computes is never stored.
//
// One walk backwards: each value knows whether no nest, one or several will compute it, where the
// nest that stores a kept value counts as one.
#pragma once

#include "passes/cpu/plan_nests.h"

namespace libtile::passes {

// Requires: the tile stage, sunk loops are planned. Ensures: plan.tiles is set.
void planTiles(const ir::Function &fn, const Facts &facts, CpuPlan &plan);

} // namespace libtile::passes
