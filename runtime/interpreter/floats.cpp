// SPDX-License-Identifier: Apache-2.0
// Arithmetic of floats, rounded once in their own format. f16 and bf16 are computed in double, which has more than
// twice their bits: then the second rounding gives what one would.
#include "runtime/interpreter/evaluator.h"

#include "codegen/cpu/error_function.h"
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
template <class T> [[gnu::always_inline]] inline T compute(Opcode opcode, bool nan, T a, T b) {
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
  case Opcode::Erf: // where the CPU has it, too
    return T{codegen::cpu::errorFunction(static_cast<float>(a))};
#define ELEMENTWISE(Name, ...) case Opcode::Name:
#define ARITHMETIC(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
  case Opcode::SDiv: case Opcode::UDiv: case Opcode::SRem: case Opcode::URem: case Opcode::And:
  case Opcode::Or: case Opcode::Xor: case Opcode::Shl: case Opcode::LShr: case Opcode::AShr:
  case Opcode::SMin: case Opcode::SMax: case Opcode::UMin: case Opcode::UMax: case Opcode::SMulHi:
  case Opcode::UMulHi: case Opcode::Popc: case Opcode::Clz: case Opcode::Brev: case Opcode::Fma:
  case Opcode::Exp: case Opcode::Exp2: case Opcode::Log: case Opcode::Log2: case Opcode::Rsqrt:
  case Opcode::Sin: case Opcode::Cos:
    break;
  }
  throw ir::InternalError("no op on floats, or a function that was not expanded");
}

} // namespace

Value Evaluator::floats(OpId op) {
  const Opcode opcode = fn_.opcode(op);
  const Elem elem = fn_.type(fn_.operand(op, 0)).elem();
  const bool nan = fn_.getBool(op, Attr::nan);
  const Value &a = operand(op, 0), &b = operand(op, fn_.numOperands(op) - 1);
  if (opcode == Opcode::Fma) {
    Value made{std::vector<uint64_t>(count(op))};
    const Value &factor = operand(op, 1);
    for (size_t i = 0; i < made.size() && elem == Elem::F32; ++i) {
      const auto number = [i](const Value &value) { return std::bit_cast<float>(static_cast<uint32_t>(value[i])); };
      made.bits[i] = std::bit_cast<uint32_t>(std::fma(number(a), number(factor), number(b)));
    }
    for (size_t i = 0; i < made.size() && elem != Elem::F32; ++i) {
      const double x = numberOf(elem, a[i]), y = numberOf(elem, factor[i]), z = numberOf(elem, b[i]);
      made.bits[i] = bitsOf(elem, elem == Elem::F64 ? std::fma(x, y, z) : addToOdd(x * y, z));
    }
    return made;
  }
  if (opcode == Opcode::Neg || opcode == Opcode::Abs) { // of NaNs too
    const uint64_t sign = uint64_t{1} << (ir::bitWidth(elem) - 1);
    return each(a, [&](uint64_t x) { return opcode == Opcode::Neg ? x ^ sign : x & ~sign; });
  }
  return withOpcode(opcode, [&](auto constant) {
    constexpr Opcode kOpcode = constant;
    if (elem == Elem::F32) {
      return each(a, b, [nan](uint64_t x, uint64_t y) -> uint64_t {
        return std::bit_cast<uint32_t>(compute(kOpcode, nan, std::bit_cast<float>(static_cast<uint32_t>(x)),
                                               std::bit_cast<float>(static_cast<uint32_t>(y))));
      });
    }
    return each(a, b, [nan, elem](uint64_t x, uint64_t y) {
      return bitsOf(elem, compute(kOpcode, nan, numberOf(elem, x), numberOf(elem, y)));
    });
  });
}

} // namespace libtile::runtime::interpreter
