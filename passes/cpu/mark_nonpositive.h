// SPDX-License-Identifier: Apache-2.0
// Says of exponentials that their operand is at most 0, as softmax's are: it is a number less the largest of
// numbers that it is one of. Where scaling by a power of two is code, their body is shorter then (expand_functions.h).
//
//   %m = reduce %x {axis=0} (fmax)
//   %d = sub %x, splat %m
//   %e = exp %d                    ->   %e = exp %d {nonpositive=true}
//
// Done on tiles: in nests the numbers of %x are loaded or computed again, by other ops.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: exp and exp2 of a difference whose second operand holds a maximum of the first have
// the attribute.
bool markNonpositive(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
