// SPDX-License-Identifier: Apache-2.0
#include "codegen/cpu/multiply_add.h"

#include "codegen/llvm_compat.h"
#include "ir/diagnostic.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace libtile::codegen::cpu {

using llvm::Value;

Value *multiplyAdd(llvm::IRBuilder<> &builder, ir::MultiplyAdd instruction, Value *a, Value *b,
                   Value *sum) {
  namespace I = llvm::Intrinsic;
  // The types that groups have differ between LLVM's versions; the declaration knows.
  const auto call = [&](I::ID id, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<llvm::Type *> types = {}) -> Value * {
    llvm::Function *callee = compat::intrinsic(*builder.GetInsertBlock()->getModule(), id, types);
    llvm::SmallVector<Value *, 3> cast;
    for (unsigned i = 0; i < operands.size(); ++i) {
      cast.push_back(
          builder.CreateBitCast(operands[i], callee->getFunctionType()->getParamType(i)));
    }
    return builder.CreateCall(callee, cast);
  };
  switch (instruction) {
  case ir::MultiplyAdd::Lanes:
    if (sum->getType()->isIntOrIntVectorTy()) {
      return builder.CreateAdd(sum, builder.CreateMul(a, b));
    }
    return builder.CreateIntrinsic(I::fma, {sum->getType()}, {a, b, sum});
  case ir::MultiplyAdd::Vdpbf16ps512: return call(I::x86_avx512bf16_dpbf16ps_512, {sum, a, b});
  case ir::MultiplyAdd::Vpmaddwd256:
    return builder.CreateAdd(sum, call(I::x86_avx2_pmadd_wd, {a, b}));
  case ir::MultiplyAdd::Vpmaddwd512:
    return builder.CreateAdd(sum, call(I::x86_avx512_pmaddw_d_512, {a, b}));
  case ir::MultiplyAdd::Vpdpwssd512: return call(I::x86_avx512_vpdpwssd_512, {sum, a, b});
  case ir::MultiplyAdd::Vpdpbusd512: return call(I::x86_avx512_vpdpbusd_512, {sum, a, b});
  case ir::MultiplyAdd::Sdot128:
    return call(I::aarch64_neon_sdot, {sum, a, b}, {sum->getType(), llvm::FixedVectorType::get(builder.getInt8Ty(), 16)});
  case ir::MultiplyAdd::Bfdot128:
    return call(I::aarch64_neon_bfdot, {sum, a, b}, {sum->getType(), llvm::FixedVectorType::get(builder.getBFloatTy(), 8)});
  case ir::MultiplyAdd::Tdpbf16ps:
  case ir::MultiplyAdd::Tdpbssd: break;
  }
  throw ir::InternalError("no such instruction on vectors");
}

void multiplyAddTiles(llvm::IRBuilder<> &builder, ir::MultiplyAdd instruction, unsigned a, unsigned b,
                      unsigned sum) {
  namespace I = llvm::Intrinsic;
  ir::check(instruction == ir::MultiplyAdd::Tdpbf16ps || instruction == ir::MultiplyAdd::Tdpbssd,
            "no such instruction on tiles");
  const I::ID id = instruction == ir::MultiplyAdd::Tdpbf16ps ? I::x86_tdpbf16ps : I::x86_tdpbssd;
  const auto number = [&](unsigned tile) { return builder.getInt8(uint8_t(tile)); };
  builder.CreateCall(compat::intrinsic(*builder.GetInsertBlock()->getModule(), id),
                     {number(sum), number(a), number(b)});
}

} // namespace libtile::codegen::cpu
