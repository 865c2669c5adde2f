// SPDX-License-Identifier: Apache-2.0
// Instructions of LLVM IR that together are one of PTX. Who looks for what is needed and who writes it ask the same questions.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Instructions.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace libtile::codegen::nvidia::ptx {

// mul.wide: of 16 or 32 bits, whose product has twice as many.
struct WideProduct {
  const llvm::Value *a, *b; // of b its number, where it is one: null
  int64_t number;
  bool isSigned;
};
[[nodiscard]] std::optional<WideProduct> wideProduct(const llvm::BinaryOperator &it);

// mul.hi: the upper half of a product of twice the width.
struct HighProduct {
  const llvm::Value *a, *b; // of b its number, where it is one: null
  int64_t number;
  bool isSigned;
};
[[nodiscard]] std::optional<HighProduct> highProduct(const llvm::TruncInst &it);

// fma: a * b + c, with signs; of floats that may be contracted.
struct FusedSum {
  const llvm::Value *a, *b, *c;
  bool negatesProduct, negatesSum; // a, c
};
[[nodiscard]] std::optional<FusedSum> fusedSum(const llvm::BinaryOperator &it);

// cvt.rn.f16x2.f32: two floats that are rounded to halves of one word.
struct RoundedPair {
  const llvm::Value *low, *high;
  bool isBrain; // bf16
};
[[nodiscard]] std::optional<RoundedPair> roundedPair(const llvm::InsertElementInst &it);

// [base+bytes]
struct Address {
  const llvm::Value *base;
  int64_t bytes;
};
[[nodiscard]] Address addressOf(const llvm::Value *pointer, const llvm::DataLayout &layout);

// root * scale + constant, in 32 bits; a constant has no root.
struct LinearIndex {
  const llvm::Value *root;
  int64_t scale, constant;
};
[[nodiscard]] LinearIndex linearIndex(const llvm::Value *index, const llvm::DataLayout &layout);

// What is added to a pointer: scaled indices, and bytes.
struct Distance {
  llvm::SmallVector<std::pair<const llvm::Value *, int64_t>, 4> scales;
  int64_t bytes;
};
[[nodiscard]] std::optional<Distance> distanceOf(const llvm::GetElementPtrInst &it, const llvm::DataLayout &layout);

inline constexpr unsigned kShared = 3; // address space

// Calls `ask` with each value that writing the instruction reads.
void needs(const llvm::Instruction &it, const llvm::DataLayout &layout, llvm::function_ref<void(const llvm::Value *)> ask);

} // namespace libtile::codegen::nvidia::ptx
