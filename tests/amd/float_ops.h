// SPDX-License-Identifier: Apache-2.0
// Arithmetic that several kinds of instructions share, for halves, floats and doubles alike.
#pragma once

#include "tests/amd/numbers.h"

#include <cmath>
#include <type_traits>

namespace emulator {

inline double wide(Half a) { return fromHalf(a.bits); }
inline double wide(float a) { return a; }
inline double wide(double a) { return a; }
template <class T> T narrow(double value) {
  if constexpr (std::is_same_v<T, Half>) {
    return Half{toHalf(value)};
  } else {
    return static_cast<T>(value);
  }
}

template <class T> bool isNan(T a) { return std::isnan(wide(a)); }
// Of two numbers, of which one may be NaN; -0 is below 0.
template <class T> T lesser(T a, T b) {
  const double x = wide(a), y = wide(b);
  return std::isnan(x) ? b : std::isnan(y) ? a : x < y || (x == y && std::signbit(x)) ? a : b;
}
template <class T> T greater(T a, T b) {
  const double x = wide(a), y = wide(b);
  return std::isnan(x) ? b : std::isnan(y) ? a : x > y || (x == y && !std::signbit(x)) ? a : b;
}

inline float multiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
inline double multiplyAdd(double a, double b, double c) { return std::fma(a, b, c); }
inline Half multiplyAdd(Half a, Half b, Half c) { return {multiplyAddHalf(a.bits, b.bits, c.bits)}; }

// To the nearest whole number, halves to even, whatever the rounding mode.
[[nodiscard]] double roundEven(double value);

} // namespace emulator
