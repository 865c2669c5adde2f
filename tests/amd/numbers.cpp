// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/numbers.h"

#include <cfenv>
#include <cmath>
#include <limits>

namespace emulator {

namespace {

constexpr int kHalfDigits = 11, kHalfLeast = -24; // significant bits; exponent of the smallest subnormal number

// The multiple of the format's last place nearest to |value|, in units of that place's exponent `ulp`.
struct Scaled {
  double steps;
  int ulp;
};
Scaled scaled(double magnitude, int digits, int least) {
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int ulp = std::max(exponent - digits, least);
  return {std::ldexp(magnitude, -ulp), ulp};
}

bool overflowsToInfinity(bool isNegative) {
  const int mode = std::fegetround();
  return mode == FE_TONEAREST || mode == (isNegative ? FE_DOWNWARD : FE_UPWARD);
}

// A float of 8 bits with `mantissa` bits of fraction.
float fromByte(uint8_t bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa;
  const int fraction = bits & ((1 << mantissa) - 1);
  const float magnitude = exponent != 0 ? std::ldexp(static_cast<float>(fraction + (1 << mantissa)), exponent - bias - mantissa)
                                        : std::ldexp(static_cast<float>(fraction), 1 - bias - mantissa);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

// Rounded to nearest even, to a code of 7 bits; past `most`: `beyond`.
uint32_t toCode(float magnitude, int mantissa, int bias, uint32_t most, uint32_t beyond) {
  const Rounding nearest(FE_TONEAREST);
  auto [steps, ulp] = scaled(magnitude, mantissa + 1, 1 - bias - mantissa);
  double whole = std::nearbyint(steps);
  const double top = 1 << (mantissa + 1);
  if (whole == top) {
    whole = top / 2, ++ulp;
  }
  const auto count = static_cast<uint32_t>(whole);
  const uint32_t leading = 1U << mantissa;
  const uint32_t code = count < leading ? count : (static_cast<uint32_t>(ulp + bias + mantissa) << mantissa) + (count - leading);
  return code > most ? beyond : code;
}

uint8_t packByte(float value, int mantissa, int bias, uint32_t most, uint32_t beyond, uint32_t nan, bool isOcp) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) {
    return static_cast<uint8_t>(isOcp ? sign | nan : 0x80);
  }
  const uint32_t code = toCode(std::fabs(value), mantissa, bias, most, beyond);
  if (!isOcp && (code == 0 || code > most)) {
    return code == 0 ? 0 : 0x80;
  }
  return static_cast<uint8_t>(sign | code);
}

} // namespace

double fromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = 0;
  if (exponent == 31) {
    magnitude = fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : std::numeric_limits<double>::infinity();
  } else {
    magnitude = exponent != 0 ? std::ldexp(fraction + 1024, exponent - 25) : std::ldexp(fraction, kHalfLeast);
  }
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

uint16_t toHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value) || std::isinf(value)) {
    return sign | (std::isnan(value) ? 0x7e00 : 0x7c00);
  }
  const auto [steps, ulp] = scaled(std::fabs(value), kHalfDigits, kHalfLeast);
  // Directed rounding knows the sign.
  auto count = static_cast<uint32_t>(sign != 0 ? -std::nearbyint(-steps) : std::nearbyint(steps));
  int place = ulp;
  if (count == 2048) {
    count = 1024, ++place;
  }
  const int exponent = count >= 1024 ? place + 25 : 0; // biased
  if (exponent >= 31) {
    return sign | (overflowsToInfinity(sign != 0) ? 0x7c00 : 0x7bff);
  }
  return static_cast<uint16_t>(sign | (exponent > 0 ? (static_cast<uint32_t>(exponent) << 10) + (count - 1024) : count));
}

uint16_t toHalfTowardsZero(double value) {
  const Rounding mode(FE_TOWARDZERO);
  return toHalf(value);
}

uint16_t toBfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>(std::isnan(value) ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fromFp8(uint8_t bits, bool isOcp) {
  const bool isNan = isOcp ? (bits & 0x7f) == 0x7f : bits == 0x80;
  return isNan ? std::numeric_limits<float>::quiet_NaN() : fromByte(bits, 3, isOcp ? 7 : 8);
}
float fromBf8(uint8_t bits, bool isOcp) {
  if (isOcp && (bits & 0x7c) == 0x7c) {
    const float magnitude =
        (bits & 3) != 0 ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    return (bits & 0x80) != 0 ? -magnitude : magnitude;
  }
  return !isOcp && bits == 0x80 ? std::numeric_limits<float>::quiet_NaN() : fromByte(bits, 2, isOcp ? 15 : 16);
}
uint8_t toFp8(float value, bool isOcp, bool saturates) {
  const uint32_t most = isOcp ? 0x7e : 0x7f;
  return packByte(value, 3, isOcp ? 7 : 8, most, saturates ? most : most + 1, 0x7f, isOcp);
}
uint8_t toBf8(float value, bool isOcp, bool saturates) {
  const uint32_t most = isOcp ? 0x7b : 0x7f;
  return packByte(value, 2, isOcp ? 15 : 16, most, saturates ? most : most + 1, 0x7e, isOcp);
}

double sumToOdd(double a, double b) {
  const int mode = std::fegetround();
  const Rounding nearest(FE_TONEAREST);
  const double sum = a + b;
  const double rest = sum - a;
  const double error = (a - (sum - rest)) + (b - rest);
  if (error == 0 || !std::isfinite(sum) || !std::isfinite(error)) {
    return sum == 0 && a != 0 && mode == FE_DOWNWARD ? -0.0 : sum;
  }
  const auto bits = std::bit_cast<uint64_t>(sum);
  return (bits & 1) != 0 ? sum : std::bit_cast<double>(bits + ((error > 0) == (sum > 0) ? 1 : uint64_t(-1)));
}

uint16_t multiplyAddHalf(uint16_t a, uint16_t b, uint16_t c) {
  return toHalf(sumToOdd(fromHalf(a) * fromHalf(b), fromHalf(c)));
}

Rounding::Rounding(int mode) : before_(std::fegetround()) {
  if (mode != before_) {
    std::fesetround(mode);
  }
}
Rounding::~Rounding() {
  if (std::fegetround() != before_) {
    std::fesetround(before_);
  }
}

} // namespace emulator
