// SPDX-License-Identifier: Apache-2.0
#include "codegen/gpu/elementwise.h"

#include "ir/ops.h"

namespace libtile::codegen::gpu {

bool GpuElementwise::takesPairs(const ir::Function &fn, ir::OpId op) const {
  const ir::Opcode opcode = fn.opcode(op);
  return opcode == ir::Opcode::Float8Decode || opcode == ir::Opcode::Float8Encode;
}

// a / b = (a * scale) * (1 / (b * scale)): the scale keeps the reciprocal away from overflow and
// subnormal numbers; where it makes a * scale overflow or vanish, so does the quotient.
const GpuElementwise::SharedDivisor &GpuElementwise::shareDivisor(llvm::Value *divisor, Scaling scaling) {
  shared_ = {.divisor = divisor, .scalesEach = scaling == Scaling::Each};
  if (divisor == nullptr) {
    return shared_;
  }
  constexpr double kFar = 0x1p100;
  constexpr double kScale = 0x1p64;
  llvm::Value *size = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, divisor);
  llvm::Value *large = builder_.CreateFCmpOGT(size, floatLike(divisor, kFar));
  llvm::Value *tiny = builder_.CreateFCmpOLT(size, floatLike(divisor, 1 / kFar));
  llvm::Value *down =
      builder_.CreateSelect(large, floatLike(divisor, 1 / kScale), floatLike(divisor, 1.0));
  shared_.isScaled = builder_.CreateOr(large, tiny);
  shared_.scale = builder_.CreateSelect(tiny, floatLike(divisor, kScale), down);
  shared_.reciprocal =
      builder_.CreateFDiv(floatLike(divisor, 1.0), builder_.CreateFMul(divisor, shared_.scale));
  return shared_;
}

llvm::Value *GpuElementwise::divide(llvm::Value *a, llvm::Value *b, bool rounded) {
  if (rounded || !a->getType()->isFloatTy() || !isShared(b)) {
    return Elementwise::divide(a, b, rounded);
  }
  return builder_.CreateFMul(shared_.scalesEach ? builder_.CreateFMul(a, shared_.scale) : a, shared_.reciprocal);
}

} // namespace libtile::codegen::gpu
