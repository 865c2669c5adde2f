// SPDX-License-Identifier: Apache-2.0
// The floating half of emit_elementwise.h: arithmetic, and conversions between all number types.
//
// Rounding once: a value that needs more bits than the type between holds goes through that type
// "rounded to odd" (inexact results get an odd last bit), which keeps the last rounding right as
// long as the type between has two bits more than the final one.
#include "codegen/emit_elementwise.h"
#include "ir/ops.h"

#include "codegen/llvm_compat.h"
#include "codegen/require_pass.h"

namespace libtile::codegen {

using ir::Elem;
using ir::Opcode;
using llvm::Value;

namespace {

bool isNarrow(Elem elem) { return elem == Elem::F16 || elem == Elem::BF16; }

} // namespace

// ---- narrow floats

Value *Elementwise::toFloat(Elem elem, Value *bits) {
  if (elem == Elem::F16) {
    Value *half = builder_.CreateBitCast(bits, typeLike(bits, builder_.getHalfTy()));
    return builder_.CreateFPExt(half, typeLike(bits, builder_.getFloatTy()));
  }
  Value *wide = builder_.CreateZExt(bits, typeLike(bits, builder_.getInt32Ty()));
  wide = builder_.CreateShl(wide, intLike(wide, 16));
  return builder_.CreateBitCast(wide, typeLike(bits, builder_.getFloatTy()));
}

Value *Elementwise::fromFloat(Elem elem, Value *value) {
  llvm::Type *int16 = typeLike(value, builder_.getInt16Ty());
  if (elem == Elem::F16) {
    Value *half = builder_.CreateFPTrunc(value, typeLike(value, builder_.getHalfTy()));
    return builder_.CreateBitCast(half, int16);
  }
  // Adding 0x7fff and the lowest kept bit carries exactly when nearest-even rounds up; a NaN keeps
  // its upper bits and is made quiet.
  Value *bits = builder_.CreateBitCast(value, typeLike(value, builder_.getInt32Ty()));
  Value *lowest = builder_.CreateAnd(builder_.CreateLShr(bits, intLike(bits, 16)), intLike(bits, 1));
  Value *rounded = builder_.CreateAdd(bits, builder_.CreateAdd(lowest, intLike(bits, 0x7fff)));
  Value *isNan = builder_.CreateFCmpUNO(value, value);
  Value *quiet = builder_.CreateOr(bits, intLike(bits, 0x400000));
  return upperHalves(builder_.CreateSelect(isNan, quiet, rounded));
}

Value *Elementwise::upperHalves(Value *words) {
  return builder_.CreateTrunc(builder_.CreateLShr(words, intLike(words, 16)),
                              typeLike(words, builder_.getInt16Ty()));
}

Value *Elementwise::fromDouble(Elem elem, Value *value) {
  return fromFloat(elem, roundToOddFloat(value));
}

Value *Elementwise::roundToOddFloat(Value *value) {
  Value *nearest = builder_.CreateFPTrunc(value, typeLike(value, builder_.getFloatTy()));
  Value *back = builder_.CreateFPExt(nearest, value->getType());
  Value *bits = builder_.CreateBitCast(nearest, typeLike(value, builder_.getInt32Ty()));
  Value *away = builder_.CreateFCmpOGT(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, back),
                                       builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, value));
  Value *inexact = builder_.CreateFCmpONE(back, value);
  Value *towardsZero = builder_.CreateSub(bits, builder_.CreateZExt(away, bits->getType()));
  Value *odd = builder_.CreateOr(towardsZero, builder_.CreateZExt(inexact, bits->getType()));
  return builder_.CreateBitCast(odd, nearest->getType());
}

// ---- arithmetic

Value *Elementwise::divide(Value *a, Value *d, bool) { return builder_.CreateFDiv(a, d); }
Value *Elementwise::squareRoot(Value *a) {
  return builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a);
}

// `a < b ? a : b` gives b when either is NaN, as one instruction of x86 does; what is left is the
// case in which the other operand is wanted.
Value *Elementwise::minMax(bool isMax, bool propagateNan, Value *x, Value *y) {
  Value *first = isMax ? builder_.CreateFCmpOGT(x, y) : builder_.CreateFCmpOLT(x, y);
  Value *picked = builder_.CreateSelect(first, x, y);
  Value *tested = propagateNan ? x : y;
  return builder_.CreateSelect(builder_.CreateFCmpUNO(tested, tested), x, picked);
}

// The product of two narrow floats is exact in double; the error of its sum with c (two-sum) makes
// the sum odd, so that the last rounding is the only one.
Value *Elementwise::narrowFma(Elem elem, Operands v) {
  llvm::Type *wide = typeLike(v[0], builder_.getDoubleTy());
  const auto extend = [&](Value *bits) { return builder_.CreateFPExt(toFloat(elem, bits), wide); };
  Value *product = builder_.CreateFMul(extend(v[0]), extend(v[1]));
  Value *addend = extend(v[2]);
  Value *sum = builder_.CreateFAdd(product, addend);
  Value *virtualAddend = builder_.CreateFSub(sum, product);
  Value *virtualProduct = builder_.CreateFSub(sum, virtualAddend);
  Value *error = builder_.CreateFAdd(builder_.CreateFSub(product, virtualProduct),
                                     builder_.CreateFSub(addend, virtualAddend));
  Value *zero = floatLike(sum, 0);
  Value *bits = builder_.CreateBitCast(sum, typeLike(sum, builder_.getInt64Ty()));
  Value *one = intLike(bits, 1);
  // An infinite or NaN sum has a NaN error: ordered comparisons leave it alone.
  Value *inexact = builder_.CreateFCmpONE(error, zero);
  Value *isEven = builder_.CreateICmpEQ(builder_.CreateAnd(bits, one), intLike(bits, 0));
  Value *grows =
      builder_.CreateICmpEQ(builder_.CreateFCmpOGT(error, zero), builder_.CreateFCmpOGT(sum, zero));
  Value *step = builder_.CreateSelect(grows, one, intLike(bits, -1));
  Value *odd = builder_.CreateSelect(builder_.CreateAnd(inexact, isEven),
                                     builder_.CreateAdd(bits, step), bits);
  return fromDouble(elem, builder_.CreateBitCast(odd, sum->getType()));
}

Value *Elementwise::floating(const ir::Function &fn, ir::OpId op, Operands v) {
  const Opcode opcode = fn.opcode(op);
  const Elem elem = fn.type(fn.result(op)).elem();
  Asked asked{fn.getBool(op, ir::Attr::nan), fn.getBool(op, ir::Attr::rounded)};
  if (!isNarrow(elem)) {
    return arithmetic(opcode, v, asked);
  }
  if (opcode == Opcode::Neg) {
    return builder_.CreateXor(v[0], intLike(v[0], 0x8000));
  }
  if (opcode == Opcode::Abs) {
    return builder_.CreateAnd(v[0], intLike(v[0], 0x7fff));
  }
  if (opcode == Opcode::Fma) {
    return narrowFma(elem, v);
  }
  llvm::SmallVector<Value *, 3> wide;
  for (Value *bits : v) {
    wide.push_back(toFloat(elem, bits));
  }
  asked.rounded = true; // else the second rounding would not give the right result
  return fromFloat(elem, arithmetic(opcode, wide, asked));
}

// ---- casts

Value *Elementwise::convertFloat(Elem from, Elem to, Value *a) {
  if (from == to) {
    return a;
  }
  if (isNarrow(from)) {
    return convertFloat(Elem::F32, to, toFloat(from, a));
  }
  if (isNarrow(to)) {
    return from == Elem::F64 ? fromDouble(to, a) : fromFloat(to, a);
  }
  llvm::Type *type = typeLike(a, registerType(to));
  return to == Elem::F64 ? builder_.CreateFPExt(a, type) : builder_.CreateFPTrunc(a, type);
}

// To f16 through float is exact up to 2^24, and what is beyond is infinite in any case.
Value *Elementwise::fromInteger(bool isSigned, Elem to, Value *a) {
  const auto convert = [&](llvm::Type *scalar) {
    llvm::Type *type = typeLike(a, scalar);
    return isSigned ? builder_.CreateSIToFP(a, type) : builder_.CreateUIToFP(a, type);
  };
  if (!isNarrow(to)) {
    return convert(registerType(to));
  }
  if (to == Elem::F16 || a->getType()->getScalarSizeInBits() <= 16) {
    return fromFloat(to, convert(builder_.getFloatTy()));
  }
  return wideToBf16(isSigned, a);
}

// Through double; of an i64 the bits below its precision are folded into one sticky bit.
Value *Elementwise::wideToBf16(bool isSigned, Value *a) {
  if (a->getType()->getScalarSizeInBits() == 64) {
    Value *rest = builder_.CreateAnd(a, intLike(a, 0xfff));
    Value *sticky = builder_.CreateICmpNE(rest, intLike(a, 0));
    Value *kept = builder_.CreateOr(
        builder_.CreateXor(a, rest),
        builder_.CreateShl(builder_.CreateZExt(sticky, a->getType()), intLike(a, 12)));
    Value *top =
        isSigned ? builder_.CreateAShr(a, intLike(a, 48)) : builder_.CreateLShr(a, intLike(a, 48));
    Value *isLarge = builder_.CreateICmpNE(top, intLike(a, 0));
    if (isSigned) {
      isLarge = builder_.CreateAnd(isLarge, builder_.CreateICmpNE(top, intLike(a, -1)));
    }
    a = builder_.CreateSelect(isLarge, kept, a);
  }
  llvm::Type *type = typeLike(a, builder_.getDoubleTy());
  return fromDouble(Elem::BF16,
                    isSigned ? builder_.CreateSIToFP(a, type) : builder_.CreateUIToFP(a, type));
}

Value *Elementwise::toInteger(llvm::Intrinsic::ID saturating, Elem from, llvm::Type *to, Value *a) {
  Value *wide = isNarrow(from) ? toFloat(from, a) : a;
  return builder_.CreateIntrinsic(saturating, {to, wide->getType()}, {wide});
}

Value *Elementwise::castFunction(const ir::Function &, ir::OpId, Value *operand) {
  requirePass(false, "expand_functions");
  return operand;
}

Value *Elementwise::cast(const ir::Function &fn, ir::OpId op, Value *a) {
  const ir::Type from = fn.type(fn.operand(op, 0));
  const ir::Type to = fn.type(fn.result(op));
  llvm::Type *type = typeLike(a, registerType(to));
  switch (fn.opcode(op)) {
  case Opcode::SExt:
    return builder_.CreateSExt(a, type);
  case Opcode::ZExt:
    return builder_.CreateZExt(a, type);
  case Opcode::Trunc:
    return builder_.CreateTrunc(a, type);
  case Opcode::FpExt:
  case Opcode::FpTrunc:
    return convertFloat(from.elem(), to.elem(), a);
  case Opcode::SIToFp:
    return fromInteger(true, to.elem(), a);
  case Opcode::UIToFp:
    return fromInteger(false, to.elem(), a);
  case Opcode::FpToSI:
    return toInteger(llvm::Intrinsic::fptosi_sat, from.elem(), type, a);
  case Opcode::FpToUI:
    return toInteger(llvm::Intrinsic::fptoui_sat, from.elem(), type, a);
  case Opcode::PtrToInt:
    return builder_.CreatePtrToInt(a, type);
  case Opcode::IntToPtr:
    return builder_.CreateIntToPtr(a, type);
  case Opcode::Bitcast:
    return from.isPointer() ? a : builder_.CreateBitCast(a, type);
#define CAST_FUNCTION(Name, ...) case Opcode::Name:
#define CAST(...)
#define OP(...)
#include "ir/ops.def"
    return castFunction(fn, op, a);
#define CAST(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    break;
  }
  throw ir::InternalError("not a cast");
}

} // namespace libtile::codegen
