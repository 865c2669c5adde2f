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
// (last axis fastest). Only the last repeat along an axis may reach past the tile ("padding"): a
// tile of 192 over subtiles of 64 has 3 repeats and no padding. Padded elements may hold anything,
// so reductions mask them and memory accesses never touch them.
//
// Shared-memory layouts are maps from Offset (in elements) with the same rules; a swizzle is an
// Offset basis with more than one coordinate set.
//
// After Zhou et al., "Linear Layouts", arXiv 2505.23819; the repeats are ours.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::ir {

enum class HwDim : uint8_t { Reg, Lane, Warp, Block, Offset };
inline constexpr unsigned kNumHwDims = 5;

// Coordinates of one element, one entry an axis.
using Coords = std::vector<int32_t>;

// Where an element is held.
struct Holder {
  int32_t reg = 0, lane = 0, warp = 0;
  friend bool operator==(const Holder &, const Holder &) = default;
};

class Layout {
public:
  // One basis a bit of the hardware coordinate, lowest bit first; each basis has `rank` entries.
  using Bases = std::vector<Coords>;

  Layout() = default;
  // subtile: powers of two. repeats: >= 1. Every basis lies inside the subtile; together they span
  // it.
  Layout(std::vector<int32_t> subtile, std::vector<int32_t> repeats,
         std::array<Bases, kNumHwDims> bases);

  // `vector` neighbours along order[0] to a thread (a power of two), then lanes along the axes in
  // that order, each axis as far as no padding arises; lanes left over then go where elements are
  // left over, and else hold replicas. Warps do the same in warpOrder (empty: order). Repeats take
  // the rest.
  static Layout blocked(std::span<const int32_t> shape, std::span<const int32_t> order,
                        int32_t vector, int32_t warps, std::span<const int32_t> warpOrder = {},
                        int32_t warpSize = 32);
  // The same, with more to say. `rows`: neighbours along order[1] that a thread has of each of its vectors, a power of two.
  // `lanesAlong`: lanes go along order[0] for so many first, and along it again when the other axes have theirs.
  struct Blocks {
    std::span<const int32_t> order;
    int32_t vector = 1, rows = 1;
    int32_t warps = 1, warpSize = 32;
    std::span<const int32_t> warpOrder = {};
    int32_t lanesAlong = std::numeric_limits<int32_t>::max();
  };
  static Layout blocked(std::span<const int32_t> shape, const Blocks &blocks);
  // The subtile grown by zero or more repeats, so that it covers the shape.
  [[nodiscard]] Layout coveringShape(std::span<const int32_t> shape) const;

  [[nodiscard]] unsigned rank() const { return subtile_.size(); }
  [[nodiscard]] std::span<const int32_t> subtile() const { return subtile_; }
  [[nodiscard]] std::span<const int32_t> repeats() const { return repeats_; }
  [[nodiscard]] const Bases &bases(HwDim dim) const { return bases_[unsigned(dim)]; }
  // Number of values of the coordinate: 2^bits; for Reg and Offset times the product of the
  // repeats.
  [[nodiscard]] int32_t size(HwDim dim) const;
  [[nodiscard]] int32_t subtileSize(HwDim dim) const { return 1 << bases(dim).size(); }
  // The layout covers `shape`: subtile * repeats >= shape > subtile * (repeats - 1) on each axis.
  [[nodiscard]] bool covers(std::span<const int32_t> shape) const;
  // On no axis the other one's padding ends further out. Requires equal ranks.
  [[nodiscard]] bool hasRoomFor(const Layout &other) const;

  // Where the element of (reg, lane, warp) lies; may lie in the padding.
  [[nodiscard]] Coords apply(int32_t reg, int32_t lane, int32_t warp) const;
  // The part of apply that comes from one hardware coordinate (linear: the parts XOR within the
  // subtile; for Reg and Offset the repeats are added).
  [[nodiscard]] Coords applyOne(HwDim dim, int32_t value) const;
  // Offset of an element; requires an Offset layout that is injective.
  [[nodiscard]] int32_t offsetOf(std::span<const int32_t> coords) const;
  // Inverse of apply: of the hardware coordinates that hold the element the canonical one
  // (canonicalBits), nullopt where the layout does not reach.
  [[nodiscard]] std::optional<Holder> holderOf(std::span<const int32_t> coords) const;
  // Bits of the hardware coordinate that are needed to reach every element; the others only make
  // replicas. A coordinate is canonical if its other bits are 0: each element has exactly one.
  // Bits are counted within the subtile, registers before lanes before warps.
  [[nodiscard]] int32_t canonicalBits(HwDim dim) const;

  // Axes permuted: result axis i is axis order[i].
  [[nodiscard]] Layout trans(std::span<const int64_t> order) const;
  // An axis of extent 1 inserted / an axis removed by projection: elements that differ only in it
  // become replicas. slice drops the repeats along the axis and keeps the registers of the subtile.
  [[nodiscard]] Layout expandDims(unsigned axis) const;
  [[nodiscard]] Layout slice(unsigned axis) const;
  // Registers that repeat another register's elements on every thread removed.
  [[nodiscard]] Layout withoutReplicatedRegs() const;
  // What a tile reduced along the axis has, and what broadcast along the axis asks of its operand.
  [[nodiscard]] Layout reduced(unsigned axis) const { return slice(axis).withoutReplicatedRegs(); }

  // "regs=[[0,1],[0,2]] lanes=[[1,0],[2,0]] warps=[] subtile=[4,4] repeats=[1,1]"; blocks= and
  // offsets= where there are any.
  [[nodiscard]] std::string str() const;
  // Inverse of str, blanks between the parts free; nullopt if the text is not a valid layout.
  static std::optional<Layout> parse(std::string_view text);
  friend bool operator==(const Layout &, const Layout &) = default;

private:
  std::vector<int32_t> subtile_;
  std::vector<int32_t> repeats_;
  std::array<Bases, kNumHwDims> bases_;
};

// Answers which coordinate holds an element, many times: the elimination is done once.
class LayoutInverse {
public:
  explicit LayoutInverse(const Layout &layout);
  // As Layout::holderOf and offsetOf.
  [[nodiscard]] std::optional<Holder> holderOf(std::span<const int32_t> coords) const;
  [[nodiscard]] int32_t offsetOf(std::span<const int32_t> coords) const;

private:
  struct Row {
    uint64_t lead, value, combination; // lead: the highest bit of value
  };
  // Splits coords into the bits of the coordinate within the subtile and the repeat index.
  [[nodiscard]] std::pair<uint64_t, int32_t> split(std::span<const int32_t> coords) const;
  const Layout layout_;
  std::vector<Row> rows_;
};

} // namespace libtile::ir
