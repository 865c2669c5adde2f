// SPDX-License-Identifier: Apache-2.0
// A pass over machine code right behind instruction selection: a register that is a copy of another one
// gives way to it.
//
// Selection copies what inline assembly reads, and what another block computed, once for each statement that
// uses it. LLVM's register coalescer joins such copies one by one, each time with all that it has joined
// before: quadratic in the length of unrolled code. Here a copy costs its uses.
#pragma once

namespace llvm {
class MachineFunctionPass;
}

namespace libtile::codegen::nvidia {

// The pass manager that it is added to owns it.
[[nodiscard]] llvm::MachineFunctionPass *makeForwardCopies();

} // namespace libtile::codegen::nvidia
