// SPDX-License-Identifier: Apache-2.0
// Of an exponential that ends in a float of 16 bits or fewer, 16 bits survive: a product and the hardware's power of two do.
//
//   %e = exp %x                                    %y = mul %x, 1.44269502
//   .. fptrunc (div %e, (reduce %e { add }))  ->   %e = exp2 %y
//
// The bound. Results that are no 0 and no infinity have |y| < 150. There y is rounded by 2^-17 at most, and the factor, off by
// 2^-26.1 of itself, adds 2^-18.9; so the power is off by 6.7e-6 of itself, with the hardware's 2.5 units of fp32's last place 7e-6.
// Beside a rounding to fp16 that is .0143 units of the last place, to bf16 .0018; in powers that fp16 itself holds, |y| <= 25, .0025.
// Such an error, relative to the result, passes through products, quotients, roots, minima, and sums of what is not negative; it grows
// in products and quotients alone, which add those of their operands up: kMostFactors at most. Differences cancel, and logarithms
// near 1, so what goes there stays exact. NaN, infinities, overflow and exp(0) are as before; results below 2^-126 are as exp2 has them.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Relaxed exponentials in a product, each of them .0143 units of fp16 in the last place at most.
inline constexpr unsigned kMostFactors = 4;

// Requires: tile stage, without dead code. Ensures: an exponential of f32 is a power of two if each use of it, and of what is
// computed from it, is a conversion to a float of at most 16 bits or one of the ops above, loops and branches included.
bool relaxExponentials(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
