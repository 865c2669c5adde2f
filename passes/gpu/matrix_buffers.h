// SPDX-License-Identifier: Apache-2.0
// Buffers that a unit reads by itself, several warps together (wgmma): how an operand must lie in shared
// memory, and how the unit is told where it lies.
//
// An operand is stored in rows of 32, 64 or 128 bytes along one of its axes, the fast one. With p the byte
// at which an element would lie were its rows simply one behind the other, eight rows a group,
//     byte = p XOR (bits 7.. of p, one for 32-byte rows, two for 64, three for 128) << 4
// A fast axis longer than a row goes on in a next block of rows. Such a map is a Layout from
// HwDim::Offset, into which threads write like into any other; the unit needs its start at a multiple of
// kMatrixAlignment.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <optional>
#include <span>

namespace libtile::passes {

inline constexpr int32_t kMatrixAlignment = 1024; // bytes

// The unit reads what it takes from shared memory by itself: b, and a unless it takes that from registers.
[[nodiscard]] bool readsByItself(const ir::DotUnit &unit);
// The warps that issue one instruction together, along the rows of the accumulator.
[[nodiscard]] int32_t warpsTogether(const ir::DotUnit &unit);

// The tile that this one is, but for the order of axes: a buffer of it serves both.
[[nodiscard]] ir::ValueId untransposed(const ir::Function &fn, ir::ValueId tile);

// Which axis of a dot's operand the unit wants side by side in shared memory; nullopt: it takes either.
[[nodiscard]] std::optional<unsigned> fastAxisOf(const ir::DotUnit &unit, unsigned operand);
// The same of what a transposition takes, given that of what it makes.
[[nodiscard]] std::optional<unsigned> throughTrans(const ir::Function &fn, ir::OpId trans, std::optional<unsigned> axis);
// Units that read the tile from shared memory by themselves, maybe transposed, can read a buffer of it whose elements
// lie side by side along the axis.
[[nodiscard]] bool canLieAlong(const ir::Function &fn, ir::ValueId tile, unsigned axis, const ir::Target &target);

// The buffer for a tile with two axes that threads write and read under the layouts `threads`, with room for their
// padding.
[[nodiscard]] ir::Layout matrixLayout(std::span<const int32_t> shape, unsigned fastAxis, int32_t elementBytes,
                                      std::span<const ir::Layout> threads);

// What a unit is told of a part of an operand: where it starts, how long a row is, and from there how far the next
// row block along the fast axis (`leading`) and the next eight rows (`stride`) are. All in bytes.
struct MatrixWalk {
  unsigned fastAxis = 0;
  int32_t start = 0, rowBytes = 0, leading = 0, stride = 0;
  // The byte of the part's element at `fast` and `slow` from its first one: what the unit reads.
  [[nodiscard]] int32_t byteOf(int32_t fast, int32_t slow, int32_t elementBytes) const;
};
// For the part of `extents` at `first`; nothing where the buffer is not laid out so.
[[nodiscard]] std::optional<MatrixWalk> matrixWalk(const ir::Layout &buffer, const ir::Coords &first,
                                                   const ir::Coords &extents, int32_t elementBytes);

// The op ends writes of threads that a unit or a store of a box reads by itself behind the next barrier: threads have to
// publish them first. An async_wait or a buffer_write.
[[nodiscard]] bool publishes(const ir::Function &fn, ir::OpId op, const ir::Target &target);

} // namespace libtile::passes
