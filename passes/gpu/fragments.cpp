// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/fragments.h"

#include "passes/gpu/matrix_buffers.h"

#include <array>
#include <functional>
#include <numeric>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;

// A layout under construction: one instruction's over the last two axes, then more of it.
class Fragment {
public:
  explicit Fragment(size_t rank) : subtile_(rank, 1) {}
  Fragment(size_t rank, int32_t rows, int32_t cols, const ir::DotPart &part) : subtile_(rank, 1) {
    subtile_[rank - 2] = rows;
    subtile_[rank - 1] = cols;
    add(HwDim::Reg, part.regs);
    add(HwDim::Lane, part.lanes);
    add(HwDim::Warp, part.warps);
  }
  // Doubles the subtile `times` powers of two along the axis.
  Fragment &grow(HwDim dim, unsigned axis, int32_t times) {
    for (; times > 1; times /= 2) {
      Coords basis(subtile_.size(), 0);
      basis[axis] = subtile_[axis];
      subtile_[axis] *= 2;
      bases_[unsigned(dim)].push_back(std::move(basis));
    }
    return *this;
  }
  Fragment &replicate(HwDim dim, int32_t times) {
    for (; times > 1; times /= 2) {
      bases_[unsigned(dim)].emplace_back(subtile_.size(), 0);
    }
    return *this;
  }
  // Registers along the axis, as far as they do not pad more than one subtile would.
  Fragment &fill(unsigned axis, int32_t extent) {
    const auto padded = [&](int32_t unit) { return (extent + unit - 1) / unit * unit; };
    while (subtile_[axis] < extent && padded(2 * subtile_[axis]) <= padded(subtile_[axis])) {
      grow(HwDim::Reg, axis, 2);
    }
    return *this;
  }
  [[nodiscard]] Layout cover(std::span<const int32_t> shape) const {
    return Layout(subtile_, std::vector<int32_t>(subtile_.size(), 1), bases_).coveringShape(shape);
  }

private:
  void add(HwDim dim, const Layout::Bases &bases) {
    for (const Coords &basis : bases) {
      Coords wide(subtile_.size() - 2, 0);
      wide.insert(wide.end(), basis.begin(), basis.end());
      bases_[unsigned(dim)].push_back(std::move(wide));
    }
  }

  std::vector<int32_t> subtile_;
  std::array<Layout::Bases, ir::kNumHwDims> bases_;
};

int32_t warpsOf(const WarpGrid &grid) {
  return std::accumulate(grid.begin(), grid.end(), 1, std::multiplies<>());
}

// What the slowest warp does: its multiplications first, then the operand elements that it reads.
int64_t gridCost(std::span<const int32_t> acc, const WarpGrid &grid, UnitExtents unit) {
  const size_t rank = acc.size();
  int64_t slices = 1;
  std::array<int64_t, 2> extents{};
  for (size_t axis = 0; axis < rank; ++axis) {
    const int32_t least = axis + 2 < rank ? 1 : axis + 2 == rank ? unit.m : unit.n;
    const int64_t step = int64_t{least} * grid[axis];
    const int64_t share = (acc[axis] + step - 1) / step * least;
    if (axis + 2 < rank) {
      slices *= share;
    } else {
      extents[axis + 2 - rank] = share;
    }
  }
  return slices * (extents[0] * extents[1] * 1024 + extents[0] + extents[1]);
}

// Warps along the axes before the last two.
void growSlices(Fragment &part, const WarpGrid &grid) {
  for (unsigned axis = 0; axis + 2 < grid.size(); ++axis) {
    part.grow(HwDim::Warp, axis, grid[axis]);
  }
}

// A part of a unit that holds rows, by one warp of it or, where it says so, by all; then by the grid's warps along the rows.
Fragment rowsOf(const ir::DotUnit &unit, const ir::DotPart &part, int32_t cols, const WarpGrid &grid) {
  const size_t rank = grid.size();
  const int32_t together = warpsTogether(unit), held = part.warps.empty() ? 1 : together;
  Fragment rows(rank, unit.m / together * held, cols, part);
  growSlices(rows, grid);
  rows.grow(HwDim::Warp, static_cast<unsigned>(rank - 2), grid[rank - 2] / held);
  return rows;
}

// Calls `visit` for every grid of powers of two of at most `warps`, the last axis counting fastest.
template <class Visit>
void forEachGrid(WarpGrid &grid, size_t axis, int32_t warps, const Visit &visit) {
  if (axis == grid.size()) {
    return visit();
  }
  for (grid[axis] = 1; grid[axis] <= warps; grid[axis] *= 2) {
    forEachGrid(grid, axis + 1, warps / grid[axis], visit);
  }
}

// The unit's registers and lanes as far as the tile has rows and columns for them; other lanes take
// slices, if there are any.
Layout separateLayout(const ir::DotUnit &unit, std::span<const int32_t> acc, const WarpGrid &grid,
                      int32_t warps) {
  const size_t rank = acc.size();
  Fragment sums(rank);
  std::vector<int32_t> left(acc.begin(), acc.end());
  const auto take = [&](HwDim dim, size_t axis) {
    if (left[axis] > 1) {
      sums.grow(dim, static_cast<unsigned>(axis), 2);
      left[axis] = (left[axis] + 1) / 2;
    } else if (dim != HwDim::Reg) {
      sums.replicate(dim, 2);
    }
  };
  const auto axisOf = [&](const Coords &basis) { return basis[0] != 0 ? rank - 2 : rank - 1; };
  for (const Coords &basis : unit.acc.regs) {
    take(HwDim::Reg, axisOf(basis));
  }
  for (const Coords &basis : unit.acc.lanes) {
    size_t axis = axisOf(basis);
    for (size_t slices = rank - 2; left[axis] == 1 && slices-- > 0;) {
      axis = slices;
    }
    take(HwDim::Lane, axis);
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    for (int32_t times = grid[axis]; times > 1; times /= 2) {
      take(HwDim::Warp, axis);
    }
  }
  return sums.replicate(HwDim::Warp, warps / warpsOf(grid)).cover(acc);
}

} // namespace

WarpGrid chooseWarpGrid(std::span<const int32_t> acc, int32_t warps, UnitExtents unit,
                        bool wholeRows) {
  WarpGrid grid(acc.size(), 1), best;
  int64_t bestCost = 0;
  forEachGrid(grid, 0, warps, [&] {
    const int64_t cost = gridCost(acc, grid, unit);
    if ((!wholeRows || grid.back() == 1) && (best.empty() || cost < bestCost)) {
      best = grid;
      bestCost = cost;
    }
  });
  return best;
}

Layout leftLayout(const ir::DotUnit &unit, std::span<const int32_t> acc, int32_t k, const WarpGrid &grid,
                  int32_t warps) {
  const auto rank = static_cast<unsigned>(acc.size());
  const unsigned row = rank - 2, column = rank - 1;
  Fragment a = rowsOf(unit, unit.a, unit.k, grid);
  a.replicate(HwDim::Warp, grid[column] * (warps / warpsOf(grid)));
  std::vector<int32_t> left(acc.begin(), acc.end());
  left[column] = k;
  return a.fill(column, k).fill(row, acc[row]).cover(left);
}

Layout rightLayout(const ir::DotUnit &unit, std::span<const int32_t> acc, int32_t k, const WarpGrid &grid,
                   int32_t warps) {
  const auto rank = static_cast<unsigned>(acc.size());
  const unsigned row = rank - 2, column = rank - 1;
  Fragment b(rank, unit.k, unit.n, unit.b);
  growSlices(b, grid);
  b.replicate(HwDim::Warp, grid[row]).grow(HwDim::Warp, column, grid[column]);
  b.replicate(HwDim::Warp, warps / warpsOf(grid));
  std::vector<int32_t> right(acc.begin(), acc.end());
  right[row] = k;
  return b.fill(row, k).fill(column, acc[column]).cover(right);
}

Layout accumulatorLayout(const ir::DotUnit &unit, std::span<const int32_t> acc,
                         const WarpGrid &grid, int32_t warps) {
  if (!unit.together) {
    return separateLayout(unit, acc, grid, warps);
  }
  const auto rank = static_cast<unsigned>(acc.size());
  const unsigned row = rank - 2, column = rank - 1;
  Fragment sums = rowsOf(unit, unit.acc, unit.n, grid);
  if (readsByItself(unit)) {
    sums.fill(column, acc[column] / grid[column]); // one instruction takes columns side by side
  }
  sums.grow(HwDim::Warp, column, grid[column]);
  sums.replicate(HwDim::Warp, warps / warpsOf(grid));
  return sums.fill(column, acc[column]).fill(row, acc[row]).cover(acc);
}

} // namespace libtile::passes
