// SPDX-License-Identifier: Apache-2.0
// The elementwise ops as a CPU wants them.
#pragma once

#include "codegen/emit_elementwise.h"

namespace libtile::codegen::cpu {

class CpuElementwise : public Elementwise {
public:
  using Elementwise::Elementwise;
  using Elementwise::floatLike;
  using Elementwise::intLike;

protected:
  llvm::Value *function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) override;
  // Vectors of up to 32 bits by a float division that is exact enough: no division of integer
  // vectors exists on a CPU.
  llvm::Value *divideSafe(bool isSigned, llvm::Value *a, llvm::Value *d) override;
};

} // namespace libtile::codegen::cpu
