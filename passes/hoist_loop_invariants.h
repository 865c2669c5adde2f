// SPDX-License-Identifier: Apache-2.0
// Moves what gives the same value in every iteration in front of the loop.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: any stage. Ensures: no pure op in a for or while has operands from outside of
// it only. No op of the IR traps, so running one that the loop would not have run is harmless; dots
// stay, for their cost, and so does everything that reads memory.
bool hoistLoopInvariants(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
