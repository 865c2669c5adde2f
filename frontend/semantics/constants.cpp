// SPDX-License-Identifier: Apache-2.0
// Compile-time constants: Python's arithmetic on None, bool, int, float and str.
//
// Integers are Python's as long as they fit in 127 bits; what leaves them is an error, never a
// wrap. bool is an integer in arithmetic and stays bool under & | ^. Division and remainder floor.
#include "frontend/semantics/operations.h"

#include <array>
#include <cmath>
#include <limits>

namespace libtile::frontend {

namespace {

constexpr int kMaxText = 1 << 20; // of a repeated string

[[noreturn]] void refuse(const Semantics &s, const char *op, const Constant &a, const Constant &b) {
  s.fail("operator " + std::string(op) + " does not take " + Value(a).describe() + " and " +
         Value(b).describe());
}

BigInt checked(const Semantics &s, bool overflow, BigInt value) {
  if (overflow) {
    s.fail("constant integer arithmetic leaves 127 bits");
  }
  return value;
}

BigInt plus(const Semantics &s, BigInt a, BigInt b) {
  BigInt result = 0;
  const bool overflow = __builtin_add_overflow(a, b, &result);
  return checked(s, overflow, result);
}

BigInt minus(const Semantics &s, BigInt a, BigInt b) {
  BigInt result = 0;
  const bool overflow = __builtin_sub_overflow(a, b, &result);
  return checked(s, overflow, result);
}

BigInt multiply(const Semantics &s, BigInt a, BigInt b) {
  BigInt result = 0;
  const bool overflow = __builtin_mul_overflow(a, b, &result);
  return checked(s, overflow, result);
}

// Python's //: rounds down.
BigInt floorDivide(const Semantics &s, BigInt a, BigInt b) {
  checked(s, b == -1 && a == std::numeric_limits<BigInt>::min(), 0);
  const BigInt quotient = a / b;
  return quotient - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

// Python's %: has the sign of b.
BigInt floorRemainder(BigInt a, BigInt b) {
  if (b == -1) {
    return 0;
  }
  const BigInt rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

BigInt power(const Semantics &s, BigInt base, BigInt exponent) {
  BigInt result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0) {
      result = multiply(s, result, base);
    }
    exponent >>= 1;
    if (exponent > 0) {
      // 0, 1 and -1 never overflow, so a huge exponent ends here for all other bases.
      base = multiply(s, base, base);
    }
  }
  return result;
}

Value shift(const Semantics &s, BinaryOp op, BigInt a, BigInt b) {
  if (b < 0) {
    s.fail("negative shift count " + bigIntText(b));
  }
  if (op == BinaryOp::RShift) {
    return Value::integer(a >> static_cast<int>(b > 127 ? BigInt(127) : b));
  }
  if (a == 0) {
    return Value::integer(0);
  }
  checked(s, b >= 127, 0);
  return Value::integer(multiply(s, a, BigInt(1) << static_cast<int>(b)));
}

Value integerBinary(const Semantics &s, BinaryOp op, BigInt a, BigInt b) {
  const bool divides = op == BinaryOp::TrueDiv || op == BinaryOp::FloorDiv || op == BinaryOp::Mod ||
                       (op == BinaryOp::Pow && b < 0);
  if (divides && (op == BinaryOp::Pow ? a : b) == 0) {
    s.fail("division by zero in a constant expression");
  }
  switch (op) {
  case BinaryOp::Add:
    return Value::integer(plus(s, a, b));
  case BinaryOp::Sub:
    return Value::integer(minus(s, a, b));
  case BinaryOp::Mul:
    return Value::integer(multiply(s, a, b));
  case BinaryOp::TrueDiv:
    return Value(
        Constant(static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b))));
  case BinaryOp::FloorDiv:
    return Value::integer(floorDivide(s, a, b));
  case BinaryOp::Mod:
    return Value::integer(floorRemainder(a, b));
  case BinaryOp::Pow:
    return b < 0 ? Value(Constant(std::pow(static_cast<double>(a), static_cast<double>(b))))
                 : Value::integer(power(s, a, b));
  case BinaryOp::BitAnd:
    return Value::integer(a & b);
  case BinaryOp::BitOr:
    return Value::integer(a | b);
  case BinaryOp::BitXor:
    return Value::integer(a ^ b);
  case BinaryOp::LShift:
  case BinaryOp::RShift:
    return shift(s, op, a, b);
  case BinaryOp::MatMul:
    break;
  }
  refuse(s, operatorSymbol(op), Constant(a), Constant(b));
}

// Python's float %: the sign of b, exact.
double floatRemainder(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
  }
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double floatFloorDivide(double a, double b) {
  const double rest = std::fmod(a, b);
  // Whole but for rounding; one less where the remainder takes the other sign.
  const double quotient = (a - rest) / b - (rest != 0 && (rest < 0) != (b < 0) ? 1 : 0);
  return quotient == 0 ? std::copysign(0.0, a / b) : std::floor(quotient + 0.5);
}

Value floatBinary(const Semantics &s, BinaryOp op, const Constant &left, const Constant &right) {
  const double a = constantDouble(s, left);
  const double b = constantDouble(s, right);
  const bool divides = op == BinaryOp::TrueDiv || op == BinaryOp::FloorDiv || op == BinaryOp::Mod;
  if ((divides && b == 0) || (op == BinaryOp::Pow && a == 0 && b < 0 && std::isfinite(b))) {
    s.fail("division by zero in a constant expression");
  }
  const auto number = [](double value) { return Value(Constant(value)); };
  switch (op) {
  case BinaryOp::Add:
    return number(a + b);
  case BinaryOp::Sub:
    return number(a - b);
  case BinaryOp::Mul:
    return number(a * b);
  case BinaryOp::TrueDiv:
    return number(a / b);
  case BinaryOp::FloorDiv:
    return number(floatFloorDivide(a, b));
  case BinaryOp::Mod:
    return number(floatRemainder(a, b));
  case BinaryOp::Pow:
    if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
      s.fail("a negative number to a fractional power is not a real number");
    }
    return number(std::pow(a, b));
  case BinaryOp::MatMul:
  case BinaryOp::BitAnd:
  case BinaryOp::BitOr:
  case BinaryOp::BitXor:
  case BinaryOp::LShift:
  case BinaryOp::RShift:
    break;
  }
  refuse(s, operatorSymbol(op), left, right);
}

Value textBinary(const Semantics &s, BinaryOp op, const Constant &a, const Constant &b) {
  const auto *left = std::get_if<std::string>(&a);
  const auto *right = std::get_if<std::string>(&b);
  if (op == BinaryOp::Add && left != nullptr && right != nullptr) {
    return Value::string(*left + *right);
  }
  const std::string *text = left != nullptr ? left : right;
  const std::optional<BigInt> count = constantBigInt(left != nullptr ? b : a);
  if (op == BinaryOp::Mul && count) {
    std::string result;
    if (*count > 0 && !text->empty()) {
      if (*count > static_cast<BigInt>(kMaxText / text->size())) {
        s.fail("a constant text grows beyond " + std::to_string(kMaxText) + " characters");
      }
      for (BigInt i = 0; i < *count; ++i) {
        result += *text;
      }
    }
    return Value::string(std::move(result));
  }
  refuse(s, operatorSymbol(op), a, b);
}

enum class Order : uint8_t { Less, Equal, Greater, Unordered };

template <class T> Order orderOf(const T &a, const T &b) {
  return a < b ? Order::Less : a > b ? Order::Greater : a == b ? Order::Equal : Order::Unordered;
}

Order mirrored(Order order) {
  return order == Order::Less ? Order::Greater : order == Order::Greater ? Order::Less : order;
}

// Exact, as in Python.
Order compareIntFloat(BigInt a, double b) {
  constexpr double kLimit = 1.7014118346046923e38; // 2^127
  if (std::isnan(b)) {
    return Order::Unordered;
  }
  if (std::abs(b) >= kLimit) {
    return b > 0 ? Order::Less : Order::Greater;
  }
  const double whole = std::floor(b);
  const Order order = orderOf(a, static_cast<BigInt>(whole));
  return order == Order::Equal && b > whole ? Order::Less : order;
}

// nullopt: the two sorts have no order (they are unequal).
std::optional<Order> compareConstants(const Constant &a, const Constant &b) {
  const std::optional<BigInt> ai = constantBigInt(a);
  const std::optional<BigInt> bi = constantBigInt(b);
  const double *af = std::get_if<double>(&a);
  const double *bf = std::get_if<double>(&b);
  if (ai && bi) {
    return orderOf(*ai, *bi);
  }
  if (af != nullptr && bf != nullptr) {
    return orderOf(*af, *bf);
  }
  if (ai && bf != nullptr) {
    return compareIntFloat(*ai, *bf);
  }
  if (af != nullptr && bi) {
    return mirrored(compareIntFloat(*bi, *af));
  }
  if (std::holds_alternative<std::string>(a) && std::holds_alternative<std::string>(b)) {
    return orderOf(std::get<std::string>(a), std::get<std::string>(b));
  }
  return std::nullopt;
}

bool isText(const Constant &value) { return std::holds_alternative<std::string>(value); }

} // namespace

const char *operatorSymbol(BinaryOp op) {
  constexpr std::array names = {"+", "-", "*", "/", "//", "%", "**",
                                "@", "&", "|", "^", "<<", ">>"};
  return names[static_cast<size_t>(op)];
}

const char *operatorSymbol(CompareOp op) {
  constexpr std::array names = {"==", "!=", "<", "<=", ">", ">=", "is", "is not", "in", "not in"};
  return names[static_cast<size_t>(op)];
}

std::optional<BigInt> constantBigInt(const Constant &value) {
  if (const bool *truth = std::get_if<bool>(&value)) {
    return *truth ? 1 : 0;
  }
  if (const BigInt *number = std::get_if<BigInt>(&value)) {
    return *number;
  }
  return std::nullopt;
}

double constantDouble(const Semantics &s, const Constant &value) {
  if (const double *number = std::get_if<double>(&value)) {
    return *number;
  }
  if (const std::optional<BigInt> number = constantBigInt(value)) {
    return static_cast<double>(*number);
  }
  s.fail("expected a number, got " + Value(value).describe());
}

Value constantBinary(const Semantics &s, BinaryOp op, const Constant &a, const Constant &b) {
  if (isText(a) || isText(b)) {
    return textBinary(s, op, a, b);
  }
  if (std::holds_alternative<None>(a) || std::holds_alternative<None>(b)) {
    refuse(s, operatorSymbol(op), a, b);
  }
  if (std::holds_alternative<double>(a) || std::holds_alternative<double>(b)) {
    return floatBinary(s, op, a, b);
  }
  const Value result = integerBinary(s, op, *constantBigInt(a), *constantBigInt(b));
  const bool isBitwise = op == BinaryOp::BitAnd || op == BinaryOp::BitOr || op == BinaryOp::BitXor;
  if (isBitwise && std::holds_alternative<bool>(a) && std::holds_alternative<bool>(b)) {
    return Value::boolean(std::get<BigInt>(*result.constant()) != 0);
  }
  return result;
}

Value constantCompare(const Semantics &s, CompareOp op, const Constant &a, const Constant &b) {
  if (op == CompareOp::Is || op == CompareOp::IsNot) {
    // Identity of small values: the same sort and the same value.
    return Value::boolean((a == b) == (op == CompareOp::Is));
  }
  if (op == CompareOp::In || op == CompareOp::NotIn) {
    if (!isText(a) || !isText(b)) {
      refuse(s, operatorSymbol(op), a, b);
    }
    const bool found = std::get<std::string>(b).find(std::get<std::string>(a)) != std::string::npos;
    return Value::boolean(found == (op == CompareOp::In));
  }
  const std::optional<Order> order = compareConstants(a, b);
  const bool equal = order ? *order == Order::Equal : a == b;
  switch (op) {
  case CompareOp::Eq:
    return Value::boolean(equal);
  case CompareOp::Ne:
    return Value::boolean(!equal);
  case CompareOp::Lt:
  case CompareOp::Le:
  case CompareOp::Gt:
  case CompareOp::Ge:
    break;
  case CompareOp::Is:
  case CompareOp::IsNot:
  case CompareOp::In:
  case CompareOp::NotIn:
    refuse(s, operatorSymbol(op), a, b);
  }
  if (!order) {
    refuse(s, operatorSymbol(op), a, b);
  }
  const bool less = op == CompareOp::Lt || op == CompareOp::Le;
  const bool orEqual = op == CompareOp::Le || op == CompareOp::Ge;
  return Value::boolean(*order == (less ? Order::Less : Order::Greater) || (orEqual && equal));
}

Value constantUnary(const Semantics &s, UnaryOp op, const Constant &a) {
  if (op == UnaryOp::Not) {
    const bool truth = std::visit(
        [](const auto &value) {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, None>) {
            return false;
          } else if constexpr (std::is_same_v<T, std::string>) {
            return !value.empty();
          } else {
            return value != 0;
          }
        },
        a);
    return Value::boolean(!truth);
  }
  const double *real = std::get_if<double>(&a);
  if (real != nullptr && op != UnaryOp::Invert) {
    return Value(Constant(op == UnaryOp::Neg ? -*real : *real));
  }
  const std::optional<BigInt> number = constantBigInt(a);
  if (!number) {
    const char *name = op == UnaryOp::Neg ? "-" : op == UnaryOp::Pos ? "+" : "~";
    s.fail("unary " + std::string(name) + " does not take " + Value(a).describe());
  }
  if (op == UnaryOp::Invert) {
    return Value::integer(~*number);
  }
  checked(s, op == UnaryOp::Neg && *number == std::numeric_limits<BigInt>::min(), 0);
  return Value::integer(op == UnaryOp::Neg ? -*number : *number);
}

DType constantType(const Semantics &s, const Constant &value) {
  if (std::holds_alternative<bool>(value)) {
    return {ir::Elem::I1, false};
  }
  if (const double *real = std::get_if<double>(&value)) {
    constexpr double kLeast = 0x1p-126;
    constexpr double kGreatest = 0x1.fffffep127;
    const double magnitude = std::abs(*real);
    const bool single = std::isnan(magnitude) || std::isinf(magnitude) || magnitude == 0 ||
                        (magnitude >= kLeast && magnitude <= kGreatest);
    return {single ? ir::Elem::F32 : ir::Elem::F64, true};
  }
  if (const BigInt *number = std::get_if<BigInt>(&value)) {
    const BigInt one = 1;
    if (*number >= -(one << 31) && *number < one << 32) {
      return {ir::Elem::I32, *number < one << 31};
    }
    if (*number >= -(one << 63) && *number < one << 64) {
      return {ir::Elem::I64, *number < one << 63};
    }
    s.fail("integer " + bigIntText(*number) + " does not fit in 64 bits");
  }
  s.fail("expected a number or a tensor, got " + Value(value).describe());
}

} // namespace libtile::frontend
