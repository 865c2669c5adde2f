// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/narrow_boxes.h"

#include "passes/gpu/live_tiles.h"
#include "passes/gpu/plan_registers.h"

#include <algorithm>

namespace libtile::passes {

bool areNarrow(const ir::Function &fn, const LoopPlan &plan, const PassContext &context) {
  if (context.copiesNarrow || plan.loads.empty() || !std::ranges::all_of(plan.loads, [](const PlannedLoad &load) { return load.box.has_value(); })) {
    return false;
  }
  // Threads take as long for a tile that has less for each of them than it can copy at once.
  const int64_t ofThreads = int64_t{fn.numWarps} * context.target.warpSize * context.target.maxVectorBytes;
  int64_t bytes = 0, rows = 0;
  for (const PlannedLoad &load : plan.loads) {
    const int64_t rowBytes = int64_t{load.box->map.dims.back().box} * ir::bitWidth(load.box->map.elem) / 8;
    bytes += std::max(load.slotBytes, ofThreads);
    rows += load.slotBytes / rowBytes;
  }
  const int64_t sums = liveSums(fn) / (int64_t{fn.numWarps} * context.target.warpSize);
  return bytes < rows * context.target.leastBoxRow && !computesWithSums(fn, plan.loop) && programsByRegisters(sums, fn.numWarps, context.target) > 1;
}

bool areCopied(const LoopPlan &plan, size_t loads) {
  return plan.loads.size() == loads && std::ranges::none_of(plan.loads, &PlannedLoad::byRegisters);
}

} // namespace libtile::passes
