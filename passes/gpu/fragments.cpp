// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/fragments.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::Elem;
using ir::HwDim;
using ir::Layout;

// A layout of rank 2 under construction.
class Fragment {
public:
  Fragment(int32_t rows, int32_t cols, Layout::Bases regs, Layout::Bases lanes)
      : subtile_{rows, cols} {
    bases_[unsigned(HwDim::Reg)] = std::move(regs);
    bases_[unsigned(HwDim::Lane)] = std::move(lanes);
  }
  // Doubles the subtile `times` powers of two along the axis.
  Fragment &grow(HwDim dim, unsigned axis, int32_t times) {
    for (; times > 1; times /= 2) {
      Coords basis(2, 0);
      basis[axis] = subtile_[axis];
      subtile_[axis] *= 2;
      bases_[unsigned(dim)].push_back(std::move(basis));
    }
    return *this;
  }
  Fragment &replicate(HwDim dim, int32_t times) {
    for (; times > 1; times /= 2) {
      bases_[unsigned(dim)].push_back({0, 0});
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
  [[nodiscard]] Layout cover(int32_t rows, int32_t cols) const {
    const std::array<int32_t, 2> shape = {rows, cols};
    return Layout(subtile_, {1, 1}, bases_).coveringShape(shape);
  }

private:
  std::vector<int32_t> subtile_;
  std::array<Layout::Bases, ir::kNumHwDims> bases_;
};

constexpr unsigned kRows = 0, kCols = 1;

// Lanes 0..3 count `unit` elements each along the second axis, 4..31 rows along the first.
Layout::Bases lanesOf(bool transposed, int32_t unit) {
  Layout::Bases lanes = {{0, unit}, {0, 2 * unit}, {1, 0}, {2, 0}, {4, 0}};
  for (Coords &basis : lanes) {
    if (transposed) {
      std::swap(basis[0], basis[1]);
    }
  }
  return lanes;
}

} // namespace

WarpGrid chooseWarpGrid(int32_t m, int32_t n, int32_t warps, int32_t unitM, int32_t unitN) {
  WarpGrid best;
  int64_t bestCost = 0;
  for (int32_t warpsM = 1; warpsM <= warps; warpsM *= 2) {
    for (int32_t warpsN = 1; warpsM * warpsN <= warps; warpsN *= 2) {
      const auto rounded = [](int32_t extent, int32_t unit) {
        return int64_t{(extent + unit - 1) / unit} * unit;
      };
      const int64_t paddedM = rounded(m, unitM * warpsM);
      const int64_t paddedN = rounded(n, unitN * warpsN);
      // Multiplications of the slowest warp first, then the operand elements that it reads.
      const int64_t cost =
          paddedM * paddedN / (warpsM * warpsN) * 1024 + paddedM / warpsM + paddedN / warpsN;
      if (bestCost == 0 || cost < bestCost) {
        best = {warpsM, warpsN};
        bestCost = cost;
      }
    }
  }
  return best;
}

WarpGrid warpGridOf(const ir::Function &fn, ir::OpId dot, int32_t warps) {
  const ir::Type acc = fn.type(fn.result(dot));
  if (acc.dim(0) >= 16 * warps) {
    for (const ir::OpId op : fn.walk()) {
      if (fn.opcode(op) == ir::Opcode::Reduce && fn.getInt(op, ir::Attr::axis) == 1 &&
          fn.type(fn.operand(op, 0)).isTile() && fn.type(fn.operand(op, 0)).rank() == 2 &&
          fn.type(fn.operand(op, 0)).dim(0) == acc.dim(0)) {
        return {warps, 1};
      }
    }
  }
  return chooseWarpGrid(acc.dim(0), acc.dim(1), warps);
}

DotLayouts fragmentLayouts(const ir::MmaShape &shape, int32_t m, int32_t n, int32_t k,
                           WarpGrid grid, int32_t warps) {
  const int32_t rest = warps / (grid.m * grid.n);
  // A 32-bit register holds `unit` neighbours along k.
  const int32_t unit = 32 / static_cast<int32_t>(ir::bitWidth(shape.operand));
  ir::check(shape.m == 16 && shape.n == 8 && shape.k == 8 * unit, "a shape of mma.sync m16n8");
  Layout::Bases aRegs, bRegs;
  for (int32_t step = 1; step < unit; step *= 2) {
    aRegs.push_back({0, step});
    bRegs.push_back({step, 0});
  }
  aRegs.push_back({8, 0});
  aRegs.push_back({0, 4 * unit});
  bRegs.push_back({4 * unit, 0});
  Fragment a(16, shape.k, std::move(aRegs), lanesOf(false, unit));
  Fragment b(shape.k, 8, std::move(bRegs), lanesOf(true, unit));
  Fragment acc(16, 8, {{0, 1}, {8, 0}}, lanesOf(false, 2));
  a.grow(HwDim::Warp, kRows, grid.m).replicate(HwDim::Warp, grid.n * rest);
  b.replicate(HwDim::Warp, grid.m).grow(HwDim::Warp, kCols, grid.n).replicate(HwDim::Warp, rest);
  acc.grow(HwDim::Warp, kRows, grid.m).grow(HwDim::Warp, kCols, grid.n);
  acc.replicate(HwDim::Warp, rest);
  a.fill(kCols, k).fill(kRows, m);
  b.fill(kRows, k).fill(kCols, n);
  acc.fill(kCols, n).fill(kRows, m);
  return {a.cover(m, k), b.cover(k, n), acc.cover(m, n)};
}

Layout multiplyAddLayout(int32_t m, int32_t n, int32_t warps) {
  // Four neighbours along n, 8 x 4 lanes, the warps in a grid, registers for the rest.
  const WarpGrid grid = chooseWarpGrid(m, n, warps, 4, 8);
  Fragment acc(1, 1, {}, {});
  const auto growWithin = [&](HwDim dim, unsigned axis, int32_t times, int32_t extent) {
    for (; times > 1; times /= 2) {
      if (extent > 1) {
        acc.grow(dim, axis, 2);
        extent = (extent + 1) / 2;
      } else {
        acc.replicate(dim, 2);
      }
    }
    return extent;
  };
  int32_t restN = growWithin(HwDim::Reg, kCols, std::min(4, n), n);
  restN = growWithin(HwDim::Lane, kCols, 8, restN);
  int32_t restM = growWithin(HwDim::Lane, kRows, 4, m);
  restM = growWithin(HwDim::Warp, kRows, grid.m, restM);
  restN = growWithin(HwDim::Warp, kCols, grid.n, restN);
  acc.replicate(HwDim::Warp, warps / (grid.m * grid.n));
  return acc.cover(m, n);
}

const ir::MmaShape *findMma(const ir::Function &fn, ir::OpId dot, const ir::Target &target,
                            std::string *why) {
  const ir::Type a = fn.type(fn.operand(dot, 0));
  const ir::Type acc = fn.type(fn.result(dot));
  const auto no = [&](const std::string &reason) -> const ir::MmaShape * {
    if (why != nullptr) {
      *why = reason;
    }
    return nullptr;
  };
  if (a.rank() != 2) {
    return no("a batch of dots");
  }
  const int32_t m = acc.dim(0), n = acc.dim(1), k = a.dim(1);
  const bool tf32 = fn.getEnum<ir::Precision>(dot, ir::Attr::precision) == ir::Precision::tf32;
  for (const ir::MmaShape &shape : target.mma) {
    if (shape.operand != a.elem() || shape.accumulator != acc.elem() || shape.m != 16 ||
        shape.n != 8) {
      continue;
    }
    if (shape.operand == Elem::F32 && !tf32) {
      return no("f32 operands need input_precision tf32");
    }
    if (k % shape.k != 0) {
      return no("k = " + std::to_string(k) + " is no multiple of " + std::to_string(shape.k));
    }
    if (m < shape.m / 2 || n < shape.n) {
      return no("the tile of " + std::to_string(m) + " x " + std::to_string(n) +
                " is below the instruction's " + std::to_string(shape.m) + " x " +
                std::to_string(shape.n));
    }
    return &shape;
  }
  return no(std::string("no matrix instruction multiplies ") + ir::elemName(a.elem()) + " into " +
            ir::elemName(acc.elem()));
}

} // namespace libtile::passes
