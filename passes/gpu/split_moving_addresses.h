// SPDX-License-Identifier: Apache-2.0
// Addresses of copies in a loop: what moves from iteration to iteration is one number for the whole tile, and what stays is
// computed in front of the loop, for each thread.
//
//   for %i ... {                                   %s = ptr_add %p, (mul (sext %a), (sext (splat %n)))
//     %k = add %a, splat %i                        for %i ... {
//     %q = ptr_add %p, (mul %k, splat %n)    ->      %q = ptr_add %s, splat (mul (sext %i), (sext %n))
//     async_copy %q, ...                             async_copy %q, ...
//
// Multiplied out anew, an address is a chain of products in 64 bits between the wait for an earlier copy and this one, and under
// an asynchronous dot each of them waits for ports of the register file (docs/decisions.md, 160).
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out. Ensures: the pointers of an async_copy that stands in the body of a `for` itself, and that are sums and
// products of what the loop does not change and of splats, are what it does not change plus one splat. The same addresses by
// ptr_add's promises (ops.def). hoist_loop_invariants takes what stays out of the loop; dead ops remain.
bool splitMovingAddresses(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
