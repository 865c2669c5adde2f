// SPDX-License-Identifier: Apache-2.0
// The elementwise ops as a CPU wants them.
#pragma once

#include "codegen/emit_elementwise.h"

#include <llvm/ADT/STLFunctionalExtras.h>

namespace libtile::codegen::cpu {

// body() on `fitting` lanes of the operands at a time, vectors of one length: longer ones are taken apart,
// shorter ones filled up.
[[nodiscard]] llvm::Value *inRegisters(llvm::IRBuilder<> &builder, llvm::ArrayRef<llvm::Value *> operands,
                                       unsigned fitting,
                                       llvm::function_ref<llvm::Value *(llvm::ArrayRef<llvm::Value *>)> body);

class CpuElementwise : public Elementwise {
public:
  CpuElementwise(llvm::IRBuilder<> &builder, bool roundsToBf16) : Elementwise(builder), roundsToBf16_(roundsToBf16) {}
  using Elementwise::floatLike;
  using Elementwise::intLike;

  llvm::Value *fromFloat(ir::Elem elem, llvm::Value *value) override;

protected:
  llvm::Value *function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) override;
  llvm::Value *castFunction(const ir::Function &fn, ir::OpId op, llvm::Value *operand) override;
  // Of vectors by a shuffle: of two registers it is one instruction, where shifts and truncations are four.
  llvm::Value *upperHalves(llvm::Value *words) override;
  // Vectors of up to 32 bits by a float division that is exact enough: no division of integer
  // vectors exists on a CPU.
  llvm::Value *divideSafe(bool isSigned, llvm::Value *a, llvm::Value *d) override;

private:
  bool roundsToBf16_; // as the target does
};

} // namespace libtile::codegen::cpu
