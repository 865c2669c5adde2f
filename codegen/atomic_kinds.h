// SPDX-License-Identifier: Apache-2.0
// What LLVM calls orders and kinds of atomic accesses.
#pragma once

#include "ir/ops.h"

#include <llvm/IR/Instructions.h>

namespace libtile::codegen {

[[nodiscard]] llvm::AtomicOrdering orderOf(ir::MemOrder order);
[[nodiscard]] llvm::AtomicRMWInst::BinOp kindOf(ir::AtomicKind kind);

} // namespace libtile::codegen
