// SPDX-License-Identifier: Apache-2.0
// How a scan goes over registers, lanes and warps, as data.
//
// Along the scanned axis each bit of an element's coordinate belongs to a register, a lane or a warp;
// repeats count on top. From the lowest bit up, neighbouring bits of one kind make a *run*. Before a
// run each block of `distance` elements is scanned in itself and all its threads know its total; the
// run joins `parts` such blocks:
//
//   Registers  block by block, in the thread
//   Lanes      by log2(parts) shuffles of the totals, and one that gives each block what is before it
//   Warps      through shared memory: each warp writes its totals, all wait at a barrier, each reads
//              those of all parts
//
// A block that lies wholly in the padding has no total. Padding is at the end, so a scan from the first
// element never meets it before an element; one from the last leaves it out.
#pragma once

#include "passes/gpu/along_axis.h"

#include <vector>

namespace libtile::passes {

struct ScanRun {
  enum class Kind : uint8_t { Registers, Lanes, Warps } kind;
  int32_t distance = 1;      // elements of a block
  int32_t parts = 1;         // blocks that are joined
  std::vector<int32_t> bits{}; // Lanes, Warps: of the coordinate; Lanes: neighbours, rising
  WarpScratch scratch{};       // Warps: of the threads' totals
};

struct ScanPlan {
  unsigned axis = 0;
  bool reverse = false;
  std::vector<ScanRun> runs;
  int64_t scratchBytes = 0;
};

// The scan op's operands have layouts, which are one.
[[nodiscard]] ScanPlan planScan(const ir::Function &fn, ir::OpId scan);

} // namespace libtile::passes
