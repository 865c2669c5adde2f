// SPDX-License-Identifier: Apache-2.0
// Ops whose elements come from any thread: through shared memory, as rows of the elements in row-major
// order. Also what lower_conversions needs for the same end: tiles as shared memory holds them.
//
//   gather %src, %i {axis}        %b = alloc; buffer_write %b, %src; buffer_gather %b, %i {axis, extents}
//   slice %src {axis, start, step}  (that moves data) the same without %i
//   histogram %i, %mask           %b = alloc; buffer_write %b, 0; buffer_count %b, %i, %mask; buffer_read %b
#pragma once

#include "ir/builder.h"

namespace libtile::passes {

// Requires: the laid-out stage. True: the op was one of these and is gone.
bool lowerAcross(ir::Function &fn, ir::OpId op);

// Shared memory holds numbers: i1 takes a byte, pointers are 64-bit integers. The type of the tile so.
[[nodiscard]] ir::Type storedType(const ir::Type &tile);
// The tile as one of that type, and back to `type`.
[[nodiscard]] ir::ValueId asStored(ir::Builder &builder, ir::ValueId value);
[[nodiscard]] ir::ValueId fromStored(ir::Builder &builder, ir::ValueId value, const ir::Type &type);

[[nodiscard]] ir::ValueId makeBuffer(ir::Builder &builder, std::span<const int32_t> shape,
                                     ir::Elem elem, const ir::Layout &layout);
void writeBuffer(ir::Builder &builder, ir::ValueId buffer, ir::ValueId value);

} // namespace libtile::passes
