// SPDX-License-Identifier: Apache-2.0
// The plan of a CPU's nests, as data: what form_nests (form_nests.h) is going to do, decided before any nest is
// made. It is printed as the tile program with a comment below each op that it says something of:
//
//   %acc9 = for %lo, %hi, %one, %zero : tile<16x16xf32> {
//   // chunks of 32 iterations
//   ^(%k: i32, %acc: tile<16x16xf32>):
//     ...
//     %next = dot %v, %w, %acc : tile<16x16xf32>
//     // f32: blocks of 8x48; a 16x528 f32 and b 512x48 f32 packed for each chunk
//
// Of a value without a comment each nest that needs it computes the elements again. Not in the plan, since it
// follows from the order of nests: what memory order has stored (memory_order.h), which buffers carried tiles
// share (carried_tiles.h), and the lanes of a nest (nest_emitter.h), which it says itself.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/cpu/contract_blocks.h"
#include "passes/pass.h"

#include <map>
#include <vector>

namespace libtile::ir {
struct PrintOptions;
}

namespace libtile::passes {

enum class Keep : uint8_t {
  Inline,
  FirstUse,     // stored by the first nest that computes it element by element
  AtDefinition, // stored by a nest of its own where it is defined
};

// Why a tile is not computed again wherever it is needed.
enum class KeptFor : uint8_t {
  Nothing,
  SeveralNests, // would compute it
  InnerLoop,    // it is used in a loop that it does not lie in
  Repeats,      // a nest reads each of its elements many times
  Depth,        // the expression that ends in it is long
  AnyOrder,     // a gather reads its elements in any order and number
};

struct KeptTile {
  Keep keep = Keep::Inline;
  KeptFor why = KeptFor::Nothing;
};

// A `for` that accumulates dots runs in chunks (chunk_dot_loops.h).
struct PlannedChunks {
  std::vector<ir::OpId> dots; // in program order
  int32_t iterations = 0;     // of one chunk, at least 2
};

struct CpuPlan {
  // Loops that run inside the nests that use what they carry (sink_loops.h).
  ir::IndexMap<ir::OpId, bool> sunk{false};
  ir::IndexMap<ir::ValueId, KeptTile> tiles;
  // Of each dot that has a unit, or of a slice of it (lower_dot.h); others are multiply-adds in a fold.
  std::map<ir::OpId, ContractShape> contracts;
  std::map<ir::OpId, PlannedChunks> chunks; // by the loop
  // The function's text with the plan.
  [[nodiscard]] std::string str(const ir::Function &fn, const ir::PrintOptions &options) const;
};

// Requires: the tile stage. Throws Unsupported for a dot that no CPU has.
[[nodiscard]] CpuPlan planNests(const ir::Function &fn, const Facts &facts, const ir::Target &target);

// The plan's text of a function as it is in front of form_nests.
[[nodiscard]] std::string nestPlanText(const ir::Function &fn, const PassContext &context,
                                       const ir::PrintOptions &options);

} // namespace libtile::passes
