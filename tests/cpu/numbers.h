// SPDX-License-Identifier: Apache-2.0
// Numbers of every element type as bits, and an exact reference: long double holds each sum,
// product and quotient with far more bits than the types under test, so one rounding at the end is
// the right one.
#pragma once

#include "ir/type.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>

namespace libtile::test {

struct FloatFormat {
  int precision; // bits, the hidden one too
  int least;     // exponent of the least denormal number
  int width;
  int64_t infinity; // its bits
};

inline FloatFormat formatOf(ir::Elem elem) {
  switch (elem) {
  case ir::Elem::F16:
    return {11, -24, 16, 0x7c00};
  case ir::Elem::BF16:
    return {8, -133, 16, 0x7f80};
  case ir::Elem::F32:
    return {24, -149, 32, 0x7f800000};
  default:
    return {53, -1074, 64, 0x7ff0000000000000};
  }
}

inline long double decode(ir::Elem elem, uint64_t bits) {
  if (elem == ir::Elem::F64) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
  }
  if (elem == ir::Elem::F32 || elem == ir::Elem::BF16) {
    const auto word = static_cast<uint32_t>(elem == ir::Elem::BF16 ? bits << 16 : bits);
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const auto fraction = static_cast<long double>(bits & 1023);
  const long double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction != 0 ? std::numeric_limits<long double>::quiet_NaN()
                         : sign * std::numeric_limits<long double>::infinity();
  }
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// Nearest even; any NaN gives the quiet one.
inline uint64_t encode(ir::Elem elem, long double value) {
  const FloatFormat format = formatOf(elem);
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (format.width - 1) : 0;
  if (std::isnan(value)) {
    return format.infinity | (uint64_t{1} << (format.precision - 2));
  }
  long double size = std::fabs(value);
  if (std::isinf(value)) {
    return sign | format.infinity;
  }
  if (size == 0) {
    return sign;
  }
  int exponent = 0;
  std::frexp(size, &exponent);
  const int unit = std::max(exponent - format.precision, format.least);
  // nearbyint rounds to even.
  auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(size, -unit)));
  // Counting up through the exponents is counting up the bits.
  const uint64_t bits =
      units + (static_cast<uint64_t>(unit - format.least) << (format.precision - 1));
  return sign | std::min<uint64_t>(bits, format.infinity);
}

inline bool isNan(ir::Elem elem, uint64_t bits) { return std::isnan(decode(elem, bits)); }

inline int64_t signExtend(unsigned width, uint64_t bits) {
  return width == 64 ? static_cast<int64_t>(bits)
                     : static_cast<int64_t>(bits << (64 - width)) >> (64 - width);
}
inline uint64_t truncate(unsigned width, uint64_t bits) {
  return width == 64 ? bits : bits & ((uint64_t{1} << width) - 1);
}

// Bits of an element: edge cases often, else anything.
inline uint64_t randomBits(ir::Elem elem, std::mt19937_64 &random) {
  const unsigned width = ir::bitWidth(elem);
  const uint64_t any = random();
  if (ir::isFloat(elem)) {
    const FloatFormat format = formatOf(elem);
    const auto infinity = static_cast<uint64_t>(format.infinity);
    const uint64_t sign = (any >> 60 & 1) << (width - 1);
    const uint64_t edges[] = {0,
                              1,
                              infinity,
                              infinity - 1,
                              infinity | 1 << (format.precision - 2),
                              uint64_t{1} << (format.precision - 1),
                              encode(elem, 1),
                              encode(elem, 0.5)};
    if (any >> 61 == 0) {
      return sign | edges[any & 7];
    }
    if (any >> 61 < 5) {
      return encode(elem,
                    std::ldexp(static_cast<long double>(static_cast<int64_t>(any << 4)), -60));
    }
    return truncate(width, any);
  }
  if (width == 1) {
    return any & 1;
  }
  const uint64_t top = uint64_t{1} << (width - 1);
  const uint64_t edges[] = {0, 1, truncate(width, ~uint64_t{0}), top, top - 1, 2, width, width - 1};
  if (any >> 62 == 0) {
    return edges[any & 7];
  }
  return any >> 62 == 1 ? truncate(width, any % 200 - 100) : truncate(width, any);
}

} // namespace libtile::test
