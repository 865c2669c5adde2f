// SPDX-License-Identifier: Apache-2.0
// From tiles to nests: every effect on memory and every tile that has to lie in memory becomes one
// loop nest over its elements, and tiles themselves vanish.
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: tile stage, a target that nests (a CPU). Best after simplification, CSE, DCE and
// split_carried_offsets. Ensures: nested stage; no value is a tile; loops carry scalars only; each
// alloc stands before its first use, in the innermost block that holds all its uses, without offset.
// The order of memory accesses is that of docs/semantics.md; volatile and atomic accesses happen exactly
// once, in order. Slow paths taken are added to fn.fallbacks.
bool formNests(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
