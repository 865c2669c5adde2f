// SPDX-License-Identifier: Apache-2.0
// sums_together: whether a lane best has sums of one row of a dot, or of one column.
//
// Where an instruction can give either (DotUnit::sumsOf), what is made of the sums decides: a reduction of rows stays within few
// lanes, and a left operand of a next dot stays where it is, if a lane has sums of one row. Of a column, for reductions of
// columns, right operands, what is transposed in front of a dot, and for atomics, whose lanes best have neighbours in a row.
// Sums that begin as others times a number of each row are such that are added up with reductions of rows.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

namespace libtile::passes {

// Requires: tile stage. Either: nothing speaks for one of them; as much for both is for columns.
[[nodiscard]] ir::SumsOf sumsTogether(const ir::Function &fn, ir::OpId dot);

// A number that several sums begin with would give them one layout, which units of either sort do not agree on: each gets its
// own, before a loop or a dot.
void beginApart(ir::Function &fn);

} // namespace libtile::passes
