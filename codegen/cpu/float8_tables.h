// SPDX-License-Identifier: Apache-2.0
// Codes of 8-bit floats as bf16, by AVX-512.
//
// The normal numbers of both types are equally far apart: their bits are moved, and the bias is another one.
// What is left, subnormal numbers, zero, infinities and NaN, is sixteen neighbouring codes at most, counted
// around the end of the codes without sign, and comes from a table in a register.
#pragma once

#include "ir/opcode.h"

#include <llvm/IR/IRBuilder.h>

namespace libtile::codegen::cpu {

// The bf16, as i16, of each i8 of a vector of any length.
[[nodiscard]] llvm::Value *float8ToBf16(llvm::IRBuilder<> &builder, ir::Float8 format, llvm::Value *codes);

} // namespace libtile::codegen::cpu
