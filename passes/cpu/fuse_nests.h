// SPDX-License-Identifier: Apache-2.0
// Nests one behind the other that go over the same elements become one, and so do folds: what both load is then
// loaded once, and a row that does not fit L1 is passed over once.
//
//   %a = fold %end {extent=1024} { load %x ... }             %a, %b = fold %end {extent=1024} {
//   %b = fold %end {extent=1024} { load %x ... }     ->        load %x ... yield both
//   nest %end {extents=[1024]} { ... store %p }              }
//   nest %end {extents=[1024]} { ... store %q }              nest %end {extents=[1024]} { ... store %p  ... store %q }
#pragma once

#include "passes/pass.h"

namespace libtile::passes {

// Requires: nested stage, nests bounded (bound_nests.h), equal ends one value. Ensures: no two neighbours of the same
// extents, ends and lanes with straight-line bodies that load the same are left as two, provided that neither writes what
// the other touches at another index, and that both in one are short enough to be unrolled.
bool fuseNests(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
