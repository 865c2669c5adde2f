// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/float_ops.h"

#include "tests/amd/vector_table.h"

#include <cmath>
#include <numbers>

namespace emulator {

namespace {

using U32 = uint32_t;
using I32 = int32_t;

// The instructions that approximate take no subnormal numbers of 32 bits and give none.
float flushed(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value) : value; }

// A function of one or two numbers, in double, rounded once.
template <class T> T apply(double (*f)(double), T a) { return narrow<T>(f(wide(a))); }

template <class T> void addSums(VectorTable &t, const std::string &type) {
  if constexpr (std::is_same_v<T, Half>) {
    t.add("add_f16", [](Half a, Half b) { return narrow<Half>(wide(a) + wide(b)); });
    t.add("sub_f16", [](Half a, Half b) { return narrow<Half>(wide(a) - wide(b)); });
    t.add("subrev_f16", [](Half a, Half b) { return narrow<Half>(wide(b) - wide(a)); });
    t.add("mul_f16", [](Half a, Half b) { return narrow<Half>(wide(a) * wide(b)); });
  } else {
    t.add("add_" + type, [](T a, T b) { return a + b; });
    t.add("sub_" + type, [](T a, T b) { return a - b; });
    t.add("subrev_" + type, [](T a, T b) { return b - a; });
    t.add("mul_" + type, [](T a, T b) { return a * b; });
  }
  t.add("fma_" + type + " fmac_" + type + " fmaak_" + type + " fmamk_" + type, [](T a, T b, T c) { return multiplyAdd(a, b, c); });
}

template <class T> void addOrder(VectorTable &t, const std::string &type) {
  const auto names = [&](const std::string &name) { return name + "_" + type + " " + name + "_num_" + type; };
  t.add(names("max"), [](T a, T b) { return greater(a, b); });
  t.add(names("min"), [](T a, T b) { return lesser(a, b); });
  t.add(names("max3"), [](T a, T b, T c) { return greater(greater(a, b), c); });
  t.add(names("min3"), [](T a, T b, T c) { return lesser(lesser(a, b), c); });
  t.add(names("maxmin"), [](T a, T b, T c) { return lesser(greater(a, b), c); });
  t.add(names("minmax"), [](T a, T b, T c) { return greater(lesser(a, b), c); });
  t.add(names("med3"), [](T a, T b, T c) {
    return isNan(a) || isNan(b) || isNan(c) ? lesser(lesser(a, b), c)
                                            : greater(lesser(a, b), lesser(greater(a, b), c));
  });
  t.add("maximum_" + type, [](T a, T b) { return isNan(a) ? a : isNan(b) ? b : greater(a, b); });
  t.add("minimum_" + type, [](T a, T b) { return isNan(a) ? a : isNan(b) ? b : lesser(a, b); });
  t.add("maximum3_" + type, [](T a, T b, T c) { return isNan(a) ? a : isNan(b) ? b : isNan(c) ? c : greater(greater(a, b), c); });
  t.add("minimum3_" + type, [](T a, T b, T c) { return isNan(a) ? a : isNan(b) ? b : isNan(c) ? c : lesser(lesser(a, b), c); });
}

template <class T> void addWhole(VectorTable &t, const std::string &type) {
  t.add("floor_" + type, [](T a) { return apply(static_cast<double (*)(double)>(std::floor), a); });
  t.add("ceil_" + type, [](T a) { return apply(static_cast<double (*)(double)>(std::ceil), a); });
  t.add("trunc_" + type, [](T a) { return apply(static_cast<double (*)(double)>(std::trunc), a); });
  t.add("rndne_" + type, [](T a) { return apply(roundEven, a); });
  // Below 1, always.
  t.add("fract_" + type, [](T a) {
    const double fraction = wide(a) - std::floor(wide(a));
    const T rounded = narrow<T>(fraction);
    return wide(rounded) >= 1 ? fromBits<T>(toBits(narrow<T>(1.0)) - 1) : rounded;
  });
  t.add("frexp_mant_" + type, [](T a) {
    int exponent = 0;
    return std::isfinite(wide(a)) ? narrow<T>(std::frexp(wide(a), &exponent)) : a;
  });
  if constexpr (std::is_same_v<T, Half>) {
    t.add("ldexp_f16", [](Half a, int16_t b) { return narrow<Half>(std::ldexp(wide(a), b)); });
    t.add("frexp_exp_i16_f16", [](Half a) {
      int exponent = 0;
      std::isfinite(wide(a)) ? std::frexp(wide(a), &exponent) : 0;
      return static_cast<int16_t>(exponent);
    });
  } else {
    t.add("ldexp_" + type, [](T a, I32 b) { return std::ldexp(a, b); });
    t.add("frexp_exp_i32_" + type, [](T a) {
      int exponent = 0;
      std::isfinite(a) ? std::frexp(a, &exponent) : 0;
      return exponent;
    });
  }
}

// Approximate in hardware, to a unit in the last place; here the nearest number.
void addApproximations(VectorTable &t) {
  constexpr double kTurn = 2 * std::numbers::pi;
  t.add("rcp_f32 rcp_iflag_f32", [](float a) { return flushed(1 / flushed(a)); });
  t.add("sqrt_f32", [](float a) { return flushed(std::sqrt(flushed(a))); });
  t.add("rsq_f32", [](float a) { return flushed(static_cast<float>(1 / std::sqrt(double{flushed(a)}))); });
  t.add("exp_f32", [](float a) { return flushed(static_cast<float>(std::exp2(double{flushed(a)}))); });
  t.add("log_f32", [](float a) { return flushed(static_cast<float>(std::log2(double{flushed(a)}))); });
  t.add("sin_f32", [](float a) { return flushed(static_cast<float>(std::sin(kTurn * flushed(a)))); });
  t.add("cos_f32", [](float a) { return flushed(static_cast<float>(std::cos(kTurn * flushed(a)))); });
  t.add("rcp_f16", [](Half a) { return narrow<Half>(1 / wide(a)); });
  t.add("sqrt_f16", [](Half a) { return narrow<Half>(std::sqrt(wide(a))); });
  t.add("rsq_f16", [](Half a) { return narrow<Half>(1 / std::sqrt(wide(a))); });
  t.add("exp_f16", [](Half a) { return narrow<Half>(std::exp2(wide(a))); });
  t.add("log_f16", [](Half a) { return narrow<Half>(std::log2(wide(a))); });
  t.add("sin_f16", [](Half a) { return narrow<Half>(std::sin(kTurn * wide(a))); });
  t.add("cos_f16", [](Half a) { return narrow<Half>(std::cos(kTurn * wide(a))); });
  // Some 27 bits are right in hardware: what refines them must not count on more.
  const auto coarse = [](double a) { return std::isfinite(a) ? std::bit_cast<double>(std::bit_cast<uint64_t>(a) & ~uint64_t{0x1ffffff}) : a; };
  t.add("rcp_f64", [coarse](double a) { return coarse(1 / a); });
  t.add("rsq_f64", [coarse](double a) { return coarse(1 / std::sqrt(a)); });
  t.add("sqrt_f64", [coarse](double a) { return coarse(std::sqrt(a)); });
}

// The last step of a division: the quotient, but for what has no common one.
template <class T> T fixUp(T quotient, T denominator, T numerator) {
  const double d = wide(denominator), n = wide(numerator), q = wide(quotient);
  const double sign = std::signbit(d) != std::signbit(n) ? -1.0 : 1.0;
  if (std::isnan(n) || std::isnan(d)) {
    return std::isnan(n) ? numerator : denominator;
  }
  if ((d == 0 && n == 0) || (std::isinf(d) && std::isinf(n))) {
    return narrow<T>(std::numeric_limits<double>::quiet_NaN());
  }
  if (d == 0 || std::isinf(n)) {
    return narrow<T>(sign * std::numeric_limits<double>::infinity());
  }
  if (std::isinf(d) || n == 0) {
    return narrow<T>(sign * 0.0);
  }
  // A quotient that is no number has overflowed on the way.
  return narrow<T>(sign * (std::isnan(q) ? std::numeric_limits<double>::infinity() : std::fabs(q)));
}

} // namespace

double roundEven(double value) {
  const double whole = std::trunc(value), rest = std::fabs(value - whole);
  const double up = whole + std::copysign(1.0, value);
  return rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) != 0) ? up : std::copysign(whole, value);
}

void addFloatOps(VectorTable &table) {
  addSums<Half>(table, "f16");
  addSums<float>(table, "f32");
  addSums<double>(table, "f64");
  addOrder<Half>(table, "f16");
  addOrder<float>(table, "f32");
  addOrder<double>(table, "f64");
  addWhole<Half>(table, "f16");
  addWhole<float>(table, "f32");
  addWhole<double>(table, "f64");
  addApproximations(table);
  table.add("div_fixup_f16", [](Half a, Half b, Half c) { return fixUp(a, b, c); });
  table.add("div_fixup_f32", [](float a, float b, float c) { return fixUp(a, b, c); });
  table.add("div_fixup_f64", [](double a, double b, double c) { return fixUp(a, b, c); });
}

} // namespace emulator
