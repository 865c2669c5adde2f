// SPDX-License-Identifier: Apache-2.0
// Elementwise ops where AMD's GPUs have an instruction of their own: fp16 is a type of theirs. exp2 of f32 is the
// hardware's (1 ulp), and exp goes through it (1.4 ulp); results below the least normal number are kept.
#pragma once

#include "codegen/gpu/elementwise.h"

namespace libtile::codegen::amd {

class AmdElementwise final : public gpu::GpuElementwise {
public:
  using GpuElementwise::GpuElementwise;
  llvm::Value *toFloat(ir::Elem elem, llvm::Value *bits) override;
  llvm::Value *fromFloat(ir::Elem elem, llvm::Value *value) override;
  llvm::Value *fromDouble(ir::Elem elem, llvm::Value *value) override;

protected:
  llvm::Value *function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) override;
  llvm::Value *divide(llvm::Value *a, llvm::Value *b, bool rounded) override;
  llvm::Value *minMax(bool isMax, bool propagateNan, llvm::Value *a, llvm::Value *b) override;

private:
  llvm::Value *exponential(llvm::Value *x);
  llvm::Value *toHalf(llvm::Value *value);
};

} // namespace libtile::codegen::amd
