// SPDX-License-Identifier: Apache-2.0
// How a reduction goes over registers, lanes and warps, as data.
//
// The coordinate along the reduced axis is a register's part XOR the parts of some lane bits XOR
// the parts of some warp bits. Each step joins pairs that differ in one bit (or in the repeat
// index); the one with the lower coordinate is the left operand. A right operand that lies wholly
// in the padding is left out, so no neutral element is needed.
//
// In any order of the steps a pair's operands are defined, but only in the order of coordinates are
// they neighbours. A combination that is one commutative op goes registers first, then lanes, then
// warps, which shuffles least; padding is then replaced by the op's neutral element. So do others
// that commute, as argmax. The rest keeps the order of coordinates.
//
// Warps meet in shared memory (WarpScratch), where `lane` counts the lanes that hold different rows, or parts of a row
// that are joined behind the warps; each reads all.
#pragma once

#include "passes/gpu/along_axis.h"

#include <optional>
#include <vector>

namespace libtile::passes {

struct ReduceStep {
  enum class Kind : uint8_t { Register, Repeat, Lane, Warp } kind;
  int32_t bit = 0;      // Register, Lane: the bit of the coordinate
  int32_t distance = 0; // Register, Lane: along the axis
};

struct ReducePlan {
  unsigned axis = 0;
  // The combination is one commutative op, which has a neutral element.
  std::optional<ir::Opcode> commutative;
  bool inOrder = false;             // each step joins neighbours
  std::vector<ReduceStep> steps;    // Warp at most once
  std::vector<int32_t> warpBits;    // along the axis, by rising coordinate
  WarpScratch scratch;              // of the partial results that threads have when the warps meet
};

// What lies between two warps along the axis, lanes or registers, keeps an ordered reduction from joining the warps in
// one step; the reduce op's operands have layouts. There is no plan for it then.
[[nodiscard]] bool joinsInOrder(const ir::Function &fn, ir::OpId reduce);
// The reduce op's operands have layouts. Unsupported: they do not join in order.
[[nodiscard]] ReducePlan planReduce(const ir::Function &fn, ir::OpId reduce);

} // namespace libtile::passes
