// SPDX-License-Identifier: Apache-2.0
// What the plans of reductions and scans share: how an axis of a layout lies in registers, lanes and
// warps, and the shared memory through which warps meet.
#pragma once

#include "ir/function.h"

#include <vector>

namespace libtile::passes {

// A bit of a hardware coordinate that moves along the axis, and how far.
struct AxisBit {
  int32_t bit, distance;
};
// Those that tell elements apart, by rising bit. Throws Unsupported where one of them moves along a second
// axis too; the layouts that passes make have none such.
[[nodiscard]] std::vector<AxisBit> bitsAlong(const ir::Layout &layout, ir::HwDim dim, unsigned axis,
                                             const ir::Location &location);

// Registers of a thread that hold different elements.
[[nodiscard]] int32_t distinctRegisters(const ir::Layout &layout);

// Each warp writes what its threads have, all wait at a barrier, each reads what it wants. A value of an op's
// tuple lies at slot ((warp * entries) + entry) * lanes + lane, counted in elements from its start.
struct WarpScratch {
  int32_t entries = 0;            // of a thread; 0: warps do not meet
  std::vector<int32_t> laneBits;  // that tell `lane` apart; others hold the same
  std::vector<int64_t> starts;    // bytes, one an element of the tuple
  int64_t bytes = 0;
};
// For the op's operands; `lanes` are the bits that tell lanes apart.
[[nodiscard]] WarpScratch makeWarpScratch(const ir::Function &fn, ir::OpId op, int32_t entries,
                                          int32_t lanes);

} // namespace libtile::passes
