// SPDX-License-Identifier: Apache-2.0
// Integers are held sign-extended in 64 bits (i1: 0 or 1), floats as the double of the same value;
// both are canonical on the way in and out (ir::canonicalInt, llvm::APFloat).
#include "passes/fold_constants.h"

#include "ir/builder.h"
#include "ir/float8.h"
#include "ir/ops.h"

#include <llvm/ADT/APFloat.h>
#include <llvm/ADT/APSInt.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace libtile::passes {

using ir::AttrValue;
using ir::CmpPred;
using ir::Elem;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using llvm::APFloat;

namespace {

constexpr auto kNearest = APFloat::rmNearestTiesToEven;

const llvm::fltSemantics &semanticsOf(Elem elem) {
  return elem == Elem::F16    ? APFloat::IEEEhalf()
         : elem == Elem::BF16 ? APFloat::BFloat()
         : elem == Elem::F32  ? APFloat::IEEEsingle()
                              : APFloat::IEEEdouble();
}

APFloat convert(APFloat value, const llvm::fltSemantics &to) {
  bool losesInfo = false;
  value.convert(to, kNearest, &losesInfo);
  return value;
}

APFloat floatOf(double value, Elem elem) { return convert(APFloat(value), semanticsOf(elem)); }

double doubleOf(const APFloat &value) {
  return convert(value, APFloat::IEEEdouble()).convertToDouble();
}

uint64_t zeroExtended(int64_t value, unsigned width) {
  return width >= 64 ? static_cast<uint64_t>(value)
                     : static_cast<uint64_t>(value) & ((uint64_t{1} << width) - 1);
}

struct Ints {
  int64_t a, b;
  uint64_t ua, ub;
  unsigned width;
};

std::optional<int64_t> divide(Opcode op, const Ints &x) {
  if (op == Opcode::SDiv || op == Opcode::SRem) {
    const bool division = op == Opcode::SDiv;
    if (x.b == 0) {
      return division ? 0 : x.a;
    }
    if (x.b == -1) { // also the least integer, which wraps to itself
      return division ? static_cast<int64_t>(-static_cast<uint64_t>(x.a)) : 0;
    }
    return division ? x.a / x.b : x.a % x.b;
  }
  if (op == Opcode::UDiv) {
    return x.ub == 0 ? 0 : static_cast<int64_t>(x.ua / x.ub);
  }
  if (op == Opcode::URem) {
    return static_cast<int64_t>(x.ub == 0 ? x.ua : x.ua % x.ub);
  }
  return std::nullopt;
}

std::optional<int64_t> shift(Opcode op, const Ints &x) {
  const bool wide = x.ub >= x.width;
  if (op == Opcode::Shl) {
    return wide ? 0 : static_cast<int64_t>(x.ua << x.ub);
  }
  if (op == Opcode::LShr) {
    return wide ? 0 : static_cast<int64_t>(x.ua >> x.ub);
  }
  if (op == Opcode::AShr) {
    // i1 is held as 0 or 1; its sign is the bit itself.
    const int64_t value = x.width == 1 ? -x.a : x.a;
    return wide ? value >> 63 : value >> x.ub;
  }
  return std::nullopt;
}

std::optional<int64_t> bitwiseOrExtreme(Opcode op, const Ints &x) {
  // Signed order of i1: true is -1.
  const int64_t a = x.width == 1 ? -x.a : x.a, b = x.width == 1 ? -x.b : x.b;
  if (op == Opcode::And) {
    return x.a & x.b;
  }
  if (op == Opcode::Or) {
    return x.a | x.b;
  }
  if (op == Opcode::Xor) {
    return x.a ^ x.b;
  }
  if (op == Opcode::SMin) {
    return std::min(a, b);
  }
  if (op == Opcode::SMax) {
    return std::max(a, b);
  }
  if (op == Opcode::UMin) {
    return static_cast<int64_t>(std::min(x.ua, x.ub));
  }
  if (op == Opcode::UMax) {
    return static_cast<int64_t>(std::max(x.ua, x.ub));
  }
  return std::nullopt;
}

// Of the low bits.
std::optional<int64_t> countOrReverse(Opcode op, uint64_t bits, unsigned width) {
  if (op == Opcode::Popc) {
    return std::popcount(bits);
  }
  if (op == Opcode::Clz) {
    return std::countl_zero(bits) - 64 + static_cast<int64_t>(width);
  }
  if (op == Opcode::Brev) {
    const llvm::APInt reversed = llvm::APInt(width, bits).reverseBits();
    return static_cast<int64_t>(reversed.getZExtValue());
  }
  return std::nullopt;
}

std::optional<int64_t> highProduct(Opcode op, const Ints &x) {
  if (op == Opcode::UMulHi) {
    return static_cast<int64_t>(static_cast<unsigned __int128>(x.ua) * x.ub >> x.width);
  }
  if (op == Opcode::SMulHi && x.width > 1) {
    return static_cast<int64_t>(static_cast<__int128>(x.a) * x.b >> x.width);
  }
  return std::nullopt;
}

std::optional<int64_t> integerBinary(Opcode op, const Ints &x) {
  const auto a = static_cast<uint64_t>(x.a), b = static_cast<uint64_t>(x.b);
  if (op == Opcode::Add) {
    return static_cast<int64_t>(a + b);
  }
  if (op == Opcode::Sub) {
    return static_cast<int64_t>(a - b);
  }
  if (op == Opcode::Mul) {
    return static_cast<int64_t>(a * b);
  }
  // i1 has no division to speak of: signed i1 holds 0 and -1.
  if (const auto result = x.width == 1 ? std::nullopt : divide(op, x)) {
    return result;
  }
  if (const auto result = shift(op, x)) {
    return result;
  }
  if (const auto result = highProduct(op, x)) {
    return result;
  }
  return bitwiseOrExtreme(op, x);
}

bool compareInts(CmpPred predicate, const Ints &x) {
  const int64_t a = x.width == 1 ? -x.a : x.a, b = x.width == 1 ? -x.b : x.b;
  switch (predicate) {
  case CmpPred::eq:
    return a == b;
  case CmpPred::ne:
    return a != b;
  case CmpPred::slt:
    return a < b;
  case CmpPred::sle:
    return a <= b;
  case CmpPred::sgt:
    return a > b;
  case CmpPred::sge:
    return a >= b;
  case CmpPred::ult:
    return x.ua < x.ub;
  case CmpPred::ule:
    return x.ua <= x.ub;
  case CmpPred::ugt:
    return x.ua > x.ub;
  case CmpPred::uge:
    return x.ua >= x.ub;
  case CmpPred::oeq:
  case CmpPred::one:
  case CmpPred::olt:
  case CmpPred::ole:
  case CmpPred::ogt:
  case CmpPred::oge:
  case CmpPred::une:
    return false;
  }
  return false;
}

std::optional<bool> compareFloats(CmpPred predicate, double a, double b) {
  const bool ordered = !std::isnan(a) && !std::isnan(b);
  switch (predicate) {
  case CmpPred::oeq:
    return a == b;
  case CmpPred::one:
    return ordered && a != b;
  case CmpPred::olt:
    return a < b;
  case CmpPred::ole:
    return a <= b;
  case CmpPred::ogt:
    return a > b;
  case CmpPred::oge:
    return a >= b;
  case CmpPred::une:
    return a != b;
  case CmpPred::eq:
  case CmpPred::ne:
  case CmpPred::slt:
  case CmpPred::sle:
  case CmpPred::sgt:
  case CmpPred::sge:
  case CmpPred::ult:
  case CmpPred::ule:
  case CmpPred::ugt:
  case CmpPred::uge:
    return std::nullopt;
  }
  return std::nullopt;
}

std::optional<double> extreme(Opcode op, double a, double b, bool nan) {
  if (std::isnan(a) || std::isnan(b)) {
    return nan || (std::isnan(a) && std::isnan(b)) ? std::nan("") : std::isnan(a) ? b : a;
  }
  if (a == 0 && b == 0) {
    return std::nullopt; // which zero is the target's
  }
  return op == Opcode::FMin ? std::min(a, b) : std::max(a, b);
}

std::optional<double> floatBinary(Opcode op, double x, double y, Elem elem) {
  APFloat a = floatOf(x, elem);
  const APFloat b = floatOf(y, elem);
  if (op == Opcode::Add) {
    a.add(b, kNearest);
  } else if (op == Opcode::Sub) {
    a.subtract(b, kNearest);
  } else if (op == Opcode::Mul) {
    a.multiply(b, kNearest);
  } else if (op == Opcode::FDiv) {
    a.divide(b, kNearest);
  } else if (op == Opcode::FRem) {
    a.mod(b);
  } else {
    return std::nullopt;
  }
  return doubleOf(a);
}

// Where every target is exact.
std::optional<double> function(Opcode op, double a) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (std::isnan(a)) {
    return a;
  }
  if (op == Opcode::Exp || op == Opcode::Exp2) {
    return a == 0          ? std::optional(1.0)
           : std::isinf(a) ? std::optional(a < 0 ? 0.0 : infinity)
                           : std::nullopt;
  }
  if (op == Opcode::Log || op == Opcode::Log2) {
    return a == 1          ? std::optional(0.0)
           : a == 0        ? std::optional(-infinity)
           : std::isinf(a) ? std::optional(a < 0 ? std::nan("") : infinity)
                           : std::nullopt;
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
    APFloat number(a);
    number.roundToIntegral(kNearest);
    return number.convertToDouble();
  }
  return std::nullopt;
}

// Operands of the op as constants of one sort.
template <class T, class Get>
std::optional<std::vector<T>> constants(const Function &fn, OpId op, Get get) {
  std::vector<T> values;
  for (ir::ValueId operand : fn.operands(op)) {
    const auto value = get(operand);
    if (!value) {
      return std::nullopt;
    }
    values.push_back(*value);
  }
  return values.empty() ? std::nullopt : std::optional(values);
}

std::optional<AttrValue> foldIntegers(const Function &fn, OpId op) {
  const auto values = constants<int64_t>(fn, op, [&](auto value) { return fn.constantInt(value); });
  if (!values || values->size() > 2 || !fn.type(fn.operand(op, 0)).isInteger()) {
    return std::nullopt;
  }
  const unsigned width = fn.type(fn.operand(op, 0)).elementBits();
  const int64_t a = values->front(), b = values->back();
  const Ints x{a, b, zeroExtended(a, width), zeroExtended(b, width), width};
  const Type type = fn.type(fn.result(op));
  const Opcode opcode = fn.opcode(op);
  if (opcode == Opcode::Cmp) {
    return int64_t{compareInts(fn.getEnum<CmpPred>(op, ir::Attr::predicate), x)};
  }
  if (opcode == Opcode::SIToFp || opcode == Opcode::UIToFp) {
    APFloat number(semanticsOf(type.elem()));
    const bool isSigned = opcode == Opcode::SIToFp;
    const int64_t held = isSigned && width == 1 ? -a : a;
    number.convertFromAPInt(llvm::APInt(64, isSigned ? static_cast<uint64_t>(held) : x.ua, false),
                            isSigned, kNearest);
    return doubleOf(number);
  }
  if (opcode == Opcode::Float8Decode) {
    return ir::decodeFloat8(fn.getEnum<ir::Float8>(op, ir::Attr::format), static_cast<uint8_t>(a));
  }
  if (!type.isInteger()) {
    return std::nullopt;
  }
  std::optional<int64_t> result;
  if (values->size() == 2) {
    result = integerBinary(opcode, x);
  } else if (opcode == Opcode::Neg) {
    result = static_cast<int64_t>(-static_cast<uint64_t>(a));
  } else if (opcode == Opcode::Abs && width > 1) {
    result = a < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a;
  } else if (opcode == Opcode::SExt) {
    result = width == 1 ? -a : a;
  } else if (opcode == Opcode::ZExt) {
    result = static_cast<int64_t>(x.ua);
  } else if (opcode == Opcode::Trunc) {
    result = a;
  } else {
    result = countOrReverse(opcode, x.ua, width);
  }
  return result ? std::optional<AttrValue>(ir::canonicalInt(type.elem(), *result)) : std::nullopt;
}

std::optional<AttrValue> foldFloats(const Function &fn, OpId op) {
  const auto values =
      constants<double>(fn, op, [&](auto value) { return fn.constantFloat(value); });
  if (!values) {
    return std::nullopt;
  }
  const Type type = fn.type(fn.result(op));
  const Elem elem = fn.type(fn.operand(op, 0)).elem();
  const double a = values->front(), b = values->back();
  const Opcode opcode = fn.opcode(op);
  const auto number = [](std::optional<double> value) {
    return value ? std::optional<AttrValue>(*value) : std::nullopt;
  };
  if (opcode == Opcode::Cmp) {
    const auto truth = compareFloats(fn.getEnum<CmpPred>(op, ir::Attr::predicate), a, b);
    return truth ? std::optional<AttrValue>(int64_t{*truth}) : std::nullopt;
  }
  if (opcode == Opcode::FpToSI || opcode == Opcode::FpToUI) {
    llvm::APSInt result(type.elementBits(), opcode == Opcode::FpToUI);
    bool exact = false; // saturates, NaN gives 0
    APFloat(a).convertToInteger(result, APFloat::rmTowardZero, &exact);
    return ir::canonicalInt(type.elem(), type.elementBits() == 64
                                             ? static_cast<int64_t>(result.getZExtValue())
                                             : result.getExtValue());
  }
  if (opcode == Opcode::Float8Encode) {
    const uint8_t code = ir::encodeFloat8(fn.getEnum<ir::Float8>(op, ir::Attr::format), a);
    return ir::canonicalInt(Elem::I8, code);
  }
  if (opcode == Opcode::FpExt || opcode == Opcode::FpTrunc) {
    return doubleOf(floatOf(a, type.elem()));
  }
  if (opcode == Opcode::Neg) {
    return -a;
  }
  if (opcode == Opcode::Abs) {
    return std::fabs(a);
  }
  if (opcode == Opcode::Sqrt) {
    // Of 11 and 24 bits the root in double rounds twice to the same number.
    return doubleOf(floatOf(std::sqrt(a), type.elem()));
  }
  if (opcode == Opcode::FMin || opcode == Opcode::FMax) {
    return number(extreme(opcode, a, b, fn.getBool(op, ir::Attr::nan)));
  }
  if (opcode == Opcode::Fma && values->size() == 3) {
    APFloat result = floatOf(a, elem);
    result.fusedMultiplyAdd(floatOf((*values)[1], elem), floatOf(b, elem), kNearest);
    return doubleOf(result);
  }
  return number(values->size() == 2 ? floatBinary(opcode, a, b, elem) : function(opcode, a));
}

} // namespace

std::optional<AttrValue> foldConstants(const Function &fn, OpId op) {
  if (!ir::isElementwise(fn.opcode(op)) || fn.numOperands(op) == 0) {
    return std::nullopt;
  }
  return fn.type(fn.operand(op, 0)).isFloating() ? foldFloats(fn, op) : foldIntegers(fn, op);
}

} // namespace libtile::passes
