// SPDX-License-Identifier: Apache-2.0
// exp, exp2, log, log2 and 1/sqrt in branch-free code over vectors of any length.
//
// Errors against the exact value, found over floats and random doubles (tests/cpu/test_math.cpp):
// exp below 1.1 ulp, exp2 0.9, log 0.7, log2 0.8, rsqrt 1.5, in both types; results below the least
// normal number are rounded no more often than others.
//
// exp(x) = 2^n e^r with n the nearest integer of x / ln 2. Adding 1.5 * 2^p puts n into the low
// bits of a float, so there is no conversion that a NaN could poison; 2^n is multiplied in two
// halves, so that the result overflows and underflows as it should. log(x) = e ln 2 + log(1 + f),
// with 1 + f in [sqrt(1/2), sqrt(2)). Coefficients are Chebyshev fits of the functions named beside
// them.
#include "codegen/cpu/math.h"

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <cmath>
#include <limits>

namespace libtile::codegen::cpu {

namespace {

using ir::Opcode;
using llvm::Value;

constexpr double kLog2E = 1.4426950408889634;

class MathEmitter {
public:
  MathEmitter(llvm::IRBuilder<> &builder, Value *x, bool hasAvx512)
      : builder_(builder), hasAvx512_(hasAvx512), x_(x), type_(x->getType()),
        isDouble_(type_->getScalarType()->isDoubleTy()), mantissa_(isDouble_ ? 52 : 23),
        bias_(isDouble_ ? 1023 : 127),
        intType_(type_->getWithNewType(builder.getIntNTy(isDouble_ ? 64 : 32))) {}

  Value *exp() {
    Value *x = clamp(isDouble_ ? -746 : -104, isDouble_ ? 710 : 89);
    const Nearest power = nearest([&](Value *magic) { return fma(x, number(kLog2E), magic); });
    // ln 2 in two parts; the first has so few bits that n times it is exact.
    const double high = isDouble_ ? 0.693147180559663 : 0.693145751953125;
    const double low = isDouble_ ? 2.8235290563031577e-13 : 1.4286068203094173e-06;
    Value *minusN = builder_.CreateFNeg(power.number);
    Value *r = fma(minusN, number(low), fma(minusN, number(high), x));
    // (e^r - 1 - r) / r^2
    Value *q =
        isDouble_
            ? polynomial(r, {0.5000000000000001, 0.16666666666666669, 0.04166666666662413,
                             0.008333333333330062, 0.0013888888917213717, 0.00019841269863053618,
                             2.4801521295954376e-05, 2.7557268459997064e-06, 2.7620088445409746e-07,
                             2.510038549551032e-08})
            : polynomial(r, {0.5, 0.166665763, 0.0416665561, 0.00836317893, 0.0013926184});
    return scale(add(number(1), fma(mul(r, r), q, r)), power);
  }

  Value *exp2() {
    Value *x = clamp(isDouble_ ? -1076 : -151, isDouble_ ? 1025 : 129);
    const Nearest power = nearest([&](Value *magic) { return add(x, magic); });
    Value *r = builder_.CreateFSub(x, power.number);
    // (2^r - 1) / r
    Value *p =
        isDouble_
            ? polynomial(r, {0.6931471805599453, 0.24022650695910072, 0.055504108664821625,
                             0.00961812910762848, 0.0013333558146406467, 0.00015403530393370732,
                             1.5252733841561274e-05, 1.321548680870779e-06, 1.0178057085418509e-07,
                             7.054897303009422e-09, 4.455818319966744e-10, 2.5729326214820692e-11})
            : polynomial(r, {0.693147182, 0.240226507, 0.0555035695, 0.00961808302, 0.00133908656,
                             0.000154531648});
    return scale(fma(r, p, number(1)), power);
  }

  Value *log() {
    const Parts parts = split();
    const double high = isDouble_ ? 0.693147180559663 : 0.693145751953125;
    const double low = isDouble_ ? 2.8235290563031577e-13 : 1.4286068203094173e-06;
    const auto [head, tail] = log1p(parts.fraction);
    // e * high is exact, and where e is not 0 it is larger than the rest.
    Value *whole = mul(parts.exponent, number(high));
    Value *sum = add(whole, head);
    Value *error = add(builder_.CreateFSub(whole, sum), head);
    Value *small = add(error, fma(parts.exponent, number(low), tail));
    return finishLog(add(sum, small));
  }

  Value *log2() {
    const Parts parts = split();
    const auto [head, tail] = log1p(parts.fraction);
    const double high = isDouble_ ? kLog2E : 1.4426950216293335;
    const double low = isDouble_ ? 2.0355273740931033e-17 : 1.925963033500011e-08;
    Value *main = mul(head, number(high));
    Value *rest = fma(head, number(high), builder_.CreateFNeg(main));
    rest = fma(tail, number(high), fma(head, number(low), rest));
    Value *sum = add(parts.exponent, main);
    Value *error = add(builder_.CreateFSub(parts.exponent, sum), main);
    return finishLog(add(sum, add(error, rest)));
  }

  Value *rsqrt() {
    Value *root = builder_.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x_);
    return builder_.CreateFDiv(number(1), root);
  }

private:
  llvm::IRBuilder<> &builder_;
  bool hasAvx512_;
  Value *x_;
  llvm::Type *type_;
  bool isDouble_;
  int mantissa_, bias_;
  llvm::Type *intType_;

  struct Parts {
    Value *exponent; // as a float
    Value *fraction; // x = 2^exponent (1 + fraction)
  };

  Value *number(double value) { return llvm::ConstantFP::get(type_, value); }
  Value *integer(int64_t value) {
    return llvm::ConstantInt::get(intType_, static_cast<uint64_t>(value), true);
  }
  Value *add(Value *a, Value *b) { return builder_.CreateFAdd(a, b); }
  Value *mul(Value *a, Value *b) { return builder_.CreateFMul(a, b); }
  Value *fma(Value *a, Value *b, Value *c) {
    return builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {a, b, c});
  }
  Value *toBits(Value *value) { return builder_.CreateBitCast(value, intType_); }
  Value *fromBits(Value *bits) { return builder_.CreateBitCast(bits, type_); }

  // Lowest power first.
  Value *polynomial(Value *x, std::initializer_list<double> coefficients) {
    auto it = coefficients.end();
    Value *sum = number(*--it);
    while (it != coefficients.begin()) {
      sum = fma(sum, x, number(*--it));
    }
    return sum;
  }

  // Into the range beyond which the result is 0 or infinite anyway; a NaN stays.
  Value *clamp(double low, double high) {
    Value *x = builder_.CreateSelect(builder_.CreateFCmpOGT(x_, number(high)), number(high), x_);
    return builder_.CreateSelect(builder_.CreateFCmpOLT(x, number(low)), number(low), x);
  }

  // The nearest integer as a float, and that plus 1.5 * 2^p, whose low bits are the integer.
  struct Nearest {
    Value *number;
    Value *shifted;
  };
  [[nodiscard]] double magic() const { return isDouble_ ? 0x1.8p52 : 0x1.8p23; }
  [[nodiscard]] int64_t magicBits() const { return isDouble_ ? 0x4338000000000000 : 0x4b400000; }

  // `shift` adds its argument to the number, which is far below 2^(p-1).
  Nearest nearest(llvm::function_ref<Value *(Value *)> shift) {
    Value *shifted = shift(number(magic()));
    return {builder_.CreateFSub(shifted, number(magic())), shifted};
  }

  // value * 2^power for powers that two normal factors reach: h = (n + 4096) / 2 and n + 4096 - h.
  Value *scale(Value *value, Nearest power) {
    if (Value *scaled = scaleByInstruction(value, power.number)) {
      return scaled;
    }
    Value *bits = toBits(power.shifted);
    Value *half =
        builder_.CreateLShr(builder_.CreateAdd(bits, integer(4096 - magicBits())), integer(1));
    const auto factor = [&](Value *n, int64_t offset) {
      return fromBits(
          builder_.CreateShl(builder_.CreateAdd(n, integer(offset + bias_)), integer(mantissa_)));
    };
    Value *rest = builder_.CreateSub(bits, half);
    return mul(mul(value, factor(half, -2048)), factor(rest, 2048 - magicBits()));
  }

  // AVX-512 has value * 2^n in one instruction, for each width of a register.
  Value *scaleByInstruction(Value *value, Value *n) {
    namespace I = llvm::Intrinsic;
    const unsigned bits = type_->getPrimitiveSizeInBits();
    if (!hasAvx512_ || !type_->isVectorTy() || (bits != 512 && bits != 256 && bits != 128)) {
      return nullptr;
    }
    const I::ID ids[2][3] = {{I::x86_avx512_mask_scalef_ps_128, I::x86_avx512_mask_scalef_ps_256,
                              I::x86_avx512_mask_scalef_ps_512},
                             {I::x86_avx512_mask_scalef_pd_128, I::x86_avx512_mask_scalef_pd_256,
                              I::x86_avx512_mask_scalef_pd_512}};
    const I::ID id = ids[isDouble_ ? 1 : 0][bits == 512 ? 2 : bits == 256 ? 1 : 0];
    llvm::Type *mask = builder_.getIntNTy(bits == 512 && !isDouble_ ? 16 : 8);
    llvm::SmallVector<Value *, 5> operands = {value, n, value,
                                              llvm::Constant::getAllOnesValue(mask)};
    if (bits == 512) {
      operands.push_back(builder_.getInt32(4)); // the current rounding
    }
    return builder_.CreateIntrinsic(id, {}, operands);
  }

  // For positive finite x; others are put right by finishLog.
  Parts split() {
    // Denormal numbers are scaled into the normal range first.
    const double least = isDouble_ ? 0x1p-1022 : 0x1p-126;
    Value *isSmall = builder_.CreateFCmpOLT(x_, number(least));
    const int shift = mantissa_ + 2;
    Value *x = builder_.CreateSelect(isSmall, mul(x_, number(std::ldexp(1.0, shift))), x_);
    // Bits of sqrt(1/2): subtracting them makes the exponent that of a fraction from there on.
    const int64_t root = isDouble_ ? 0x3fe6a09e667f3bcd : 0x3f3504f3;
    Value *shifted = builder_.CreateSub(toBits(x), integer(root));
    const int64_t low = (int64_t{1} << mantissa_) - 1;
    Value *one =
        fromBits(builder_.CreateAdd(builder_.CreateAnd(shifted, integer(low)), integer(root)));
    // The exponent plus an offset that keeps it positive, read as the low bits of a float.
    const int offset = isDouble_ ? 1024 : 128;
    const int64_t carrier = isDouble_ ? 0x4330000000000000 : 0x4b000000;
    Value *raised = builder_.CreateAdd(shifted, integer(int64_t{offset} << mantissa_));
    Value *biased =
        builder_.CreateOr(builder_.CreateLShr(raised, integer(mantissa_)), integer(carrier));
    Value *base =
        builder_.CreateSelect(isSmall, number(std::ldexp(1.0, mantissa_) + offset + shift),
                              number(std::ldexp(1.0, mantissa_) + offset));
    return {builder_.CreateFSub(fromBits(biased), base), builder_.CreateFSub(one, number(1))};
  }

  // log(1 + f) as a sum of two; the first is f - f^2/2 or f, rounded.
  std::pair<Value *, Value *> log1p(Value *f) {
    Value *halfSquare = mul(mul(number(0.5), f), f);
    Value *head = builder_.CreateFSub(f, halfSquare);
    Value *lost = builder_.CreateFSub(builder_.CreateFSub(f, head), halfSquare);
    if (!isDouble_) {
      // (log(1 + f) - f + f^2/2) / f^3; the square's own rounding error is added back.
      Value *p = polynomial(f, {0.333333313, -0.24999997, 0.200007156, -0.166678026, 0.142490581,
                                -0.124256872, 0.116854198, -0.114797339, 0.0697161183});
      Value *squareError = fma(mul(number(0.5), f), f, builder_.CreateFNeg(halfSquare));
      return {head, add(builder_.CreateFSub(lost, squareError), mul(mul(mul(f, f), f), p))};
    }
    // With s = f / (2 + f): log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), R(z) = z polynomial(z).
    Value *s = builder_.CreateFDiv(f, add(number(2), f));
    Value *z = mul(s, s);
    Value *r = mul(z, polynomial(z, {0.666666666666667, 0.39999999999899444, 0.2857142862600327,
                                     0.22222211130259878, 0.18182889455674947, 0.15331710618210773,
                                     0.14616585424888623}));
    return {head, fma(s, add(halfSquare, r), lost)};
  }

  // log 0 = -inf, log inf = inf, NaN for the rest.
  Value *finishLog(Value *value) {
    const double infinity = std::numeric_limits<double>::infinity();
    Value *isRegular = builder_.CreateAnd(builder_.CreateFCmpOGT(x_, number(0)),
                                          builder_.CreateFCmpOLT(x_, number(infinity)));
    Value *isZero = builder_.CreateFCmpOEQ(x_, number(0));
    // x + x keeps +inf and NaN.
    Value *isBelow = builder_.CreateFCmpOLT(x_, number(0));
    Value *special = builder_.CreateSelect(isZero, number(-infinity), add(x_, x_));
    special =
        builder_.CreateSelect(isBelow, number(std::numeric_limits<double>::quiet_NaN()), special);
    return builder_.CreateSelect(isRegular, value, special);
  }
};

} // namespace

Value *emitMath(llvm::IRBuilder<> &builder, Opcode opcode, Value *value, bool hasAvx512) {
  MathEmitter emitter(builder, value, hasAvx512);
  if (opcode == Opcode::Exp) {
    return emitter.exp();
  }
  if (opcode == Opcode::Exp2) {
    return emitter.exp2();
  }
  if (opcode == Opcode::Log) {
    return emitter.log();
  }
  if (opcode == Opcode::Log2) {
    return emitter.log2();
  }
  ir::check(opcode == Opcode::Rsqrt, "a function that math.cpp knows");
  return emitter.rsqrt();
}

} // namespace libtile::codegen::cpu
