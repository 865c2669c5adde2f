// SPDX-License-Identifier: Apache-2.0
// DPP: a source whose lanes come from others of the same row (ISA documents, "Data Parallel Processing").
#pragma once

#include "tests/amd/instruction.h"
#include "tests/amd/wave.h"

#include <array>

namespace emulator {

class Dpp {
public:
  Dpp(const Instruction &instruction, unsigned lanes);
  // Moves the lanes; the mask of those that may be written.
  Mask apply(const Wave &wave, Lanes &values) const;

private:
  std::array<uint8_t, kMostLanes> from_ = {};
  Mask valid_ = 0;   // lanes whose source exists
  Mask enabled_ = 0; // by row_mask and bank_mask
  bool zeroes_, fetchesInactive_;
};

} // namespace emulator
