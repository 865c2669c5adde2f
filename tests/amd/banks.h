// SPDX-License-Identifier: Apache-2.0
// LDS' banks. A word lies in the bank of its number; a bank serves one word a cycle, to any number of lanes. Hardware serves a wave in
// groups of lanes whose words fill the banks: 32 lanes of 4 bytes for 32 banks. Lanes of 16 bytes that CDNA 2 and 3 read go in groups
// of their own. (ROCm's documentation of Composable Kernel, "Understanding AMD GPU LDS and Bank Conflicts". gfx950 has 64 banks, and
// groups twice as large.) Atomics and exchanges between lanes are not looked at.
#pragma once

#include "tests/amd/vector_step.h"

namespace emulator {

class Banks {
public:
  // Of an access of `bytes` a lane.
  Banks(const Machine &machine, unsigned bytes, bool isLoad);
  // Cycles that the access takes with all words of each group in banks of their own.
  [[nodiscard]] unsigned cycles() const { return static_cast<unsigned>(groups_.size()); }
  // Cycles beyond those.
  [[nodiscard]] unsigned conflicts(const std::array<uint32_t, kMostLanes> &addresses, Mask lanes) const;

private:
  [[nodiscard]] unsigned conflictsOf(const std::array<uint32_t, kMostLanes> &addresses, Mask group) const;

  unsigned banks_, bytes_;
  std::vector<Mask> groups_;
};

} // namespace emulator
