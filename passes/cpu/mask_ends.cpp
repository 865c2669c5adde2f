// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/mask_ends.h"

#include "ir/ops.h"

namespace libtile::passes {

using namespace ir;

namespace {

// The scalar that all elements of the tile are.
ValueId uniformOf(const Function &fn, ValueId tile) {
  while (fn.defOpcode(tile) == Opcode::Broadcast || fn.defOpcode(tile) == Opcode::ExpandDims) {
    tile = fn.operand(fn.def(tile), 0);
  }
  return fn.defOpcode(tile) == Opcode::Splat ? fn.operand(fn.def(tile), 0) : ValueId();
}

// What differs along the axis as the tile does, without broadcasts and axes added; `axis` becomes its own.
ValueId alongAxis(const Function &fn, ValueId tile, unsigned &axis) {
  while (true) {
    const auto opcode = fn.defOpcode(tile);
    const ValueId from = opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ? fn.operand(fn.def(tile), 0) : ValueId();
    const unsigned added = opcode == Opcode::ExpandDims ? unsigned(fn.getInt(fn.def(tile), Attr::axis)) : Type::kMaxRank;
    const unsigned before = axis - (added < axis ? 1 : 0);
    if (!from.valid() || added == axis || fn.type(from).dim(before) != fn.type(tile).dim(axis)) {
      return tile;
    }
    tile = from;
    axis = before;
  }
}

// Whether the tile is the index along the axis plus terms, which are added to what is there, whatever the other axes.
bool countsAlong(const Function &fn, ValueId tile, unsigned axis, Values &terms) {
  tile = alongAxis(fn, tile, axis);
  const auto opcode = fn.defOpcode(tile);
  if (opcode == Opcode::Arange) {
    return fn.getInt(fn.def(tile), Attr::start) == 0;
  }
  for (unsigned side = 0; opcode == Opcode::Add && side < 2; ++side) {
    const ValueId other = uniformOf(fn, fn.operand(fn.def(tile), 1 - side));
    if (other.valid() && countsAlong(fn, fn.operand(fn.def(tile), side), axis, terms)) {
      terms.push_back(other);
      return true;
    }
  }
  return false;
}

std::optional<MaskEnd> endOfCompare(const Function &fn, ValueId mask, unsigned axis) {
  mask = alongAxis(fn, mask, axis);
  if (fn.defOpcode(mask) != Opcode::Cmp ||
      static_cast<CmpPred>(fn.getInt(fn.def(mask), Attr::predicate)) != CmpPred::slt ||
      fn.type(fn.operand(fn.def(mask), 0)).elem() != Elem::I32) {
    return std::nullopt;
  }
  MaskEnd end;
  end.limit = uniformOf(fn, fn.operand(fn.def(mask), 1));
  const bool counts = countsAlong(fn, fn.operand(fn.def(mask), 0), axis, end.terms);
  return counts && end.limit.valid() ? std::optional(end) : std::nullopt;
}

// Of one of the compares that the mask needs.
std::optional<MaskEnd> endAlong(const Function &fn, ValueId mask, unsigned axis) {
  mask = alongAxis(fn, mask, axis);
  if (fn.defOpcode(mask) == Opcode::And) {
    const auto left = endAlong(fn, fn.operand(fn.def(mask), 0), axis);
    return left ? left : endAlong(fn, fn.operand(fn.def(mask), 1), axis);
  }
  return endOfCompare(fn, mask, axis);
}

bool addEnds(const Function &fn, ValueId mask, llvm::SmallVector<AxisEnd, 2> &ends) {
  if (fn.defOpcode(mask) == Opcode::And) {
    return addEnds(fn, fn.operand(fn.def(mask), 0), ends) && addEnds(fn, fn.operand(fn.def(mask), 1), ends);
  }
  for (const unsigned axis : {0U, 1U}) {
    if (const auto end = endOfCompare(fn, mask, axis)) {
      ends.push_back({axis, *end});
      return true;
    }
  }
  return false;
}

} // namespace

ValueId baseOf(Builder &builder, const MaskEnd &end) {
  ValueId sum;
  for (ValueId term : end.terms) {
    sum = sum.valid() ? builder.make(Opcode::Add, {sum, term}) : term;
  }
  return sum;
}

std::optional<MaskEnd> zerosBehind(const Function &fn, ValueId tile, unsigned axis) {
  if (fn.defOpcode(tile) != Opcode::Load || fn.numOperands(fn.def(tile)) < 2) {
    return std::nullopt;
  }
  const OpId load = fn.def(tile);
  if (fn.numOperands(load) > 2) {
    const ValueId other = fn.operand(load, 2);
    if (fn.constantInt(other).value_or(1) != 0 && fn.constantFloat(other).value_or(1) != 0) {
      return std::nullopt;
    }
  }
  return endAlong(fn, fn.operand(load, 1), axis);
}

std::optional<llvm::SmallVector<AxisEnd, 2>> endsOfMask(const Function &fn, ValueId mask) {
  llvm::SmallVector<AxisEnd, 2> ends;
  return addEnds(fn, mask, ends) ? std::optional(ends) : std::nullopt;
}

} // namespace libtile::passes
