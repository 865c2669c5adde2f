// SPDX-License-Identifier: Apache-2.0
// Panels of a dot's right operand that the next program of a thread takes as the last one packed them.
//
// Programs that follow each other mostly have the same columns of a product, and each would pack the same numbers for each
// chunk of its loop (chunk_dot_loops.h). So the packed chunks lie in a kept buffer, one to a slot, and beside each are the
// keys under which it was packed (`recall`): all that differs between programs, or between a loop's turns, and decides what
// is packed and where. The chunk is packed where its keys are others:
//
//   %panel = buffer_slot %panels, %slot
//   %same = recall %slot, %column, %first {slots=4}
//   for ... { if %same {} else { nests: %panel = g }  ... }
//   contract %wideA, %panel, %acc, %depth
//
// A loop with more chunks than there are slots packs the rest into the last one, each time.
//
// What is in memory has to be the same for as long as the launch lasts. It is where the array is a parameter's, no access of the
// kernel but plain loads and stores is to memory at all, and each store is to other parameters, whose arrays are disjoint by
// a guard (analysis/alias.h). Nothing is kept from launch to launch.
#pragma once

#include "ir/builder.h"
#include "ir/function.h"
#include "passes/analysis/facts.h"
#include "passes/cpu/contract_blocks.h"

#include <optional>

namespace libtile::passes {

// The values in front of `loop` that decide, together with what is the same in all programs of a launch, on `roots`, which are values of its body, and on
// how often it runs. nullopt: something else does. `chunks` is a loop around it whose indices and numbers are taken in place of
// what is computed from them in its body; invalid: none.
[[nodiscard]] std::optional<ir::Values> keysOf(const ir::Function &fn, const Facts &facts, ir::OpId loop, ir::OpId chunks,
                                               std::span<const ir::ValueId> roots);
// Those that decide on an operand of a dot and on where the masks of both end; `keysOf` of the operand and its depth has no other.
[[nodiscard]] std::optional<ir::Values> keysOfOperand(const ir::Function &fn, const Facts &facts, ir::OpId loop, ir::OpId dot,
                                                      unsigned operand);
// Whether a value is the same in all programs of a launch, whatever is in memory.
[[nodiscard]] bool isOfLaunch(const ir::Function &fn, ir::ValueId value);
// A kept buffer with so many slots of that shape, and one of them.
[[nodiscard]] ir::ValueId allocKept(ir::Builder &before, int32_t slots, std::span<const int32_t> shape, ir::Type element);
[[nodiscard]] ir::ValueId keptSlot(ir::Builder &before, ir::ValueId kept, ir::ValueId slot);
// Whether the keys are those of the slot, an i1 (op recall).
[[nodiscard]] ir::ValueId recall(ir::Builder &before, int32_t slots, ir::ValueId slot, const ir::Values &keys);
// Slots for a dot of a loop that runs in chunks of so many iterations; 0: its panels are not kept.
[[nodiscard]] int32_t panelsToKeep(const ir::Function &fn, const Facts &facts, ir::OpId loop,
                                   ir::OpId dot, const ContractShape &shape, int32_t iterations);

} // namespace libtile::passes
