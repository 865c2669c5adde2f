// SPDX-License-Identifier: Apache-2.0
// Where the mask of a load is off: from some index along an axis on.
#pragma once

#include "ir/builder.h"
#include "ir/function.h"

#include <llvm/ADT/SmallVector.h>

#include <optional>

namespace libtile::passes {

// The elements of a tile at index i along an axis with i + the terms >= limit are masked off; i32, sums wrap.
struct MaskEnd {
  ir::Values terms;
  ir::ValueId limit;

  friend bool operator==(const MaskEnd &, const MaskEnd &) = default;
};

// The terms' sum, which wraps as they do; invalid: there are none.
[[nodiscard]] ir::ValueId baseOf(ir::Builder &builder, const MaskEnd &end);
// Where a tile is 0 along the axis because its load is masked off, whatever the mask is elsewhere.
[[nodiscard]] std::optional<MaskEnd> zerosBehind(const ir::Function &fn, ir::ValueId tile, unsigned axis);

struct AxisEnd {
  unsigned axis;
  MaskEnd end;
};
// The ends of a mask with two axes that is on wherever none of them has been reached; nullopt: it is no such mask.
[[nodiscard]] std::optional<llvm::SmallVector<AxisEnd, 2>> endsOfMask(const ir::Function &fn, ir::ValueId mask);

} // namespace libtile::passes
