// SPDX-License-Identifier: Apache-2.0
// What a block has loaded it does not load again.
//
//   %a = load %p, %mask, %other
//   ..                                 nothing that may write there
//   %b = load %p, %mask, %other   ->   %a
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage, equal values merged. Ensures: no tile is loaded that an earlier load of the block has, if the threads hold
// it and the others that are kept so (holdsTile, of all together).
bool reuseLoads(ir::Function &fn, const PassContext &context);

// Registers of all threads that a tile takes as it lies in memory.
[[nodiscard]] int64_t registersHeld(ir::Type tile);
// The threads of a program, of which there may be as many as the compiler chooses, have registers for that beside their work.
[[nodiscard]] bool holdsTile(int64_t registers, const PassContext &context);

} // namespace libtile::passes
