// SPDX-License-Identifier: Apache-2.0
// Makes the scalar code of a nest's or fold's body: one element of a tile, as a function of i32
// indices. Shape ops become index arithmetic and vanish.
//
// Each (tile, indices) is made once for each body; what an enclosing body made is used inside. The
// caller has seen to it (prepareExpression, nest_emitter.h) that expressions are small and that
// values to be stored are stored, or may be stored by this very nest: a value with Keep::first_use
// that is computed at exactly the indices of the space is written to its new buffer as well.
//
// A result of a sunk loop (sink_loops.h) is made by a `for` over scalars in the body. While its own body
// is made, what does not belong to the loop goes in front of it: tiles from outside, and all indices.
#pragma once

#include "passes/cpu/nest_state.h"

#include <map>

namespace libtile::passes {

// What a body holds, for the choice of how many vectors run at once.
struct BodySize {
  uint32_t ops = 0;
  uint32_t carried = 0; // by sunk loops directly in it
};

class ElementBuilder {
public:
  using Indices = llvm::SmallVector<ir::ValueId, 4>;

  // Continues at the end of `body`. Buffers of values stored on the way are allocated before
  // `position`.
  ElementBuilder(NestState &state, ir::BlockId body, ir::OpId position);

  // Makes scalars before `position`, outside of any nest.
  ElementBuilder(NestState &state, ir::OpId position);

  // Values computed at these indices are computed once for each of their elements, so that one of
  // that shape may be stored on the way.
  void setSpace(std::span<const int32_t> shape, Indices indices);
  // Goes on inside a body nested in the current one, and back; what was made inside is forgotten.
  void enter(ir::BlockId body);
  void leave(ir::BlockId body);

  ir::ValueId element(ir::ValueId tile, const Indices &indices);
  // The element computed by the tile's op, even if the tile is stored already or to be stored.
  ir::ValueId compute(ir::ValueId tile, const Indices &indices);
  void write(ir::ValueId buffer, const Indices &indices, ir::ValueId element);
  ir::ValueId read(ir::ValueId buffer, const Indices &indices, ir::Type element);
  // Everything computed is in memory when the nest ends: the stored values get their buffers.
  void finish();

  [[nodiscard]] ir::Builder &builder() { return builder_; }
  ir::ValueId index(int32_t constant);
  ir::ValueId addIndex(ir::ValueId a, ir::ValueId b);
  ir::ValueId shiftIndex(ir::ValueId a, int32_t by) { return by == 0 ? a : addIndex(a, index(by)); }
  ir::ValueId scaleIndex(ir::ValueId a, int32_t factor);
  // Ops that the caller made in the body.
  void countOps(uint32_t ops) { made_.ops += ops; }
  [[nodiscard]] BodySize made() const { return made_; }

private:
  using Key = std::vector<uint32_t>;
  struct Scope {
    std::vector<Key> keys;
    uint32_t carriedOutside = 0;
  };
  // The sunk loop whose body is being made.
  struct OpenLoop {
    ir::BlockId source;
    ir::OpId made;
  };
  static Key key(ir::ValueId tile, const Indices &indices);
  void remember(ir::ValueId tile, const Indices &indices, ir::ValueId element);
  ir::ValueId elementOutside(ir::ValueId tile, const Indices &indices);
  void sinkLoop(ir::OpId loop, const Indices &indices);
  void fillSunkBody(ir::OpId loop, ir::OpId made, const Indices &indices);
  void copyScalarOps(ir::BlockId source);
  void forgetCopies(ir::BlockId source);
  ir::ValueId scalarOf(ir::ValueId value) const;
  ir::Builder indexBuilder();
  ir::ValueId inlineOp(ir::OpId op, const Indices &indices);
  ir::ValueId elementwise(ir::OpId op, const Indices &indices);
  [[nodiscard]] bool extendsNoSign(ir::OpId op) const;
  [[nodiscard]] ir::ValueId beforeExactCuts(ir::ValueId offset) const;
  Indices reshapeIndices(ir::OpId op, const Indices &indices);
  bool storesHere(ir::ValueId tile, const Indices &indices) const;
  ir::ValueId indexOp(ir::Opcode opcode, ir::ValueId a, int32_t b);

  NestState &state_;
  ir::Function &fn_;
  ir::Builder builder_;
  ir::OpId position_;
  std::map<Key, ir::ValueId> elements_;
  std::map<std::pair<uint32_t, int32_t>, ir::ValueId> constants_;
  std::vector<Scope> scopes_;
  OpenLoop open_;
  std::vector<std::pair<ir::ValueId, ir::ValueId>> storing_;
  std::vector<int32_t> spaceShape_;
  Indices space_;
  BodySize made_;
};

} // namespace libtile::passes
