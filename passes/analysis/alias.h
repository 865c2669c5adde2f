// SPDX-License-Identifier: Apache-2.0
// Which memory accesses may touch the same bytes.
//
// Distinct pointer parameters may overlap unless the function carries a Disjoint guard for the two
// (request_guards.h) or one is never written and the question is about two reads. Pointers that do
// not come from a parameter (loaded from memory, made from an integer, loop-carried) may point
// anywhere. With the same base pointer the affine forms decide.
//
// "Same program, same moment": symbols stand for one value. To ask across iterations of a loop,
// use mayAliasAcross, in which what the loop defines may differ between the two.
#pragma once

#include "passes/analysis/facts.h"

#include <llvm/ADT/SmallVector.h>

namespace libtile::passes {

// The parameter that the pointer (scalar or tile) is derived from by ptr_add, shape ops, casts and
// select between pointers of one parameter; invalid if that is not known.
[[nodiscard]] ir::ValueId basePointer(const ir::Function &fn, ir::ValueId pointer,
                                      const Facts &facts);
// The parameters that it may be derived from so, a select between pointers of several included; empty
// if one of them is not known.
[[nodiscard]] llvm::SmallVector<ir::ValueId, 2> basePointers(const ir::Function &fn,
                                                             ir::ValueId pointer, const Facts &facts);

// Arrays of these two parameters (invalid: not known) may overlap.
[[nodiscard]] bool mayOverlap(const ir::Function &fn, ir::ValueId paramA, ir::ValueId paramB);
// Some element of a may overlap some element of b.
[[nodiscard]] bool mayAlias(const ir::Function &fn, ir::ValueId ptrA, ir::ValueId ptrB,
                            const Facts &facts);
// The same, where a and b may belong to different iterations of the loop with this body.
[[nodiscard]] bool mayAliasAcross(const ir::Function &fn, ir::BlockId loopBody, ir::ValueId ptrA,
                                  ir::ValueId ptrB, const Facts &facts);
// Element i of a is the address of element i of b, for all i (one shape), and no element of a
// overlaps another element of b: an element-by-element dependence, which fusing keeps.
[[nodiscard]] bool sameElements(const ir::Function &fn, ir::ValueId ptrA, ir::ValueId ptrB,
                                const Facts &facts);

// The two ops may not change places: effects (effects.h), sharpened by addresses. Both lie in the
// same iteration of every loop around them.
[[nodiscard]] bool mayConflict(const ir::Function &fn, ir::OpId a, ir::OpId b, const Facts &facts);
// Some op in the block or below it, other than `except`, may write what `load` reads.
[[nodiscard]] bool mayWriteTo(const ir::Function &fn, ir::BlockId block, ir::OpId load,
                              const Facts &facts);

} // namespace libtile::passes
