// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/flat_buffers.h"

#include "ir/diagnostic.h"

#include <algorithm>
#include <bit>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;

// Registers of a warp that are looked at to judge a buffer.
constexpr int32_t kSample = 8;

bool movesBelow(const Layout::Bases &bases, unsigned axis, int32_t width) {
  return std::ranges::any_of(bases,
                             [&](const Coords &basis) { return (basis[axis] & (width - 1)) != 0; });
}

// The buffer keeps aligned groups of `width` flat indices together, in order.
bool keepsTogether(const Layout &buffer, int32_t width) {
  const Layout::Bases &bases = buffer.bases(HwDim::Offset);
  for (size_t bit = 0; bit < bases.size(); ++bit) {
    const int32_t low = bases[bit][0] & (width - 1);
    if (low != (1 << bit < width ? 1 << bit : 0)) {
      return false;
    }
  }
  return 1 << bases.size() >= width;
}

// Register bits along the last axis that count the elements of a group; one fewer than asked where
// the group would not start at a multiple of its size everywhere.
std::vector<int32_t> groupBits(const FlatTile &tile, int32_t width) {
  const auto axis = tile.layout.rank() - 1;
  const Layout::Bases &registers = tile.layout.bases(HwDim::Reg);
  std::vector<int32_t> bits;
  Layout::Bases others = registers;
  for (int32_t step = 1; step < width; step *= 2) {
    Coords wanted(tile.layout.rank(), 0);
    wanted[axis] = step;
    const auto found = std::ranges::find(registers, wanted);
    if (found == registers.end()) {
      return {};
    }
    bits.push_back(static_cast<int32_t>(found - registers.begin()));
    others[static_cast<size_t>(bits.back())][axis] = 0;
  }
  const bool apart = !movesBelow(others, axis, width) &&
                     !movesBelow(tile.layout.bases(HwDim::Lane), axis, width) &&
                     !movesBelow(tile.layout.bases(HwDim::Warp), axis, width);
  return apart ? bits : std::vector<int32_t>();
}

int64_t conflictsOf(const FlatTile &tile, const Layout &buffer, const BufferAccess &access,
                    int32_t elementBytes) {
  const ir::LayoutInverse inverse(buffer);
  const int32_t bytes = access.elements * elementBytes;
  int32_t within = 0;
  for (const int32_t bit : access.registerBits) {
    within |= 1 << bit;
  }
  int64_t conflicts = 0;
  int32_t seen = 0;
  for (int32_t reg = 0; reg < tile.layout.size(HwDim::Reg) && seen < kSample; ++reg) {
    if ((reg & within) != 0) {
      continue;
    }
    ++seen;
    std::vector<int32_t> addresses;
    for (int32_t lane = 0; lane < tile.layout.size(HwDim::Lane); ++lane) {
      if (const auto index = tile.indexOf(tile.layout.apply(reg, lane, 0))) {
        const Coords flat = {*index};
        addresses.push_back(inverse.offsetOf(flat) * elementBytes);
      }
    }
    const auto lanes = static_cast<int32_t>(addresses.size());
    const int32_t least = std::max(1, (lanes * bytes + 127) / 128);
    conflicts += lanes == 0 ? 0 : std::max(0, bankParts(addresses, bytes) - least);
  }
  return conflicts;
}

Layout flatBuffer(int32_t elements, int32_t elementBytes, const Swizzle &swizzle) {
  const int32_t plain = std::max(2, 16 / elementBytes);
  const int32_t subtile[] = {swizzle.bits == 0 ? plain : 1 << (swizzle.shift + swizzle.bits)};
  const int32_t shape[] = {elements}, order[] = {0};
  return bufferLayout(shape, subtile, order, swizzle);
}

} // namespace

std::vector<int32_t> FlatTile::strides() const {
  std::vector<int32_t> result(shape.size());
  int32_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    result[d] = stride;
    stride *= shape[d];
  }
  return result;
}

std::optional<int32_t> FlatTile::indexOf(std::span<const int32_t> coords) const {
  int32_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (coords[d] >= shape[d]) {
      return std::nullopt;
    }
    index = index * shape[d] + coords[d];
  }
  return index;
}

bool isFlat(const Layout &registers, const Layout &buffer) {
  return buffer.rank() == 1 &&
         (registers.rank() != 1 || registers.subtile()[0] > buffer.subtile()[0]);
}

BufferAccess flatAccess(const FlatTile &tile, const Layout &buffer, int32_t elementBytes) {
  for (int32_t width = 16 / elementBytes; width > 1; width /= 2) {
    // Rows then start at multiples of the width too, and padding is made of whole groups.
    if (tile.shape.back() % width == 0 && keepsTogether(buffer, width)) {
      if (std::vector<int32_t> bits = groupBits(tile, width); !bits.empty()) {
        return {AccessKind::Vector, width, std::move(bits)};
      }
    }
  }
  return {};
}

int64_t flatConflicts(const FlatTile &tile, const Layout &buffer, int32_t elementBytes) {
  return conflictsOf(tile, buffer, flatAccess(tile, buffer, elementBytes), elementBytes);
}

Layout chooseFlatBuffer(const FlatTile &writer, const FlatTile &reader, int32_t elementBytes) {
  int32_t elements = 1;
  for (const int32_t extent : writer.shape) {
    elements *= extent;
  }
  // Accesses per warp and conflicts, each as parts.
  const auto costOf = [&](const Layout &buffer) {
    int64_t cost = 0;
    for (const FlatTile *tile : {&writer, &reader}) {
      const BufferAccess access = flatAccess(*tile, buffer, elementBytes);
      const int64_t accesses = tile->layout.size(HwDim::Reg) / access.elements;
      const int64_t sampled = std::min<int64_t>(accesses, kSample);
      cost += accesses + conflictsOf(*tile, buffer, access, elementBytes) * accesses / sampled;
    }
    return cost;
  };
  Layout best = flatBuffer(elements, elementBytes, {});
  if (flatConflicts(writer, best, elementBytes) + flatConflicts(reader, best, elementBytes) == 0) {
    return best;
  }
  int64_t bestCost = costOf(best);
  const auto positionBits = static_cast<int32_t>(std::bit_width(static_cast<uint32_t>(elements)));
  for (const Swizzle &swizzle : swizzles(elementBytes, positionBits)) {
    if (swizzle.rotation != 0) {
      continue;
    }
    Layout buffer = flatBuffer(elements, elementBytes, swizzle);
    if (const int64_t cost = costOf(buffer); cost < bestCost) {
      bestCost = cost;
      best = std::move(buffer);
    }
  }
  return best;
}

} // namespace libtile::passes
