// SPDX-License-Identifier: Apache-2.0
// Selects of loops whose mask is true of the whole tile in most iterations, as that of the scores of attention: the last keys
// of all, and the blocks on the diagonal, are the only ones with something to mask. One comparison of scalars takes the
// place of a select for each element.
//
//   %m = cmp %a, %b {slt}            %c = (greatest of %a) < (least of %b)
//   %r = select %m, %x, %y     ->    %r = if %c { yield %x } else { yield (select %m, %x, %y) }
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out. Of selects right in the body of a `for` with a dot, whose mask is made of comparisons of i32 indices that are
// affine with constant strides.
bool skipMasks(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
