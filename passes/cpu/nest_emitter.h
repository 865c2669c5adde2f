// SPDX-License-Identifier: Apache-2.0
// Makes nests: which dimension gets the lanes, how many, in which order the others go; and the nest
// that stores a tile.
#pragma once

#include "passes/cpu/element_builder.h"

#include <functional>

namespace libtile::passes {

// The values that one nest computes over one space, and the addresses that it accesses itself.
struct NestWork {
  std::span<const int32_t> shape;
  llvm::SmallVector<ir::ValueId, 4> values{};   // of that shape
  llvm::SmallVector<ir::ValueId, 2> pointers{}; // of that shape: stores
  int32_t bufferWrites = 0;                   // to buffers of that shape
  int reducedAxis = -1;                       // folded: lanes along it cost a join at the end
  bool inOrder = false;                       // no lanes along it: lefts must come before rights
};

struct LaneChoice {
  unsigned axis = 0;
  int32_t lanes = 1;
  bool unrolls = false; // single elements, too
};
[[nodiscard]] LaneChoice chooseLanes(const NestState &state, const NestWork &work);
// Lanes along an axis of this extent, for elements as wide as the widest that the values have.
[[nodiscard]] int32_t lanesFor(const NestState &state, std::span<const ir::ValueId> values,
                               int32_t extent);
// 4, 2 or 1 vectors at once, by the size of the body; around a sunk loop as many as have registers for
// what it carries.
[[nodiscard]] int32_t unrollFor(const NestState &state, BodySize size, int32_t extent, int32_t lanes);

// Stores beforehand what a nest of these values at `position` cannot compute on its way.
void prepareExpression(NestState &state, ir::OpId position, const NestWork &work);

// The tile gets a buffer, written by a nest of its own before `position`, unless it has one. If the
// tile is defined in a block further out, the nest stands there, before the op around `position`: the
// buffer serves all later users, and nothing that the op contains writes what the tile's loads read
// (memory_order.h has stored them otherwise).
void storeTile(NestState &state, ir::ValueId tile, ir::OpId position);

// A nest before `position` over `extents`; indices come in the order of `extents`, whatever the order
// of the loops. `last` names the dimension with the lanes. The body is closed after `body` returns.
using NestBody = std::function<void(ElementBuilder &, const ElementBuilder::Indices &)>;
void emitNest(NestState &state, ir::OpId position, std::span<const int32_t> extents,
              LaneChoice choice, const NestBody &body);
// prepareExpression, chooseLanes and emitNest with the whole space as indices.
void emitNest(NestState &state, ir::OpId position, const NestWork &work, const NestBody &body);

// Zeros in rows [rowFrom, rowTo) and columns [columnFrom, columnTo) of a buffer with two axes.
void zeroFill(NestState &state, ir::OpId position, ir::ValueId buffer, std::array<int32_t, 2> rows,
              std::array<int32_t, 2> columns);

} // namespace libtile::passes
