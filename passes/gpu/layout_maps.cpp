// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/layout_maps.h"

#include "ir/ops.h"

#include <algorithm>
#include <bit>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Coords;
using ir::HwDim;
using ir::Layout;
using ir::Opcode;

bool isPowerOfTwo(int32_t x) { return std::has_single_bit(static_cast<uint32_t>(x)); }

// Neighbouring axes of two shapes that hold the same elements: [first, end) of each. The shortest
// groups; an axis of extent 1 stands alone, without a partner.
struct AxisGroup {
  size_t fromFirst = 0, fromEnd = 0, toFirst = 0, toEnd = 0;
};

std::vector<AxisGroup> axisGroups(std::span<const int32_t> from, std::span<const int32_t> to) {
  std::vector<AxisGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    AxisGroup group{i, i, j, j};
    if (i < from.size() && from[i] == 1) {
      group.fromEnd = ++i;
    } else if (j < to.size() && to[j] == 1) {
      group.toEnd = ++j;
    } else {
      int64_t a = from[i++], b = to[j++];
      while (a != b) {
        (a < b ? a *= from[i++] : b *= to[j++]);
      }
      group.fromEnd = i;
      group.toEnd = j;
    }
    groups.push_back(group);
  }
  return groups;
}

// A reshape that is a linear map over F2: within each group of axes all extents but the first are
// powers of two, so the row-major index of an element is its coordinates' bits side by side.
class LinearReshape {
public:
  static std::optional<LinearReshape> between(std::span<const int32_t> from,
                                              std::span<const int32_t> to) {
    LinearReshape map(from, to);
    for (const AxisGroup &group : map.groups_) {
      const auto tailIsEasy = [](std::span<const int32_t> shape, size_t first, size_t end) {
        return end - first < 2 ||
               std::ranges::all_of(shape.subspan(first + 1, end - first - 1), isPowerOfTwo);
      };
      if (!tailIsEasy(from, group.fromFirst, group.fromEnd) ||
          !tailIsEasy(to, group.toFirst, group.toEnd)) {
        return std::nullopt;
      }
    }
    return map;
  }

  // The first axis of a group takes what lies beyond its extent: padding stays padding. nullopt:
  // the coordinates lie beyond another axis.
  [[nodiscard]] std::optional<Coords> apply(const Coords &coords) const {
    Coords result(to_.size(), 0);
    for (const AxisGroup &group : groups_) {
      int64_t flat = 0;
      for (size_t d = group.fromFirst; d < group.fromEnd; ++d) {
        if (coords[d] >= from_[d] && (d > group.fromFirst || group.toFirst == group.toEnd)) {
          return std::nullopt;
        }
        flat = flat * from_[d] + coords[d];
      }
      for (size_t d = group.toEnd; d-- > group.toFirst;) {
        const int64_t extent = d == group.toFirst ? flat + 1 : to_[d];
        result[d] = static_cast<int32_t>(flat % extent);
        flat /= extent;
      }
    }
    return result;
  }

  // The layout under the other shape; nullopt: it pads an axis that is not the first of its group.
  [[nodiscard]] std::optional<Layout> apply(const Layout &layout) const {
    std::array<Layout::Bases, ir::kNumHwDims> bases;
    const auto add = [&](HwDim dim, const Coords &basis) {
      auto mapped = apply(basis);
      if (mapped) {
        bases[unsigned(dim)].push_back(std::move(*mapped));
      }
      return mapped.has_value();
    };
    for (const HwDim dim : {HwDim::Reg, HwDim::Lane, HwDim::Warp}) {
      for (const Coords &basis : layout.bases(dim)) {
        if (!add(dim, basis)) {
          return std::nullopt;
        }
      }
    }
    std::vector<int32_t> subtile(to_.size(), 1);
    for (const AxisGroup &group : groups_) {
      int32_t rest = group.fromFirst == group.fromEnd ? 1 : layout.subtile()[group.fromFirst];
      // Repeats of the other axes become registers: the last axis counts fastest.
      for (size_t d = group.fromEnd; d-- > group.fromFirst + 1;) {
        rest *= from_[d];
        for (int32_t step = 1; step < layout.repeats()[d]; step *= 2) {
          Coords basis(layout.rank(), 0);
          basis[d] = step * layout.subtile()[d];
          if (!add(HwDim::Reg, basis)) {
            return std::nullopt;
          }
        }
      }
      for (size_t d = group.toEnd; d-- > group.toFirst;) {
        subtile[d] = d == group.toFirst ? rest : std::min(rest, to_[d]);
        rest /= subtile[d];
      }
    }
    const std::vector<int32_t> once(to_.size(), 1);
    return Layout(std::move(subtile), once, std::move(bases)).coveringShape(to_);
  }

private:
  LinearReshape(std::span<const int32_t> from, std::span<const int32_t> to)
      : from_(from.begin(), from.end()), to_(to.begin(), to.end()), groups_(axisGroups(from, to)) {}
  std::vector<int32_t> from_, to_;
  std::vector<AxisGroup> groups_;
};

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
  throw ir::InternalError("a shape op");
}

// ---- slices

int32_t threadReach(const Layout &layout, unsigned axis) {
  int32_t reach = 0;
  for (const HwDim dim : {HwDim::Lane, HwDim::Warp}) {
    for (const Coords &basis : layout.bases(dim)) {
      reach |= basis[axis];
    }
  }
  return reach;
}

// Result and operand under these layouts: the threads' part of a coordinate stays as it is, so start
// and step move the registers' part alone.
std::optional<std::vector<int32_t>> sliceRegisterMap(const ir::Function &fn, ir::OpId op,
                                                     const Layout &to, const Layout &from) {
  const auto axis = static_cast<unsigned>(fn.getInt(op, Attr::axis));
  const int64_t start = fn.getInt(op, Attr::start), step = fn.getInt(op, Attr::step);
  const auto reach = static_cast<uint32_t>(threadReach(to, axis));
  if (reach != 0 && (step != 1 || start % (int64_t{1} << std::bit_width(reach)) != 0)) {
    return std::nullopt;
  }
  for (const HwDim dim : {HwDim::Lane, HwDim::Warp}) {
    if (to.bases(dim) != from.bases(dim)) {
      return std::nullopt;
    }
  }
  const ir::LayoutInverse inverseOfFrom(from);
  const int64_t extent = fn.type(fn.operand(op, 0)).dim(axis);
  std::vector<int32_t> result;
  for (int32_t reg = 0; reg < to.size(HwDim::Reg); ++reg) {
    Coords coords = to.applyOne(HwDim::Reg, reg);
    const int64_t along = start + coords[axis] * step;
    coords[axis] = static_cast<int32_t>(std::clamp<int64_t>(along, 0, extent - 1)); // or padding
    const auto holder = inverseOfFrom.holderOf(coords);
    if (holder && (holder->lane != 0 || holder->warp != 0)) {
      return std::nullopt;
    }
    result.push_back(holder ? holder->reg : 0);
  }
  return result;
}

std::optional<Layout> layoutBeforeSlice(const ir::Function &fn, ir::OpId op, const Layout &result) {
  Layout layout = result.coveringShape(fn.type(fn.operand(op, 0)).shape());
  return sliceRegisterMap(fn, op, result, layout) ? std::optional(std::move(layout)) : std::nullopt;
}

std::optional<Layout> layoutAfterSlice(const ir::Function &fn, ir::OpId op, const Layout &operand) {
  const ir::Type to = fn.type(fn.result(op));
  const auto axis = static_cast<unsigned>(fn.getInt(op, Attr::axis));
  const bool fits = operand.subtile()[axis] <= to.dim(axis);
  if (!fits && threadReach(operand, axis) != 0) {
    return std::nullopt;
  }
  Layout layout = (fits ? operand : operand.reduced(axis).expandDims(axis)).coveringShape(to.shape());
  return sliceRegisterMap(fn, op, layout, operand) ? std::optional(std::move(layout)) : std::nullopt;
}

std::optional<Layout> reshapedLayout(const Layout &layout, std::span<const int32_t> from,
                                     std::span<const int32_t> to) {
  const auto map = LinearReshape::between(from, to);
  return map ? map->apply(layout) : std::nullopt;
}

} // namespace

bool isShapeOp(Opcode opcode) {
  return opcode == Opcode::ExpandDims || opcode == Opcode::Broadcast || opcode == Opcode::Trans ||
         opcode == Opcode::Reshape || opcode == Opcode::Slice;
}

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
  if (fn.opcode(op) == Opcode::Reshape) {
    const auto map = LinearReshape::between(to.shape(), from.shape());
    if (!map) {
      return std::nullopt;
    }
    return registerMap(fn.layout(to.layout()), fn.layout(from.layout()), [&](const Coords &coords) {
      return map->apply(coords).value_or(Coords(from.rank(), 0));
    });
  }
  if (fn.opcode(op) == Opcode::Slice) {
    return sliceRegisterMap(fn, op, fn.layout(to.layout()), fn.layout(from.layout()));
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
  if (opcode == Opcode::Slice) {
    return layoutBeforeSlice(fn, op, result);
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
  if (opcode == Opcode::Slice) {
    return layoutAfterSlice(fn, op, operand);
  }
  // A broadcast leaves open which thread holds which replica.
  ir::check(opcode == Opcode::Broadcast, "a shape op");
  return std::nullopt;
}

bool holdsReplicas(const ir::Layout &layout) {
  const auto all = [&](ir::HwDim dim) { return layout.subtileSize(dim) - 1; };
  return (all(ir::HwDim::Lane) & ~layout.canonicalBits(ir::HwDim::Lane)) != 0 ||
         (all(ir::HwDim::Warp) & ~layout.canonicalBits(ir::HwDim::Warp)) != 0;
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
