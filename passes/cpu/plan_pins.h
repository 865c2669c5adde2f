// SPDX-License-Identifier: Apache-2.0
// What a text decides in place of the plan (plan_nests.h), as attributes of the ops at the tile stage:
//
//   any op      keep=inline, first_use or definition: what becomes of the tile that the op computes element by element
//               lane_axis, lanes, unroll: the shapes of the nests that the op needs (NestShape), as far as the plan
//               chooses them; lanes and unroll are powers of two
//   dot         unit, block_m, block_n: its row of ir::Target::contractUnits and register block
//   for         sunk=0 or 1; chunk: iterations of one chunk, 1: it is not run in chunks
//
// What is pinned is heeded or an error at the op: no pin is left out because it does not fit.
#pragma once

#include "ir/function.h"

#include <map>
#include <optional>

namespace libtile::passes {

struct NestPins {
  std::optional<int64_t> laneAxis, lanes, unroll;
  // A nest of the op was given them.
  bool lanesHeeded = false, unrollHeeded = false;
};

// Those of each op that has some.
[[nodiscard]] std::map<ir::OpId, NestPins> nestPins(const ir::Function &fn);
// Throws UserError for one that no nest was given.
void requireHeeded(const ir::Function &fn, const std::map<ir::OpId, NestPins> &pins);
// A UserError that names the attribute, at the op.
[[noreturn]] void refusePin(const ir::Function &fn, ir::OpId op, ir::Attr pin, const std::string &reason);
// Takes the pins off: what the nests are made of has none.
void dropPins(ir::Function &fn);

} // namespace libtile::passes
