// SPDX-License-Identifier: Apache-2.0
// The greatest of what is scaled is the greatest, scaled: for a positive factor rounding keeps the order, and the result is
// the same number. In a softmax a product an element is saved, since the other one is fused with the difference that it
// goes into (docs/semantics.md).
//
//   %y = mul %x, splat %c                  %s = select %mask, %x, -inf
//   %r = select %mask, %y, -inf            %n = reduce %s { fmax }
//   %m = reduce %r { fmax }          ->    %m = mul %n, splat %c
//   %d = sub %r, %m ...                    %d = sub (mul %s, splat %c), %m ...
//
// The factor is made of constants and parameters, which guards promise to be positive and far from overflow
// (Reliance::Numbers).
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: guards say what the function then relies on. Leaves scales alone whose elements have
// uses other than the fold and sums, and of which a thread has more than 64.
bool factorScales(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
