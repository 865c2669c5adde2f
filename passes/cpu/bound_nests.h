// SPDX-License-Identifier: Apache-2.0
// Nests, folds and contracts end where masks do.
//
// A tile is as long as its BLOCK, a row of the user's as long as n. What lies past n is masked off: by a
// compare of the index with n, which is false from some index on. From there on a nest whose only
// effects are stores under such masks has none, and the elements of a fold are often all one number
// that changes nothing any more: the `other` of a load, say, 0 in a sum or -inf in a maximum, or what
// is computed from it: exp(-inf - most) is 0, or NaN, in a sum (masked_numbers.h). Scratch that is written
// along the way need not be where nobody reads it, and a product need not be there either: its contract leaves out
// blocks of rows and columns, and its operands are packed up to the last block of rows and the last vector of columns. A load whose bounds are checked (mark_accesses.h) has to be
// masked off there as well.
//
//   nest {extents=[1024]} {              %end = clamp(n - start, 0, 1024)
//   ^(%i):                               nest %end {extents=[1024]} { ...
//     %c = add %i, %start
//     %m = cmp %c, %n {slt}        ->    (a fold: one element more, so that the number takes part once)
//     store %p, %x, %m
//   }
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: nested stage. Ensures: the operand `end` of folds, and `ends` of nests, that are in no other one and
// compare a 32-bit index with what is known in front of them: of the last dimension where it goes by lanes over at
// least two vectors, of others where they have two elements. `ends` of contracts whose sums are read up to such.
bool boundNests(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
