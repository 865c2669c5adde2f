// SPDX-License-Identifier: Apache-2.0
// Layouts of a dot's operands and accumulator, from the unit that executes it.
//
// One instruction of a unit gives every lane fixed elements of its m x k, k x n and m x n matrices. Over
// the whole dot the warps stand in a grid over the accumulator: warps of one row of the grid hold the
// same elements of a, those of one column the same of b. Registers take the rest, so every lane of a
// warp finds all operands of its accumulators in its own registers. Leading axes are shared among
// warps and registers; a warp holds whole slices of a and b for its slices of the accumulator.
#pragma once

#include "ir/target.h"

#include <span>
#include <vector>

namespace libtile::passes {

// Warps along each axis of the accumulator.
using WarpGrid = std::vector<int32_t>;
// Extents of one instruction along the last two axes of the accumulator.
struct UnitExtents {
  int32_t m, n;
};

// How `warps` warps share an accumulator with as little operand traffic as possible; where the tile
// is too small for all, the grid has fewer and the others hold replicas. wholeRows: none along n.
[[nodiscard]] WarpGrid chooseWarpGrid(std::span<const int32_t> acc, int32_t warps, UnitExtents unit,
                                      bool wholeRows = false);

// The accumulator of a dot over `warps` warps, of which the grid's share it.
[[nodiscard]] ir::Layout accumulatorLayout(const ir::DotUnit &unit, std::span<const int32_t> acc,
                                           const WarpGrid &grid, int32_t warps);
// Its operands a and b, for a unit that takes them from registers; k: the extent of the sum.
[[nodiscard]] ir::Layout leftLayout(const ir::DotUnit &unit, std::span<const int32_t> acc, int32_t k,
                                    const WarpGrid &grid, int32_t warps);
[[nodiscard]] ir::Layout rightLayout(const ir::DotUnit &unit, std::span<const int32_t> acc, int32_t k,
                                     const WarpGrid &grid, int32_t warps);

} // namespace libtile::passes
