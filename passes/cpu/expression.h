// SPDX-License-Identifier: Apache-2.0
// Everything that a nest evaluates when it computes a tile: the tile itself and, through inline ops and
// sunk loops, what lies below it, each with the index map under which it is read. A sunk loop runs as a
// whole (element_builder.h): all that it carries and the scalar ops of its body are part of it, whether
// the tile needs them or not. So who asks what a nest reads, and when, asks this walk and nothing else.
//
// The map says for each axis of a value which axis of the nest's space runs along it. Trans,
// broadcast, expand_dims and reshapes that keep an axis whole change it exactly; a reshape that cuts
// or joins axes, a slice and a gather make it opaque (what still runs along an axis is tracked, for
// costs).
#pragma once

#include "passes/cpu/nest_state.h"

#include <functional>

namespace libtile::passes {

struct IndexPath {
  static constexpr int kNoAxis = -1;
  // For each axis of the value the axis of the space that runs along it with step 1, or kNoAxis.
  llvm::SmallVector<int, 4> axes;
  // 0: `axes` is the whole truth; else names the chain of reshapes, slices and gathers that was passed.
  uint32_t reshapes = 0;

  static IndexPath identity(unsigned rank);
  friend bool operator==(const IndexPath &, const IndexPath &) = default;
};

// What a value is evaluated for.
enum class Part : uint8_t {
  Element, // the elements of the tile
  Address, // addresses or masks only
  Beside,  // nothing that was asked for: it runs along with the rest of a sunk loop
};

struct ExpressionNode {
  ir::ValueId value;
  const IndexPath &path; // of a scalar of a sunk loop's body: without axes
  // Element i of the space reads element i of the value.
  bool sameElement;
  Part part;
};

// Calls `visit` for each triple of value, path and part, root first, each once, what is Beside last and
// only where it has no other part; stored values and values that no inline op or sunk loop defines are
// visited, not entered. Stops below a value when `visit` returns false.
void walkExpression(const NestView &nests, ir::ValueId root,
                    const std::function<bool(const ExpressionNode &)> &visit);

// One matching run of axes of two shapes with equal products: [from, fromEnd) and [to, toEnd).
struct ReshapeGroup {
  unsigned from, fromEnd, to, toEnd;
};
// The finest cut of a reshape into independent groups; axes of extent 1 go with a neighbour or form
// groups with an empty side.
[[nodiscard]] llvm::SmallVector<ReshapeGroup, 4> reshapeGroups(std::span<const int32_t> from,
                                                               std::span<const int32_t> to);

} // namespace libtile::passes
