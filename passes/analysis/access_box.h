// SPDX-License-Identifier: Apache-2.0
// A tile of addresses with its mask as a box of a strided array:
//
//   address(i) = base + sum over dimensions d of stride[d] * (coordinate[d] + i[axis[d]])
//   mask(i)    = for all d: 0 <= coordinate[d] + i[axis[d]] < extent[d]
//
// with i the element's indices in the tile. Dimensions are those of the tile, and one more for each product of
// a parameter and something else that is left of the offset: `batch * batch_stride` of a batch. What loops
// carry is taken in closed form: a pointer that advances by `step` an iteration stands at index * step.
//
//   rows = pid * 128 + arange(128)                      [coordinate 128*pid, stride 2*lda, extent m]
//   a + rows[:, None] * lda + arange(64)[None, :]       [coordinate 0, stride 2, extent k]
//     where rows[:, None] < m and arange(64)[None, :] < k
//
// A pure analysis of promised facts (facts.h): who asks makes the code of the access. Plain pointers and blocks
// of descriptors give the same boxes.
#pragma once

#include "passes/analysis/facts.h"

#include <optional>
#include <string>
#include <vector>

namespace libtile::passes {

struct BoxDim {
  std::optional<unsigned> axis;     // of the tile; nullopt: the tile has one index of it
  Polynomial coordinate;            // of the tile's first element, elements
  Polynomial stride;                // bytes, not 0
  std::optional<Polynomial> extent; // nullopt: the mask does not bound this dimension
  // The mask is false below 0 too, or no coordinate is there. Without, elements below 0 are accessed.
  bool startsAtZero = false;
};

struct AccessBox {
  ir::ValueId base; // a parameter
  // Slowest first; the last one's elements lie side by side.
  std::vector<BoxDim> dims;
  // "%0 [axis 0: 128*%7 of %3 by 2*%4] [axis 1: 0 of %5 by 2]", with value ids; "any" without a bound.
  [[nodiscard]] std::string str() const;
};

// pointers: a tile. mask: a tile of its shape, or invalid: true everywhere. nullopt: the access is no box, or that
// is not known.
[[nodiscard]] std::optional<AccessBox> accessBox(const ir::Function &fn, ir::ValueId pointers, ir::ValueId mask,
                                                 const Facts &facts);

// The polynomial with closed forms in place of what loops around carry: in terms of their indices and of what is
// defined outside.
[[nodiscard]] Polynomial closedForm(const ir::Function &fn, const Polynomial &polynomial, const Facts &facts);

} // namespace libtile::passes
