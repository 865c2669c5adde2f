// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/matrix_buffers.h"

#include "ir/ops.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/gpu/shared_layouts.h"

#include <algorithm>
#include <array>
#include <bit>

namespace libtile::passes {
namespace {

using ir::Coords;
using ir::HwDim;
using ir::Layout;
using ir::Opcode;
using ir::OpId;

constexpr int32_t kUnitBytes = 16; // stay together
constexpr int32_t kLongestRow = 128;

// Bits that the swizzle of such rows moves.
int32_t swizzleBits(int32_t rowBytes) { return std::countr_zero(static_cast<uint32_t>(rowBytes / kUnitBytes)); }

int32_t swizzled(int32_t byte, int32_t rowBytes) {
  const int32_t mask = (1 << swizzleBits(rowBytes)) - 1;
  return byte ^ (byte / kLongestRow & mask) * kUnitBytes;
}

// Steps 1, 2, 4, ... below the extent.
template <class Check> bool allSteps(int32_t extent, Check check) {
  for (int32_t step = 1; step < extent; step *= 2) {
    if (!check(step)) {
      return false;
    }
  }
  return true;
}

bool isReadByItself(const ir::Function &fn, ir::ValueId buffer, const ir::Target &target) {
  return std::ranges::any_of(fn.uses(buffer), [&](ir::Use use) {
    return isBufferView(fn, use.op) ? isReadByItself(fn, fn.result(use.op), target)
                                    : fn.opcode(use.op) == Opcode::StoreBox ||
                                          (fn.opcode(use.op) == Opcode::Dot && readsByItself(unitOf(fn, use.op, target)));
  });
}

} // namespace

bool readsByItself(const ir::DotUnit &unit) { return unit.together && unit.b.inShared; }

int32_t warpsTogether(const ir::DotUnit &unit) {
  int32_t rows = 1;
  for (const auto *bases : {&unit.acc.regs, &unit.acc.lanes}) {
    for (const Coords &basis : *bases) {
      rows *= basis[0] != 0 ? 2 : 1;
    }
  }
  return unit.m / rows;
}

ir::ValueId untransposed(const ir::Function &fn, ir::ValueId tile) {
  const OpId op = fn.def(tile);
  return op.valid() && fn.opcode(op) == Opcode::Trans ? untransposed(fn, fn.operand(op, 0)) : tile;
}

std::optional<unsigned> fastAxisOf(const ir::DotUnit &unit, unsigned operand) {
  const ir::DotPart &part = operand == 0 ? unit.a : unit.b;
  return readsByItself(unit) && part.alongK ? std::optional(1 - operand) : std::nullopt;
}

std::optional<unsigned> throughTrans(const ir::Function &fn, OpId trans, std::optional<unsigned> axis) {
  return axis ? std::optional(static_cast<unsigned>(fn.getInts(trans, ir::Attr::order)[*axis])) : std::nullopt;
}

bool canLieAlong(const ir::Function &fn, ir::ValueId tile, unsigned axis, const ir::Target &target) {
  return std::ranges::all_of(fn.uses(tile), [&](ir::Use use) {
    if (fn.opcode(use.op) == Opcode::Trans) {
      const auto order = fn.getInts(use.op, ir::Attr::order);
      const auto there = std::ranges::find(order, int64_t{axis}) - order.begin();
      return canLieAlong(fn, fn.result(use.op), static_cast<unsigned>(there), target);
    }
    return fn.opcode(use.op) != Opcode::Dot || use.operand > 1 ||
           fastAxisOf(unitOf(fn, use.op, target), use.operand).value_or(axis) == axis;
  });
}

Layout matrixLayout(std::span<const int32_t> shape, unsigned fastAxis, int32_t elementBytes,
                    std::span<const Layout> threads) {
  const unsigned slowAxis = 1 - fastAxis;
  const auto whole = std::bit_ceil(static_cast<uint32_t>(shape[fastAxis]));
  const int32_t row =
      std::clamp(static_cast<int32_t>(whole) * elementBytes, 2 * kUnitBytes, kLongestRow) / elementBytes;
  std::array<int32_t, 2> extents{};
  extents[fastAxis] = row;
  extents[slowAxis] = 8;
  for (const unsigned axis : {0U, 1U}) {
    for (const Layout &layout : threads) {
      extents[axis] = std::max(extents[axis], layout.subtile()[axis]);
    }
    const auto padded = [&](int32_t step) { return (shape[axis] + step - 1) / step * step; };
    while (extents[axis] < shape[axis] && padded(2 * extents[axis]) <= padded(extents[axis])) {
      extents[axis] *= 2;
    }
  }
  std::array<Layout::Bases, ir::kNumHwDims> bases;
  const auto add = [&](int32_t fast, int32_t slow) {
    Coords basis(2, 0);
    basis[fastAxis] = fast;
    basis[slowAxis] = slow;
    bases[unsigned(HwDim::Offset)].push_back(std::move(basis));
  };
  for (int32_t fast = 1; fast < row; fast *= 2) {
    add(fast, 0);
  }
  // A row's number also moves the units within it: that is undone where an offset has only the row's bit.
  for (int32_t slow = 1; slow < extents[slowAxis]; slow *= 2) {
    const int32_t byte = slow * row * elementBytes;
    add((swizzled(byte, row * elementBytes) - byte) / elementBytes, slow);
  }
  for (int32_t fast = row; fast < extents[fastAxis]; fast *= 2) {
    add(fast, 0);
  }
  return Layout({extents.begin(), extents.end()}, {1, 1}, std::move(bases)).coveringShape(shape);
}

int32_t MatrixWalk::byteOf(int32_t fast, int32_t slow, int32_t elementBytes) const {
  const int32_t along = fast * elementBytes;
  // A part may start inside a row, and ends there then.
  return swizzled(start + along % rowBytes + along / rowBytes * leading + slow % 8 * rowBytes + slow / 8 * stride,
                  rowBytes);
}

std::optional<MatrixWalk> matrixWalk(const Layout &buffer, const Coords &first, const Coords &extents,
                                     int32_t elementBytes) {
  const ir::LayoutInverse inverse(buffer);
  const auto byteAt = [&](unsigned axis, int32_t step) {
    Coords coords = first;
    coords[axis] += step;
    return inverse.offsetOf(coords) * elementBytes;
  };
  for (const unsigned fast : {0U, 1U}) {
    const unsigned slow = 1 - fast;
    for (int32_t row = 2 * kUnitBytes; row <= kLongestRow; row *= 2) {
      const int32_t rowElements = row / elementBytes;
      MatrixWalk walk{.fastAxis = fast, .start = byteAt(fast, 0), .rowBytes = row};
      walk.leading = extents[fast] > rowElements ? byteAt(fast, rowElements) - walk.start : 0;
      walk.stride = extents[slow] > 8 ? byteAt(slow, 8) - walk.start : 0;
      const bool alike =
          buffer.rank() == 2 && walk.start == swizzled(walk.start, row) &&
          allSteps(extents[fast],
                   [&](int32_t step) { return byteAt(fast, step) == walk.byteOf(step, 0, elementBytes); }) &&
          allSteps(extents[slow],
                   [&](int32_t step) { return byteAt(slow, step) == walk.byteOf(0, step, elementBytes); });
      if (alike) {
        return walk;
      }
    }
  }
  return std::nullopt;
}

bool publishes(const ir::Function &fn, OpId op, const ir::Target &target) {
  if (std::ranges::none_of(target.units, readsByItself)) {
    return false;
  }
  if (fn.opcode(op) == Opcode::BufferWrite) {
    return isReadByItself(fn, fn.operand(op, 0), target);
  }
  return std::ranges::any_of(fn.walk(), [&](OpId other) {
    return fn.opcode(other) == Opcode::Dot && readsByItself(unitOf(fn, other, target));
  });
}

} // namespace libtile::passes
