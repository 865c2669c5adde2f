// SPDX-License-Identifier: Apache-2.0
// Loops that go over a row again and again, as those of a layer norm: its sum, its squares, its result. Mostly the row fits into one step,
// so that each runs once, and what the first has loaded is what the others load. Which it is one comparison of scalars tells:
//
//   %a = for %i = 0, %n, 4096 { .. load .. }         %once = 0 < %n and %n <= 4096
//   ..                                         ->    %r:2 = if %once { .. load ..; ..; .. load ..; yield }
//   %b = for %i = 0, %n, 4096 { .. load .. }                else { the loops; yield }
//
// Where the end is a parameter, a guard says it (`within %n 4096`, Reliance::Numbers): there is no branch, and a launch of longer rows
// runs the variant with the loops. Code, its registers and its warps are then one's own.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage, equal values merged. Ensures: groups of loops of one block that have the same constant start and step and the
// same end, and read an array twice, end behind one step (simplify takes them apart), by a guard where the end is a parameter; else they
// do so in the first region of an `if`, and stand in its second. Leaves loops alone that hold dots, or tiles that a program's threads do not hold (holdsTile), and long ones.
bool runOnce(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
