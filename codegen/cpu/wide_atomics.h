// SPDX-License-Identifier: Apache-2.0
// Atomic operations on elements that lie side by side, several at once: by a compare and swap of all their bytes,
// again and again until nobody came between. Each element's operation is atomic, beside those of its width too.
#pragma once

#include "codegen/cpu/elementwise.h"
#include "ir/ops.h"

namespace libtile::codegen::cpu {

struct WideUpdate {
  ir::AtomicKind kind;
  ir::Elem elem;
  llvm::AtomicOrdering order; // of each compare and swap
  int32_t bytes;              // that it takes
};

// On the elements from `pointer` on, a multiple of update.bytes; `value` is a vector, as wide or a multiple of it.
// Gives the old ones.
[[nodiscard]] llvm::Value *wideAtomicRmw(llvm::IRBuilder<> &builder, CpuElementwise &elementwise,
                                         const WideUpdate &update, llvm::Value *pointer, llvm::Value *value);

} // namespace libtile::codegen::cpu
