// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/elementwise.h"

#include "codegen/require_pass.h"
#include "ir/ops.h"

#include <llvm/IR/InlineAsm.h>

namespace libtile::codegen::nvidia {

namespace {

llvm::Value *callAssembly(llvm::IRBuilder<> &builder, const std::string &text,
                          const char *constraints, llvm::Type *result, llvm::Value *operand) {
  auto *type = llvm::FunctionType::get(result, {operand->getType()}, false);
  return builder.CreateCall(type, llvm::InlineAsm::get(type, text, constraints, false), {operand});
}

} // namespace

llvm::Value *NvidiaElementwise::toFloat(ir::Elem elem, llvm::Value *bits) {
  if (elem != ir::Elem::F16) {
    return Elementwise::toFloat(elem, bits);
  }
  llvm::Value *half = builder_.CreateBitCast(bits, typeLike(bits, builder_.getHalfTy()));
  return builder_.CreateFPExt(half, typeLike(bits, builder_.getFloatTy()));
}

llvm::Value *NvidiaElementwise::fromFloat(ir::Elem elem, llvm::Value *value) {
  const bool isTuring = capability_ < 80;
  if (elem == ir::Elem::F16) {
    if (isTuring && !value->getType()->isVectorTy() && !llvm::isa<llvm::Constant>(value)) {
      // The text is not one that the writer joins with a neighbour's to an instruction for both.
      return callAssembly(builder_, "cvt.rn.f16.f32 $0, $1;", "=h,f", builder_.getInt16Ty(), value);
    }
    llvm::Value *half = builder_.CreateFPTrunc(value, typeLike(value, builder_.getHalfTy()));
    return builder_.CreateBitCast(half, typeLike(value, builder_.getInt16Ty()));
  }
  if (!value->getType()->isVectorTy() && !isTuring) {
    return callAssembly(builder_, "cvt.rn.bf16.f32 $0, $1;", "=h,f", builder_.getInt16Ty(), value);
  }
  return Elementwise::fromFloat(elem, value);
}

llvm::Value *NvidiaElementwise::fromDouble(ir::Elem elem, llvm::Value *value) {
  if (elem != ir::Elem::F16) {
    return Elementwise::fromDouble(elem, value);
  }
  llvm::Value *half = builder_.CreateFPTrunc(value, typeLike(value, builder_.getHalfTy()));
  return builder_.CreateBitCast(half, typeLike(value, builder_.getInt16Ty()));
}

// ptxas (12.9, 13.0) makes min.s16, max.s16 and a comparison beside them one instruction on sm_90 that
// gives the wrong answer, for example of min(x, 0) == 0: everything of the kind takes 32 bits. The
// comparison does because LLVM makes min of `a < b ? a : b`.
llvm::Value *NvidiaElementwise::inWord(bool isSigned, llvm::Value *a) {
  const unsigned width = a->getType()->getScalarSizeInBits();
  if (width == 1 || width >= 32) {
    return a;
  }
  llvm::Type *word = typeLike(a, builder_.getInt32Ty());
  return isSigned ? builder_.CreateSExt(a, word) : builder_.CreateZExt(a, word);
}

llvm::Value *NvidiaElementwise::compareIntegers(llvm::CmpInst::Predicate predicate, llvm::Value *a,
                                                llvm::Value *b) {
  const bool isSigned = llvm::CmpInst::isSigned(predicate);
  return Elementwise::compareIntegers(predicate, inWord(isSigned, a), inWord(isSigned, b));
}

llvm::Value *NvidiaElementwise::integerMinMax(llvm::Intrinsic::ID which, llvm::Value *a,
                                              llvm::Value *b) {
  const bool isSigned = which == llvm::Intrinsic::smin || which == llvm::Intrinsic::smax;
  llvm::Value *found = Elementwise::integerMinMax(which, inWord(isSigned, a), inWord(isSigned, b));
  return builder_.CreateTrunc(found, a->getType());
}

// Through float, cut off to it, with a last bit that says that there was more: one rounding in all, and
// no double, which is slow.
llvm::Value *NvidiaElementwise::wideToBf16(bool isSigned, llvm::Value *a) {
  if (a->getType()->isVectorTy()) {
    return Elementwise::wideToBf16(isSigned, a);
  }
  const bool isLong = a->getType()->isIntegerTy(64);
  const std::string type = (isSigned ? ".s" : ".u") + std::string(isLong ? "64" : "32");
  llvm::Value *cut = callAssembly(builder_, "cvt.rz.f32" + type + " $0, $1;", isLong ? "=f,l" : "=f,r",
                                  builder_.getFloatTy(), a);
  llvm::Value *back = isSigned ? builder_.CreateFPToSI(cut, a->getType())
                               : builder_.CreateFPToUI(cut, a->getType());
  llvm::Value *bits = builder_.CreateBitCast(cut, builder_.getInt32Ty());
  llvm::Value *rest = builder_.CreateZExt(builder_.CreateICmpNE(back, a), builder_.getInt32Ty());
  llvm::Value *odd = builder_.CreateBitCast(builder_.CreateOr(bits, rest), builder_.getFloatTy());
  return fromFloat(ir::Elem::BF16, odd);
}

llvm::Value *NvidiaElementwise::approximate(const char *instruction, llvm::Value *value) {
  return callAssembly(builder_, std::string(instruction) + " $0, $1;", "=f,f",
                      builder_.getFloatTy(), value);
}

// exp(x) = 2^n * 2^f with n = floor(x log2(e)), kept within [-126, 126], and f in two steps, so that
// the error does not grow with x. j holds n + 127 in its low bits; the saturation takes infinities.
constexpr const char *kExponential = R"({
  .reg .f32 j, n, f, e;
  .reg .b32 s;
  fma.rn.sat.f32 j, $1, 0f3BBB989D, 0f3F000000;
  fma.rm.f32 j, j, 0f437C0000, 0f4B400001;
  add.rn.f32 n, j, 0fCB40007F;
  neg.f32 n, n;
  fma.rn.f32 f, $1, 0f3FB8AA3B, n;
  fma.rn.f32 f, $1, 0f32A57060, f;
  ex2.approx.ftz.f32 e, f;
  mov.b32 s, j;
  shl.b32 s, s, 23;
  mov.b32 n, s;
  mul.rn.f32 $0, e, n;
  })";

llvm::Value *NvidiaElementwise::function(ir::Opcode opcode,
                                         llvm::ArrayRef<llvm::Value *> operands) {
  if (opcode == ir::Opcode::Exp) {
    return callAssembly(builder_, kExponential, "=f,f", builder_.getFloatTy(), operands[0]);
  }
  if (opcode == ir::Opcode::Exp2) {
    return approximate(flushes_ ? "ex2.approx.ftz.f32" : "ex2.approx.f32", operands[0]);
  }
  requirePass(opcode == ir::Opcode::Rsqrt, "expand_functions");
  return approximate("rsqrt.approx.f32", operands[0]);
}

// <2 x i8> of e4nv -> <2 x float>, by way of fp16, which holds them.
llvm::Value *NvidiaElementwise::decodePair(llvm::Value *codes) {
  llvm::Value *word = builder_.CreateBitCast(codes, builder_.getInt16Ty());
  llvm::Value *halves = callAssembly(builder_, "cvt.rn.f16x2.e4m3x2 $0, $1;", "=r,h",
                                     builder_.getInt32Ty(), word);
  halves = builder_.CreateBitCast(halves, llvm::FixedVectorType::get(builder_.getHalfTy(), 2));
  return builder_.CreateFPExt(halves, llvm::FixedVectorType::get(builder_.getFloatTy(), 2));
}

// <2 x float> -> <2 x i8>; the instruction has the upper one first.
llvm::Value *NvidiaElementwise::encodePair(ir::Float8 format, llvm::Value *numbers) {
  llvm::Value *low = builder_.CreateExtractElement(numbers, uint64_t{0});
  llvm::Value *high = builder_.CreateExtractElement(numbers, uint64_t{1});
  const char *text = format == ir::Float8::e5 ? "cvt.rn.satfinite.e5m2x2.f32 $0, $1, $2;"
                                              : "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $2;";
  auto *type =
      llvm::FunctionType::get(builder_.getInt16Ty(), {low->getType(), low->getType()}, false);
  llvm::Value *word = builder_.CreateCall(
      type, llvm::InlineAsm::get(type, text, "=h,f,f", false), {high, low});
  return builder_.CreateBitCast(word, llvm::FixedVectorType::get(builder_.getInt8Ty(), 2));
}

llvm::Value *NvidiaElementwise::castFunction(const ir::Function &fn, ir::OpId op,
                                             llvm::Value *operand) {
  const auto format = fn.getEnum<ir::Float8>(op, ir::Attr::format);
  const bool decodes = fn.opcode(op) == ir::Opcode::Float8Decode;
  const bool hasOne = format == ir::Float8::e4nv || (format == ir::Float8::e5 && !decodes);
  requirePass(hasOne, "expand_functions");
  if (operand->getType()->isVectorTy()) {
    return decodes ? decodePair(operand) : encodePair(format, operand);
  }
  llvm::Value *pair = builder_.CreateVectorSplat(2, operand);
  return builder_.CreateExtractElement(decodes ? decodePair(pair) : encodePair(format, pair),
                                       uint64_t{0});
}

llvm::Value *NvidiaElementwise::divide(llvm::Value *a, llvm::Value *b, bool rounded) {
  if (rounded || !a->getType()->isFloatTy() || isShared(b)) {
    return GpuElementwise::divide(a, b, rounded);
  }
  auto *type = llvm::FunctionType::get(a->getType(), {a->getType(), b->getType()}, false);
  return builder_.CreateCall(
      type, llvm::InlineAsm::get(type, "div.full.f32 $0, $1, $2;", "=f,f,f", false), {a, b});
}

llvm::Value *NvidiaElementwise::minMax(bool isMax, bool propagateNan, llvm::Value *a,
                                       llvm::Value *b) {
  if (!a->getType()->isFloatTy()) {
    return Elementwise::minMax(isMax, propagateNan, a, b);
  }
  using namespace llvm::Intrinsic; // one node each, where assembly is six
  const bool keepsNan = propagateNan && capability_ >= 80;
  const ID max = keepsNan ? maximum : maxnum, min = keepsNan ? minimum : minnum;
  llvm::Value *found = builder_.CreateBinaryIntrinsic(isMax ? max : min, a, b);
  if (propagateNan && !keepsNan) {
    found = builder_.CreateSelect(builder_.CreateFCmpUNO(a, b), llvm::ConstantFP::getNaN(a->getType()), found);
  }
  return found;
}

} // namespace libtile::codegen::nvidia
