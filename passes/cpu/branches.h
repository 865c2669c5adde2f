// SPDX-License-Identifier: Apache-2.0
// Control flow in scalar code that a nest runs for each element: bodies of map, functions of reduce and scan.
#pragma once

#include "ir/builder.h"

namespace libtile::passes {

// Whether the code can run in lanes: all its control flow is branches, and loops whose bounds are constants.
// Of code that can, branches become selects; both sides are computed, which no op minds.
//   if c: x else: y  ->  select c, x, y
// Requires: nothing in the block has effects.
bool flattenBranches(ir::Function &fn, ir::BlockId body);

} // namespace libtile::passes
