// SPDX-License-Identifier: Apache-2.0
// Places buffers, and the scratch of ops inside of which warps meet, in shared memory.
//
// A buffer lives from its first to its last use in text order; one that comes from outside of a
// loop and is used inside lives through the whole loop. A buffer that is filled asynchronously
// lives until the wait for everything after its last use: copies of zeros past the end may still be
// under way.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Bytes that the function takes: what allocateShared would find.
[[nodiscard]] int64_t sharedBytes(const ir::Function &fn);

// Requires: laid-out, conversions lowered. Ensures: every alloc and every op inside of which
// warps meet has its offset; arenaBytes is set. Throws Unsupported when it does not fit the target.
bool allocateShared(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
