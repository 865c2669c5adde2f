// SPDX-License-Identifier: Apache-2.0
// How a tile gets from one layout to another, as data: derived from the two layouts and from how shared memory is read,
// simulated on the host by the tests, emitted by code generation. The cheapest kind that can do it
// is taken:
//
//   Registers  every thread already holds what it needs: registers are renamed
//   Shuffles   the data stays inside each warp: one shuffle for each register, or for elements side by side in a word that go to
//              one lane. The lane that receives names the lane it takes from; the lane that sends chooses which register it
//              shows. Both are affine maps of the lane over F2
//   Exchanges  the data stays inside each warp, and a lane needs several registers of another one: bits of the lane change
//              places with bits of the register, one after the other. Each time lanes that differ in the bit swap half of
//              their registers, by a shuffle for two registers. Elements side by side in a word stay together
//   Shared     written to a buffer under one layout and read under the other
#pragma once

#include "ir/layout.h"
#include "passes/gpu/shared_layouts.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace libtile::passes {

// An affine map of the lane over F2: base XOR the columns of the lane's set bits.
struct LaneMap {
  int32_t base = 0;
  std::array<int32_t, 6> columns{};
  [[nodiscard]] int32_t at(int32_t lane) const;
  [[nodiscard]] bool isConstant() const;
  friend bool operator==(const LaneMap &, const LaneMap &) = default;
};

struct Conversion {
  enum class Kind : uint8_t { Registers, Shuffles, Exchanges, Shared };
  // For one register of the result: the lane l gets the register firstRegister + send.at(source) of
  // the lane source = lane.at(l).
  struct Shuffle {
    int32_t firstRegister = 0;
    LaneMap lane, send;
    // Of the lane 0.
    [[nodiscard]] int32_t shown() const { return firstRegister + send.base; }
  };
  // The register whose bit differs from the lane's goes to the lane that differs in its bit, and one of that lane's comes.
  struct Exchange {
    int32_t laneBit = 0, registerBit = 0;
  };

  Kind kind = Kind::Registers;
  std::vector<int32_t> registers;  // Registers, Exchanges (behind them): for each register of the result its source
  std::vector<Shuffle> shuffles;   // Shuffles: for each register of the result
  std::vector<Exchange> exchanges; // Exchanges
  int32_t perWord = 1;             // Shuffles, Exchanges: registers that stay together, a power of two
  ir::Layout buffer;               // Shared
  BufferAccess write, read;        // Shared
};

// The layout with other bases of registers and lanes.
[[nodiscard]] ir::Layout withBases(const ir::Layout &layout, ir::Layout::Bases registers, ir::Layout::Bases lanes);

// Both layouts cover the shape.
[[nodiscard]] Conversion planConversion(const ir::Layout &from, const ir::Layout &to,
                                        std::span<const int32_t> shape, int32_t elementBytes, const ir::SharedReads &reads);

// Runs the plan on the host. `data[(warp * lanes + lane) * registers + register]`, elements that
// are unknown are negative.
[[nodiscard]] std::vector<int64_t> simulate(const Conversion &conversion, const ir::Layout &from,
                                            const ir::Layout &to, std::span<const int64_t> data);

} // namespace libtile::passes
