// SPDX-License-Identifier: Apache-2.0
// erf of fp32 by tables in registers, with AVX-512: error below 1.1 ulp.
//
// Sixteen intervals of |x| have a polynomial of degree 5 each, in the distance from a point within, and one instruction
// (vpermps) takes the coefficients of sixteen lanes out of a register. At that point erf is nearly a float, so its
// rounding adds nothing. From 0 to 0.24 erf(x) is x + x p(x), which is exact where x is tiny. The coefficients are the
// minimax polynomials of the relative error, rounded to floats.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace libtile::codegen::cpu {

// Of a vector of any length. erf(-0) = -0, erf(inf) = 1, NaN gives NaN.
[[nodiscard]] llvm::Value *errorFunction(llvm::IRBuilder<> &builder, llvm::Value *x);

// The same number, computed here.
[[nodiscard]] float errorFunction(float x);

} // namespace libtile::codegen::cpu
