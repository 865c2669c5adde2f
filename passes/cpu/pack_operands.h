// SPDX-License-Identifier: Apache-2.0
// Packing of a dot's operands into scratch, as their contract takes them (contract_blocks.h).
//
// An operand whose columns lie one by one in memory, as transposed keys do, is copied along them, and words of the copy are transposed in
// registers (op transpose_words): lanes along its rows would take each number from another place.
#pragma once

#include "passes/cpu/element_builder.h"
#include "passes/cpu/lower_dot.h"

namespace libtile::passes {

struct Packing {
  ir::OpId dot;
  PackingPlaces places;
  const ContractShape &shape;
  const PackedOperands &packed;
  ir::ValueId column{};                 // behind how many elements of the reduction, an i32, of whole groups; invalid: 0
  ElementBuilder::Indices slice{};      // along the leading axes
  ir::ValueId inPlace{}, isKept{};      // i1: a and b are packed where that does not hold
};
void packOperands(NestState &state, const Packing &packing);

// Stores every value to be kept below `root` by a nest of its own, and what else a nest could not compute
// on its way.
void storeKept(NestState &state, ir::ValueId root, ir::OpId position);
// Of a row and a column of a slice.
[[nodiscard]] ElementBuilder::Indices sliceIndices(ElementBuilder::Indices slice, ir::ValueId row, ir::ValueId column);

} // namespace libtile::passes
