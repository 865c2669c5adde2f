// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/layout_maps.h"

#include <bit>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Coords;
using ir::HwDim;
using ir::Layout;
using ir::Opcode;

bool allPowersOfTwo(std::span<const int32_t> shape) {
  for (const int32_t extent : shape) {
    if (!std::has_single_bit(static_cast<uint32_t>(extent))) {
      return false;
    }
  }
  return true;
}

// Row-major index of coords in one shape, as coords in another.
Coords reshaped(const Coords &coords, std::span<const int32_t> from, std::span<const int32_t> to) {
  int64_t flat = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    flat = flat * from[d] + coords[d];
  }
  Coords result(to.size());
  for (size_t d = to.size(); d-- > 0;) {
    result[d] = static_cast<int32_t>(flat % to[d]);
    flat /= to[d];
  }
  return result;
}

bool inside(const Coords &coords, std::span<const int32_t> shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (coords[d] >= shape[d]) {
      return false;
    }
  }
  return true;
}

// A layout of a power-of-two tile without repeats under another power-of-two shape.
std::optional<Layout> reshapedLayout(const Layout &layout, std::span<const int32_t> from,
                                     std::span<const int32_t> to) {
  if (!allPowersOfTwo(from) || !allPowersOfTwo(to)) {
    return std::nullopt;
  }
  std::array<Layout::Bases, ir::kNumHwDims> bases;
  const auto add = [&](HwDim dim, const Coords &basis) {
    if (!inside(basis, from)) {
      return false;
    }
    bases[unsigned(dim)].push_back(reshaped(basis, from, to));
    return true;
  };
  for (const HwDim dim : {HwDim::Reg, HwDim::Lane, HwDim::Warp}) {
    for (const Coords &basis : layout.bases(dim)) {
      if (!add(dim, basis)) {
        return std::nullopt;
      }
    }
  }
  // Repeats become registers: the last axis counts fastest.
  for (size_t d = layout.rank(); d-- > 0;) {
    for (int32_t step = 1; step < layout.repeats()[d]; step *= 2) {
      Coords basis(layout.rank(), 0);
      basis[d] = step * layout.subtile()[d];
      if (!add(HwDim::Reg, basis)) {
        return std::nullopt;
      }
    }
  }
  return Layout({to.begin(), to.end()}, std::vector<int32_t>(to.size(), 1), std::move(bases));
}

std::vector<int64_t> inverse(std::span<const int64_t> order) {
  std::vector<int64_t> result(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    result[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  return result;
}

// Coordinates of the operand's element that a result's element is.
Coords operandCoords(const ir::Function &fn, ir::OpId op, const Coords &coords) {
  const ir::Type from = fn.type(fn.operand(op, 0));
  const ir::Type to = fn.type(fn.result(op));
  const Opcode opcode = fn.opcode(op);
  if (opcode == Opcode::ExpandDims) {
    Coords result = coords;
    result.erase(result.begin() + fn.getInt(op, Attr::axis));
    return result;
  }
  if (opcode == Opcode::Broadcast) {
    Coords result = coords;
    for (unsigned d = 0; d < from.rank(); ++d) {
      result[d] = from.dim(d) == 1 ? 0 : coords[d];
    }
    return result;
  }
  if (opcode == Opcode::Trans) {
    Coords result(coords.size());
    const auto order = fn.getInts(op, Attr::order);
    for (size_t i = 0; i < order.size(); ++i) {
      result[static_cast<size_t>(order[i])] = coords[i];
    }
    return result;
  }
  ir::check(opcode == Opcode::Reshape, "a shape op");
  return inside(coords, to.shape()) ? reshaped(coords, to.shape(), from.shape())
                                    : Coords(from.rank(), 0);
}

} // namespace

std::optional<std::vector<int32_t>> registerMap(const Layout &to, const Layout &from,
                                                CoordMap map) {
  for (const HwDim dim : {HwDim::Lane, HwDim::Warp}) {
    if (to.bases(dim).size() != from.bases(dim).size()) {
      return std::nullopt;
    }
    for (size_t bit = 0; bit < to.bases(dim).size(); ++bit) {
      if (map(to.bases(dim)[bit]) != from.bases(dim)[bit]) {
        return std::nullopt;
      }
    }
  }
  const ir::LayoutInverse inverseOfFrom(from);
  std::vector<int32_t> result;
  for (int32_t reg = 0; reg < to.size(HwDim::Reg); ++reg) {
    const auto holder = inverseOfFrom.holderOf(map(to.applyOne(HwDim::Reg, reg)));
    if (holder && (holder->lane != 0 || holder->warp != 0)) {
      return std::nullopt;
    }
    result.push_back(holder ? holder->reg : 0);
  }
  return result;
}

std::optional<std::vector<int32_t>> registerMap(const Layout &to, const Layout &from) {
  return registerMap(to, from, [](const Coords &coords) { return coords; });
}

std::optional<std::vector<int32_t>> shapeRegisterMap(const ir::Function &fn, ir::OpId op) {
  const ir::Type from = fn.type(fn.operand(op, 0));
  const ir::Type to = fn.type(fn.result(op));
  if (fn.opcode(op) == Opcode::Reshape &&
      !(allPowersOfTwo(from.shape()) && allPowersOfTwo(to.shape()))) {
    return std::nullopt;
  }
  return registerMap(fn.layout(to.layout()), fn.layout(from.layout()),
                     [&](const Coords &coords) { return operandCoords(fn, op, coords); });
}

std::optional<Layout> operandLayout(const ir::Function &fn, ir::OpId op, const Layout &result) {
  const ir::Type from = fn.type(fn.operand(op, 0));
  const Opcode opcode = fn.opcode(op);
  if (opcode == Opcode::ExpandDims) {
    return result.reduced(static_cast<unsigned>(fn.getInt(op, Attr::axis)));
  }
  if (opcode == Opcode::Broadcast) {
    Layout layout = result;
    for (unsigned d = 0; d < from.rank(); ++d) {
      layout = from.dim(d) == 1 ? layout.reduced(d).expandDims(d) : layout;
    }
    return layout;
  }
  if (opcode == Opcode::Trans) {
    return result.trans(inverse(fn.getInts(op, Attr::order)));
  }
  ir::check(opcode == Opcode::Reshape, "a shape op");
  return reshapedLayout(result, fn.type(fn.result(op)).shape(), from.shape());
}

std::optional<Layout> resultLayout(const ir::Function &fn, ir::OpId op, const Layout &operand) {
  const ir::Type from = fn.type(fn.operand(op, 0));
  const ir::Type to = fn.type(fn.result(op));
  const Opcode opcode = fn.opcode(op);
  if (opcode == Opcode::ExpandDims) {
    return operand.expandDims(static_cast<unsigned>(fn.getInt(op, Attr::axis)));
  }
  if (opcode == Opcode::Trans) {
    return operand.trans(fn.getInts(op, Attr::order));
  }
  if (opcode == Opcode::Reshape) {
    return reshapedLayout(operand, from.shape(), to.shape());
  }
  // A broadcast leaves open which thread holds which replica.
  ir::check(opcode == Opcode::Broadcast, "a shape op");
  return std::nullopt;
}

InTile inTile(const Layout &layout, int32_t reg, std::span<const int32_t> shape) {
  const Coords own = layout.applyOne(HwDim::Reg, reg);
  InTile result{true, true};
  for (size_t d = 0; d < shape.size(); ++d) {
    int32_t reach = 0;
    for (const HwDim dim : {HwDim::Lane, HwDim::Warp}) {
      for (const Coords &basis : layout.bases(dim)) {
        reach |= basis[d];
      }
    }
    result.somewhere &= (own[d] & ~reach) < shape[d];
    result.everywhere &= (own[d] | reach) < shape[d];
  }
  return result;
}

} // namespace libtile::passes
