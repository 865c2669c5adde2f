// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/banks.h"

#include <algorithm>

namespace emulator {
namespace {

// Lanes in the order in which they are served: the next one is the exclusive or of the entries that its number's bits choose.
using Order = std::array<unsigned, 6>;
constexpr Order kNeighbours = {1, 2, 4, 8, 16, 32};
constexpr Order kCrosswise = {1, 2, 20, 8, 16, 32}; // 0 to 3 with 20 to 23, 8 to 11 with 28 to 31, ...

struct Row {
  const char *targets;       // what their names begin with
  unsigned readBanks;        // as many as writes have, or twice
  Order reads;               // of 16 bytes
};
constexpr unsigned kWriteBanks = 32;
constexpr Row kRows[] = {
    {"gfx90a", 32, kCrosswise}, {"gfx942", 32, kCrosswise}, {"gfx950", 64, {1, 2, 12, 20, 16, 32}},
    {"gfx11", 32, kCrosswise},  {"gfx12", 32, kNeighbours},
};

const Row &rowOf(const Machine &machine) {
  const auto *row = std::ranges::find_if(kRows, [&](const Row &each) { return machine.target.starts_with(each.targets); });
  if (row == std::end(kRows)) {
    throw Fault("the banks of " + machine.target + "'s LDS are not known");
  }
  return *row;
}

} // namespace

Banks::Banks(const Machine &machine, unsigned bytes, bool isLoad) : bytes_(bytes) {
  const Row &row = rowOf(machine);
  banks_ = isLoad ? row.readBanks : kWriteBanks;
  const unsigned words = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4, lanes = banks_ / words;
  const Order &order = isLoad && words == 4 ? row.reads : kNeighbours;
  groups_.resize(std::max(1U, machine.lanes / lanes));
  for (unsigned i = 0; i < machine.lanes; ++i) {
    unsigned lane = 0;
    for (size_t bit = 0; bit < order.size(); ++bit) {
      lane ^= (i >> bit & 1) != 0 ? order[bit] : 0;
    }
    groups_[i / lanes] |= Mask{1} << lane;
  }
}

unsigned Banks::conflictsOf(const std::array<uint32_t, kMostLanes> &addresses, Mask group) const {
  std::array<uint32_t, 2 * kMostLanes> words;
  size_t count = 0;
  eachLane(group, [&](unsigned lane) {
    for (uint32_t word = addresses[lane] / 4; word <= (addresses[lane] + bytes_ - 1) / 4 && count < words.size(); ++word) {
      words[count++] = word;
    }
  });
  const auto end = words.begin() + static_cast<int64_t>(count);
  std::sort(words.begin(), end);
  std::array<unsigned, 64> used = {};
  std::for_each(words.begin(), std::unique(words.begin(), end), [&](uint32_t word) { ++used[word % banks_]; });
  return std::max(1U, *std::ranges::max_element(used)) - 1;
}

unsigned Banks::conflicts(const std::array<uint32_t, kMostLanes> &addresses, Mask lanes) const {
  unsigned cycles = 0;
  for (const Mask group : groups_) {
    cycles += conflictsOf(addresses, group & lanes);
  }
  return cycles;
}

} // namespace emulator
