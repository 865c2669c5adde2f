// SPDX-License-Identifier: Apache-2.0
// Where registers that are spilled lie.
#pragma once

namespace llvm {
class Pass;
}

namespace libtile::codegen::amd {

// Lays out slots of spilled registers that LLVM writes to a wrong address where the last part of one begins at the first offset
// that an instruction has no room for. It stands behind the allocation of registers, in front of the layout of the frame. A
// frame that ends before that offset stays as it is.
[[nodiscard]] llvm::Pass *createPlaceSpills();

} // namespace libtile::codegen::amd
