// SPDX-License-Identifier: Apache-2.0
// Comparisons and selects. Canonical: a constant is compared on the right, not is xor with true.
#include "ir/ops.h"
#include "passes/op_properties.h"
#include "passes/simplify_rules.h"

#include <llvm/Support/MathExtras.h>

namespace libtile::passes {

using ir::Attr;
using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

bool holdsOnEqual(CmpPred predicate) {
  return predicate == CmpPred::eq || predicate == CmpPred::sle || predicate == CmpPred::sge ||
         predicate == CmpPred::ule || predicate == CmpPred::uge;
}

// The minimum or maximum that `a p b ? a : b` is; nullopt if none.
std::optional<Opcode> extremeOf(CmpPred predicate) {
  switch (predicate) {
  case CmpPred::slt:
  case CmpPred::sle:
    return Opcode::SMin;
  case CmpPred::sgt:
  case CmpPred::sge:
    return Opcode::SMax;
  case CmpPred::ult:
  case CmpPred::ule:
    return Opcode::UMin;
  case CmpPred::ugt:
  case CmpPred::uge:
    return Opcode::UMax;
  case CmpPred::eq:
  case CmpPred::ne:
  case CmpPred::oeq:
  case CmpPred::one:
  case CmpPred::olt:
  case CmpPred::ole:
  case CmpPred::ogt:
  case CmpPred::oge:
  case CmpPred::une:
    return std::nullopt; // floats: zeros and NaNs differ
  }
  return std::nullopt;
}

// select(a < b, a, b) -> min(a, b), and its like
ValueId selectExtreme(Rewriter &rw, ValueId c, ValueId a, ValueId b) {
  if (!rw.is(c, Opcode::Cmp) || !rw.fn.type(a).isInteger() || rw.fn.type(a).isBool()) {
    return {};
  }
  const OpId compare = rw.def(c);
  const auto predicate = rw.fn.getEnum<CmpPred>(compare, Attr::predicate);
  const ValueId x = rw.fn.operand(compare, 0), y = rw.fn.operand(compare, 1);
  const auto opcode = x == a && y == b   ? extremeOf(predicate)
                      : x == b && y == a ? extremeOf(swapped(predicate))
                                         : std::nullopt;
  return opcode ? rw.make(*opcode, {a, b}) : ValueId{};
}

// arange >= c, and its like, where all of its numbers lie on one side of the constant
std::optional<bool> compareArange(Rewriter &rw, CmpPred predicate, ValueId a, ValueId b) {
  const auto bound = rw.fn.constantInt(b);
  if (!bound || !rw.is(a, Opcode::Arange)) {
    return std::nullopt;
  }
  const int64_t least = rw.fn.getInt(rw.def(a), Attr::start);
  const int64_t greatest = least + rw.fn.type(a).dim(0) - 1;
  const bool isLess = predicate == CmpPred::slt, isGreater = predicate == CmpPred::sgt;
  if (isLess || predicate == CmpPred::sge) {
    return greatest < *bound ? std::optional(isLess) : least >= *bound ? std::optional(!isLess) : std::nullopt;
  }
  if (isGreater || predicate == CmpPred::sle) {
    return least > *bound ? std::optional(isGreater) : greatest <= *bound ? std::optional(!isGreater) : std::nullopt;
  }
  return std::nullopt;
}

bool isShape(Opcode opcode) {
  return opcode == Opcode::Splat || opcode == Opcode::ExpandDims || opcode == Opcode::Broadcast;
}

// From which integer the value is sign-extended, shape ops apart; Void: from none.
Elem extendedFrom(const Rewriter &rw, ValueId value) {
  const auto opcode = rw.fn.defOpcode(value);
  if (!opcode || (*opcode != Opcode::SExt && !isShape(*opcode))) {
    return Elem::Void;
  }
  const ValueId operand = rw.fn.operand(rw.def(value), 0);
  if (*opcode != Opcode::SExt) {
    return extendedFrom(rw, operand);
  }
  return rw.fn.type(operand).isBool() ? Elem::Void : rw.fn.type(operand).elem();
}

bool extends(const Rewriter &rw, ValueId value, Elem from) {
  const auto number = rw.fn.constantInt(value);
  return number ? llvm::isIntN(bitWidth(from), *number) : extendedFrom(rw, value) == from;
}

// What the value is extended from.
ValueId narrow(Rewriter &rw, ValueId value, Elem from) {
  const Type type = rw.fn.type(value).withElement(from);
  if (const auto number = rw.fn.constantInt(value)) {
    return rw.constant(type, *number);
  }
  const OpId op = rw.def(value);
  const ValueId operand = rw.fn.operand(op, 0);
  return rw.fn.opcode(op) == Opcode::SExt ? operand : rw.sameOp(op, std::array{narrow(rw, operand, from)}, type);
}

// sext a < sext b -> a < b, and its like: the order is the same, also that of unsigned numbers
ValueId compareNarrow(Rewriter &rw, CmpPred predicate, ValueId a, ValueId b) {
  const Elem from = extendedFrom(rw, a);
  return from != Elem::Void && extends(rw, b, from)
             ? rw.builder.cmp(predicate, narrow(rw, a, from), narrow(rw, b, from))
             : ValueId{};
}

} // namespace

ValueId simplifyCompare(Rewriter &rw, OpId op) {
  if (rw.fn.opcode(op) != Opcode::Cmp) {
    return {};
  }
  const ValueId a = rw.fn.operand(op, 0), b = rw.fn.operand(op, 1);
  const auto predicate = rw.fn.getEnum<CmpPred>(op, Attr::predicate);
  const Type result = rw.fn.type(rw.fn.result(op));
  if (a == b && !rw.fn.type(a).isFloating()) {
    return rw.constant(result, int64_t{holdsOnEqual(predicate)});
  }
  if (rw.isConstant(a) && !rw.isConstant(b)) {
    return rw.builder.cmp(swapped(predicate), b, a);
  }
  if (const auto known = compareArange(rw, predicate, a, b)) {
    return rw.constant(result, int64_t{*known});
  }
  // b != false -> b; b == true -> b; b == false, b != true -> not b
  const bool equality = predicate == CmpPred::eq || predicate == CmpPred::ne;
  if (equality && rw.fn.type(a).isBool() && rw.isConstant(b)) {
    const bool same = (predicate == CmpPred::eq) == rw.isInt(b, 1);
    return same ? a : rw.make(Opcode::Xor, {a, rw.constant(result, int64_t{1})});
  }
  // x < 0 and x >= 0, unsigned
  if (rw.isInt(b, 0) && (predicate == CmpPred::ult || predicate == CmpPred::uge)) {
    return rw.constant(result, int64_t{predicate == CmpPred::uge});
  }
  return compareNarrow(rw, predicate, a, b);
}

ValueId simplifySelect(Rewriter &rw, OpId op) {
  if (rw.fn.opcode(op) != Opcode::Select) {
    return {};
  }
  const ValueId c = rw.fn.operand(op, 0), a = rw.fn.operand(op, 1), b = rw.fn.operand(op, 2);
  if (a == b || rw.isInt(c, 1)) {
    return a;
  }
  if (rw.isInt(c, 0)) {
    return b;
  }
  if (rw.fn.type(a).isBool() && rw.isInt(a, 1) && rw.isInt(b, 0)) {
    return c;
  }
  if (const ValueId extreme = selectExtreme(rw, c, a, b); extreme.valid()) {
    return extreme;
  }
  if (rw.is(c, Opcode::Xor) && rw.isInt(rw.fn.operand(rw.def(c), 1), 1)) { // not
    return rw.make(Opcode::Select, {rw.fn.operand(rw.def(c), 0), b, a});
  }
  // select(c, select(c, x, y), b) -> select(c, x, b), and the other arm
  const auto sameCondition = [&](ValueId value) {
    return rw.is(value, Opcode::Select) && rw.fn.operand(rw.def(value), 0) == c;
  };
  if (sameCondition(a)) {
    return rw.make(Opcode::Select, {c, rw.fn.operand(rw.def(a), 1), b});
  }
  if (sameCondition(b)) {
    return rw.make(Opcode::Select, {c, a, rw.fn.operand(rw.def(b), 2)});
  }
  return {};
}

} // namespace libtile::passes
