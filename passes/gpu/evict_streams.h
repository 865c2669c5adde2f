// SPDX-License-Identifier: Apache-2.0
// Rows that a program goes through once push out of the near cache what all programs read, as the weights of a layer norm: each program
// then gets them from afar again. Such a kernel's accesses to rows of its own say that their lines are the first to go.
//
//   %w = load (splat %weight + arange)        every program's: stays
//   %a = load (splat (%x + row) + arange)     {evict=first}: this program's, and nothing else of it reads %x
//   store (splat (%out + row) + arange), %y   {evict=first}
//
// A program that loads what it shares with others once, and then goes through many rows in a loop, is left as it is: it has it in registers.
// L1 alone is meant, and only where the target says that accesses can (Target::evictsFirst).
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage, what is loaded twice merged (reuse_loads). Leaves functions with dots alone, whose tiles are shared among programs, and
// those in which an access has a hint of the user's.
bool evictStreams(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
