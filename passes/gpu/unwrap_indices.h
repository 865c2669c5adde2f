// SPDX-License-Identifier: Apache-2.0
// Rows that wrap around at the end of an array, as kernels write them to read nothing behind it: where the array has
// whole tiles of rows they do not wrap, and are a box (gpu/plan_boxes.h).
//
//   %i = add (splat %c), (arange 0 .. n-1)        %q = urem (%c udiv n), (%m udiv n)
//   %r = srem %i, (splat %m)                ->    %r = add (splat (mul %q, n)), (arange 0 .. n-1)
//
// for n that divides c, and m by a guard (Reliance::Numbers). Only where all uses of %r are addresses, so that
// nothing negative is divided (a promise of ptr_add): c = n * a, m = n * b, and (c + i) mod m = n * (a mod b) + i.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: guards say what the function then relies on. Leaves functions alone that have no dot
// in a loop, which nothing would be copied ahead for.
bool unwrapIndices(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
