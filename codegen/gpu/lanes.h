// SPDX-License-Identifier: Apache-2.0
// Exchanges of words between the lanes of a warp.
#pragma once

#include <llvm/IR/Value.h>

#include <cstdint>
#include <vector>

namespace libtile::codegen::gpu {

// For each lane of a warp the lanes whose word it may get, as a set: any of them will do.
using LaneSources = std::vector<uint64_t>;
// Of a lane at whose word nobody looks.
inline constexpr uint64_t kAnyLane = ~uint64_t{0};
constexpr uint64_t onlyLane(int32_t lane) { return uint64_t{1} << lane; }

template <class Sources> LaneSources laneSources(int32_t lanes, Sources of) {
  LaneSources out;
  for (int32_t lane = 0; lane < lanes; ++lane) {
    out.push_back(of(lane));
  }
  return out;
}

struct LaneExchange {
  // The word of the lane XOR the operand, or of the lane that the operand names.
  enum class Mode : uint8_t { Xor, From } mode;
  llvm::Value *operand; // i32
  LaneSources sources;  // what is asked for, of which that word is one choice; empty: known at run time only
};

} // namespace libtile::codegen::gpu
