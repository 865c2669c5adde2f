// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/elementwise.h"

#include "codegen/require_pass.h"
#include "ir/ops.h"

#include <llvm/IR/IntrinsicsAMDGPU.h>
#include <llvm/IR/MDBuilder.h>
#include <llvm/IR/PatternMatch.h>

#include <algorithm>

namespace libtile::codegen::amd {

// LLVM makes one multiply-add of a product of fp32 and its conversion to fp16, and adds 0.0, by which -0.0 becomes 0.0. -0.0 leaves the
// product as it is.
llvm::Value *AmdElementwise::withSign(llvm::Value *value) {
  namespace match = llvm::PatternMatch;
  llvm::Value *a = nullptr, *b = nullptr;
  if (!value->getType()->getScalarType()->isFloatTy()) {
    return value;
  }
  if (match::match(value, match::m_FNeg(match::m_FMul(match::m_Value(a), match::m_Value(b))))) {
    a = builder_.CreateFNeg(a);
  } else if (!match::match(value, match::m_FMul(match::m_Value(a), match::m_Value(b)))) {
    return value;
  }
  return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {value->getType()}, {a, b, llvm::ConstantFP::getNegativeZero(value->getType())});
}

llvm::Value *AmdElementwise::toHalf(llvm::Value *value) {
  llvm::Value *half = builder_.CreateFPTrunc(withSign(value), typeLike(value, builder_.getHalfTy()));
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

// One by one where fp16 is read or made on the way, which multiply-adds do by themselves.
bool AmdElementwise::takesPairs(const ir::Function &fn, ir::OpId op) const {
  const ir::Opcode opcode = fn.opcode(op);
  const bool isPacked = opcode == ir::Opcode::Add || opcode == ir::Opcode::Sub || opcode == ir::Opcode::Mul || opcode == ir::Opcode::Fma;
  if (!packs_ || !isPacked || fn.type(fn.result(op)).elem() != ir::Elem::F32) {
    return GpuElementwise::takesPairs(fn, op);
  }
  const auto isWidened = [&](ir::ValueId operand) {
    return fn.defOpcode(operand) == ir::Opcode::FpExt && fn.type(fn.operand(fn.def(operand), 0)).elem() == ir::Elem::F16;
  };
  const auto isNarrowed = [&](ir::Use use) {
    return fn.opcode(use.op) == ir::Opcode::FpTrunc && fn.type(fn.result(use.op)).elem() == ir::Elem::F16;
  };
  return std::ranges::none_of(fn.operands(op), isWidened) && std::ranges::none_of(fn.uses(fn.result(op)), isNarrowed);
}

bool AmdElementwise::turnsFactors(const ir::Function &fn, ir::OpId op) const {
  return joins_ && fn.opcode(op) == ir::Opcode::Mul && fn.type(fn.result(op)).elem() == ir::Elem::F32;
}

// e^x = 2^n 2^f with n the integer next to x log2(e), kept where 2^n is a number or rounds to one, and f in two steps, so
// that the error does not grow with x. Beyond, f takes what is left, infinities too, and so does a NaN. What v_exp_f32
// takes for 0 is a power of 1 or a product that is 0.
llvm::Value *AmdElementwise::exponential(llvm::Value *x) {
  llvm::Type *type = x->getType();
  const auto number = [&](double value) { return llvm::ConstantFP::get(type, value); };
  llvm::Value *n = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, builder_.CreateFMul(x, number(0x1.715476p+0)));
  n = builder_.CreateIntrinsic(llvm::Intrinsic::amdgcn_fmed3, {type}, {n, number(-150), number(128)});
  llvm::Value *f = builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, number(0x1.715476p+0), builder_.CreateFNeg(n)});
  f = builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, number(0x1.4ae0cp-26), f});
  llvm::Value *power = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::amdgcn_exp2, f);
  llvm::Value *exponent = builder_.CreateFPToSI(n, builder_.getInt32Ty());
  return builder_.CreateIntrinsic(llvm::Intrinsic::ldexp, {type, exponent->getType()}, {power, exponent});
}

llvm::Value *AmdElementwise::function(ir::Opcode opcode, llvm::ArrayRef<llvm::Value *> operands) {
  if (opcode == ir::Opcode::Exp) {
    return exponential(operands[0]);
  }
  requirePass(opcode == ir::Opcode::Exp2, "expand_functions");
  // LLVM scales what v_exp_f32 takes for 0.
  const llvm::Intrinsic::ID power = flushes_ ? llvm::Intrinsic::ID(llvm::Intrinsic::amdgcn_exp2) : llvm::Intrinsic::ID(llvm::Intrinsic::exp2);
  return builder_.CreateUnaryIntrinsic(power, operands[0]);
}

// a / d as LLVM's backend makes it, Newton's steps from the hardware's reciprocal, and one step more. Without it the reciprocal of the
// largest number below a power of two is that power: it is next to half way between two numbers, and steps come from below. A power of
// two by it was then rounded down. 2^-105 is less than what tells other reciprocals from half way, or too little to matter.
llvm::Value *AmdElementwise::divideDoubles(llvm::Value *a, llvm::Value *d) {
  llvm::Type *type = a->getType();
  const auto fma = [&](llvm::Value *x, llvm::Value *y, llvm::Value *z) { return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type}, {x, y, z}); };
  const auto scaled = [&](bool ofNumerator) {
    return builder_.CreateIntrinsic(llvm::Intrinsic::amdgcn_div_scale, {type}, {a, d, builder_.getInt1(ofNumerator)});
  };
  llvm::Value *denominator = builder_.CreateExtractValue(scaled(false), 0), *numerator = scaled(true);
  llvm::Value *isScaled = builder_.CreateExtractValue(numerator, 1);
  numerator = builder_.CreateExtractValue(numerator, 0);
  llvm::Value *negated = builder_.CreateFNeg(denominator), *one = llvm::ConstantFP::get(type, 1);
  llvm::Value *reciprocal = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::amdgcn_rcp, denominator);
  for (int step = 0; step < 2; ++step) {
    reciprocal = fma(reciprocal, fma(negated, reciprocal, one), reciprocal);
  }
  llvm::Value *rest = builder_.CreateFAdd(fma(negated, reciprocal, one), llvm::ConstantFP::get(type, 0x1p-105));
  reciprocal = fma(reciprocal, rest, reciprocal);
  llvm::Value *quotient = builder_.CreateFMul(numerator, reciprocal);
  llvm::Value *left = fma(negated, quotient, numerator);
  quotient = builder_.CreateIntrinsic(llvm::Intrinsic::amdgcn_div_fmas, {type}, {left, reciprocal, quotient, isScaled});
  return builder_.CreateIntrinsic(llvm::Intrinsic::amdgcn_div_fixup, {type}, {quotient, d, a});
}

// Of fp32 off by at most 2.5 ulp, by the hardware's reciprocal, where the op does not ask for more.
llvm::Value *AmdElementwise::divide(llvm::Value *a, llvm::Value *b, bool rounded) {
  if (a->getType()->isDoubleTy()) {
    return divideDoubles(a, b);
  }
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
