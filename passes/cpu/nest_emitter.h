// SPDX-License-Identifier: Apache-2.0
// Makes nests of given shapes (nest_shapes.h); and the nest that stores a tile.
#pragma once

#include "passes/cpu/nest_shapes.h"

#include <functional>

namespace libtile::passes {

// Stores beforehand what a nest of these values at `position` cannot compute on its way.
void prepareExpression(NestState &state, ir::OpId position, const NestWork &work);

// The tile gets a buffer, written by a nest of its own before `position`, unless it has one. If the
// tile is defined in a block further out, the nest stands there, before the op around `position`: the
// buffer serves all later users, and nothing that the op contains writes what the tile's loads read
// (memory_order.h has stored them otherwise).
void storeTile(NestState &state, ir::ValueId tile, ir::OpId position);

// A nest before `position` over the shape's extents; indices come in their order, whatever the order of the loops. The
// body is closed after `body` returns.
using NestBody = std::function<void(ElementBuilder &, const ElementBuilder::Indices &)>;
void emitNest(NestState &state, ir::OpId position, NestShape &shape, const NestBody &body);
// The same with lanes that are no choice.
void emitNest(NestState &state, ir::OpId position, std::span<const int32_t> extents, LaneChoice fixed,
              const NestBody &body);
// prepareExpression, chosenShape and emitNest with the whole space as indices.
void emitNest(NestState &state, ir::OpId position, const NestWork &work, const NestBody &body);
// The loops alone, with `lanes` along an axis.
struct MadeNest {
  ir::OpId op;
  BodySize size;
};
MadeNest emitLoops(NestState &state, ir::OpId position, std::span<const int32_t> extents, LaneChoice choice,
                   const NestBody &body);

// Zeros in rows [rowFrom, rowTo) and columns [columnFrom, columnTo) of a buffer with two axes.
void zeroFill(NestState &state, ir::OpId position, ir::ValueId buffer, std::array<int32_t, 2> rows,
              std::array<int32_t, 2> columns);

} // namespace libtile::passes
