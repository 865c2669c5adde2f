// SPDX-License-Identifier: Apache-2.0
// spread_warps: the warps of a program for which a number is given, which may be too few to hold its tiles in registers.
//
//   func @f stage=tile warps=1 ...   ->   func @f stage=tile warps=8 ...
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: the tile stage. Ensures, where numWarps and spreadsWarps are set: the function has as many warps, or the fewest more of them
// that hold the tiles that are live at once (live_tiles.h), while each thread may have as many registers as before; its fallbacks
// say so. Once, in front of all that asks for a program's warps: what passes make of the tiles changes the count.
bool spreadWarps(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
