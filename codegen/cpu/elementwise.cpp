// SPDX-License-Identifier: Apache-2.0
// The elementwise ops for which a CPU has an instruction, or lacks one.
#include "codegen/cpu/elementwise.h"

#include "codegen/cpu/error_function.h"
#include "codegen/cpu/float8_tables.h"
#include "codegen/require_pass.h"
#include "ir/ops.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace libtile::codegen::cpu {

using ir::Opcode;
using llvm::Value;

namespace {

// The lanes [first, first + count); those past the end of `value` are 0.
Value *lanesOf(llvm::IRBuilder<> &builder, Value *value, unsigned first, unsigned count) {
  const auto end = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements();
  llvm::SmallVector<int, 64> lanes;
  for (unsigned i = first; i < first + count; ++i) {
    lanes.push_back(static_cast<int>(std::min(i, end)));
  }
  return builder.CreateShuffleVector(value, llvm::Constant::getNullValue(value->getType()), lanes);
}

// value * 2^n in a register of 128, 256 or 512 bits.
Value *scaleRegister(llvm::IRBuilder<> &builder, Value *value, Value *n) {
  namespace I = llvm::Intrinsic;
  static constexpr I::ID kIds[2][3] = {
      {I::x86_avx512_mask_scalef_ps_128, I::x86_avx512_mask_scalef_ps_256,
       I::x86_avx512_mask_scalef_ps_512},
      {I::x86_avx512_mask_scalef_pd_128, I::x86_avx512_mask_scalef_pd_256,
       I::x86_avx512_mask_scalef_pd_512}};
  const bool isDouble = value->getType()->getScalarType()->isDoubleTy();
  const unsigned bits = value->getType()->getPrimitiveSizeInBits();
  llvm::Type *mask = builder.getIntNTy(bits == 512 && !isDouble ? 16 : 8);
  llvm::SmallVector<Value *, 5> operands = {value, n, value,
                                            llvm::Constant::getAllOnesValue(mask)};
  if (bits == 512) {
    operands.push_back(builder.getInt32(4)); // the current rounding
  }
  return builder.CreateIntrinsic(kIds[isDouble ? 1 : 0][bits == 512 ? 2 : bits == 256 ? 1 : 0], {},
                                 operands);
}

Value *asVector(llvm::IRBuilder<> &builder, Value *value) {
  auto *type = llvm::FixedVectorType::get(value->getType(), 1);
  return builder.CreateInsertElement(llvm::Constant::getNullValue(type), value, uint64_t{0});
}

Value *scaleVector(llvm::IRBuilder<> &builder, Value *value, Value *n) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements();
  const unsigned width = value->getType()->getScalarSizeInBits();
  const unsigned fitting = std::clamp(std::bit_ceil(lanes), 128 / width, 512 / width);
  return inRegisters(builder, {value, n}, fitting, [&](llvm::ArrayRef<Value *> parts) {
    return scaleRegister(builder, parts[0], parts[1]);
  });
}

// f32 -> bf16 bits of 16 or 32 lanes by AVX-512 BF16, whose conversions round to nearest even and make NaN quiet, as
// Elementwise::fromFloat does, but read subnormal numbers as 0 (Intel, Software Developer's Manual, volume 2,
// VCVTNE2PS2BF16). With an exponent of 2.0 put in place of its 0 such a number rounds as it should, into the
// exponent where it becomes normal; then the 2.0 is taken off again.
Value *roundRegister(llvm::IRBuilder<> &builder, Value *value) {
  namespace I = llvm::Intrinsic;
  constexpr int kSubnormal = 0x20, kHalfLanes = 16;
  constexpr uint32_t kTwo = 0x40000000;
  const bool isPair = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements() > kHalfLanes;
  const auto halves = [&](Value *whole) {
    return isPair ? llvm::SmallVector<Value *, 2>{lanesOf(builder, whole, 0, kHalfLanes), lanesOf(builder, whole, kHalfLanes, kHalfLanes)}
                  : llvm::SmallVector<Value *, 2>{whole};
  };
  llvm::SmallVector<Value *, 2> marks;
  for (Value *half : halves(value)) {
    marks.push_back(builder.CreateIntrinsic(I::x86_avx512_fpclass_ps_512, {}, {half, builder.getInt32(kSubnormal)}));
  }
  llvm::SmallVector<int, 32> all(isPair ? 2 * kHalfLanes : kHalfLanes);
  std::iota(all.begin(), all.end(), 0);
  Value *isSubnormal = isPair ? builder.CreateShuffleVector(marks[0], marks[1], all) : marks[0];
  const auto like = [](Value *bits, uint32_t number) { return llvm::ConstantInt::get(bits->getType(), number); };
  auto *words = llvm::FixedVectorType::get(builder.getInt32Ty(), unsigned(all.size()));
  Value *bits = builder.CreateBitCast(value, words);
  Value *lifted = builder.CreateBitCast(builder.CreateSelect(isSubnormal, builder.CreateOr(bits, like(bits, kTwo)), bits), value->getType());
  const auto parts = halves(lifted);
  Value *rounded = isPair ? builder.CreateIntrinsic(I::x86_avx512bf16_cvtne2ps2bf16_512, {}, {parts[1], parts[0]})
                          : builder.CreateIntrinsic(I::x86_avx512bf16_cvtneps2bf16_512, {}, {parts[0]});
  rounded = builder.CreateBitCast(rounded, llvm::FixedVectorType::get(builder.getInt16Ty(), unsigned(all.size())));
  return builder.CreateSelect(isSubnormal, builder.CreateSub(rounded, like(rounded, kTwo >> 16)), rounded);
}

} // namespace

Value *CpuElementwise::fromFloat(ir::Elem elem, Value *value) {
  constexpr unsigned kLeast = 16, kMost = 32;
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  if (elem != ir::Elem::BF16 || !roundsToBf16_ || vector == nullptr || vector->getNumElements() < kLeast) {
    return Elementwise::fromFloat(elem, value);
  }
  return inRegisters(builder_, {value}, vector->getNumElements() < kMost ? kLeast : kMost,
                     [&](llvm::ArrayRef<Value *> parts) { return roundRegister(builder_, parts[0]); });
}

Value *inRegisters(llvm::IRBuilder<> &builder, llvm::ArrayRef<Value *> operands, unsigned fitting,
                   llvm::function_ref<Value *(llvm::ArrayRef<Value *>)> body) {
  const unsigned lanes = llvm::cast<llvm::FixedVectorType>(operands[0]->getType())->getNumElements();
  Value *all = nullptr;
  for (unsigned first = 0; first < lanes; first += fitting) {
    llvm::SmallVector<Value *, 2> parts;
    for (Value *operand : operands) {
      parts.push_back(fitting == lanes ? operand : lanesOf(builder, operand, first, fitting));
    }
    Value *made = body(parts);
    llvm::SmallVector<int, 64> together(first + fitting);
    std::iota(together.begin(), together.end(), 0);
    all = first == 0 ? made
                     : builder.CreateShuffleVector(all, lanesOf(builder, made, 0, first), together);
  }
  const unsigned made = llvm::cast<llvm::FixedVectorType>(all->getType())->getNumElements();
  return made == lanes ? all : lanesOf(builder, all, 0, lanes);
}

// Both of AVX-512, as are castFunction's.
Value *CpuElementwise::function(Opcode opcode, llvm::ArrayRef<Value *> operands) {
  requirePass(opcode == Opcode::Scalb || opcode == Opcode::Erf, "expand_functions");
  const auto ofVectors = [&](llvm::ArrayRef<Value *> vectors) {
    return opcode == Opcode::Erf ? errorFunction(builder_, vectors[0]) : scaleVector(builder_, vectors[0], vectors[1]);
  };
  if (operands[0]->getType()->isVectorTy()) {
    return ofVectors(operands);
  }
  llvm::SmallVector<Value *, 2> vectors;
  for (Value *operand : operands) {
    vectors.push_back(asVector(builder_, operand));
  }
  return builder_.CreateExtractElement(ofVectors(vectors), uint64_t{0});
}

Value *CpuElementwise::castFunction(const ir::Function &fn, ir::OpId op, Value *operand) {
  const bool isOwn =
      fn.opcode(op) == Opcode::Float8Decode && fn.type(fn.result(op)).elem() == ir::Elem::BF16;
  requirePass(isOwn, "expand_functions");
  const auto format = fn.getEnum<ir::Float8>(op, ir::Attr::format);
  if (operand->getType()->isVectorTy()) {
    return float8ToBf16(builder_, format, operand);
  }
  return builder_.CreateExtractElement(float8ToBf16(builder_, format, asVector(builder_, operand)), uint64_t{0});
}

Value *CpuElementwise::upperHalves(Value *words) {
  const auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(words->getType());
  if (vector == nullptr) {
    return Elementwise::upperHalves(words);
  }
  const unsigned lanes = vector->getNumElements();
  llvm::SmallVector<int, 64> upper;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    upper.push_back(static_cast<int>(2 * lane + 1)); // all targets are little-endian
  }
  auto *halves = llvm::FixedVectorType::get(builder_.getInt16Ty(), 2 * lanes);
  return builder_.CreateShuffleVector(builder_.CreateBitCast(words, halves), upper);
}

// The exact quotient is at least 1/|d| below the next integer, and rounding moves it by less: by at
// most |a/d| 2^-53, with |a| < 2^33 (float: 2^-24 and 2^17). So truncation gives the integer one.
Value *CpuElementwise::divideSafe(bool isSigned, Value *a, Value *d) {
  const unsigned width = a->getType()->getScalarSizeInBits();
  if (!a->getType()->isVectorTy() || width > 32 || width == 1 || llvm::isa<llvm::Constant>(d)) {
    return Elementwise::divideSafe(isSigned, a, d);
  }
  llvm::Type *type = typeLike(a, width == 32 ? builder_.getDoubleTy() : builder_.getFloatTy());
  const auto toWide = [&](Value *v) {
    return isSigned ? builder_.CreateSIToFP(v, type) : builder_.CreateUIToFP(v, type);
  };
  Value *quotient = builder_.CreateFDiv(toWide(a), toWide(d));
  return isSigned ? builder_.CreateFPToSI(quotient, a->getType())
                  : builder_.CreateFPToUI(quotient, a->getType());
}

} // namespace libtile::codegen::cpu
