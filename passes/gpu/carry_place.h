// SPDX-License-Identifier: Apache-2.0
// Sums that a loop carries from a dot to the same dot of the next iteration, as one place (ir/places.h) all along.
#pragma once

#include "ir/builder.h"

namespace libtile::passes {

// The sums come from the previous iteration, nobody but the dot reads them in the loop around it, and the loop hands on the dot's.
[[nodiscard]] bool carriesSums(const ir::Function &fn, ir::OpId dot);
// The dot, for which that holds, adds in the place: it is written by `before` the loop and read by `after`, behind it.
void carryPlace(ir::Function &fn, ir::OpId dot, ir::Builder &before, ir::Builder &after);

} // namespace libtile::passes
