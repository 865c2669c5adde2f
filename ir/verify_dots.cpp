// SPDX-License-Identifier: Apache-2.0
// Invariants 20 of dots, shapes, elements and how warps share the accumulator, and 30 of contracts (the list is in verifier.cpp).
#include "ir/ops.h"
#include "ir/verifier_impl.h"

#include <algorithm>
#include <bit>

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

void verifyContract(Checker &c, OpId op) {
  const Function &fn = c.fn;
  const Type i32 = Type::scalar(Elem::I32);
  const Type a = c.operandType(op, 0), b = c.operandType(op, 1), acc = c.operandType(op, 2);
  const bool words = b.elem() == Elem::I32 && a.elementBytes() < b.elementBytes();
  const bool ok = a.isBuffer() && b.isBuffer() && acc.isBuffer() && a.rank() == 2 && b.rank() == 2 && acc.rank() == 2 &&
                  (a.element() == b.element() || words) && a.dim(0) >= acc.dim(0) && b.dim(1) >= acc.dim(1) && c.operandType(op, 3) == i32 &&
                  c.operandType(op, 4) == Type::scalar(Elem::I1);
  auto rest = fn.operands(op).subspan(std::min<size_t>(fn.numOperands(op), 5));
  const auto takeRows = [&](Elem with) {
    if (rest.size() < 2 || !fn.type(rest[0]).isBuffer() || fn.type(rest[0]).elem() == Elem::I32 || fn.type(rest[1]) != Type::scalar(with)) {
      return false;
    }
    const Type rows = fn.type(rest[0]);
    c.require(rows.elem() == Elem::I64 && rows.rank() == 1 && rows.dim(0) >= acc.dim(0), 30, op,
              "the addresses of rows are not a buffer of M of them");
    rest = rest.subspan(2);
    return true;
  };
  (void)takeRows(Elem::I32); // in place
  const bool isAhead = takeRows(Elem::I1);
  c.require(isAhead == (fn.getInt(op, Attr::ahead_bytes) > 0), 30, op, "rows ahead and the bytes of their elements come together");
  const auto areFindings = [&](ValueId table, ValueId known) {
    const Type type = fn.type(table);
    return type.isBuffer() && type.elem() == Elem::I32 && fn.type(known) == Type::scalar(Elem::I1);
  };
  if (rest.size() >= 6 && fn.type(rest[0]).isBuffer()) {
    c.require(areFindings(rest[0], rest[1]) && areFindings(rest[2], rest[3]) && areFindings(rest[4], rest[5]), 30, op,
              "findings are not three tables of i32 with an i1 each");
    rest = rest.subspan(6);
  }
  const bool isEnded = rest.size() == 2 && fn.type(rest[0]) == i32 && fn.type(rest[1]) == i32;
  c.require(rest.empty() || isEnded, 30, op, "the ends are not an i32 of rows and one of columns");
  c.require(ok, 30, op, "the buffers are not MxK, KxN (or words of several rows) and MxN with an i32 k and an i1");
  c.require(fn.getInt(op, Attr::block_m) >= 1 && fn.getInt(op, Attr::block_n) >= 1, 30, op, "register blocks are at least 1x1");
}

void verifyTransposeWords(Checker &c, OpId op) {
  const Type rows = c.operandType(op, 0), words = c.operandType(op, 1);
  if (!c.require(rows.isBuffer() && words.isBuffer() && rows.rank() == 2 && words.rank() == 2 &&
                     c.operandType(op, 2) == Type::scalar(Elem::I32),
                 30, op, "buffers of rank 2 and an i32")) {
    return;
  }
  const int64_t lanes = c.fn.getInt(op, Attr::lanes), wordBytes = words.elementBytes(), rowBytes = int64_t{rows.dim(1)} * rows.elementBytes();
  const int64_t first = c.fn.constantInt(c.fn.operand(op, 2)).value_or(0); // where it is known
  c.require(wordBytes % rows.elementBytes() == 0 && rowBytes % 16 == 0 && first >= 0 && words.dim(0) >= first + rowBytes / wordBytes &&
                words.dim(1) >= rows.dim(0),
            30, op, "rows of whole chunks of 16 bytes, and room for all of their words");
  c.require(lanes > 0 && std::has_single_bit(uint64_t(lanes)) && rows.dim(0) % lanes == 0 && lanes * wordBytes % 16 == 0, 30, op,
            "lanes are a power of two, 16 bytes of words at least, and divide the rows");
}

} // namespace libtile::ir
