// SPDX-License-Identifier: Apache-2.0
// The parts of a dot's lowering that loops need too: the shape of its accumulator, and packing of its
// operands (lower_roots.h has the whole).
#pragma once

#include "passes/cpu/contract_blocks.h"
#include "passes/cpu/kept_findings.h"
#include "passes/cpu/nest_state.h"

namespace libtile::passes {

// The buffer shape in which the dot accumulates.
[[nodiscard]] llvm::SmallVector<int32_t, 4> accumulatorShape(const NestState &state, ir::OpId dot);
// The planned contraction of this dot; null: it goes through plain nests.
[[nodiscard]] const ContractShape *contractOf(const NestState &state, ir::OpId dot);

// Zeros around the tile in a buffer that is larger than it.
void zeroPadding(NestState &state, ir::OpId position, ir::ValueId buffer, ir::Type tile);

// In front of which op each operand is packed: the dot's own place, or one in front of loops around it (pack_ahead.h).
struct PackingPlaces {
  ir::OpId a, b;
};

// Scratch for the packed operands of reductions over up to `k` elements, rows of padding zeroed.
struct PackedOperands {
  ir::ValueId a, b;
  ir::ValueId rows; // addresses of a's rows, where they are read in place (rows_in_place.h); else invalid
  ir::ValueId ahead; // those of the rows that the sums are stored to (sums_ahead.h), or invalid,
  int64_t aheadBytes = 0; // and of their elements
};
// Where b is kept (kept_panels.h), it is left to the caller.
[[nodiscard]] PackedOperands allocPacked(NestState &state, PackingPlaces places, const ContractShape &shape, int32_t k,
                                         bool keepsB = false);
// What a contract is told beside its buffers.
struct ContractInputs {
  ir::ValueId k;        // i32: the first elements along k
  ir::ValueId empty;    // i1: the sums' buffer holds nothing yet
  ir::ValueId direct{}; // i32: of those elements, which are read in place; with rows
  ir::ValueId soon{};   // i1: whether the sums are stored next; with `ahead`
  Findings findings{};  // of earlier ones
};
void emitContract(NestState &state, ir::OpId position, const ContractShape &shape, const PackedOperands &packed,
                  ir::ValueId acc, const ContractInputs &inputs);

} // namespace libtile::passes
