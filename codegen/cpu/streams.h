// SPDX-License-Identifier: Apache-2.0
// What stores past the caches are made of, but for when there are any (streams.cpp).
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <llvm/IR/IRBuilder.h>

namespace libtile::codegen::cpu {

// Whether some store of the nest may go past the caches, and the nest's vectors may begin at any element.
[[nodiscard]] bool mayStream(const ir::Function &fn, ir::OpId nest, const ir::Target &target);
// Which lanes are below the count, an i64: an i1 each.
[[nodiscard]] llvm::Value *lanesBelow(llvm::IRBuilderBase &builder, llvm::Value *count, unsigned lanes);
// Those from `count` on, which may be negative.
[[nodiscard]] llvm::Value *lanesFrom(llvm::IRBuilderBase &builder, llvm::Value *count, unsigned lanes);
// A vector of 16 bytes or more, to a multiple of its size. Others see it after finishStreams.
void writePastCaches(llvm::IRBuilderBase &builder, llvm::Value *value, llvm::Value *pointer);
void finishStreams(llvm::IRBuilderBase &builder);

} // namespace libtile::codegen::cpu
