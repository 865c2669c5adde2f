// SPDX-License-Identifier: Apache-2.0
// Tiles that a loop carries, if it is not sunk (sink_loops.h), or an `if` yields live in buffers, one for
// each carried or yielded tile.
//
//   for                 the buffer is written with the initial value before the loop, and by each
//                       yield; the block argument, the next value and the result are its contents
//   if                  each branch's yield writes the buffer that is the result
//
// A yield updates in place where each new element depends on the same element of what it overwrites;
// tiles of one shape are computed together, so they may read each other. Otherwise the new values go
// to second buffers first and are copied.
#pragma once

#include "passes/cpu/nest_state.h"

namespace libtile::passes {

// Where the tiles among a region op's results live: result i in buffers[i] (invalid for scalars).
struct TileHomes {
  ir::Values buffers;
  std::vector<bool> empty; // of a loop: the initial value, zeros, has not been written
};

// Gives the tiles of a for, while or if their buffers, with the initial values written; block
// arguments and results are stored from then on. With `mayBeEmpty` zeros are left to the caller.
[[nodiscard]] TileHomes openHomes(NestState &state, ir::OpId op, bool mayBeEmpty = false);
// Writes the tiles that a yield passes on to their homes; `skip` operands come before the first.
void closeHomes(NestState &state, ir::OpId yield, const TileHomes &homes, unsigned skip);

// The carried tile's buffer in which the dot may accumulate: its result is what the loop carries next,
// and the old value is needed for nothing else. Invalid: none.
[[nodiscard]] ir::ValueId homeOfDot(const NestState &state, ir::OpId dot, const TileHomes &homes,
                                    ir::OpId yield, unsigned skip);

} // namespace libtile::passes
