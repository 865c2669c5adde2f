// SPDX-License-Identifier: Apache-2.0
// What the parts of form_nests share: the function, and where each tile lives.
//
// A tile is either *inline*: each nest that needs it computes its elements from its op again (of a sunk
// loop, sink_loops.h, by running the loop for them), or it is
// *stored*: it has a scratch buffer from which its elements are read. plan_tiles decides beforehand
// which values are worth storing (`keep`); memory order forces others (memory_order.h). A value is
// stored when `buffer` has an entry, and from then on no nest computes it again.
#pragma once

#include "ir/builder.h"
#include "ir/target.h"
#include "passes/analysis/facts.h"

#include <cstdint>

namespace libtile::passes {

enum class Keep : uint8_t {
  Inline,
  FirstUse,     // stored by the first nest that computes it element by element
  AtDefinition, // stored by a nest of its own where it is defined
};

struct NestState {
  ir::Function &fn;
  const ir::Target &target;
  const Facts facts; // of the function as it was at the tile stage
  ir::IndexMap<ir::ValueId, Keep> keep{Keep::Inline};
  ir::IndexMap<ir::ValueId, ir::ValueId> buffer{ir::ValueId{}};
  // While a nest is made: another tile of the same elements to compute in place of this one.
  ir::IndexMap<ir::ValueId, ir::ValueId> instead{ir::ValueId{}};
  // While a loop is made anew in a nest: what stands there for its arguments and scalars.
  ir::IndexMap<ir::ValueId, ir::ValueId> copies{ir::ValueId{}};
  // While nests are made that hardly ever run: they get little code.
  bool rarelyRun = false;
  // Loops that run inside the nests that use what they carry (sink_loops.h).
  ir::IndexMap<ir::OpId, bool> sunk{false};
  // Ops whose nests stand already.
  ir::IndexMap<ir::OpId, bool> lowered{false};

  [[nodiscard]] bool stored(ir::ValueId value) const { return buffer[value].valid(); }
};

// The op's elements are computed wherever they are needed: element by element, an index map, or a
// plain load. Everything else on tiles is a root, which gets nests at its own place.
[[nodiscard]] bool isInlinable(const ir::Function &fn, ir::OpId op);

// A new scratch buffer, allocated at the builder's place. Pointers lie in it as i64.
[[nodiscard]] ir::ValueId allocBuffer(ir::Builder &builder, std::span<const int32_t> shape,
                                      ir::Type element);

} // namespace libtile::passes
