// SPDX-License-Identifier: Apache-2.0
// Where the operands of dots come from, before anything is laid out.
#pragma once

#include "ir/function.h"

namespace libtile::passes {

// In a loop; elsewhere it is Other.
enum class OperandSource : uint8_t {
  Memory, // loaded there, for dots alone, or there before the loop: it need not pass through registers
  Sums,   // element by element from the sums of another dot there
  Turned, // the same, transposed: the unit has to read it from memory, where threads write it
  Other,
};

// Of a or b of the dot, which may be transposed on its way.
[[nodiscard]] OperandSource operandSource(const ir::Function &fn, ir::OpId dot, ir::ValueId operand);

// It is loaded, or made of nothing else element by element and by changes of its shape: it lies as a dot wants it only by chance.
[[nodiscard]] bool comesFromMemory(const ir::Function &fn, ir::ValueId operand);

} // namespace libtile::passes
