// SPDX-License-Identifier: Apache-2.0
// PTX where no GPU of NVIDIA's runs it: straight-line instructions on registers become ops on tiles. The instructions are rows
// of a table (ptx_instructions.h); any other is a located error.
//
//   %r = assembly %x {text="shl.b32 $0, $1, 3;", constraints="=r,r", pack=1}   ->   %r = shl %x, 3
//
// Elements that are packed into one register are one element that many times, which ops.def leaves
// open; so nothing moves between elements.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Assembly whose constraints name no registers of PTX is that of the target, and stays; on a CPU none is.
//
// Requires: the tile stage. Ensures: no PTX is left, or the target runs it.
bool expandAssembly(ir::Function &fn, const PassContext &context);

// Assembly that may read the number of its block or thread, or how many there are: registers of the machine begin with %.
[[nodiscard]] bool namesRegisters(const ir::Function &fn, ir::OpId op);

} // namespace libtile::passes
