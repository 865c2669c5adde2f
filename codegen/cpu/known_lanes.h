// SPDX-License-Identifier: Apache-2.0
// What the code alone says of a mask, whatever the values are.
#pragma once

#include <llvm/ADT/APInt.h>
#include <llvm/IR/Value.h>

namespace libtile::codegen::cpu {

// A bit a lane; what is in neither is not known.
struct KnownLanes {
  llvm::APInt on, off;
};
// Of a vector of i1.
[[nodiscard]] KnownLanes knownLanes(const llvm::Value *mask);

} // namespace libtile::codegen::cpu
