// SPDX-License-Identifier: Apache-2.0
// A dot of fp32 as several dots of parts that a matrix unit multiplies exactly: what input_precision
// tf32x3, bf16x3 and bf16x6 allow. Each operand is a sum of parts, x = x0 + x1 (+ x2), each the nearest
// number of the part's type to what the parts before it have left.
//
//   dot(a, b, c) {precision=bf16x3}  ->  dot(a0, b0, c + finite(dot(a1, b0, dot(a0, b1, 0))))
//   dot(a, b, c) {precision=bf16x6}  ->  a1 x b1, a0 x b2 and a2 x b0 as well
//
// Of an element that is infinite or NaN the first part has it and the others are 0; `finite` makes 0 of
// sums that are not finite, as those of 0 and infinity: a0 x b0 has the result then. Products that are
// left out are below 2^-20 (tf32x3), 2^-14 (bf16x3) and 2^-21 (bf16x6) of the sum of all magnitudes.
#pragma once

#include "ir/function.h"
#include "ir/ops.h"

#include <optional>
#include <vector>

namespace libtile::passes {

struct DotSplit {
  ir::Elem elem;           // of the parts
  ir::Precision precision; // of their dots
  int32_t parts;           // of an operand
};
// nullopt: a dot of this precision is not split.
[[nodiscard]] std::optional<DotSplit> splitOf(ir::Precision precision);

// Puts dots of parts in the place of this one and returns them.
std::vector<ir::OpId> splitDot(ir::Function &fn, ir::OpId dot, const DotSplit &split);

} // namespace libtile::passes
