// SPDX-License-Identifier: Apache-2.0
// Teams of warps that use the dots' unit in turns.
//
// A loop like attention's has two dots that are waited for in each iteration, and between them work of the threads. Teams that
// come to their dots at the same time share the unit, and then leave it idle together. In turns
//
//   take the turn
//   for i: dot 1, give the turn, work of the threads, take the turn, dot 2
//   give the turn
//
// one team's dots hide the other's work. The turn is given where the threads' work between two dots is longest, if that is about as
// long as the dots.
// Source: the idea is that of J. Shah et al., FlashAttention-3 (2024), section 3.1.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Loops without barriers, whose dots are issued by one team each, and where no loop stands in them. Requires, ensures: staged.
bool takeTurns(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
