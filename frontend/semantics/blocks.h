// SPDX-License-Identifier: Apache-2.0
// Block pointers and tensor descriptors: aggregates of the language that say where blocks of a strided
// array lie. They stay what they are until an access expands them into a tile of pointers and a mask.
//
//   block pointer      base, shape, strides, offsets, block_shape, order
//   tensor descriptor  base, shape, strides, block_shape, padding, round_f32_to_tf32
//
// base is a scalar pointer. shape, strides and offsets are tuples of scalars, one an axis: strides, in
// elements, and the shape of a block pointer int64; the others int32, or int64 if they are given as a type
// that int32 does not hold. block_shape and order are tuples of constants, padding is a constant text.
#pragma once

#include "frontend/semantics/operations.h"

namespace libtile::frontend {

[[nodiscard]] bool isBlockPointer(const Value &value);
[[nodiscard]] bool isDescriptor(const Value &value);

// A tile of pointers, the mask of the elements that lie in the array, and what the others are.
struct BlockAccess {
  Value pointers;
  Value mask;  // None: all
  Value other; // None: 0
};
// `boundaryCheck`: the axes along which the block may leave the array, a tuple of constants or one;
// `padding`: what is there, "zero", "nan" (floats) or "".
BlockAccess accessBlock(Semantics &s, const Aggregate &pointer, const Value &boundaryCheck,
                        const Value &padding);

// "pointer to a block fp32[8, 16]", for messages; empty for other aggregates.
std::string describeBlock(const Aggregate &block);

// dtype, type and methods of the two; unbound if there is none of that name.
Value blockAttribute(const Aggregate &block, const std::string &name);

// A descriptor of these fields, which come from outside of the kernel.
Value hostDescriptor(Semantics &s, const Aggregate &fields);

} // namespace libtile::frontend
