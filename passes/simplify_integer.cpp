// SPDX-License-Identifier: Apache-2.0
// Integers. All arithmetic wraps, so sums and products may be regrouped freely. Canonical:
// constants right, splats right of other tiles; subtraction of a constant is addition; chains of
// one op with constants or splats have them together, at the end.
#include "ir/ops.h"
#include "passes/op_properties.h"
#include "passes/simplify_rules.h"

namespace libtile::passes {

using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

// x op identity, x op absorber, x op x
ValueId neutral(Rewriter &rw, OpId op, ValueId a, ValueId b) {
  const Opcode opcode = rw.fn.opcode(op);
  const Type type = rw.fn.type(a);
  const bool zero = rw.isInt(b, 0), one = rw.isInt(b, 1), ones = rw.isInt(b, -1);
  if (opcode == Opcode::Add || opcode == Opcode::Or || opcode == Opcode::Xor) {
    return zero                              ? a
           : a == b && opcode == Opcode::Xor ? rw.constant(type, int64_t{0})
           : a == b && opcode == Opcode::Or  ? a
           : ones && opcode == Opcode::Or    ? b
                                             : ValueId{};
  }
  if (opcode == Opcode::Sub) {
    return zero ? a : a == b ? rw.constant(type, int64_t{0}) : ValueId{};
  }
  if (opcode == Opcode::Mul) {
    return one ? a : zero ? b : ValueId{};
  }
  if (opcode == Opcode::And) {
    return ones || a == b ? a : zero ? b : ValueId{};
  }
  if (opcode == Opcode::Shl || opcode == Opcode::LShr || opcode == Opcode::AShr) {
    return zero || rw.isInt(a, 0) ? a : ValueId{};
  }
  const bool minmax = opcode == Opcode::SMin || opcode == Opcode::SMax || opcode == Opcode::UMin ||
                      opcode == Opcode::UMax;
  return minmax && a == b ? a : ValueId{};
}

// x / 1, x % 1, 0 / x; unsigned by a power of two -> shift, mask
ValueId division(Rewriter &rw, OpId op, ValueId a, ValueId b) {
  const Opcode opcode = rw.fn.opcode(op);
  const Type type = rw.fn.type(a);
  const bool quotient = opcode == Opcode::SDiv || opcode == Opcode::UDiv;
  if (type.isBool()) {
    return {};
  }
  if (rw.isInt(b, 1)) {
    return quotient ? a : rw.constant(type, int64_t{0});
  }
  if (rw.isInt(b, 0)) {
    return quotient ? b : a;
  }
  if (rw.isInt(a, 0)) {
    return a;
  }
  const auto number = rw.intOf(b);
  const bool power = number && *number > 0 && (*number & (*number - 1)) == 0;
  if (power && opcode == Opcode::UDiv) {
    return rw.make(Opcode::LShr, {a, rw.constant(type, int64_t{__builtin_ctzll(*number)})});
  }
  if (power && opcode == Opcode::URem) {
    return rw.make(Opcode::And, {a, rw.constant(type, *number - 1)});
  }
  return {};
}

// (x op c) op d -> x op (c op d), where c and d are constants or splats
// (x op c) op y -> (x op y) op c, where only c is
ValueId regroup(Rewriter &rw, OpId op, ValueId a, ValueId b) {
  const Opcode opcode = rw.fn.opcode(op);
  if (!associatesOnIntegers(opcode)) {
    return {};
  }
  const auto loose = [&](ValueId value) { return rw.isSplat(value); };
  const auto inner = [&](ValueId value) {
    return rw.is(value, opcode) && loose(rw.fn.operand(rw.def(value), 1)) &&
           !loose(rw.fn.operand(rw.def(value), 0));
  };
  if (inner(a) && loose(b)) {
    const OpId left = rw.def(a);
    return rw.make(opcode, {rw.fn.operand(left, 0), rw.make(opcode, {rw.fn.operand(left, 1), b})});
  }
  // One use: else both sums would be kept.
  const auto single = [&](ValueId value) { return rw.fn.uses(value).size() == 1; };
  if (inner(a) && single(a) && !loose(b)) {
    const OpId left = rw.def(a);
    return rw.make(opcode, {rw.make(opcode, {rw.fn.operand(left, 0), b}), rw.fn.operand(left, 1)});
  }
  if (inner(b) && single(b) && !loose(a)) {
    const OpId right = rw.def(b);
    return rw.make(opcode,
                   {rw.make(opcode, {a, rw.fn.operand(right, 0)}), rw.fn.operand(right, 1)});
  }
  return {};
}

// x - c -> x + -c; (x + y) - x -> y; x - (0 - y), 0 - x
ValueId subtraction(Rewriter &rw, ValueId a, ValueId b) {
  const Type type = rw.fn.type(a);
  if (const auto number = rw.intOf(b)) {
    const auto negative = static_cast<int64_t>(-static_cast<uint64_t>(*number));
    return rw.make(Opcode::Add, {a, rw.constant(type, negative)});
  }
  if (rw.isInt(a, 0)) {
    return rw.make(Opcode::Neg, {b});
  }
  if (rw.is(a, Opcode::Add)) {
    const OpId sum = rw.def(a);
    if (rw.fn.operand(sum, 0) == b) {
      return rw.fn.operand(sum, 1);
    }
    if (rw.fn.operand(sum, 1) == b) {
      return rw.fn.operand(sum, 0);
    }
  }
  const ValueId negated = rw.through(b, Opcode::Neg);
  return negated.valid() ? rw.make(Opcode::Add, {a, negated}) : ValueId{};
}

// not (a p b) -> a p' b; not not x -> x. Not is xor with true.
ValueId negation(Rewriter &rw, OpId op, ValueId a, ValueId b) {
  if (rw.fn.opcode(op) != Opcode::Xor || !rw.fn.type(a).isBool() || !rw.isInt(b, 1) ||
      !rw.is(a, Opcode::Cmp)) {
    return {};
  }
  const OpId compare = rw.def(a);
  const auto predicate = rw.fn.getEnum<ir::CmpPred>(compare, ir::Attr::predicate);
  return inverted(predicate) == predicate
             ? ValueId{}
             : rw.builder.cmp(inverted(predicate), rw.fn.operand(compare, 0),
                              rw.fn.operand(compare, 1));
}

ValueId unary(Rewriter &rw, OpId op) {
  const ValueId a = rw.fn.operand(op, 0);
  if (rw.fn.opcode(op) == Opcode::Neg) {
    const ValueId inner = rw.through(a, Opcode::Neg);
    if (inner.valid()) {
      return inner;
    }
    if (rw.is(a, Opcode::Sub)) { // -(x - y) -> y - x
      const OpId difference = rw.def(a);
      return rw.make(Opcode::Sub, {rw.fn.operand(difference, 1), rw.fn.operand(difference, 0)});
    }
  }
  return rw.fn.opcode(op) == Opcode::Abs && rw.is(a, Opcode::Abs) ? a : ValueId{};
}

} // namespace

ValueId simplifyInteger(Rewriter &rw, OpId op) {
  const ir::TypeRule rule = rw.fn.opInfo(op).rule;
  if ((rule != ir::TypeRule::Same && rule != ir::TypeRule::SameInt) ||
      !rw.fn.type(rw.fn.operand(op, 0)).isInteger() || rw.fn.opcode(op) == Opcode::Hint) {
    return {};
  }
  if (rw.fn.numOperands(op) == 1) {
    return unary(rw, op);
  }
  const ValueId a = rw.fn.operand(op, 0), b = rw.fn.operand(op, 1);
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::SDiv || opcode == Opcode::UDiv || opcode == Opcode::SRem ||
      opcode == Opcode::URem) {
    return division(rw, op, a, b);
  }
  if (const ValueId result = neutral(rw, op, a, b); result.valid()) {
    return result;
  }
  if (opcode == Opcode::Sub) {
    return subtraction(rw, a, b);
  }
  if (const ValueId result = negation(rw, op, a, b); result.valid()) {
    return result;
  }
  return regroup(rw, op, a, b);
}

} // namespace libtile::passes
