// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/banks.h"

#include <algorithm>

namespace emulator {

Banks::Banks(const Machine &machine, unsigned bytes, bool isLoad) : banks_(machine.target == "gfx950" ? 64 : 32), bytes_(bytes) {
  const unsigned words = bytes <= 4 ? 1 : bytes <= 8 ? 2 : 4, lanes = banks_ / words;
  // Half a group from one sixteen of lanes, half from the next one, crosswise: 0-3 with 20-23, 4-7 with 16-19.
  const bool isCrosswise = machine.isCdna && banks_ == 32 && words == 4 && isLoad;
  for (unsigned first = 0; first < machine.lanes; first += lanes) {
    groups_.push_back(((Mask{1} << (lanes - 1) << 1) - 1) << first);
  }
  for (unsigned i = 0; isCrosswise && i < groups_.size(); ++i) {
    const unsigned low = i / 4 * 32 + i % 4 * 4, high = i / 4 * 32 + 16 + ((i % 4) ^ 1) * 4;
    groups_[i] = Mask{15} << low | Mask{15} << high;
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
