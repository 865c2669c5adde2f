// SPDX-License-Identifier: Apache-2.0
// Instructions that move words between lanes without an address in LDS, chosen by what each lane asks for (ISA documents, "Data
// Parallel Processing", and the chapters on V_READLANE, V_PERMLANE and DS_SWIZZLE).
#pragma once

#include "codegen/gpu/lanes.h"

#include <optional>

namespace libtile::codegen::amd {

enum class LaneSet : uint8_t { Cdna, Cdna4, Rdna3, Rdna4 };

struct LaneMove {
  enum class Kind : uint8_t {
    Dpp,        // control: as the instruction has it
    ReadLane,   // control: the lane that all read
    ReadHalves, // control: the lane that the lower 32 read; high: the one that the upper 32 read
    PermuteRow, // control, high: the lane in the own row of 16, four bits each, for the lower and upper eight of a row
    PermuteRows, // the same in the other row of two
    SwapGroups, // control: lanes of a group, 16 or 32, that changes places with its neighbour
    Swizzle,    // control: the instruction's offset
  } kind;
  uint32_t control;
  uint32_t high = 0;
};

// One after the other, each reading what the one before it left; nullopt: no cheap ones.
[[nodiscard]] std::optional<std::vector<LaneMove>> laneMoves(const gpu::LaneSources &sources, LaneSet set);

} // namespace libtile::codegen::amd
