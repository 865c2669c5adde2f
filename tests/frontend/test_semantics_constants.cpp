// SPDX-License-Identifier: Apache-2.0
// Python's arithmetic on constants. Expected values were computed by Python.
#include "semantics_fixture.h"

#include <cmath>

namespace libtile::frontend {
namespace {

Value integer(BigInt value) { return Value::integer(value); }
Value real(double value) { return Kernel::real(value); }
Value text(const char *value) { return Value::string(value); }
Value truth(bool value) { return Value::boolean(value); }

std::string eval(BinaryOp op, const Value &a, const Value &b) {
  Kernel k;
  return k.s.binary(op, a, b).describe();
}
std::string eval(CompareOp op, const Value &a, const Value &b) {
  Kernel k;
  return k.s.compare(op, a, b).describe();
}
std::string eval(UnaryOp op, const Value &a) {
  Kernel k;
  return k.s.unary(op, a).describe();
}
template <class... Args> std::string failure(Args... args) {
  return messageOf<ir::UserError>([&] { (void)eval(args...); });
}

TEST(Constants, IntegersFloor) {
  EXPECT_EQ(eval(BinaryOp::FloorDiv, integer(-7), integer(2)), "constexpr -4");
  EXPECT_EQ(eval(BinaryOp::FloorDiv, integer(7), integer(-2)), "constexpr -4");
  EXPECT_EQ(eval(BinaryOp::FloorDiv, integer(-7), integer(-2)), "constexpr 3");
  EXPECT_EQ(eval(BinaryOp::Mod, integer(-7), integer(2)), "constexpr 1");
  EXPECT_EQ(eval(BinaryOp::Mod, integer(7), integer(-2)), "constexpr -1");
  EXPECT_EQ(eval(BinaryOp::Mod, integer(7), integer(-1)), "constexpr 0");
  EXPECT_EQ(eval(BinaryOp::TrueDiv, integer(7), integer(2)), "constexpr 3.5");
  EXPECT_EQ(eval(BinaryOp::TrueDiv, integer(6), integer(2)), "constexpr 3.0");
}

TEST(Constants, FloorLawsHold) {
  Kernel k;
  for (int a = -9; a <= 9; ++a) {
    for (int b = -9; b <= 9; ++b) {
      if (b == 0) {
        continue;
      }
      const Value q = k.s.binary(BinaryOp::FloorDiv, integer(a), integer(b));
      const Value r = k.s.binary(BinaryOp::Mod, integer(a), integer(b));
      EXPECT_EQ(k.s.constantInt(q, "q"), static_cast<int64_t>(std::floor(double(a) / b)));
      EXPECT_EQ(k.s.constantInt(q, "q") * b + k.s.constantInt(r, "r"), a);
    }
  }
}

TEST(Constants, Arithmetic) {
  EXPECT_EQ(eval(BinaryOp::Pow, integer(2), integer(100)),
            "constexpr 1267650600228229401496703205376");
  EXPECT_EQ(eval(BinaryOp::Pow, integer(2), integer(-2)), "constexpr 0.25");
  EXPECT_EQ(eval(BinaryOp::Pow, integer(-1), integer(BigInt(1) << 100)), "constexpr 1");
  EXPECT_EQ(eval(BinaryOp::Pow, real(0), real(-INFINITY)), "constexpr inf");
  EXPECT_EQ(eval(BinaryOp::Pow, real(-INFINITY), real(0.5)), "constexpr inf");
  EXPECT_EQ(eval(BinaryOp::Pow, real(2), real(0.5)), "constexpr 1.4142135623730951");
  EXPECT_EQ(eval(BinaryOp::LShift, integer(3), integer(4)), "constexpr 48");
  EXPECT_EQ(eval(BinaryOp::RShift, integer(-5), integer(1)), "constexpr -3");
  EXPECT_EQ(eval(BinaryOp::RShift, integer(-5), integer(1000)), "constexpr -1");
  EXPECT_EQ(eval(BinaryOp::BitAnd, integer(-1), integer(6)), "constexpr 6");
  EXPECT_EQ(eval(BinaryOp::BitAnd, truth(true), truth(false)), "constexpr False");
  EXPECT_EQ(eval(BinaryOp::BitXor, truth(true), integer(3)), "constexpr 2");
  EXPECT_EQ(eval(BinaryOp::Add, truth(true), truth(true)), "constexpr 2");
  EXPECT_EQ(eval(BinaryOp::Mul, integer(2), real(1.5)), "constexpr 3.0");
  EXPECT_EQ(eval(BinaryOp::Mod, real(-7.5), real(2)), "constexpr 0.5");
  EXPECT_EQ(eval(BinaryOp::FloorDiv, real(-7.5), real(2)), "constexpr -4.0");
  EXPECT_EQ(eval(BinaryOp::FloorDiv, integer(-1), real(INFINITY)), "constexpr -1.0");
  EXPECT_EQ(eval(BinaryOp::Add, text("a"), text("b")), "constexpr 'ab'");
  EXPECT_EQ(eval(BinaryOp::Mul, integer(3), text("ab")), "constexpr 'ababab'");
  EXPECT_EQ(eval(UnaryOp::Invert, truth(true)), "constexpr -2");
  EXPECT_EQ(eval(UnaryOp::Neg, real(0.0)), "constexpr -0.0");
  EXPECT_EQ(eval(UnaryOp::Not, text("")), "constexpr True");
  EXPECT_EQ(eval(UnaryOp::Not, integer(2)), "constexpr False");
  EXPECT_EQ(eval(UnaryOp::Pos, truth(true)), "constexpr 1");
}

TEST(Constants, Comparisons) {
  EXPECT_EQ(eval(CompareOp::Lt, integer(1), real(1.5)), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Gt, real(1.5), integer(1)), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Eq, integer((BigInt(1) << 53) + 1), real(9007199254740992.0)),
            "constexpr False");
  EXPECT_EQ(eval(CompareOp::Lt, integer(BigInt(1) << 100), real(1e300)), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Eq, real(NAN), real(NAN)), "constexpr False");
  EXPECT_EQ(eval(CompareOp::Ne, real(NAN), integer(0)), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Le, real(NAN), integer(0)), "constexpr False");
  EXPECT_EQ(eval(CompareOp::Eq, truth(true), integer(1)), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Lt, text("ab"), text("b")), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Eq, text("1"), integer(1)), "constexpr False");
  EXPECT_EQ(eval(CompareOp::Is, Value::none(), Value::none()), "constexpr True");
  EXPECT_EQ(eval(CompareOp::IsNot, integer(3), Value::none()), "constexpr True");
  EXPECT_EQ(eval(CompareOp::In, text("b"), text("abc")), "constexpr True");
  EXPECT_EQ(eval(CompareOp::In, integer(2), Kernel::ints({1, 2})), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Eq, Kernel::ints({1, 2}), Kernel::ints({1, 2})), "constexpr True");
  EXPECT_EQ(eval(CompareOp::Ne, Kernel::type("fp16"), Kernel::type("bf16")), "constexpr True");
}

TEST(Constants, Tuples) {
  Kernel k;
  const Value both = k.s.binary(BinaryOp::Add, Kernel::ints({1, 2}), Kernel::ints({3}));
  EXPECT_EQ(both.text(), "(1, 2, 3)");
  EXPECT_EQ(k.s.binary(BinaryOp::Mul, Kernel::ints({1}), integer(3)).text(), "(1, 1, 1)");
  EXPECT_EQ(k.s.subscript(both, integer(-1)).text(), "3");
  const auto slice = [](Value a, Value b, Value c) {
    return Value::aggregate(Class::slice(), {std::move(a), std::move(b), std::move(c)});
  };
  const Value none = Value::none();
  EXPECT_EQ(k.s.subscript(both, slice(integer(1), none, none)).text(), "(2, 3)");
  EXPECT_EQ(k.s.subscript(both, slice(none, integer(-1), none)).text(), "(1, 2)");
  EXPECT_EQ(k.s.subscript(both, slice(none, none, integer(-1))).text(), "(3, 2, 1)");
  EXPECT_EQ(k.s.subscript(both, slice(integer(5), integer(9), none)).text(), "()");
  EXPECT_EQ(k.s.subscript(both, slice(none, none, integer(int64_t{1} << 62))).text(), "(1,)");
  EXPECT_USER_ERROR(k.s.subscript(both, integer(3)), "index 3 is outside of a tuple of 3");
}

TEST(Constants, Errors) {
  const std::string leaves = "constant integer arithmetic leaves 127 bits";
  const std::string byZero = "division by zero in a constant expression";
  const BigInt big = BigInt(1) << 126;
  EXPECT_EQ(failure(BinaryOp::Add, integer(big), integer(big)), leaves);
  EXPECT_EQ(failure(BinaryOp::Mul, integer(big), integer(4)), leaves);
  EXPECT_EQ(failure(BinaryOp::Pow, integer(3), integer(200)), leaves);
  EXPECT_EQ(failure(BinaryOp::Pow, integer(2), integer(big)), leaves);
  EXPECT_EQ(failure(BinaryOp::LShift, integer(1), integer(200)), leaves);
  EXPECT_EQ(failure(BinaryOp::LShift, integer(1), integer(-1)), "negative shift count -1");
  EXPECT_EQ(failure(BinaryOp::TrueDiv, integer(1), integer(0)), byZero);
  EXPECT_EQ(failure(BinaryOp::FloorDiv, real(1), integer(0)), byZero);
  EXPECT_EQ(failure(BinaryOp::Mod, integer(1), truth(false)), byZero);
  EXPECT_EQ(failure(BinaryOp::Pow, integer(0), integer(-1)), byZero);
  EXPECT_EQ(failure(BinaryOp::Add, Value::none(), integer(1)),
            "operator + does not take None and constexpr 1");
  EXPECT_EQ(failure(BinaryOp::BitAnd, real(1), integer(1)),
            "operator & does not take constexpr 1.0 and constexpr 1");
  EXPECT_EQ(failure(BinaryOp::Add, text("a"), integer(1)),
            "operator + does not take constexpr 'a' and constexpr 1");
  EXPECT_EQ(failure(CompareOp::Lt, text("a"), integer(1)),
            "operator < does not take constexpr 'a' and constexpr 1");
  EXPECT_EQ(failure(UnaryOp::Neg, text("a")), "unary - does not take constexpr 'a'");
  EXPECT_EQ(failure(BinaryOp::Mul, text("ab"), integer(big)),
            "a constant text grows beyond 1048576 characters");
}

TEST(Constants, Conditions) {
  Kernel k;
  EXPECT_EQ(k.s.constantTruth(integer(0)), std::optional<bool>(false));
  EXPECT_EQ(k.s.constantTruth(Value::none()), std::optional<bool>(false));
  EXPECT_EQ(k.s.constantTruth(truth(true)), std::optional<bool>(true));
  EXPECT_EQ(k.s.constantTruth(k.param("i32")), std::nullopt);
  EXPECT_USER_ERROR(k.s.constantTruth(text("a")),
                    "a constant condition must be a bool, an int or None, got constexpr 'a'");
  EXPECT_USER_ERROR(k.s.constantInt(k.param("i32"), "the start of arange"),
                    "the start of arange must be a constant integer, got tensor of int32; annotate the "
                    "parameter or the variable that it comes from with `: tl.constexpr`");
}

} // namespace
} // namespace libtile::frontend
