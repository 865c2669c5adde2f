// SPDX-License-Identifier: Apache-2.0
// Rows of a dot's left operand that a contract reads where they lie in memory.
//
// A unit takes words of a one by one, broadcast to all lanes, or tiles whose rows lie at any equal distances, so packing a
// copies what it could read in place as well. It may where the rows of the iterations of a chunk are one run in memory, in the
// unit's own type, and nothing of them is masked off. The first is known beforehand; the second is asked in each iteration
// (chunk_dot_loops.h): from the first one on in which something is masked off the chunk is packed. A dot outside of chunks is
// like a chunk of one.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/cpu/lower_dot.h"

namespace libtile::passes {

// Whether rows of the left operand of a dot in `loop` are such runs; without a loop, of a dot outside of chunks.
[[nodiscard]] bool haveRowsInPlace(const ir::Function &fn, const Facts &facts, const ir::Target &target, ir::OpId loop,
                                   ir::OpId dot, const ContractShape &shape);
// Whether nothing of this iteration's rows is masked off: an i1, made in front of the dot.
[[nodiscard]] ir::ValueId areWholeRows(ir::Function &fn, ir::OpId dot);
// Nests that write the addresses of this iteration's rows to `packed.rows`, where `column` is 0; invalid: there is one iteration.
void tabulateRows(NestState &state, ir::OpId dot, ir::OpId position, const ContractShape &shape,
                  const PackedOperands &packed, ir::ValueId column);
// The places in an `if` in front of `position`: where the condition holds, and where it does not.
[[nodiscard]] std::array<ir::OpId, 2> openBranches(ir::Function &fn, ir::OpId position, ir::ValueId condition);

} // namespace libtile::passes
