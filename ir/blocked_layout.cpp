// SPDX-License-Identifier: Apache-2.0
// Layouts by blocks: what a thread has, then lanes, then warps, axis by axis.
#include "ir/diagnostic.h"
#include "ir/layout.h"

#include <bit>

namespace libtile::ir {

namespace {

bool isPowerOfTwo(int32_t x) { return x > 0 && std::has_single_bit(static_cast<uint32_t>(x)); }
unsigned log2Of(int32_t x) { return static_cast<unsigned>(std::countr_zero(static_cast<uint32_t>(x))); }

} // namespace

Layout Layout::blocked(std::span<const int32_t> shape, std::span<const int32_t> order,
                       int32_t vector, int32_t warps, std::span<const int32_t> warpOrder,
                       int32_t warpSize) {
  return blocked(shape, {.order = order, .vector = vector, .warps = warps, .warpSize = warpSize, .warpOrder = warpOrder});
}

Layout Layout::blocked(std::span<const int32_t> shape, const Blocks &blocks) {
  const auto &[order, vector, rows, warps, warpSize, warpOrder, lanesAlong] = blocks;
  check(isPowerOfTwo(vector) && isPowerOfTwo(rows) && isPowerOfTwo(warps) && isPowerOfTwo(warpSize) &&
            order.size() == shape.size() && (rows == 1 || order.size() > 1),
        "a blocked layout counts in powers of two");
  std::vector<int32_t> subtile(shape.size(), 1);
  std::array<Bases, kNumHwDims> bases;
  const auto grow = [&](HwDim dim, unsigned axis) {
    Coords basis(shape.size(), 0);
    basis[axis] = subtile[axis];
    subtile[axis] *= 2;
    bases[unsigned(dim)].push_back(std::move(basis));
  };
  const auto padded = [&](unsigned axis, int32_t unit) {
    return (shape[axis] + unit - 1) / unit * unit;
  };
  const auto hold = [&](int32_t count, unsigned axis) {
    for (int32_t held = 1; held < count && subtile[axis] < shape[axis]; held *= 2) {
      grow(HwDim::Reg, axis);
    }
  };
  hold(vector, order[0]);
  hold(rows, order[rows > 1 ? 1 : 0]);
  // As far along the axis as no padding arises, or, if it may, as there are elements.
  const auto along = [&](HwDim dim, unsigned &bits, unsigned axis, bool mayPad, int32_t most) {
    for (; bits > 0 && most > 1 && subtile[axis] < shape[axis] &&
           (mayPad || padded(axis, 2 * subtile[axis]) <= padded(axis, subtile[axis]));
         most /= 2) {
      grow(dim, axis);
      --bits;
    }
  };
  const auto spread = [&](HwDim dim, unsigned bits, std::span<const int32_t> axes, int32_t first) {
    constexpr int32_t kAll = std::numeric_limits<int32_t>::max();
    along(dim, bits, axes[0], false, first);
    for (const int32_t axis : axes.subspan(1)) {
      along(dim, bits, axis, false, kAll);
    }
    for (const bool mayPad : {false, true}) {
      for (const int32_t axis : axes) {
        along(dim, bits, axis, mayPad, kAll);
      }
    }
    bases[unsigned(dim)].insert(bases[unsigned(dim)].end(), bits, Coords(shape.size(), 0));
  };
  spread(HwDim::Lane, log2Of(warpSize), order, lanesAlong);
  spread(HwDim::Warp, log2Of(warps), warpOrder.empty() ? order : warpOrder, std::numeric_limits<int32_t>::max());
  const std::vector<int32_t> once(shape.size(), 1);
  return Layout(std::move(subtile), once, std::move(bases)).coveringShape(shape);
}

} // namespace libtile::ir
