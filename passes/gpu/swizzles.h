// SPDX-License-Identifier: Apache-2.0
// Layouts of shared memory.
//
// A buffer is stored row-major by subtiles; inside a subtile the order of axes is free and the
// offset of an element is swizzled: with p its position in that order,
//     offset = p XOR (rotate((p >> shift) & (2^bits - 1)) << unit)
// which permutes units of 2^unit elements within a row by the low bits of the row (rotated within
// `bits` by `rotation`). Folded, the row's bits from the last of these on are added to them (XOR), for
// threads that write rows at a distance of each other and read neighbours, or the other way round. Such a map is a Layout from
// HwDim::Offset.
#pragma once

#include "ir/layout.h"

#include <span>
#include <vector>

namespace libtile::passes {

struct Swizzle {
  int32_t unit = 0, bits = 0, shift = 0, rotation = 0;
  bool folded = false; // with bits > 1
  // Position to offset, and back: the bits moved lie below those they come from.
  [[nodiscard]] int32_t apply(int32_t position) const;
};

// Swizzles worth a try on positions of so many bits: units of 4 to 16 bytes, within rows of at most
// `rowBytes`. The first is none, the last ones are folded.
[[nodiscard]] std::vector<Swizzle> swizzles(int32_t elementBytes, int32_t positionBits, int32_t rowBytes = 128);

// subtile: powers of two; order[0] is the axis whose elements lie side by side.
[[nodiscard]] ir::Layout bufferLayout(std::span<const int32_t> shape,
                                      std::span<const int32_t> subtile,
                                      std::span<const int32_t> order, Swizzle swizzle = {});
// The buffer with a leading axis of `depth` slots, one behind the other.
[[nodiscard]] ir::Layout ringLayout(const ir::Layout &slot, int32_t depth);

} // namespace libtile::passes
