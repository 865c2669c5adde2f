// SPDX-License-Identifier: Apache-2.0
// What the parts of form_nests share: the function, and where each tile lives.
//
// A tile is either *inline*: each nest that needs it computes its elements from its op again (of a sunk
// loop, sink_loops.h, by running the loop for them), or it is
// *stored*: it has a scratch buffer from which its elements are read. The plan says
// which values are worth storing (plan_nests.h); memory order forces others (memory_order.h). A value is
// stored when `buffer` has an entry, and from then on no nest computes it again.
#pragma once

#include "ir/builder.h"
#include "passes/cpu/plan_nests.h"

namespace libtile::passes {

// What it takes to know what a nest evaluates for a tile. While the nests are planned nothing is stored.
struct NestView {
  const ir::Function &fn;
  const ir::IndexMap<ir::OpId, bool> &sunk;
  const ir::IndexMap<ir::ValueId, ir::ValueId> &buffer;

  [[nodiscard]] bool stored(ir::ValueId value) const { return buffer[value].valid(); }
};

struct NestState {
  ir::Function &fn;
  const ir::Target &target;
  const Facts &facts; // of the function as it was at the tile stage
  CpuPlan &plan;
  // The plan has the shapes of all nests; else they are planned as nests are made (nest_shapes.h).
  bool follows = true;
  // The op whose nests are being made, and how many of each op's stand.
  ir::OpId root{};
  ir::IndexMap<ir::OpId, uint32_t> made{0};
  ir::IndexMap<ir::ValueId, ir::ValueId> buffer{ir::ValueId{}};
  // While a nest is made: another tile of the same elements to compute in place of this one.
  ir::IndexMap<ir::ValueId, ir::ValueId> instead{ir::ValueId{}};
  // While a loop is made anew in a nest: what stands there for its arguments and scalars.
  ir::IndexMap<ir::ValueId, ir::ValueId> copies{ir::ValueId{}};
  // While nests are made that hardly ever run: they get little code.
  bool rarelyRun = false;
  // Ops whose nests stand already.
  ir::IndexMap<ir::OpId, bool> lowered{false};

  [[nodiscard]] bool stored(ir::ValueId value) const { return buffer[value].valid(); }
  [[nodiscard]] Keep keep(ir::ValueId value) const { return plan.tiles[value].keep; }
  // Implicit: who only asks what is evaluated takes a view.
  operator NestView() const { return {fn, plan.sunk, buffer}; }
};

// The op's elements are computed wherever they are needed: element by element, an index map, or a
// plain load. Everything else on tiles is a root, which gets nests at its own place.
[[nodiscard]] bool isInlinable(const ir::Function &fn, ir::OpId op);

// While nests are made that another op than the one in turn needs.
class RootScope {
public:
  RootScope(NestState &state, ir::OpId root) : state_(state), outer_(state.root) { state.root = root; }
  ~RootScope() { state_.root = outer_; }
  RootScope(const RootScope &) = delete;
  RootScope &operator=(const RootScope &) = delete;

private:
  NestState &state_;
  ir::OpId outer_;
};

// A new scratch buffer, allocated at the builder's place. Pointers lie in it as i64.
[[nodiscard]] ir::ValueId allocBuffer(ir::Builder &builder, std::span<const int32_t> shape,
                                      ir::Type element);

} // namespace libtile::passes
