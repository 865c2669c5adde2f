// SPDX-License-Identifier: Apache-2.0
// Tiles in row-major order in a buffer of one axis: how a reshape moves data. It is written under
// one shape and read under the other,
//     flat index = sum of coordinate * stride,    offset = the buffer's layout of the flat index
// For extents that are no powers of two the flat index is no linear map over F2 of the thread's
// coordinates, so it is computed with integers; elements in the padding have no place of their own:
// they are not written, and what they read is open.
#pragma once

#include "passes/gpu/shared_layouts.h"

namespace libtile::passes {

struct FlatTile {
  const ir::Layout &layout;
  std::span<const int32_t> shape;
  // Row-major strides of the shape, in elements.
  [[nodiscard]] std::vector<int32_t> strides() const;
  // nullopt: in the padding.
  [[nodiscard]] std::optional<int32_t> indexOf(std::span<const int32_t> coords) const;
};

// The tile is reached in the buffer by its flat index, not by its own axes.
[[nodiscard]] bool isFlat(const ir::Layout &registers, const ir::Layout &buffer);

// Neighbours that one thread takes at once, with their register bits.
[[nodiscard]] BufferAccess flatAccess(const FlatTile &tile, const ir::Layout &buffer,
                                      int32_t elementBytes);
// Parts of the first accesses of the first warp beyond the least that their bytes need.
[[nodiscard]] int64_t flatConflicts(const FlatTile &tile, const ir::Layout &buffer,
                                    int32_t elementBytes);

// A buffer for the elements of both tiles, swizzled where that avoids bank conflicts.
[[nodiscard]] ir::Layout chooseFlatBuffer(const FlatTile &writer, const FlatTile &reader,
                                          int32_t elementBytes);

} // namespace libtile::passes
