// SPDX-License-Identifier: Apache-2.0
// Floats: only what is exact for every input, infinities, NaNs and signed zeros included. Sums and
// products are never regrouped. x + 0.0 stays (it turns -0.0 into 0.0); x + -0.0 and x - 0.0 go.
#include "ir/ops.h"
#include "passes/op_properties.h"
#include "passes/simplify_rules.h"

#include <cmath>

namespace libtile::passes {

using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

// Exponents whose powers of two, and their reciprocals, are normal numbers of the format.
int largestExponent(Elem elem) { return elem == Elem::F16 ? 14 : elem == Elem::F64 ? 1022 : 126; }

// x / 2^k -> x * 2^-k: both round the same exact value.
ValueId divideByPower(Rewriter &rw, ValueId a, ValueId b) {
  const auto number = rw.floatOf(b);
  if (!number) {
    return {};
  }
  int exponent = 0;
  const double mantissa = std::frexp(*number, &exponent);
  if (std::fabs(mantissa) != 0.5 ||
      std::abs(exponent - 1) > largestExponent(rw.fn.type(b).elem())) {
    return {};
  }
  return rw.make(Opcode::Mul, {a, rw.builder.constFloat(rw.fn.type(b), 1.0 / *number)});
}

// dot(a, b, 0) + c -> dot(a, b, c): the order of a dot's sums is free.
ValueId accumulate(Rewriter &rw, ValueId dot, ValueId other) {
  if (!rw.is(dot, Opcode::Dot) || rw.fn.uses(dot).size() != 1) {
    return {};
  }
  const OpId op = rw.def(dot);
  const ValueId start = rw.fn.operand(op, 2);
  if (!rw.isInt(start, 0) && !rw.isFloat(start, 0.0) && !rw.isFloat(start, -0.0)) {
    return {};
  }
  const ValueId operands[] = {rw.fn.operand(op, 0), rw.fn.operand(op, 1), other};
  return rw.sameOp(op, operands, rw.fn.type(dot));
}

// sum(x + 0.0) -> sum(x) + 0.0: all that the zero does to a term is that -0.0 becomes 0.0, which a sum that is not
// zero does not show. A loop that sums from zero and runs once leaves such terms.
bool addZeroLast(Rewriter &rw, OpId sum) {
  const ValueId terms = rw.fn.operand(sum, 0), result = rw.fn.result(sum);
  if (!rw.is(terms, Opcode::Add) || rw.fn.uses(terms).size() != 1 || !rw.isFloat(rw.fn.operand(rw.def(terms), 1), 0.0)) {
    return false;
  }
  rw.fn.setOperand(sum, 0, rw.fn.operand(rw.def(terms), 0));
  rw.builder.setBefore(rw.fn.next(sum));
  const ValueId zero = rw.builder.constFloat(rw.fn.type(result), 0.0);
  const OpId add = rw.fn.def(rw.make(Opcode::Add, {zero, zero}));
  rw.fn.replaceAllUses(result, rw.fn.result(add));
  rw.fn.setOperand(add, 0, result);
  return true;
}

ValueId floatBinary(Rewriter &rw, OpId op) {
  const ValueId a = rw.fn.operand(op, 0), b = rw.fn.operand(op, 1);
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::Add) {
    return rw.isFloat(b, -0.0) ? a : ValueId{};
  }
  if (opcode == Opcode::Sub) {
    return rw.isFloat(b, 0.0) ? a : ValueId{};
  }
  if (opcode == Opcode::Mul) {
    return rw.isFloat(b, 1.0) ? a : ValueId{};
  }
  if (opcode == Opcode::FDiv) {
    return rw.isFloat(b, 1.0) ? a : divideByPower(rw, a, b);
  }
  return (opcode == Opcode::FMin || opcode == Opcode::FMax) && a == b ? a : ValueId{};
}

} // namespace

ValueId simplifyFloat(Rewriter &rw, OpId op) {
  const Opcode opcode = rw.fn.opcode(op);
  if (opcode == Opcode::Reduce && onlyCombination(rw.fn, op) == Opcode::Add) {
    rw.edited = addZeroLast(rw, op);
    return {};
  }
  if (opcode == Opcode::Add) {
    const ValueId a = rw.fn.operand(op, 0), b = rw.fn.operand(op, 1);
    const ValueId left = accumulate(rw, a, b);
    const ValueId result = left.valid() ? left : accumulate(rw, b, a);
    if (result.valid()) {
      return result;
    }
  }
  const ir::TypeRule rule = rw.fn.opInfo(op).rule;
  if ((rule != ir::TypeRule::Same && rule != ir::TypeRule::SameFloat) || opcode == Opcode::Hint ||
      !rw.fn.type(rw.fn.operand(op, 0)).isFloating()) {
    return {};
  }
  if (rw.fn.numOperands(op) == 2) {
    return floatBinary(rw, op);
  }
  const ValueId a = rw.fn.operand(op, 0);
  if (opcode == Opcode::Neg) {
    return rw.through(a, Opcode::Neg);
  }
  if (opcode == Opcode::Abs) {
    if (rw.is(a, Opcode::Abs)) {
      return a;
    }
    const ValueId inner = rw.through(a, Opcode::Neg); // |-x| -> |x|
    return inner.valid() ? rw.make(Opcode::Abs, {inner}) : ValueId{};
  }
  return {};
}

} // namespace libtile::passes
