// SPDX-License-Identifier: Apache-2.0
// Gives each scratch buffer its place in the program's arena.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: nested stage. Ensures: each alloc has the attribute `offset`, a multiple of 64 bytes;
// fn.arenaBytes is a multiple of 64 and holds them all; buffers that are alive at one time do not
// overlap. A buffer that is used in a loop and allocated outside of it lives for the whole loop.
bool allocateScratch(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
