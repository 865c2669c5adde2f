// SPDX-License-Identifier: Apache-2.0
// Elementary functions as straight-line vector code. math.cpp states the errors.
#pragma once

#include "ir/diagnostic.h"
#include "ir/opcode.h"

#include <llvm/IR/IRBuilder.h>

namespace libtile::codegen::cpu {

// Exp, Exp2, Log, Log2 or Rsqrt of float or double, scalar or vector: defined for every input, with
// the special cases of C's functions. `hasAvx512`: its instructions may be used.
llvm::Value *emitMath(llvm::IRBuilder<> &builder, ir::Opcode opcode, llvm::Value *value,
                      bool hasAvx512);

} // namespace libtile::codegen::cpu
