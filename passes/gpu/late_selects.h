// SPDX-License-Identifier: Apache-2.0
// What a kernel sets to 0 beyond a row's end and then squares and sums, as a layer norm does, is squared first:
//
//   %s = select %c, %x, 0.0                  %p = mul %x, %y
//   %t = select %c, %y, 0.0           ->     %q = select %c, %p, 0.0
//   %r = reduce (mul %s, %t) { add }         %r = reduce %q { add }
//
// Code generation then adds up a thread's products of one condition, each fused with the sum, and selects the sum
// (codegen/gpu/emit_reduce.cpp).
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: the same results bit for bit but for the order of sums.
bool lateSelects(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
