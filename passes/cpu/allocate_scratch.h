// SPDX-License-Identifier: Apache-2.0
// Gives each scratch buffer its place in the program's arena.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// In the arena: a key of a `recall`, or the word in front of a slot's keys; and where these are open from (codegen/cpu/frame.h),
// in front of all buffers of a function that has some.
inline constexpr int64_t kKeyBytes = 8, kArenaHead = 64;

// Requires: nested stage. Ensures: each alloc, recall and call_sums has the attribute `offset`, a multiple of 64 bytes;
// fn.arenaBytes is a multiple of 64 and holds them all; buffers that are alive at one time do not
// overlap. A buffer that is used in a loop and allocated outside of it lives for the whole loop, one that is kept, the
// sums of a call, and the keys of a recall, for the whole launch.
bool allocateScratch(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
