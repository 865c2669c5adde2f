// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/swizzles.h"

#include "ir/diagnostic.h"

#include <llvm/Support/MathExtras.h>

#include <algorithm>

namespace libtile::passes {

using ir::Coords;
using ir::HwDim;
using ir::Layout;

std::vector<Swizzle> swizzles(int32_t elementBytes, int32_t positionBits, int32_t rowBytes) {
  std::vector<Swizzle> result = {{}}, folded;
  for (int32_t unitBytes = 16; unitBytes >= std::max(elementBytes, 4); unitBytes /= 2) {
    const auto unit = static_cast<int32_t>(llvm::Log2_64(unitBytes / elementBytes));
    for (int32_t bits = 1; bits <= static_cast<int32_t>(llvm::Log2_64(rowBytes / unitBytes)); ++bits) {
      for (int32_t shift = unit + bits; shift + bits <= positionBits; ++shift) {
        for (int32_t rotation = 0; rotation < bits; ++rotation) {
          result.push_back({unit, bits, shift, rotation});
          if (bits > 1 && shift + bits < positionBits) {
            folded.push_back({unit, bits, shift, rotation, true});
          }
        }
      }
    }
  }
  result.insert(result.end(), folded.begin(), folded.end());
  return result;
}

int32_t Swizzle::apply(int32_t position) const {
  const int32_t mask = (1 << bits) - 1;
  const int32_t row = (position >> shift ^ (folded ? position >> (shift + bits - 1) : 0)) & mask;
  const int32_t rotated = bits == 0 ? 0 : (row << rotation | row >> (bits - rotation)) & mask;
  return position ^ rotated << unit;
}

Layout bufferLayout(std::span<const int32_t> shape, std::span<const int32_t> subtile,
                    std::span<const int32_t> order, Swizzle swizzle) {
  unsigned total = 0;
  for (const int32_t extent : subtile) {
    total += llvm::Log2_64(extent);
  }
  ir::check(swizzle.bits == 0 || swizzle.shift >= swizzle.unit + swizzle.bits,
            "a swizzle reads rows above the units it permutes");
  std::array<Layout::Bases, ir::kNumHwDims> bases;
  for (unsigned bit = 0; bit < total; ++bit) {
    int32_t position = swizzle.apply(1 << bit);
    Coords coords(subtile.size(), 0);
    for (const int32_t axis : order) {
      const int32_t extent = subtile[static_cast<size_t>(axis)];
      coords[static_cast<size_t>(axis)] = position & (extent - 1);
      position /= extent;
    }
    bases[unsigned(HwDim::Offset)].push_back(std::move(coords));
  }
  const std::vector<int32_t> once(subtile.size(), 1);
  return Layout({subtile.begin(), subtile.end()}, once, std::move(bases)).coveringShape(shape);
}

Layout ringLayout(const Layout &slot, int32_t depth) {
  const Layout wide = slot.expandDims(0);
  std::vector<int32_t> repeats(wide.repeats().begin(), wide.repeats().end());
  repeats[0] = depth;
  std::array<Layout::Bases, ir::kNumHwDims> bases;
  bases[unsigned(HwDim::Offset)] = wide.bases(HwDim::Offset);
  return Layout({wide.subtile().begin(), wide.subtile().end()}, std::move(repeats),
                std::move(bases));
}

} // namespace libtile::passes
