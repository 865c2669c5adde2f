// SPDX-License-Identifier: Apache-2.0
// Invariant 20 of dots: shapes, elements and how warps share the accumulator (the list is in verifier.cpp).
#include "ir/ops.h"
#include "ir/verifier_impl.h"

namespace libtile::ir {

namespace {

void verifyShapes(Checker &c, OpId op, const Type &a, const Type &b, const Type &acc) {
  const unsigned rank = acc.rank();
  bool ok = a.dim(rank - 2) == acc.dim(rank - 2) && a.dim(rank - 1) == b.dim(rank - 2) &&
            b.dim(rank - 1) == acc.dim(rank - 1);
  for (unsigned axis = 0; axis + 2 < rank; ++axis) {
    ok = ok && a.dim(axis) == acc.dim(axis) && b.dim(axis) == acc.dim(axis);
  }
  c.require(ok, 20, op, "the shapes are not MxK, KxN and MxN");
}

void verifyElements(Checker &c, OpId op, const Type &a, const Type &b, const Type &acc) {
  const bool formatA = c.fn.hasAttr(op, Attr::format_a), formatB = c.fn.hasAttr(op, Attr::format_b);
  c.require(formatA == formatB && (!formatA || a.elem() == Elem::I8), 20, op,
            "codes of 8-bit floats are i8, and both operands are");
  const bool bothIntegers = a.isInteger() && !formatA && acc.isInteger();
  const bool bothFloats = (a.isFloating() || formatA) && acc.isFloating();
  c.require(a.element() == b.element() && (bothIntegers || bothFloats) && acc.elementBits() >= a.elementBits(), 20, op,
            "the element types do not fit");
}

void verifyWarps(Checker &c, OpId op, unsigned rank) {
  const Function &fn = c.fn;
  int64_t warps = 1;
  bool grid = !fn.hasAttr(op, Attr::warps) || fn.getInts(op, Attr::warps).size() == rank;
  for (const int64_t along : fn.getInts(op, Attr::warps)) {
    grid = grid && along >= 1 && along <= 64 && (along & (along - 1)) == 0;
    warps *= grid ? along : 1;
  }
  c.require(grid && (fn.stage == Stage::Tile || warps <= fn.numWarps), 20, op,
            "warps is not a power of two an axis, together at most the program's");
}

} // namespace

void verifyDot(Checker &c, OpId op) {
  const Type a = c.operandType(op, 0), b = c.operandType(op, 1), acc = c.operandType(op, 2);
  const bool isTileStage = c.fn.stage == Stage::Tile;
  // Once conversions are lowered, some units read both operands, or the second one, from buffers.
  const bool tiles = a.isTile() && b.isTile();
  const bool buffers = (a.isTile() || a.isBuffer()) && b.isBuffer() && !isTileStage;
  const bool accumulates = acc.isTile() || (acc.isPlace() && !isTileStage);
  const bool ranks = acc.rank() >= 2 && a.rank() == acc.rank() && b.rank() == acc.rank();
  if (!c.require((tiles || buffers) && accumulates && ranks && acc == c.resultType(op), 20, op,
                 "dot takes three tiles of one rank >= 2 and gives the type of the last")) {
    return;
  }
  verifyShapes(c, op, a, b, acc);
  verifyElements(c, op, a, b, acc);
  verifyWarps(c, op, acc.rank());
  c.require(c.fn.getInt(op, Attr::behind) >= 0 && c.fn.getInt(op, Attr::behind) <= 1, 20, op,
            "behind is 0 or 1");
}

} // namespace libtile::ir
