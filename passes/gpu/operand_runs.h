// SPDX-License-Identifier: Apache-2.0
// operand_runs: which elements of a tile a lane needs side by side when it multiplies.
//
// Matrix instructions take of each operand a run along k in one lane. A tile that memory has along its other axis must turn on the
// way. Where nothing copies straight to shared memory, a thread that loads pieces of several rows does that in registers: it writes
// neighbours along k as one word, and each lane reads its runs at once instead of element by element. Where lanes read a tile turned
// (AccessKind::Turned), threads load the same rows, which share addresses and masks, and write them as they are.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <optional>

namespace libtile::passes {

struct OperandRun {
  unsigned axis = 0;
  int32_t elements = 1; // a power of two
};

// The longest run, other than along `fast`, that dots take of the tile or of what is made of it element by element, maybe transposed;
// nullopt: they take single elements, or memory's own order in shared memory.
[[nodiscard]] std::optional<OperandRun> operandRun(const ir::Function &fn, ir::ValueId tile, unsigned fast, const ir::Target &target);

} // namespace libtile::passes
