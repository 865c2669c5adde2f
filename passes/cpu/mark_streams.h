// SPDX-License-Identifier: Apache-2.0
// Says of stores that write what the kernel does not read: nothing in the launch gains from finding it in a cache
// (cache = cs). Code generation stores past the caches, then, where a launch writes more than these keep anyway
// (codegen/cpu/streams.cpp): a line need not be read before it is written, which is a third of what an
// element-by-element kernel moves.
//
//   store %out, %x, %m     ->   store %out, %x, %m {cache=cs}
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: stores of rows of a kilobyte and more, whose array is known and is no other access's
// of the function, have the hint; what the user has said of a store stands.
bool markStreams(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
