// SPDX-License-Identifier: Apache-2.0
// Elementwise ops of GPUs: what codegen/emit_elementwise.h has, with divisions of many numbers by one.
#pragma once

#include "codegen/emit_elementwise.h"

namespace libtile::codegen::gpu {

class GpuElementwise : public Elementwise {
public:
  using Elementwise::Elementwise;
  using Elementwise::integerMinMax;
  // Operands may be pairs, and best are, since an instruction does two: what converts codes does so for all vendors.
  [[nodiscard]] virtual bool takesPairs(const ir::Function &fn, ir::OpId op) const;
  // In every other register factors change places: two neighbours' products have to read them from different banks to be one
  // instruction, and a factor that all share is then read by either of its ways.
  [[nodiscard]] virtual bool turnsFactors(const ir::Function &, ir::OpId) const { return false; }
  struct SharedDivisor {
    llvm::Value *divisor = nullptr;
    llvm::Value *scale = nullptr;      // a power of two
    llvm::Value *isScaled = nullptr;   // scale is not 1
    llvm::Value *reciprocal = nullptr; // of divisor * scale
    bool scalesEach = false;           // dividends, where they are divided
  };
  // Who multiplies dividends by `scale`: the caller before they are divided, or each division its own.
  enum class Scaling { Before, Each };
  // Until the next call, divisions by this float multiply by its reciprocal, which is computed
  // where the builder stands; null: none.
  const SharedDivisor &shareDivisor(llvm::Value *divisor, Scaling scaling);

protected:
  llvm::Type *pointerType() const override { return builder_.getPtrTy(1); }
  llvm::Value *divide(llvm::Value *a, llvm::Value *b, bool rounded) override;
  [[nodiscard]] bool isShared(llvm::Value *divisor) const { return divisor == shared_.divisor; }

private:
  SharedDivisor shared_;
};

} // namespace libtile::codegen::gpu
