// SPDX-License-Identifier: Apache-2.0
// Compares of 64-bit indices with one number, as masks of kernels are that number their elements by `tl.int64`,
// become compares of 32-bit indices:
//
//   %i = add (sext %t), splat %base               %n = sub (clamp %limit, %base + least, %base + most + 1), %base
//   %m = cmp %i, splat %limit {slt}         ->    %m = cmp %t, splat (trunc %n) {slt}
//
// least and most are those of %t. So a vector has as many indices as floats, and nests end where such masks do
// (bound_nests.h). What is left of the sum feeds addresses only, which are affine.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: no compare by slt or sle with a splat has on its left side a 64-bit sum of splats and
// a sign-extended 32-bit tile, provided that the sum provably stays within 64 bits, and the clamped limit within 32.
// The sums remain for eliminate_dead_code.
bool narrowCompares(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
