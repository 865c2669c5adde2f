// SPDX-License-Identifier: Apache-2.0
// Which contracts of bf16 a unit may take that flushes.
//
// vdpbf16ps, and tdpbf16ps in another order, add products to a sum of f32, each addition rounded to nearest even, but they read
// subnormal operands and sums as 0, and a result below 2^-126 becomes 0 (Intel, Software Developer's Manual,
// volume 2, VDPBF16PS and TDPBF16PS). bfdot adds two products first, rounds to odd, and flushes as well (Arm, Architecture
// Reference Manual, BFDOT). Where there is nothing to flush that makes no difference, and the numbers tell beforehand:
//
//   Let all numbers of a be 0 or at least 2^p, those of b 2^q, those of acc 2^r, and p, q >= -126.
//   bf16 has 8 significant bits: a's numbers are multiples of 2^(p-7), b's of 2^(q-7), so products are
//   multiples of 2^(p+q-14). f32 has 24: acc's numbers are multiples of 2^(r-23).
//   With p + q - 14 >= -126 and r - 23 >= -126 all that is added is a multiple of u = 2^-126, and so is
//   every sum: the exact one, clearly; the rounded one, because a multiple of u below 2^24 u is a number
//   of f32 as it is, and from 2^24 u on numbers of f32 are multiples of u themselves.
//   A multiple of 2^-126 is 0 or at least 2^-126: no operand and no sum is ever subnormal.
//
// This holds for any order of the additions, and for products that are added to each other first. Each
// bound is tight: with any of them less by one there are numbers for which something is flushed.
#pragma once

#include <cstdint>

namespace libtile::codegen::cpu {

// Exponents as their fields hold them, of bf16 and f32 alike: 2^e has e + 127, subnormal numbers and 0 have 0.
constexpr int32_t kExponentBias = 127;
constexpr int32_t kLeastExponent = -126;
constexpr int32_t kLeastOperandField = kLeastExponent + kExponentBias;
constexpr int32_t kLeastProductFields = kLeastExponent + 14 + 2 * kExponentBias; // a's and b's together
constexpr int32_t kLeastSumField = kLeastExponent + 23 + kExponentBias;

// Given the least exponent fields of the numbers other than 0; with no such number, any of 255 and more.
constexpr bool nothingToFlush(int32_t a, int32_t b, int32_t acc) {
  return a >= kLeastOperandField && b >= kLeastOperandField && a + b >= kLeastProductFields &&
         acc >= kLeastSumField;
}

} // namespace libtile::codegen::cpu
