// SPDX-License-Identifier: Apache-2.0
// The 8-bit floats, as numbers. The top bit of a code is the sign, then come exponent and mantissa;
// the least exponent is that of subnormal numbers.
//
//   format  language   mantissa  bias  largest  apart from numbers
//   e5      float8e5       2      15    57344   infinities 0x7c, NaN 0x7d to 0x7f, of both signs
//   e4nv    float8e4nv     3       7      448   NaN 0x7f and 0xff
//   e4b15   float8e4b15    3      15     1.75   none; 1.875, 0x7f, is there but not rounded to
//   e4b8    float8e4b8     3       8      240   NaN 0x80; there is no -0
//   e5b16   float8e5b16    2      16    57344   NaN 0x80; there is no -0
//
// The codes are those of OCP's 8-bit formats (e5, e4nv), of Noune et al., 8-bit Numerical Formats
// for Deep Neural Networks, arXiv:2206.02915 (e4b8, e5b16), and of Triton (e4b15).
#pragma once

#include "ir/opcode.h"

namespace libtile::ir {

struct Float8Format {
  int mantissaBits, bias;
  double largest; // that a number is rounded to
  bool hasInfinities = false;
  bool oneZero = false;      // 0x80 is NaN
  bool tiesFromZero = false; // not to even; such a format has no NaN
};
[[nodiscard]] const Float8Format &float8Format(Float8 format);

// float8_decode and float8_encode of ops.def on one number.
[[nodiscard]] double decodeFloat8(Float8 format, uint8_t code) noexcept;
[[nodiscard]] uint8_t encodeFloat8(Float8 format, double value) noexcept;

} // namespace libtile::ir
