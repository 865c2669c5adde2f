// SPDX-License-Identifier: Apache-2.0
// The plan of a CPU's nests, as data: all that form_nests (form_nests.h) is going to do, decided before it changes
// anything. It is printed as the tile program with comments below each op that it says something of:
//
//   %acc9 = for %lo, %hi, %one, %zero : tile<16x16xf32> {
//   // chunks of 32 iterations
//   // nest 16x16 {lane_axis=1, lanes=16, unroll=1}
//   ^(%k: i32, %acc: tile<16x16xf32>):
//     ...
//     %next = dot %v, %w, %acc : tile<16x16xf32>
//     // f32: blocks of 8x48; a 16x528 f32 and b 512x48 f32 packed for each chunk
//     // nest 16x16 {lane_axis=1, lanes=16, unroll=4}
//
// Of a value without a comment each nest that needs it computes the elements again. Attributes of the program's ops pin
// what they name (plan_pins.h); the rest of the plan is made around them.
//
// The shapes of nests follow from what is in memory where they stand, and from how long their bodies become. So nests are
// made once on a copy of the function, where each is given its shape; the copy is thrown away. It takes about as
// long as making them, a few parts in a thousand of a compilation.
//
// Not in the plan, since it follows from the order of nests: what memory order has stored (memory_order.h; it shows by the
// nests that store it), and which buffers carried tiles share (carried_tiles.h). Nor is what code generation
// decides for a loop as it stands: which runs are asked for ahead (codegen/cpu/memory.cpp).
#pragma once

#include "ir/ops.h"
#include "passes/analysis/facts.h"
#include "passes/cpu/contract_blocks.h"
#include "passes/cpu/plan_pins.h"
#include "passes/pass.h"

#include <map>
#include <set>
#include <vector>

namespace libtile::ir {
struct PrintOptions;
}

namespace libtile::passes {

// Of a tile: inline, it is computed by each nest that needs it; first_use, stored by the first nest that computes it
// element by element; definition, stored by a nest of its own where it is defined.
using ir::Keep;

// Why a tile is not computed again wherever it is needed.
enum class KeptFor : uint8_t {
  Nothing,
  SeveralNests, // would compute it
  InnerLoop,    // it is used in a loop that it does not lie in
  Repeats,      // a nest reads each of its elements many times
  Depth,        // the expression that ends in it is long
  AnyOrder,     // a gather reads its elements in any order and number
  Pin,          // the text says so
};

struct KeptTile {
  Keep keep = Keep::inline_;
  KeptFor why = KeptFor::Nothing;
};

// A `for` that accumulates dots runs in chunks (chunk_dot_loops.h).
struct PlannedChunks {
  std::vector<ir::OpId> dots; // in program order
  int32_t iterations = 0;     // of one chunk, at least 2
  std::map<ir::OpId, ir::OpId> stores; // by the dot, those of its sums that are asked for ahead (sums_ahead.h)
  std::map<ir::OpId, int32_t> kept; // by the dot, of how many chunks b stays for the next program (kept_panels.h)
  std::set<ir::OpId> findings;      // the dots of which what is found out about a stays, too (kept_findings.h)
};

// How one nest goes over its elements; or a fold or prefix, with the nest over the other axes around it.
struct NestShape {
  std::vector<int32_t> extents; // the loops are in this order,
  uint32_t laneAxis = 0;        // but for this axis, which comes last and has the lanes
  int32_t lanes = 1;            // 1: one element after the other
  int32_t unroll = 1;           // vectors at once
};

struct CpuPlan {
  // Loops that run inside the nests that use what they carry (sink_loops.h).
  ir::IndexMap<ir::OpId, bool> sunk{false};
  ir::IndexMap<ir::ValueId, KeptTile> tiles;
  // Of each dot that has a unit, or of a slice of it (lower_dot.h); others are multiply-adds in a fold.
  std::map<ir::OpId, ContractShape> contracts;
  std::map<ir::OpId, PlannedChunks> chunks; // by the loop
  ir::IndexMap<ir::OpId, bool> inPlace{false}; // of a dot: are its rows of a read in place (rows_in_place.h)
  // The nests that each op needs, in the order in which they are made: of an op whose elements are computed where they
  // are needed, and of a loop that is sunk, those that store its tiles.
  std::map<ir::OpId, std::vector<NestShape>> nests;
  std::map<ir::OpId, NestPins> pins;
  // The function's text with the plan.
  [[nodiscard]] std::string str(const ir::Function &fn, const ir::PrintOptions &options) const;
};

// Requires: the tile stage. Throws Unsupported for a dot that no CPU has, UserError for a pin that cannot be heeded.
[[nodiscard]] CpuPlan planNests(const ir::Function &fn, const Facts &facts, const ir::Target &target);

// The plan's text of a function as it is in front of form_nests.
[[nodiscard]] std::string nestPlanText(const ir::Function &fn, const PassContext &context,
                                       const ir::PrintOptions &options);

} // namespace libtile::passes
