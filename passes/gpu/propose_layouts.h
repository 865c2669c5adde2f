// SPDX-License-Identifier: Apache-2.0
// The question that layout assignment answers, as data.
//
// Tiles that elementwise ops, memory ops or loops tie together must have one layout: a *component*.
// Anchors propose layouts to the components of their operands:
//
//   load, store, atomics  lanes along the contiguous axis, the widest vector that the facts allow;
//                         where that axis is reduced, warps go to the other axes first, so that a
//                         row lies within one warp
//   dot                   the accumulator's fragment; nothing else will do
//   reduce, scan          where nothing touches memory: neighbours of the axis in one thread
//
// Each proposal carries what it costs not to take it: the bytes that would be moved or accessed
// badly, times how often the loops around run it.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/pass.h"

#include <vector>

namespace libtile::passes {

struct LayoutProposal {
  ir::Layout layout;
  double weight = 0;
  bool strict = false;
};

struct LayoutComponent {
  std::vector<ir::ValueId> values;
  std::vector<LayoutProposal> proposals;
};

struct LayoutProblem {
  ir::IndexMap<ir::ValueId, int32_t> componentOf{-1}; // tiles only
  std::vector<LayoutComponent> components;
  ir::IndexMap<ir::OpId, bool> across{false}; // stores that convert what they store (separate_accesses.h)
};

// Number of warps: the user's (where spreadsWarps, what spread_warps.h made of it), or from the dots' accumulators (128 registers a thread), the reduced
// rows (32 elements a thread, or 64 registers), or the widest tile; more where the tiles that are live at once
// (live_tiles.h) need their registers, up to 16, which have all that a multiprocessor has.
[[nodiscard]] int32_t chooseWarps(const ir::Function &fn, const PassContext &context);
// Programs that a multiprocessor shall hold, for kernels that reduce rows: as many as leave a thread the
// registers that its part of the row and the work on it need. Left alone, the assembler saves registers
// that nobody else can use, and waits for each load before it starts the next; or takes so many that
// too few rows are in flight. 0: its choice.
[[nodiscard]] int32_t chooseResident(const ir::Function &fn, const Facts &facts, const PassContext &context, int32_t warps);

[[nodiscard]] LayoutProblem proposeLayouts(const ir::Function &fn, const Facts &facts,
                                           const PassContext &context, int32_t warps);

// How often an op runs, as far as the loops around it tell.
[[nodiscard]] double frequency(const ir::Function &fn, ir::OpId op);

} // namespace libtile::passes
