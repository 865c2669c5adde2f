// SPDX-License-Identifier: Apache-2.0
// Which dimension of a nest gets the lanes, how many, and how many vectors run at once. Nests are made
// twice (plan_nests.h): on a copy of the function their shapes are chosen, or pinned (plan_pins.h), and added to the plan;
// on the function itself they are taken from there.
#pragma once

#include "passes/cpu/element_builder.h"

#include <llvm/ADT/STLFunctionalExtras.h>

#include <optional>

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
  bool inOrder = false; // there are no lanes along this axis
};
// Where lanes cost least, or along `only`.
[[nodiscard]] LaneChoice chooseLanes(const NestState &state, const NestWork &work, std::optional<unsigned> only);
// The axis along which the lanes of nests of the op in turn are pinned.
[[nodiscard]] std::optional<unsigned> pinnedLaneAxis(const NestState &state);
// Whether lanes along the axis would take some number each from a place of its own.
[[nodiscard]] bool gathersAlong(const NestState &state, const NestWork &work, unsigned axis);
// Lanes along an axis of this extent, for elements as wide as the widest that the values have.
[[nodiscard]] int32_t lanesFor(const NestState &state, std::span<const ir::ValueId> values,
                               int32_t extent);

// The shape of the next nest of the op in turn (NestState::root). `choose` is called while the plan is made, with the axis
// that is pinned for the lanes. The reference holds until the op's next nest.
using LaneChooser = llvm::function_ref<LaneChoice(std::optional<unsigned> axis)>;
[[nodiscard]] NestShape &chosenShape(NestState &state, std::span<const int32_t> extents, LaneChooser choose);
// The same of a nest that can have no other lanes: pins are not for it.
[[nodiscard]] NestShape &fixedShape(NestState &state, std::span<const int32_t> extents, LaneChoice choice);
// Sets how many vectors the nest or fold takes at once: while the plan is made as many as suit its body, around a sunk loop
// as many as have registers for what it carries.
void unrollNest(NestState &state, NestShape &shape, ir::OpId nest, BodySize size, bool singleElements = false);

} // namespace libtile::passes
