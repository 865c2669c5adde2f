// SPDX-License-Identifier: Apache-2.0
// What a pass is: a free function over a Function, declared in a header of its own that states its
// contract (requires / ensures / stage). The table in pipeline.cpp is the only place that calls
// one.
#pragma once

#include "ir/function_library.h"
#include "ir/target.h"

namespace libtile::passes {

// What code may rely on that a launch finds out: predicates over its arguments (Function::guards).
enum class Reliance : uint8_t {
  Nothing,   // the general variant
  Inputs,    // as Arguments, but not how arrays lie to each other that the kernel does nothing but write: views of one allocation
  Arguments, // how they lie in memory, and their size (request_guards.h)
  Numbers,   // and that extents are multiples of tiles (gpu/unwrap_indices.h), or fit into one (gpu/run_once.h), and scales positive (gpu/factor_scales.h)
};

struct PassContext {
  const ir::Target &target;
  // The user's overrides; 0: the compiler decides.
  int32_t numWarps = 0;
  int32_t numStages = 0;
  // What passes may ask for. The runtime compiles with all of it first, and again with less when a launch fails a
  // guard.
  Reliance relies = Reliance::Numbers;
  // Bodies of functions that the target has no instruction for; null: there are none.
  ir::FunctionLibrary *library = nullptr;
  // CPU: code is to compare its accesses with the extents of the arrays (cpu/mark_accesses.h).
  bool checksAccesses = false;
  // GPU: loops copy ahead by boxes where they can (gpu/plan_boxes.h).
  bool copiesBoxes = false;
  // GPU: a warp of its own copies them where it can (gpu/plan_producer.h).
  bool specialises = false;
  // GPU: blocks run programs in turn where they can (gpu/share_blocks.h).
  bool sharesBlocks = false;
  // GPU: a program gets more warps than numWarps where these cannot hold its tiles (gpu/spread_warps.h).
  bool spreadsWarps = false;
  // GPU: boxes of short rows, too (gpu/narrow_boxes.h).
  bool copiesNarrow = false;
  // GPU: sums of dots are stored by boxes also where threads could store them without a barrier (gpu/store_boxes.h).
  bool storesBoxes = false;
  // GPU: a launch may start before the one that it follows has ended (gpu/overlap_launches.h).
  bool overlapsLaunches = false;
  // GPU: rows of the units of dots, and how many instructions' operands a lane has side by side (gpu/plan_dots.h).
  int32_t unitRows = 0;
  int32_t unitGroups = 0;
  // GPU: programs of a cluster, which copy boxes for each other where they can (gpu/plan_cluster.h).
  int32_t cluster = 1;
};

// Returns whether it changed anything.
using PassFn = bool (*)(ir::Function &, const PassContext &);

} // namespace libtile::passes
