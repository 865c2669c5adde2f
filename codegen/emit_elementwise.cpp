// SPDX-License-Identifier: Apache-2.0
// Integers, comparisons and selects; floats and conversions are in emit_floating.cpp.
#include "codegen/emit_elementwise.h"

#include "codegen/llvm_compat.h"
#include "ir/ops.h"

#include <llvm/IR/PatternMatch.h>

#include <algorithm>

namespace libtile::codegen {

using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using llvm::Value;

// ---- types

llvm::Type *Elementwise::registerType(Elem elem) const {
  switch (elem) {
  case Elem::Void:
    break;
  case Elem::I1:
  case Elem::I8:
  case Elem::I16:
  case Elem::I32:
  case Elem::I64:
    return builder_.getIntNTy(ir::bitWidth(elem));
  case Elem::F16:
  case Elem::BF16:
    return builder_.getInt16Ty();
  case Elem::F32:
    return builder_.getFloatTy();
  case Elem::F64:
    return builder_.getDoubleTy();
  }
  throw ir::InternalError("void has no values");
}

llvm::Type *Elementwise::registerType(const ir::Type &type) const {
  return type.isPointer() ? pointerType() : registerType(type.elem());
}

llvm::Type *Elementwise::memoryType(const ir::Type &type) const {
  return type.isBool() ? builder_.getInt8Ty() : registerType(type);
}

llvm::Type *Elementwise::widen(llvm::Type *scalar, unsigned lanes) {
  return lanes == 1 ? scalar : llvm::FixedVectorType::get(scalar, lanes);
}

llvm::Type *Elementwise::typeLike(Value *like, llvm::Type *type) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector != nullptr ? llvm::FixedVectorType::get(type, vector->getNumElements()) : type;
}

Value *Elementwise::fromMemory(const ir::Type &type, Value *value) {
  return type.isBool() ? builder_.CreateICmpNE(value, intLike(value, 0)) : value;
}

Value *Elementwise::toMemory(const ir::Type &type, Value *value) {
  return type.isBool() ? builder_.CreateZExt(value, typeLike(value, builder_.getInt8Ty())) : value;
}

// ---- numbers

Value *Elementwise::splatLike(Value *like, llvm::Constant *scalar) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType());
  return vector != nullptr ? llvm::ConstantVector::getSplat(vector->getElementCount(), scalar)
                           : scalar;
}

Value *Elementwise::intLike(Value *like, int64_t value) {
  auto *type = llvm::cast<llvm::IntegerType>(like->getType()->getScalarType());
  const llvm::APInt number =
      llvm::APInt(64, static_cast<uint64_t>(value)).sextOrTrunc(type->getBitWidth());
  return splatLike(like, llvm::ConstantInt::get(type, number));
}

Value *Elementwise::floatLike(Value *like, double value) {
  return splatLike(like, llvm::ConstantFP::get(like->getType()->getScalarType(), value));
}

llvm::Constant *Elementwise::constant(const ir::Function &fn, ir::OpId op) {
  const ir::Type type = fn.type(fn.result(op));
  llvm::Type *held = registerType(type);
  if (type.isPointer()) {
    return llvm::Constant::getNullValue(held);
  }
  if (!type.isFloating()) {
    const auto bits = static_cast<uint64_t>(fn.getInt(op, ir::Attr::value));
    return llvm::ConstantInt::get(held,
                                  llvm::APInt(64, bits).sextOrTrunc(held->getIntegerBitWidth()));
  }
  const ir::AttrValue *attr = fn.findAttr(op, ir::Attr::value);
  const double *number = attr != nullptr ? std::get_if<double>(attr) : nullptr;
  return floatConstant(type.elem(), number != nullptr
                                        ? *number
                                        : static_cast<double>(fn.getInt(op, ir::Attr::value)));
}

llvm::Constant *Elementwise::floatConstant(Elem elem, double number) const {
  llvm::Type *held = registerType(elem);
  const bool narrow = held->isIntegerTy();
  const llvm::fltSemantics &semantics = !narrow             ? held->getFltSemantics()
                                        : elem == Elem::F16 ? llvm::APFloat::IEEEhalf()
                                                            : llvm::APFloat::BFloat();
  llvm::APFloat value(number);
  bool lost = false;
  value.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lost);
  if (narrow) {
    return llvm::ConstantInt::get(held, value.bitcastToAPInt());
  }
  return llvm::ConstantFP::get(held->getContext(), value);
}

// ---- integers

Value *Elementwise::divideSafe(bool isSigned, Value *a, Value *d) {
  return isSigned ? builder_.CreateSDiv(a, d) : builder_.CreateUDiv(a, d);
}

// x/0 = 0 and x%0 = x; MIN/-1 = MIN and MIN%-1 = 0: both by dividing by 1 in place of the divisor.
// A remainder is a - quotient * d, so that one quotient serves both.
Value *Elementwise::division(Opcode opcode, Value *a, Value *d) {
  const bool isSigned = opcode == Opcode::SDiv || opcode == Opcode::SRem;
  const bool isRemainder = opcode == Opcode::SRem || opcode == Opcode::URem;
  Value *zero = intLike(d, 0);
  Value *one = intLike(d, 1);
  Value *isZero = builder_.CreateICmpEQ(d, zero);
  Value *unsafe = isZero;
  if (isSigned) {
    const unsigned width = a->getType()->getScalarSizeInBits();
    Value *least = intLike(a, width == 64 ? INT64_MIN : -(int64_t{1} << (width - 1)));
    Value *overflows = builder_.CreateAnd(builder_.CreateICmpEQ(d, intLike(d, -1)),
                                          builder_.CreateICmpEQ(a, least));
    unsafe = builder_.CreateOr(isZero, overflows);
  }
  Value *safe = builder_.CreateSelect(unsafe, one, d);
  Value *quotient = divideSafe(isSigned, a, safe);
  if (isRemainder) {
    Value *rest = builder_.CreateSub(a, builder_.CreateMul(quotient, safe));
    return builder_.CreateSelect(isZero, a, rest);
  }
  return builder_.CreateSelect(isZero, zero, quotient);
}

// Vectors of 64 bits by halves, since no CPU multiplies lanes of 128; a signed product is the unsigned
// one less an operand for each sign.
Value *Elementwise::highProduct(bool isSigned, Value *a, Value *b) {
  llvm::IRBuilder<> &builder = builder_;
  const unsigned width = a->getType()->getScalarSizeInBits();
  if (width < 64 || !a->getType()->isVectorTy()) {
    llvm::Type *wide = typeLike(a, builder.getIntNTy(std::max(2 * width, 32U)));
    const auto extend = [&](Value *v) {
      return isSigned ? builder.CreateSExt(v, wide) : builder.CreateZExt(v, wide);
    };
    Value *product = builder.CreateMul(extend(a), extend(b));
    return builder.CreateTrunc(builder.CreateLShr(product, intLike(product, width)), a->getType());
  }
  Value *half = intLike(a, 32);
  Value *mask = intLike(a, 0xffffffff);
  const auto high = [&](Value *v) { return builder.CreateLShr(v, half); };
  const auto low = [&](Value *v) { return builder.CreateAnd(v, mask); };
  Value *left = builder.CreateAdd(builder.CreateMul(high(a), low(b)),
                                  high(builder.CreateMul(low(a), low(b))));
  Value *right = builder.CreateAdd(builder.CreateMul(low(a), high(b)), low(left));
  Value *product = builder.CreateAdd(builder.CreateMul(high(a), high(b)),
                                     builder.CreateAdd(high(left), high(right)));
  if (isSigned) {
    const auto ifNegative = [&](Value *sign, Value *other) {
      return builder.CreateAnd(builder.CreateAShr(sign, intLike(sign, 63)), other);
    };
    product = builder.CreateSub(product, builder.CreateAdd(ifNegative(a, b), ifNegative(b, a)));
  }
  return product;
}

namespace {

// Whether the value is seen to be below the bound: a constant, or what a constant cuts off. LLVM's own analysis looks
// through loops, which are not whole yet.
bool isBelow(Value *value, unsigned bound) {
  using namespace llvm::PatternMatch;
  const llvm::APInt *most = nullptr;
  return (match(value, m_APInt(most)) || match(value, m_And(m_Value(), m_APInt(most))) ||
          match(value, m_Intrinsic<llvm::Intrinsic::umin>(m_Value(), m_APInt(most)))) &&
         most->ult(bound);
}

} // namespace

Value *Elementwise::shift(Opcode opcode, Value *a, Value *amount) {
  const unsigned width = a->getType()->getScalarSizeInBits();
  if (isBelow(amount, width)) {
    return opcode == Opcode::AShr  ? builder_.CreateAShr(a, amount)
           : opcode == Opcode::Shl ? builder_.CreateShl(a, amount)
                                   : builder_.CreateLShr(a, amount);
  }
  Value *inside = builder_.CreateICmpULT(amount, intLike(amount, width));
  if (width == 1) {
    inside = builder_.CreateNot(amount);
  }
  if (opcode == Opcode::AShr) {
    return builder_.CreateAShr(a,
                               builder_.CreateSelect(inside, amount, intLike(amount, width - 1)));
  }
  Value *safe = builder_.CreateSelect(inside, amount, intLike(amount, 0));
  Value *shifted =
      opcode == Opcode::Shl ? builder_.CreateShl(a, safe) : builder_.CreateLShr(a, safe);
  return builder_.CreateSelect(inside, shifted, intLike(a, 0));
}

// By logic: NVPTX does not always select an ordered comparison of i1. As a signed number true is -1.
Value *Elementwise::compareBools(CmpPred predicate, Value *x, Value *y) {
  const bool lessIsFalse = predicate == CmpPred::ult || predicate == CmpPred::ule ||
                           predicate == CmpPred::sgt || predicate == CmpPred::sge;
  const bool orEqual = predicate == CmpPred::ule || predicate == CmpPred::uge ||
                       predicate == CmpPred::sle || predicate == CmpPred::sge;
  Value *low = lessIsFalse ? builder_.CreateNot(x) : x;
  Value *high = lessIsFalse ? y : builder_.CreateNot(y);
  return orEqual ? builder_.CreateOr(low, high) : builder_.CreateAnd(low, high);
}

Value *Elementwise::compareIntegers(llvm::CmpInst::Predicate predicate, Value *a, Value *b) {
  return builder_.CreateICmp(predicate, a, b);
}

Value *Elementwise::integerMinMax(llvm::Intrinsic::ID which, Value *a, Value *b) {
  return builder_.CreateBinaryIntrinsic(which, a, b);
}

Value *Elementwise::compare(CmpPred predicate, ir::Type type, Operands v) {
  Value *x = v[0];
  Value *y = v[1];
  const bool isFloat = type.isFloating();
  if (isFloat && (type.elem() == Elem::F16 || type.elem() == Elem::BF16)) {
    x = toFloat(type.elem(), x);
    y = toFloat(type.elem(), y);
  }
  if (type.elem() == Elem::I1 && predicate != CmpPred::eq && predicate != CmpPred::ne) {
    return compareBools(predicate, x, y);
  }
  using P = llvm::CmpInst;
  switch (predicate) {
  case CmpPred::eq:
    return isFloat ? builder_.CreateFCmpOEQ(x, y) : builder_.CreateICmpEQ(x, y);
  case CmpPred::ne:
    return isFloat ? builder_.CreateFCmpUNE(x, y) : builder_.CreateICmpNE(x, y);
  case CmpPred::slt:
    return compareIntegers(P::ICMP_SLT, x, y);
  case CmpPred::sle:
    return compareIntegers(P::ICMP_SLE, x, y);
  case CmpPred::sgt:
    return compareIntegers(P::ICMP_SGT, x, y);
  case CmpPred::sge:
    return compareIntegers(P::ICMP_SGE, x, y);
  case CmpPred::ult:
    return compareIntegers(P::ICMP_ULT, x, y);
  case CmpPred::ule:
    return compareIntegers(P::ICMP_ULE, x, y);
  case CmpPred::ugt:
    return compareIntegers(P::ICMP_UGT, x, y);
  case CmpPred::uge:
    return compareIntegers(P::ICMP_UGE, x, y);
  case CmpPred::oeq:
    return builder_.CreateFCmp(P::FCMP_OEQ, x, y);
  case CmpPred::one:
    return builder_.CreateFCmp(P::FCMP_ONE, x, y);
  case CmpPred::olt:
    return builder_.CreateFCmp(P::FCMP_OLT, x, y);
  case CmpPred::ole:
    return builder_.CreateFCmp(P::FCMP_OLE, x, y);
  case CmpPred::ogt:
    return builder_.CreateFCmp(P::FCMP_OGT, x, y);
  case CmpPred::oge:
    return builder_.CreateFCmp(P::FCMP_OGE, x, y);
  case CmpPred::une:
    return builder_.CreateFCmp(P::FCMP_UNE, x, y);
  }
  throw ir::InternalError("unknown comparison");
}

// ---- dispatch. No `default`: an elementwise op without a case here does not build.

Value *Elementwise::emit(const ir::Function &fn, ir::OpId op, Operands v) {
  const ir::Type type = fn.type(fn.operand(op, 0));
  switch (fn.opcode(op)) {
#define ARITHMETIC(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    return type.isFloating() ? floating(fn, op, v) : arithmetic(fn.opcode(op), v);
#define CAST(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    return cast(fn, op, v[0]);
  case Opcode::Cmp:
    return compare(fn.getEnum<CmpPred>(op, ir::Attr::predicate), type, v);
  case Opcode::Select:
    return builder_.CreateSelect(v[0], v[1], v[2]);
  case Opcode::PtrAdd:
    return builder_.CreateGEP(memoryType(type.element().pointee()), v[0], v[1]);
#define ELEMENTWISE(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    break;
  }
  throw ir::InternalError("not an elementwise op");
}

// clang-format off
Value *Elementwise::arithmetic(Opcode opcode, Operands v, Asked asked) {
  llvm::IRBuilder<> &b = builder_;
  Value *x = v[0];
  Value *y = v.size() > 1 ? v[1] : nullptr;
  const bool isFloat = x->getType()->isFPOrFPVectorTy();
  switch (opcode) {
  case Opcode::Add: return isFloat ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
  case Opcode::Sub: return isFloat ? b.CreateFSub(x, y) : b.CreateSub(x, y);
  case Opcode::Mul: return isFloat ? b.CreateFMul(x, y) : b.CreateMul(x, y);
  case Opcode::Neg: return isFloat ? b.CreateFNeg(x) : b.CreateNeg(x);
  case Opcode::Abs:
    return isFloat ? b.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, x)
                   : b.CreateIntrinsic(llvm::Intrinsic::abs, {x->getType()}, {x, b.getInt1(false)});
  case Opcode::SDiv: case Opcode::UDiv: case Opcode::SRem: case Opcode::URem:
    return division(opcode, x, y);
  case Opcode::And: return b.CreateAnd(x, y);
  case Opcode::Or: return b.CreateOr(x, y);
  case Opcode::Xor: return b.CreateXor(x, y);
  case Opcode::Shl: case Opcode::LShr: case Opcode::AShr: return shift(opcode, x, y);
  case Opcode::SMin: return integerMinMax(llvm::Intrinsic::smin, x, y);
  case Opcode::SMax: return integerMinMax(llvm::Intrinsic::smax, x, y);
  case Opcode::UMin: return integerMinMax(llvm::Intrinsic::umin, x, y);
  case Opcode::UMax: return integerMinMax(llvm::Intrinsic::umax, x, y);
  case Opcode::FDiv: return divide(x, y, asked.rounded);
  case Opcode::FRem: return remainder(x, y);
  case Opcode::FMin: return minMax(false, asked.nan, x, y);
  case Opcode::FMax: return minMax(true, asked.nan, x, y);
  case Opcode::Fma: return b.CreateIntrinsic(llvm::Intrinsic::fma, {x->getType()}, {x, y, v[2]});
  case Opcode::Sqrt: return squareRoot(x);
  case Opcode::SMulHi: case Opcode::UMulHi: return highProduct(opcode == Opcode::SMulHi, x, y);
  case Opcode::Popc: return b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, x);
  case Opcode::Clz: return b.CreateIntrinsic(llvm::Intrinsic::ctlz, {x->getType()}, {x, b.getInt1(false)});
  case Opcode::Brev: return b.CreateUnaryIntrinsic(llvm::Intrinsic::bitreverse, x);
  case Opcode::Floor: return b.CreateUnaryIntrinsic(llvm::Intrinsic::floor, x);
  case Opcode::Ceil: return b.CreateUnaryIntrinsic(llvm::Intrinsic::ceil, x);
  case Opcode::Chop: return b.CreateUnaryIntrinsic(llvm::Intrinsic::trunc, x);
  case Opcode::Rint: return b.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
#define FUNCTION(Name, ...) case Opcode::Name:
#define ARITHMETIC(...)
#define OP(...)
#include "ir/ops.def"
    return function(opcode, v);
#define FUNCTION(...)
#define ARITHMETIC(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    break;
  }
  throw ir::InternalError("not an arithmetic op");
}
// clang-format on

} // namespace libtile::codegen
