// SPDX-License-Identifier: Apache-2.0
// What a kernel stores of its dots' sums, as boxes that the machine stores by itself.
//
//                                                   %b = alloc
//   %t = convert_layout %x                          buffer_write %b, %x
//   store %p, %t, %mask                     ->      store_box %b, coordinates {map}
//   ...                                             ...
//   return                                          store_wait %b
//                                                   return
//
// Threads then neither exchange fragments for rows nor compute an address and a mask for each vector; the kernel ends, or goes on,
// while the box is stored. The wait stands in front of the next op that may need room or another warp: the buffer's room is free for it.
//
// Where threads of a warp can make rows among themselves they do, unless the option store_boxes asks for boxes there, too: a
// barrier costs what a box saves (decision 158).
//
// Only plain stores in the kernel's body of tiles with two axes, which threads have as a unit that reads by itself leaves its sums.
// A row's bound is a multiple of 16 bytes: the machine stores whole units. Nothing else of the kernel touches the array, nor acquires or
// releases, since what order boxes have with accesses of threads is not proved. Where there is no room for the buffer, or it would push
// the last other program off the multiprocessor, threads store.
#pragma once

#include "passes/analysis/facts.h"
#include "passes/gpu/plan_boxes.h"
#include "passes/pass.h"

#include <functional>
#include <optional>
#include <vector>

namespace libtile::passes {

// As planStore, where the function has room for the map, and no other op touches the array or orders what this one does.
[[nodiscard]] std::optional<PlannedBox> planStoreAlone(const ir::Function &fn, ir::OpId store, ir::ValueId tile, const Facts &facts,
                                                       const PassContext &context);

// What takes the place of an access of threads: `tile`, which is what it writes as threads have it, goes into a buffer, and that
// to the array.
struct BoxStore {
  ir::OpId access;
  ir::ValueId tile;
  PlannedBox box;
  ir::OpId outermost;          // the buffer is made in front of it
  std::vector<ir::OpId> waits; // in front of each the buffer has been read
};
using AsksForBox = std::function<bool(const ir::Function &, ir::OpId)>;
using PlansBox = std::function<std::optional<BoxStore>(const ir::Function &, ir::OpId, const Facts &)>;

// Does so with each op that asks for it and has a plan, where there is room.
bool storeByBoxes(ir::Function &fn, const PassContext &context, const AsksForBox &asks, const PlansBox &plan);

// Requires, ensures: laid-out, loops pipelined, conversions not yet lowered.
bool storeBoxes(ir::Function &fn, const PassContext &context);

} // namespace libtile::passes
