// SPDX-License-Identifier: Apache-2.0
// What the lowerings of reduce and scan share: elements are combined along an axis by an op with regions, a
// fold or a prefix, which stands alone for a 1-D tile and in a nest over the other axes for more. Lanes go
// where they cost least (chooseLanes): along the axis, as a nest of single rows around one with lanes; or
// along another axis, as a nest with lanes around one that runs sequentially, all lanes at once. A
// combination whose control flow depends on elements has no lanes at all.
#pragma once

#include "passes/cpu/nest_emitter.h"

namespace libtile::passes {

class AlongAxis {
protected:
  using Indices = ElementBuilder::Indices;
  // The inner op's own attributes and regions; its elements are yielded and its combination is there.
  using Fill = std::function<void(ir::OpId inner, ElementBuilder &elements, const Indices &outer, BodySize size)>;
  // What follows the inner op in the nest; not called where there is none.
  using After =
      std::function<void(ir::OpId inner, ElementBuilder &elements, const Indices &outer)>;

  AlongAxis(NestState &state, ir::OpId op);

  // `work`: of the operands. Flattens the combination's branches. The shape is that of both loops.
  [[nodiscard]] NestShape &choose(NestWork work);
  // The op `inner` with those results, and the nest around it; returns it.
  ir::OpId emit(ir::Opcode inner, const std::vector<ir::Type> &results, NestShape &shape,
                const Fill &fill, const After &after);
  // The indices of an element whose index along the axis is a new argument of the region.
  Indices withIndex(Indices outer, ir::BlockId region);
  [[nodiscard]] llvm::SmallVector<int32_t, 4> outerShape() const;

  NestState &state_;
  ir::Function &fn_;
  ir::OpId op_;
  int axis_;
  llvm::SmallVector<int32_t, 4> shape_;

private:
  void fillElements(ir::OpId inner, ElementBuilder &elements, const Indices &outer, int32_t lanes,
                    const Fill &fill);
};

} // namespace libtile::passes
