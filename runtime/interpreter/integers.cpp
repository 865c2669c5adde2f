// SPDX-License-Identifier: Apache-2.0
// Arithmetic of integers as ops.def defines it; and which of its results are not what they seem.
#include "runtime/interpreter/evaluator.h"

#include "runtime/interpreter/each.h"

#include <bit>

namespace libtile::runtime::interpreter {

using ir::Opcode;
using ir::OpId;

namespace {

int64_t quotient(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}
int64_t remainder(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }

uint64_t reversed(unsigned width, uint64_t bits) {
  uint64_t made = 0;
  for (unsigned bit = 0; bit < width; ++bit) {
    made = made << 1 | (bits >> bit & 1);
  }
  return made;
}

// The operands as signed and as unsigned numbers.
struct Pair {
  int64_t a, b;
  uint64_t ua, ub;
  unsigned width;
};

// clang-format off
[[gnu::always_inline]] inline uint64_t binary(Opcode opcode, const Pair &x) {
  switch (opcode) {
  case Opcode::Add: return x.ua + x.ub;
  case Opcode::Sub: return x.ua - x.ub;
  case Opcode::Mul: return x.ua * x.ub;
  case Opcode::SDiv: return static_cast<uint64_t>(quotient(x.a, x.b));
  case Opcode::UDiv: return x.ub == 0 ? 0 : x.ua / x.ub;
  case Opcode::SRem: return static_cast<uint64_t>(remainder(x.a, x.b));
  case Opcode::URem: return x.ub == 0 ? x.ua : x.ua % x.ub;
  case Opcode::And: return x.ua & x.ub;
  case Opcode::Or: return x.ua | x.ub;
  case Opcode::Xor: return x.ua ^ x.ub;
  case Opcode::Shl: return x.ub >= x.width ? 0 : x.ua << x.ub;
  case Opcode::LShr: return x.ub >= x.width ? 0 : x.ua >> x.ub;
  case Opcode::AShr: return static_cast<uint64_t>(x.a >> std::min<uint64_t>(x.ub, 63));
  case Opcode::SMin: return static_cast<uint64_t>(std::min(x.a, x.b));
  case Opcode::SMax: return static_cast<uint64_t>(std::max(x.a, x.b));
  case Opcode::UMin: return std::min(x.ua, x.ub);
  case Opcode::UMax: return std::max(x.ua, x.ub);
  case Opcode::SMulHi: return static_cast<uint64_t>(static_cast<__int128>(x.a) * x.b >> x.width);
  case Opcode::UMulHi: return static_cast<uint64_t>(static_cast<unsigned __int128>(x.ua) * x.ub >> x.width);
  case Opcode::Neg: return 0 - x.ua;
  case Opcode::Abs: return x.a < 0 ? 0 - static_cast<uint64_t>(x.a) : static_cast<uint64_t>(x.a);
  case Opcode::Popc: return static_cast<uint64_t>(std::popcount(x.ua));
  case Opcode::Clz: return static_cast<uint64_t>(std::countl_zero(x.ua)) - 64 + x.width;
  case Opcode::Brev: return reversed(x.width, x.ua);
#define ELEMENTWISE(Name, ...) case Opcode::Name:
#define ARITHMETIC(...)
#define FUNCTION(Name, ...) case Opcode::Name:
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
  case Opcode::FDiv: case Opcode::FRem: case Opcode::FMin: case Opcode::FMax: case Opcode::Fma:
  case Opcode::Floor: case Opcode::Ceil: case Opcode::Chop: case Opcode::Rint: case Opcode::Sqrt:
    break;
  }
  throw ir::InternalError("no op on integers");
}
// clang-format on

[[gnu::always_inline]] inline bool overflows(Opcode opcode, const Pair &x) {
  int32_t sum = 0;
  const auto a = static_cast<int32_t>(x.a), b = static_cast<int32_t>(x.b);
  return x.width == 32 && (opcode == Opcode::Add   ? __builtin_add_overflow(a, b, &sum)
                           : opcode == Opcode::Sub ? __builtin_sub_overflow(a, b, &sum)
                           : opcode == Opcode::Mul ? __builtin_mul_overflow(a, b, &sum)
                                                   : false);
}

constexpr bool divides(Opcode opcode) {
  return opcode == Opcode::SDiv || opcode == Opcode::UDiv || opcode == Opcode::SRem || opcode == Opcode::URem;
}
constexpr bool shifts(Opcode opcode) {
  return opcode == Opcode::Shl || opcode == Opcode::LShr || opcode == Opcode::AShr;
}
constexpr bool mayOverflow(Opcode opcode) {
  return opcode == Opcode::Add || opcode == Opcode::Sub || opcode == Opcode::Mul;
}

} // namespace

Value Evaluator::integers(OpId op) {
  const Opcode opcode = fn_.opcode(op);
  const unsigned width = fn_.type(fn_.operand(op, 0)).elementBits();
  const Value &a = operand(op, 0), &b = operand(op, fn_.numOperands(op) - 1);
  const auto pairOf = [width](uint64_t x, uint64_t y) {
    return Pair{signedOf(width, x), signedOf(width, y), lowBits(width, x), lowBits(width, y), width};
  };
  const bool isPortable = launch_.portable;
  return withOpcode(opcode, [&](auto constant) {
    constexpr Opcode kOpcode = constant;
    Value made = each(a, b, [&](uint64_t x, uint64_t y) { return wrapped(width, binary(kOpcode, pairOf(x, y))); });
    if constexpr (divides(kOpcode) || shifts(kOpcode) || mayOverflow(kOpcode)) {
      for (size_t i = 0; i < made.size(); ++i) {
        const Pair pair = pairOf(a[i], b[i]);
        const bool isUndefined = isPortable && ((divides(kOpcode) && pair.b == 0) || (shifts(kOpcode) && pair.ub >= width));
        if (isUndefined || overflows(kOpcode, pair)) {
          made.setMark(i, op.index + 1);
        }
      }
    }
    return made;
  });
}

} // namespace libtile::runtime::interpreter
