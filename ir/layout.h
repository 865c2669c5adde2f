// SPDX-License-Identifier: Apache-2.0
// Layouts: which hardware coordinate holds which element of a tile.
//
// A layout is a linear map over F2 from hardware coordinates to the coordinates of a power-of-two
// *subtile*, times a repeat count (any integer) for each axis:
//
//   element(reg, lane, warp)[d] = repeat(reg)[d] * subtile[d] + XOR of the bases of the set bits
//
// A basis is where one bit of a hardware coordinate moves the element to. Example, a 4x4 subtile
// over 2 register bits and 2 lane bits: reg bases {(0,1), (0,2)}, lane bases {(1,0), (2,0)} give
// each lane one whole row, four elements to a lane:
//
//            col 0  1  2  3
//   row 0  lane0: r0 r1 r2 r3
//   row 1  lane1: r0 r1 r2 r3
//   ...
//
// A zero basis means replication: the coordinates that differ in that bit hold the same element.
// The map is from hardware to element because replication must be expressible; where the map is
// injective it can be inverted.
//
// Repeats are registers beyond those of the subtile: register index = repeat index * subtile
// registers + register of the subtile, where the repeat index counts the repeats in row-major order
// (last axis fastest). Only the last repeat along an axis may reach past the tile ("padding"): a tile
// of 192 over subtiles of 64 has 3 repeats and no padding. Padded elements may hold anything, so
// reductions mask them and memory accesses never touch them.
//
// Shared-memory layouts are maps from Offset (in elements) with the same rules; a swizzle is an
// Offset basis with more than one coordinate set.
//
// After Zhou et al., "Linear Layouts", arXiv 2505.23819; the repeats are ours.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace libtile::ir {

enum class HwDim : uint8_t { Reg, Lane, Warp, Block, Offset };
inline constexpr unsigned kNumHwDims = 5;

// Coordinates of one element, one entry an axis.
using Coords = std::vector<int32_t>;

class Layout {
public:
  // One basis a bit of the hardware coordinate, lowest bit first; each basis has `rank` entries.
  using Bases = std::vector<Coords>;

  Layout() = default;
  // subtile: powers of two. repeats: >= 1. Every basis lies inside the subtile; together they span it.
  Layout(std::vector<int32_t> subtile, std::vector<int32_t> repeats,
         std::array<Bases, kNumHwDims> bases);

  [[nodiscard]] unsigned rank() const { return subtile_.size(); }
  [[nodiscard]] std::span<const int32_t> subtile() const { return subtile_; }
  [[nodiscard]] std::span<const int32_t> repeats() const { return repeats_; }
  [[nodiscard]] const Bases &bases(HwDim dim) const { return bases_[unsigned(dim)]; }
  // Number of values of the coordinate: 2^bits; for Reg and Offset times the product of the repeats.
  [[nodiscard]] int32_t size(HwDim dim) const;
  [[nodiscard]] int32_t subtileSize(HwDim dim) const { return 1 << bases(dim).size(); }
  // The layout covers `shape`: subtile * repeats >= shape > subtile * (repeats - 1) on each axis.
  [[nodiscard]] bool covers(std::span<const int32_t> shape) const;

  // Where the element of (reg, lane, warp) lies; may lie in the padding.
  [[nodiscard]] Coords apply(int32_t reg, int32_t lane, int32_t warp) const;
  // The part of apply that comes from one hardware coordinate (linear: the parts XOR within the
  // subtile; for Reg and Offset the repeats are added).
  [[nodiscard]] Coords applyOne(HwDim dim, int32_t value) const;
  // Offset of an element; requires an Offset layout that is injective.
  [[nodiscard]] int32_t offsetOf(std::span<const int32_t> coords) const;

  // Axes permuted: result axis i is axis order[i].
  [[nodiscard]] Layout trans(std::span<const int64_t> order) const;
  // An axis of extent 1 inserted / an axis removed by projection (elements that differ only in it
  // become replicas), without dropping registers.
  [[nodiscard]] Layout expandDims(unsigned axis) const;
  [[nodiscard]] Layout slice(unsigned axis) const;
  // Registers that repeat another register's elements on every thread removed.
  [[nodiscard]] Layout withoutReplicatedRegs() const;

  // "regs=[[0,1],[0,2]] lanes=[[1,0],[2,0]] warps=[] subtile=[4,4] repeats=[1,1]"; parse inverts it.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const Layout &, const Layout &) = default;

private:
  std::vector<int32_t> subtile_;
  std::vector<int32_t> repeats_;
  std::array<Bases, kNumHwDims> bases_;
};

} // namespace libtile::ir
