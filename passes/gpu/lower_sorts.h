// SPDX-License-Identifier: Apache-2.0
// Sorts become compare-exchange steps: Batcher's bitonic network over 2^p places along the axis, of
// which those past the extent hold the largest integer. Integers below 32 bits are extended to 32 first.
//
// The tile is converted to a layout in which each bit of a place along the axis belongs to registers
// (the lowest bits), lanes (the next ones) or warps (the highest). A merge of runs of 2^(k-1) compares
// places 2^(k-1), 2^(k-2), ... 1 apart:
//
//   within a warp   the first step is mirrored, so that all runs rise. Steps between lanes are one loop
//                   over their distances, and the merges that end among the lanes another one
//   between warps   the registers' highest bits and the warps' change places: one trip through shared
//                   memory there, one back, whatever the number of such steps. Here a step cannot be
//                   mirrored; every second run holds all its bits flipped instead, so that it falls
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out. Ensures: no sort is left.
bool lowerSorts(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
