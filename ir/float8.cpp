// SPDX-License-Identifier: Apache-2.0
#include "ir/float8.h"

#include "ir/ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace libtile::ir {

namespace {

// In the order of Float8.
constexpr Float8Format kFormats[] = {
    {.mantissaBits = 2, .bias = 15, .largest = 57344, .hasInfinities = true},
    {.mantissaBits = 3, .bias = 7, .largest = 448},
    {.mantissaBits = 3, .bias = 15, .largest = 1.75, .tiesFromZero = true},
    {.mantissaBits = 3, .bias = 8, .largest = 240, .oneZero = true},
    {.mantissaBits = 2, .bias = 16, .largest = 57344, .oneZero = true},
};

} // namespace

const Float8Format &float8Format(Float8 format) { return kFormats[unsigned(format)]; }

double decodeFloat8(Float8 format, uint8_t code) noexcept {
  const Float8Format &row = float8Format(format);
  const int size = code & 0x7f;
  const int exponent = size >> row.mantissaBits;
  const int hidden = 1 << row.mantissaBits;
  const int mantissa = size & (hidden - 1);
  const bool isNan = row.oneZero             ? code == 0x80
                     : format == Float8::e4nv ? size == 0x7f
                                              : row.hasInfinities && size > 0x7c;
  if (isNan) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double value = std::ldexp(exponent == 0 ? mantissa : hidden + mantissa,
                            std::max(exponent, 1) - row.bias - row.mantissaBits);
  if (row.hasInfinities && size == 0x7c) {
    value = std::numeric_limits<double>::infinity();
  }
  return (code & 0x80) != 0 ? -value : value;
}

uint8_t encodeFloat8(Float8 format, double value) noexcept {
  const Float8Format &row = float8Format(format);
  const bool hasNan = !row.tiesFromZero;
  if (std::isnan(value) && hasNan) {
    return row.oneZero ? 0x80 : 0x7f;
  }
  const double size = std::isnan(value) ? row.largest : std::min(std::fabs(value), row.largest);
  const int exponent = size == 0 ? 1 - row.bias : std::max(std::ilogb(size), 1 - row.bias);
  const double scaled = std::ldexp(size, row.mantissaBits - exponent);
  const auto units =
      static_cast<int>(row.tiesFromZero ? std::round(scaled) : std::nearbyint(scaled));
  // The hidden bit is the last of the exponent, and a carry goes there by itself.
  const int code = units + ((exponent + row.bias - 1) << row.mantissaBits);
  const bool isNegative = std::signbit(value) && !(row.oneZero && code == 0);
  return static_cast<uint8_t>(code | (isNegative ? 0x80 : 0));
}

} // namespace libtile::ir
