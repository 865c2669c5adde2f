// SPDX-License-Identifier: Apache-2.0
// Elementwise ops where AMD's GPUs have an instruction of their own: fp16 is a type of theirs, and CDNA adds and multiplies pairs
// of f32. exp2 of f32 is the hardware's (1 ulp), and exp goes through it (1.4 ulp), which keeps results below the least normal
// number.
#pragma once

#include "codegen/gpu/elementwise.h"

namespace libtile::codegen::amd {

class AmdElementwise final : public gpu::GpuElementwise {
public:
  using GpuElementwise::GpuElementwise;
  llvm::Value *toFloat(ir::Elem elem, llvm::Value *bits) override;
  llvm::Value *fromFloat(ir::Elem elem, llvm::Value *value) override;
  llvm::Value *fromDouble(ir::Elem elem, llvm::Value *value) override;
  [[nodiscard]] bool takesPairs(const ir::Function &fn, ir::OpId op) const override;
  [[nodiscard]] bool turnsFactors(const ir::Function &fn, ir::OpId op) const override;
  // Whether exp2 of f32 gives 0 in place of numbers below the least normal one: one instruction, else six.
  void setFlushes(bool flushes) { flushes_ = flushes; }
  // Instructions add and multiply two f32.
  void setPacks(bool packs) { packs_ = packs; }
  // Two operations on f32 are one instruction where each operand's two registers lie in different banks.
  void setJoins(bool joins) { joins_ = joins; }

protected:
  llvm::Value *function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) override;
  llvm::Value *divide(llvm::Value *a, llvm::Value *b, bool rounded) override;
  llvm::Value *minMax(bool isMax, bool propagateNan, llvm::Value *a, llvm::Value *b) override;

private:
  llvm::Value *exponential(llvm::Value *x);
  llvm::Value *divideDoubles(llvm::Value *a, llvm::Value *d);
  llvm::Value *withSign(llvm::Value *value);
  llvm::Value *toHalf(llvm::Value *value);

  bool flushes_ = true;
  bool packs_ = false;
  bool joins_ = false;
};

} // namespace libtile::codegen::amd
