// SPDX-License-Identifier: Apache-2.0
// Layouts that memory is accessed well in: lanes along the axis with the longest runs of consecutive addresses, the widest vectors
// that the facts allow.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/gpu/operand_runs.h"

#include <bit>
#include <optional>
#include <vector>

namespace libtile::passes {

// 1 for what is below.
constexpr int32_t floorPowerOfTwo(int64_t x) { return x < 1 ? 1 : static_cast<int32_t>(std::bit_floor(static_cast<uint64_t>(x))); }

// Axes of a tile of pointers from the one with the longest runs to the one with the shortest.
[[nodiscard]] std::vector<int32_t> axesByRuns(const ir::Function &fn, ir::ValueId pointers, const Facts &facts);

// The layout for accesses through these pointers. Where an axis is reduced, warps go to the others first. Where what is loaded turns
// in registers (operand_runs.h), a thread has vectors of neighbouring rows, as many as it has vectors and the run has elements, and
// lanes have a line of memory before they go on to the next rows.
struct AccessShape {
  int32_t warps = 1, warpSize = 32, maxVectorBytes = 16;
  int32_t reducedAxis = -1;
  std::optional<OperandRun> run = {};
};
[[nodiscard]] ir::Layout memoryLayout(const ir::Function &fn, ir::ValueId pointers, const Facts &facts, const AccessShape &shape);

// The layout for a store of what is held in another one, a dot's: vectors as wide, made of elements that stay in their warps.
// Nothing goes through shared memory then, and warps do not wait for each other. nullopt where a warp's part of a row is
// short (64 bytes), where the way through shared memory is cheaper, and in a loop around that of the dot: addresses in one more layout
// take registers that the dot needs. None of this counts for a tile that shared memory has no room for, or has only where it keeps a
// second program off the multiprocessor: it stays as it is held where exchanges within warps give it no vectors.
[[nodiscard]] std::optional<ir::Layout> layoutInWarps(const ir::Function &fn, ir::OpId store, const Facts &facts, const ir::Layout &held,
                                                      const ir::Target &target);

} // namespace libtile::passes
