// SPDX-License-Identifier: Apache-2.0
// Where the sums of a dot are going to be stored: asked for ahead, while they are summed up.
//
// What a kernel stores behind its loop is seldom in a cache near by: each line is waited for, one after the other, where there
// is nothing else to do. A contract computes, and memory is idle meanwhile. So the last one of a loop gets the addresses of the rows that the
// store is going to write, and each of its blocks asks for its part of them. Nothing follows from an address that turns out
// to be another one, or none.
#pragma once

#include "passes/cpu/nest_state.h"

namespace libtile::passes {

// The store behind `loop`, in its block, that writes what becomes element by element of this result of it, to rows whose
// addresses are known in front of the loop. Invalid: there is none.
[[nodiscard]] ir::OpId storeOfSums(const NestView &nests, const Facts &facts, ir::OpId loop, ir::ValueId result);
// A nest in front of `position` that writes where the rows of that store begin to `rows`; behind the last one, its address.
void tabulateStore(NestState &state, ir::OpId store, ir::OpId position, ir::ValueId rows);

} // namespace libtile::passes
