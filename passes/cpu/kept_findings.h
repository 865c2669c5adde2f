// SPDX-License-Identifier: Apache-2.0
// What contracts find out about tiny numbers stays for the next program.
//
// A unit that flushes is taken where there is nothing to flush, and the contract looks at all of a and b for that
// (codegen/cpu/tiny_numbers.h): every program at rows that the programs of all other columns look at, too, and at columns that those of
// all other rows do. So the contracts of a loop's chunks (chunk_dot_loops.h) have two tables, kept as packed panels are (kept_panels.h)
// and with the same keys: b's has a row of findings for each of its panel's slots, a's one for each of some slots that
// its keys are spread over:
//
//   %slot = lshr (mix of %row, %first), 58         (64 slots)
//   %knowsA = recall %slot, %row, %first {slots=64}
//   %findingsA = buffer_slot %tableA, %slot
//   %follows = cmp %first, 0 {ne}
//   contract %a, %panel, %acc, %depth, %empty, %findingsA, %knowsA, %findingsB, %same, %findingsSums, %follows
//
// Sums of a chunk with nothing to flush have nothing that the next chunk would, so the third table, of one program, says which had not.
#pragma once

#include "passes/cpu/nest_state.h"

#include <optional>

namespace libtile::passes {

struct ContractShape;

// The last operands of a contract in front of its ends (contract_blocks.h); all invalid: it has none.
struct Findings {
  ir::ValueId a, knowsA; // buffer, i1
  ir::ValueId b, knowsB;
  ir::ValueId sums, follows; // of the chunk before, if there is one
};

// A chunk of a loop, and its panel of b if that is kept.
struct FindingsPlace {
  ir::OpId loop, chunks;     // the inner loop, and the one around it
  ir::ValueId first;         // the chunk's first iteration, the index of the one around
  ir::ValueId panelSlot{};   // i32 in front of the inner loop
  ir::ValueId isPanelKept{}; // i1 there; invalid: it is packed each time
  int32_t panelSlots = 1;
};

// For a unit that flushes: tables in front of the loop of chunks, and what of them is the chunk's in front of the inner one. `keysOfA`
// decide on a's numbers and on how many there are (keysOf); nullopt: that is not known.
[[nodiscard]] Findings keepFindings(NestState &state, const ContractShape &shape, const FindingsPlace &place,
                                    const std::optional<ir::Values> &keysOfA);

} // namespace libtile::passes
