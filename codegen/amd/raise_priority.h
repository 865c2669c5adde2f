// SPDX-License-Identifier: Apache-2.0
// Which waves go first where they share a SIMD.
#pragma once

namespace llvm {
class Function;
class Pass;
}

namespace libtile::codegen::amd {

// Asks for raised priority around the kernel's matrix instructions.
void raisePriority(llvm::Function &kernel);

// Where a kernel asks for it, a wave goes first from the first to the last of the matrix instructions that stand together: it keeps the
// matrix unit busy, and the other waves of its SIMD compute with their sums or bring operands meanwhile, where all of them would
// come to the same instructions at the same time. It stands behind all scheduling: an instruction with side effects in
// front of it would keep accesses on their side.
[[nodiscard]] llvm::Pass *createRaisePriority();

} // namespace libtile::codegen::amd
