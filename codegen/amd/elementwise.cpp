// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/elementwise.h"

#include "codegen/require_pass.h"

#include <llvm/IR/MDBuilder.h>

namespace libtile::codegen::amd {

llvm::Value *AmdElementwise::toHalf(llvm::Value *value) {
  llvm::Value *half = builder_.CreateFPTrunc(value, typeLike(value, builder_.getHalfTy()));
  return builder_.CreateBitCast(half, typeLike(value, builder_.getInt16Ty()));
}

llvm::Value *AmdElementwise::toFloat(ir::Elem elem, llvm::Value *bits) {
  if (elem != ir::Elem::F16) {
    return Elementwise::toFloat(elem, bits);
  }
  llvm::Value *half = builder_.CreateBitCast(bits, typeLike(bits, builder_.getHalfTy()));
  return builder_.CreateFPExt(half, typeLike(bits, builder_.getFloatTy()));
}

llvm::Value *AmdElementwise::fromFloat(ir::Elem elem, llvm::Value *value) {
  return elem == ir::Elem::F16 ? toHalf(value) : Elementwise::fromFloat(elem, value);
}

llvm::Value *AmdElementwise::fromDouble(ir::Elem elem, llvm::Value *value) {
  return elem == ir::Elem::F16 ? toHalf(value) : Elementwise::fromDouble(elem, value);
}

// Target::functions has none.
llvm::Value *AmdElementwise::function(ir::Opcode, llvm::ArrayRef<llvm::Value *>) {
  requirePass(false, "expand_functions");
  return nullptr;
}

// Off by at most 2.5 ulp, by the hardware's reciprocal, where the op does not ask for more.
llvm::Value *AmdElementwise::divide(llvm::Value *a, llvm::Value *b, bool rounded) {
  llvm::Value *quotient = GpuElementwise::divide(a, b, rounded);
  if (auto *division = llvm::dyn_cast<llvm::Instruction>(quotient); division != nullptr && division->getOpcode() == llvm::Instruction::FDiv && !rounded &&
                                                                   a->getType()->isFloatTy()) {
    division->setMetadata(llvm::LLVMContext::MD_fpmath, llvm::MDBuilder(builder_.getContext()).createFPMath(2.5F));
  }
  return quotient;
}

// Of a NaN and a number the instruction gives the number.
llvm::Value *AmdElementwise::minMax(bool isMax, bool propagateNan, llvm::Value *a, llvm::Value *b) {
  llvm::Value *picked = builder_.CreateBinaryIntrinsic(isMax ? llvm::Intrinsic::maxnum : llvm::Intrinsic::minnum, a, b);
  if (!propagateNan) {
    return picked;
  }
  llvm::Value *nan = llvm::ConstantFP::getNaN(a->getType());
  return builder_.CreateSelect(builder_.CreateFCmpUNO(a, b), nan, picked);
}

} // namespace libtile::codegen::amd
