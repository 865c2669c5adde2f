// SPDX-License-Identifier: Apache-2.0
// Elementwise ops where NVIDIA has an instruction of its own. Approximations: exp2 and rsqrt of f32
// are the hardware's (2 ulp), and exp goes through exp2.
#pragma once

#include "codegen/gpu/elementwise.h"

namespace libtile::codegen::nvidia {

class NvidiaElementwise final : public gpu::GpuElementwise {
public:
  NvidiaElementwise(llvm::IRBuilder<> &builder, int32_t capability) : GpuElementwise(builder), capability_(capability) {}
  llvm::Value *toFloat(ir::Elem elem, llvm::Value *bits) override;
  llvm::Value *fromFloat(ir::Elem elem, llvm::Value *value) override;
  llvm::Value *fromDouble(ir::Elem elem, llvm::Value *value) override;
  llvm::Value *integerMinMax(llvm::Intrinsic::ID which, llvm::Value *a, llvm::Value *b) override;
  // Whether exp2 of f32 gives 0 in place of numbers below the least normal one: one instruction, else four.
  void setFlushes(bool flushes) { flushes_ = flushes; }

protected:
  llvm::Value *function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) override;
  llvm::Value *castFunction(const ir::Function &fn, ir::OpId op, llvm::Value *operand) override;
  llvm::Value *divide(llvm::Value *a, llvm::Value *b, bool rounded) override;
  llvm::Value *compareIntegers(llvm::CmpInst::Predicate predicate, llvm::Value *a,
                               llvm::Value *b) override;
  llvm::Value *wideToBf16(bool isSigned, llvm::Value *a) override;
  llvm::Value *minMax(bool isMax, bool propagateNan, llvm::Value *a, llvm::Value *b) override;

private:
  // An integer of less than 32 bits in 32 bits.
  llvm::Value *inWord(bool isSigned, llvm::Value *a);
  llvm::Value *approximate(const char *instruction, llvm::Value *value);
  llvm::Value *decodePair(llvm::Value *codes);
  llvm::Value *encodePair(ir::Float8 format, llvm::Value *numbers);

  const int32_t capability_; // codegen/nvidia/description.h
  bool flushes_ = true;
};

} // namespace libtile::codegen::nvidia
