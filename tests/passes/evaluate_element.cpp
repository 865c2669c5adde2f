// SPDX-License-Identifier: Apache-2.0
// One element of an elementwise op, from ops.def.
#include "tests/passes/evaluate.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

namespace libtile::test {

using ir::Attr;
using ir::CmpPred;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;

namespace {

using Inputs = std::vector<Element>;

uint64_t bits(int64_t value, unsigned width) {
  return width >= 64 ? static_cast<uint64_t>(value)
                     : static_cast<uint64_t>(value) & ((uint64_t{1} << width) - 1);
}

int64_t signedOf(int64_t value, unsigned width) { return width == 1 ? -value : value; }

bool compare(CmpPred predicate, const Element &a, const Element &b, unsigned width) {
  const int64_t x = signedOf(a.i, width), y = signedOf(b.i, width);
  const uint64_t u = bits(a.i, width), v = bits(b.i, width);
  switch (predicate) {
  case CmpPred::eq:
    return x == y;
  case CmpPred::ne:
    return x != y;
  case CmpPred::slt:
    return x < y;
  case CmpPred::sle:
    return x <= y;
  case CmpPred::sgt:
    return x > y;
  case CmpPred::sge:
    return x >= y;
  case CmpPred::ult:
    return u < v;
  case CmpPred::ule:
    return u <= v;
  case CmpPred::ugt:
    return u > v;
  case CmpPred::uge:
    return u >= v;
  case CmpPred::oeq:
    return a.f == b.f;
  case CmpPred::one:
    return a.f < b.f || a.f > b.f;
  case CmpPred::olt:
    return a.f < b.f;
  case CmpPred::ole:
    return a.f <= b.f;
  case CmpPred::ogt:
    return a.f > b.f;
  case CmpPred::oge:
    return a.f >= b.f;
  case CmpPred::une:
    return !(a.f == b.f);
  }
  return false;
}

int64_t integer(Opcode op, int64_t a, int64_t b, unsigned width) {
  const uint64_t u = bits(a, width), v = bits(b, width);
  const int64_t x = signedOf(a, width), y = signedOf(b, width);
  if (op == Opcode::Add) {
    return static_cast<int64_t>(u + v);
  }
  if (op == Opcode::Sub) {
    return static_cast<int64_t>(u - v);
  }
  if (op == Opcode::Mul) {
    return static_cast<int64_t>(u * v);
  }
  if (op == Opcode::SDiv) {
    return y == 0 ? 0 : y == -1 ? static_cast<int64_t>(-u) : x / y;
  }
  if (op == Opcode::SRem) {
    return y == 0 ? x : y == -1 ? 0 : x % y;
  }
  if (op == Opcode::UDiv) {
    return v == 0 ? 0 : static_cast<int64_t>(u / v);
  }
  if (op == Opcode::URem) {
    return static_cast<int64_t>(v == 0 ? u : u % v);
  }
  if (op == Opcode::And) {
    return a & b;
  }
  if (op == Opcode::Or) {
    return a | b;
  }
  if (op == Opcode::Xor) {
    return a ^ b;
  }
  if (op == Opcode::Shl) {
    return v >= width ? 0 : static_cast<int64_t>(u << v);
  }
  if (op == Opcode::LShr) {
    return v >= width ? 0 : static_cast<int64_t>(u >> v);
  }
  if (op == Opcode::AShr) {
    return x >> std::min<uint64_t>(v, 63);
  }
  if (op == Opcode::SMin) {
    return std::min(x, y);
  }
  if (op == Opcode::SMax) {
    return std::max(x, y);
  }
  if (op == Opcode::UMin) {
    return static_cast<int64_t>(std::min(u, v));
  }
  if (op == Opcode::UMax) {
    return static_cast<int64_t>(std::max(u, v));
  }
  if (op == Opcode::Neg) {
    return static_cast<int64_t>(-u);
  }
  if (op == Opcode::Abs) {
    return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
  }
  if (op == Opcode::UMulHi) {
    return static_cast<int64_t>(static_cast<unsigned __int128>(u) * v >> width);
  }
  if (op == Opcode::SMulHi) {
    return static_cast<int64_t>(static_cast<__int128>(x) * y >> width);
  }
  if (op == Opcode::Popc) {
    return std::popcount(u);
  }
  if (op == Opcode::Clz) {
    return std::countl_zero(u) - 64 + static_cast<int>(width);
  }
  if (op == Opcode::Brev) {
    uint64_t reversed = 0;
    for (unsigned bit = 0; bit < width; ++bit) {
      reversed = reversed << 1 | (u >> bit & 1);
    }
    return static_cast<int64_t>(reversed);
  }
  throw std::runtime_error("no integer op");
}

double floating(Opcode op, const Inputs &in, bool nan) {
  const double a = in[0].f, b = in.size() > 1 ? in[1].f : 0;
  if (op == Opcode::Add) {
    return a + b;
  }
  if (op == Opcode::Sub) {
    return a - b;
  }
  if (op == Opcode::Mul) {
    return a * b;
  }
  if (op == Opcode::FDiv) {
    return a / b;
  }
  if (op == Opcode::FRem) {
    return std::fmod(a, b);
  }
  if (op == Opcode::Fma) {
    return std::fma(a, b, in[2].f);
  }
  if (op == Opcode::Neg) {
    return -a;
  }
  if (op == Opcode::Abs) {
    return std::fabs(a);
  }
  if (op == Opcode::Exp) {
    return std::exp(a);
  }
  if (op == Opcode::Exp2) {
    return std::exp2(a);
  }
  if (op == Opcode::Log) {
    return std::log(a);
  }
  if (op == Opcode::Log2) {
    return std::log2(a);
  }
  if (op == Opcode::Sqrt) {
    return std::sqrt(a);
  }
  if (op == Opcode::FMin || op == Opcode::FMax) {
    if (std::isnan(a) || std::isnan(b)) {
      return nan ? NAN : std::isnan(a) ? b : a;
    }
    return op == Opcode::FMin ? std::min(a, b) : std::max(a, b);
  }
  if (op == Opcode::Sin) {
    return std::sin(a);
  }
  if (op == Opcode::Cos) {
    return std::cos(a);
  }
  if (op == Opcode::Erf) {
    return std::erf(a);
  }
  if (op == Opcode::Floor) {
    return std::floor(a);
  }
  if (op == Opcode::Ceil) {
    return std::ceil(a);
  }
  if (op == Opcode::Chop) {
    return std::trunc(a);
  }
  if (op == Opcode::Rint) {
    return std::nearbyint(a);
  }
  throw std::runtime_error("no float op");
}

int64_t saturated(double value, unsigned width, bool isUnsigned) {
  if (std::isnan(value)) {
    return 0;
  }
  const double least = isUnsigned ? 0 : -std::ldexp(1.0, static_cast<int>(width) - 1);
  const double most = std::ldexp(1.0, static_cast<int>(width) - (isUnsigned ? 0 : 1));
  if (value <= least) {
    return isUnsigned ? 0 : static_cast<int64_t>(least);
  }
  if (value >= most) {
    return static_cast<int64_t>(isUnsigned ? bits(-1, width) : bits(-1, width) >> 1);
  }
  return isUnsigned ? static_cast<int64_t>(static_cast<uint64_t>(value))
                    : static_cast<int64_t>(value);
}

// The number of a code of an 8-bit float, and the code nearest to a number, by trying all.
struct Codes {
  ir::Float8 format;
  bool oneZero = format == ir::Float8::e4b8 || format == ir::Float8::e5b16;
  int width = format == ir::Float8::e5 || format == ir::Float8::e5b16 ? 2 : 3;
  int bias = format == ir::Float8::e4nv    ? 7
             : format == ir::Float8::e4b8  ? 8
             : format == ir::Float8::e5b16 ? 16
                                           : 15;
  // From here on a code without a sign is no number that others are rounded to.
  int end = format == ir::Float8::e5 ? 0x7c : oneZero ? 0x80 : 0x7f;

  [[nodiscard]] double number(int64_t code) const {
    const int size = code & 0x7f;
    const double sign = (code & 0x80) != 0 ? -1 : 1;
    if (oneZero && size == 0 && sign < 0) {
      return NAN;
    }
    if (size >= end && format != ir::Float8::e4b15) {
      return format == ir::Float8::e5 && size == 0x7c ? sign * INFINITY : NAN;
    }
    const int exponent = size >> width;
    const double fraction = std::ldexp(size % (1 << width), -width);
    return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias)
                                 : std::ldexp(1 + fraction, exponent - bias));
  }

  [[nodiscard]] int64_t nearest(double value) const {
    const bool away = format == ir::Float8::e4b15;
    if (std::isnan(value) && !away) {
      return oneZero ? 0x80 : 0x7f;
    }
    const double largest = number(end - 1);
    const double size = std::isnan(value) ? largest : std::min(std::fabs(value), largest);
    int best = 0;
    for (int code = 1; code < end; ++code) {
      const double middle = (number(code - 1) + number(code)) / 2;
      best = size > middle || (size == middle && (away || code % 2 == 0)) ? code : best;
    }
    return best | (std::signbit(value) && !(oneZero && best == 0) ? 0x80 : 0);
  }
};

} // namespace

Element evaluateElement(const Function &fn, OpId op, const std::vector<Element> &in) {
  const Type type = fn.type(fn.result(op));
  const Opcode opcode = fn.opcode(op);
  const Type from = fn.type(fn.operand(op, 0));
  const unsigned width = from.elementBits();
  const auto asInt = [&](int64_t value) {
    return Element{ir::canonicalInt(type.elem(), value), 0};
  };
  const auto asFloat = [&](double value) {
    // Which NaN an op gives is not defined.
    return Element{0, std::isnan(value) ? NAN : ir::canonicalFloat(type.elem(), value)};
  };
  if (opcode == Opcode::Select) {
    return in[0].i != 0 ? in[1] : in[2];
  }
  if (opcode == Opcode::Cmp) {
    return {compare(fn.getEnum<CmpPred>(op, Attr::predicate), in[0], in[1], width), 0};
  }
  if (opcode == Opcode::PtrAdd) {
    return {in[0].i + signedOf(in[1].i, fn.type(fn.operand(op, 1)).elementBits()) *
                          static_cast<int64_t>(from.pointee().elementBytes()),
            0};
  }
  if (opcode == Opcode::SExt) {
    return asInt(signedOf(in[0].i, width));
  }
  if (opcode == Opcode::ZExt) {
    return asInt(static_cast<int64_t>(bits(in[0].i, width)));
  }
  if (opcode == Opcode::Trunc) {
    return asInt(in[0].i);
  }
  if (opcode == Opcode::FpExt || opcode == Opcode::FpTrunc) {
    return asFloat(in[0].f);
  }
  if (opcode == Opcode::Float8Decode) {
    return asFloat(Codes{fn.getEnum<ir::Float8>(op, Attr::format)}.number(in[0].i));
  }
  if (opcode == Opcode::Float8Encode) {
    return asInt(Codes{fn.getEnum<ir::Float8>(op, Attr::format)}.nearest(in[0].f));
  }
  if (opcode == Opcode::SIToFp) {
    return asFloat(static_cast<double>(signedOf(in[0].i, width)));
  }
  if (opcode == Opcode::UIToFp) {
    return asFloat(static_cast<double>(bits(in[0].i, width)));
  }
  if (opcode == Opcode::FpToSI || opcode == Opcode::FpToUI) {
    return asInt(saturated(in[0].f, type.elementBits(), opcode == Opcode::FpToUI));
  }
  if (opcode == Opcode::Bitcast || opcode == Opcode::PtrToInt || opcode == Opcode::IntToPtr) {
    return in[0];
  }
  if (type.isFloating()) {
    return asFloat(floating(opcode, in, fn.getBool(op, Attr::nan)));
  }
  return asInt(integer(opcode, in[0].i, in.size() > 1 ? in[1].i : 0, width));
}

} // namespace libtile::test
