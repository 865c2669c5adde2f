// SPDX-License-Identifier: Apache-2.0
// Layouts of a dot's operands and accumulator.
//
// mma.sync gives every lane fixed elements of a 16 x k, a k x 8 and a 16 x 8 matrix. Over the whole
// dot the warps stand in a grid of warpsM x warpsN; warps of one row of the grid hold the same
// elements of a, those of one column the same of b. Registers take the rest, so every lane of a
// warp finds all operands of its accumulators in its own registers.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <optional>

namespace libtile::passes {

struct WarpGrid {
  int32_t m = 1, n = 1;
};
struct DotLayouts {
  ir::Layout a, b, acc;
};

// How `warps` warps share an accumulator of m x n with as little operand traffic as possible; where
// the tile is too small for all, m * n is less than `warps` and the others hold replicas.
[[nodiscard]] WarpGrid chooseWarpGrid(int32_t m, int32_t n, int32_t warps, int32_t unitM = 16,
                                      int32_t unitN = 8);
// Fragments of mma.sync m16n8 with k * operand bits = 128 or 256.
[[nodiscard]] DotLayouts fragmentLayouts(const ir::MmaShape &shape, int32_t m, int32_t n, int32_t k,
                                         WarpGrid grid, int32_t warps);
// The grid of warps for a dot: where rows of such accumulators are reduced, as in attention, all
// warps stand along m if there is room, so that a row lies within one warp and the accumulator is
// the left operand of a next dot.
[[nodiscard]] WarpGrid warpGridOf(const ir::Function &fn, ir::OpId dot, int32_t warps);
// The accumulator of a dot by fused multiply-adds.
[[nodiscard]] ir::Layout multiplyAddLayout(int32_t m, int32_t n, int32_t warps);

// The matrix instruction for a dot of these types, nullptr: none. `why` gets the reason.
[[nodiscard]] const ir::MmaShape *findMma(const ir::Function &fn, ir::OpId dot,
                                          const ir::Target &target, std::string *why = nullptr);

} // namespace libtile::passes
