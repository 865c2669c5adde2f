// SPDX-License-Identifier: Apache-2.0
// LDS' banks. A word lies in the bank of its number; a bank serves one word a cycle, to any number of lanes. Hardware serves a wave in
// groups of lanes whose words fill the banks: 32 lanes of 4 bytes for 32 banks. Reads of 16 bytes have groups of their own, and CDNA 4
// reads from 64 banks what it writes to 32.
//
// Groups and banks of reads were measured on MI300X, MI350X, W7900 and RX 9070 XT (nod-ai/amd-shark-ai, docs/empirical-lds), those of
// CDNA 4's writes on MI355X (HazyResearch/HipKittens, analysis/paper_experiments/phases). Others are taken to be like them: CDNA 2 like
// CDNA 3, and 16 bytes are written as 8 are. Atomics and exchanges between lanes are not looked at.
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

  unsigned banks_ = 0, bytes_;
  std::vector<Mask> groups_;
};

} // namespace emulator
