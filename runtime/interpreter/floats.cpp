// SPDX-License-Identifier: Apache-2.0
// Arithmetic of floats, rounded once in their own format. f16 and bf16 are computed in double, which has more than
// twice their bits: then the second rounding gives what one would.
#include "runtime/interpreter/evaluator.h"

#include "runtime/interpreter/each.h"

#include <cmath>

namespace libtile::runtime::interpreter {

using ir::Attr;
using ir::Elem;
using ir::Opcode;
using ir::OpId;

namespace {

// Of two zeros the one with that sign, of a NaN and a number the number; `nan`: the NaN.
template <class T> T extreme(bool isMax, bool nan, T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    return nan || (std::isnan(a) && std::isnan(b)) ? T(NAN) : std::isnan(a) ? b : a;
  }
  if (a == 0 && b == 0) {
    return std::signbit(a) == isMax ? b : a;
  }
  return isMax ? std::max(a, b) : std::min(a, b);
}

template <class T> T rounded(T a) {
  const T whole = std::floor(a), rest = a - whole;
  const T even = std::fmod(whole, T(2)) == 0 ? whole : whole + 1;
  return std::isfinite(a) ? std::copysign(rest == T(0.5) ? even : rest < T(0.5) ? whole : whole + 1, a) : a;
}

// In T; what is not exact there is rounded by it.
template <class T> T compute(Opcode opcode, bool nan, T a, T b) {
  switch (opcode) {
  case Opcode::Add: return a + b;
  case Opcode::Sub: return a - b;
  case Opcode::Mul: return a * b;
  case Opcode::FDiv: return a / b;
  case Opcode::FRem: return std::fmod(a, b);
  case Opcode::FMin: return extreme(false, nan, a, b);
  case Opcode::FMax: return extreme(true, nan, a, b);
  case Opcode::Neg: return -a;
  case Opcode::Abs: return std::fabs(a);
  case Opcode::Floor: return std::floor(a);
  case Opcode::Ceil: return std::ceil(a);
  case Opcode::Chop: return std::trunc(a);
  case Opcode::Rint: return rounded(a);
  case Opcode::Sqrt: return std::sqrt(a);
  case Opcode::Scalb:
    return static_cast<T>(std::ldexp(double{a}, std::isfinite(b) ? static_cast<int>(std::clamp<double>(b, -5000, 5000)) : 0));
#define ELEMENTWISE(Name, ...) case Opcode::Name:
#define ARITHMETIC(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
  case Opcode::SDiv: case Opcode::UDiv: case Opcode::SRem: case Opcode::URem: case Opcode::And:
  case Opcode::Or: case Opcode::Xor: case Opcode::Shl: case Opcode::LShr: case Opcode::AShr:
  case Opcode::SMin: case Opcode::SMax: case Opcode::UMin: case Opcode::UMax: case Opcode::SMulHi:
  case Opcode::UMulHi: case Opcode::Popc: case Opcode::Clz: case Opcode::Brev: case Opcode::Fma:
  case Opcode::Exp: case Opcode::Exp2: case Opcode::Log: case Opcode::Log2: case Opcode::Rsqrt:
  case Opcode::Sin: case Opcode::Cos: case Opcode::Erf:
    break;
  }
  throw ir::InternalError("no op on floats, or a function that was not expanded");
}

double multiplyAdd(Elem elem, double a, double b, double c) {
  return elem == Elem::F64   ? std::fma(a, b, c)
         : elem == Elem::F32 ? std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))
                             : addToOdd(a * b, c);
}

} // namespace

Value Evaluator::floats(OpId op) {
  const Opcode opcode = fn_.opcode(op);
  const Elem elem = fn_.type(fn_.operand(op, 0)).elem();
  const bool nan = fn_.getBool(op, Attr::nan);
  const Value &a = operand(op, 0), &b = operand(op, fn_.numOperands(op) - 1);
  if (opcode == Opcode::Fma) {
    Value made{std::vector<uint64_t>(count(op))};
    for (size_t i = 0; i < made.size(); ++i) {
      made.bits[i] = bitsOf(elem, multiplyAdd(elem, numberOf(elem, a[i]), numberOf(elem, operand(op, 1)[i]),
                                              numberOf(elem, b[i])));
    }
    return made;
  }
  if (opcode == Opcode::Neg || opcode == Opcode::Abs) { // of NaNs too
    const uint64_t sign = uint64_t{1} << (ir::bitWidth(elem) - 1);
    return each(a, [&](uint64_t x) { return opcode == Opcode::Neg ? x ^ sign : x & ~sign; });
  }
  if (elem == Elem::F32) {
    return each(a, b, [&](uint64_t x, uint64_t y) -> uint64_t {
      return std::bit_cast<uint32_t>(compute(opcode, nan, std::bit_cast<float>(static_cast<uint32_t>(x)),
                                             std::bit_cast<float>(static_cast<uint32_t>(y))));
    });
  }
  return each(a, b, [&](uint64_t x, uint64_t y) {
    return bitsOf(elem, compute(opcode, nan, numberOf(elem, x), numberOf(elem, y)));
  });
}

} // namespace libtile::runtime::interpreter
