// SPDX-License-Identifier: Apache-2.0
// Rows that are reduced again and again, as those of a softmax, are live from one reduction to the next, in the wide type that the
// kernel computes in. Where such rows leave a program alone on its multiprocessor, or without registers, it holds them as narrow as
// memory has them, and behind each reduction what is needed of them is computed again:
//
//   %x = load ..                             %x = load ..
//   %w = fpext %x                            %w = fpext %x
//   %m = reduce max %w                       %m = reduce max %w
//                                            %x1 = hold %x ; %w1 = fpext %x1
//   %e = exp (%w - %m)                ->     %e = exp (%w1 - %m)
//   %s = reduce add %e                       %s = reduce add %e
//                                            %x2 = hold %x1 ; %e2 = exp (fpext %x2 - %m)
//   store %e / %s                            store %e2 / %s
//
// `hold` keeps LLVM and the assembler from finding out that this is the same.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: laid-out. Ensures: where that makes room for more programs than none or one (Target::registers), tiles are computed again
// behind reductions of their block, from narrower tiles and by cheap ops alone; the function's `resident` is then what there is room
// for. Leaves functions with dots alone.
bool holdRows(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
