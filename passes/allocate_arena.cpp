// SPDX-License-Identifier: Apache-2.0
#include "passes/allocate_arena.h"

#include <algorithm>
#include <numeric>

namespace libtile::passes {

namespace {

bool meet(const Lifetime &a, const Lifetime &b) { return a.start <= b.end && b.start <= a.end; }

int64_t alignUp(int64_t value, int64_t align) { return (value + align - 1) / align * align; }

// The lowest offset for `self` beside the placed buffers that live at the same time; `placed` is
// sorted by offset.
int64_t lowestFree(std::span<const Lifetime> lifetimes, const std::vector<size_t> &placed,
                   const std::vector<int64_t> &offsets, const Lifetime &self) {
  int64_t offset = 0;
  for (size_t other : placed) {
    if (!meet(lifetimes[other], self)) {
      continue;
    }
    if (offset + self.bytes <= offsets[other]) {
      break;
    }
    offset = std::max(offset, alignUp(offsets[other] + lifetimes[other].bytes, self.align));
  }
  return offset;
}

} // namespace

ArenaPlan allocateArena(std::span<const Lifetime> lifetimes) {
  ArenaPlan plan;
  plan.offsets.assign(lifetimes.size(), 0);
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<size_t> placed;
  for (size_t index : order) {
    const Lifetime &self = lifetimes[index];
    if (self.bytes == 0) {
      continue;
    }
    plan.offsets[index] = lowestFree(lifetimes, placed, plan.offsets, self);
    plan.bytes = std::max(plan.bytes, plan.offsets[index] + self.bytes);
    const auto position =
        std::upper_bound(placed.begin(), placed.end(), index, [&](size_t a, size_t b) {
          return plan.offsets[a] < plan.offsets[b];
        });
    placed.insert(position, index);
  }
  return plan;
}

} // namespace libtile::passes
