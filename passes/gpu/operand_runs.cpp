// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/operand_runs.h"

#include "ir/ops.h"
#include "passes/gpu/plan_dots.h"

#include <algorithm>
#include <vector>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

constexpr size_t kMostMade = 64; // values on the way from a load to dots

// A value made of the tile, and the tile's axis that each axis of it is.
struct Made {
  ValueId value;
  std::vector<int64_t> axes;
};

// What a lane has of one instruction: registers count 1, 2, ... along k first.
int32_t runAlongK(const ir::DotUnit &unit, unsigned operand) {
  const ir::DotPart &part = operand == 0 ? unit.a : unit.b;
  const unsigned k = 1 - operand;
  int32_t run = 1;
  for (const ir::Coords &basis : part.inShared ? ir::Layout::Bases{} : part.regs) {
    if (basis[k] != run || basis[1 - k] != 0) {
      break;
    }
    run *= 2;
  }
  return run;
}

std::optional<Made> madeOf(const ir::Function &fn, const Made &from, OpId op) {
  if (fn.opcode(op) == Opcode::Trans) {
    Made made{fn.result(op), {}};
    for (const int64_t axis : fn.getInts(op, ir::Attr::order)) {
      made.axes.push_back(from.axes[static_cast<size_t>(axis)]);
    }
    return made;
  }
  return ir::isElementwise(fn.opcode(op)) && fn.results(op).size() == 1 ? std::optional(Made{fn.result(op), from.axes}) : std::nullopt;
}

} // namespace

std::optional<OperandRun> operandRun(const ir::Function &fn, ValueId tile, unsigned fast, const ir::Target &target) {
  OperandRun longest;
  const unsigned rank = fn.type(tile).rank();
  std::vector<Made> made = {{tile, {}}};
  for (unsigned axis = 0; axis < rank; ++axis) {
    made[0].axes.push_back(axis);
  }
  for (size_t i = 0; i < made.size() && !target.asyncCopy; ++i) {
    for (const ir::Use use : fn.uses(made[i].value)) {
      if (fn.opcode(use.op) == Opcode::Dot && use.operand < 2) {
        const auto axis = static_cast<unsigned>(made[i].axes[rank - 1 - use.operand]);
        const int32_t run = runAlongK(unitOf(fn, use.op, target), use.operand);
        longest = axis != fast && run > longest.elements ? OperandRun{axis, run} : longest;
      } else if (auto next = made.size() < kMostMade ? madeOf(fn, made[i], use.op) : std::nullopt;
                 next && std::ranges::find(made, next->value, &Made::value) == made.end()) {
        made.push_back(std::move(*next));
      }
    }
  }
  return longest.elements > 1 ? std::optional(longest) : std::nullopt;
}

} // namespace libtile::passes
