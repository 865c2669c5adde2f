// SPDX-License-Identifier: Apache-2.0
// Says of each access of the user's memory in which arrays it lies (Attr::within): those of the pointer
// parameters that its address is made from. Code generation compares addresses with the extents of these
// (codegen/cpu/bounds.cpp).
//
// An address from elsewhere (loaded from memory, made from an integer) lies within nothing that is known: its
// access is left as it is, and not checked.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage. Ensures: with PassContext::checksAccesses, loads, stores and atomics have `within`
// where their arrays are known, for all passes behind to keep; without, the function is unchanged.
bool markAccesses(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
