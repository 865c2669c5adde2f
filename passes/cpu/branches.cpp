// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/branches.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

bool runsInLanes(const Function &fn, BlockId body);

// Each lane takes it as often.
bool isCounted(const Function &fn, OpId op) {
  const auto isConstant = [&](ValueId value) {
    return fn.def(value).valid() && fn.opcode(fn.def(value)) == Opcode::Constant;
  };
  return fn.opcode(op) == Opcode::For && !fn.getBool(op, Attr::stop) &&
         std::ranges::all_of(fn.operands(op).first(3), isConstant);
}

bool runsInLanes(const Function &fn, BlockId body) {
  return std::ranges::all_of(fn.opsIn(body), [&](OpId op) {
    return fn.regions(op).empty() ||
           ((fn.opcode(op) == Opcode::If || isCounted(fn, op)) &&
            std::ranges::all_of(fn.regions(op), [&](BlockId inner) { return runsInLanes(fn, inner); }));
  });
}

void flattenBranch(Function &fn, OpId branch) {
  const OpId ends[] = {fn.last(fn.region(branch, 0)), fn.last(fn.region(branch, 1))};
  Builder builder(fn, branch);
  for (const unsigned side : {0U, 1U}) {
    fn.unlink(ends[side]);
    fn.spliceBefore(branch, fn.region(branch, side));
  }
  for (unsigned i = 0; i < fn.results(branch).size(); ++i) {
    const ValueId chosen = builder.make(Opcode::Select, {fn.operand(branch, 0), fn.operand(ends[0], i),
                                                         fn.operand(ends[1], i)});
    fn.replaceAllUses(fn.result(branch, i), chosen);
  }
  for (const unsigned side : {0U, 1U}) {
    fn.append(fn.region(branch, side), ends[side]);
  }
  fn.erase(branch);
}

void flattenIn(Function &fn, BlockId body) {
  for (const OpId op : fn.opsIn(body)) {
    for (const BlockId inner : std::vector<BlockId>(fn.regions(op).begin(), fn.regions(op).end())) {
      flattenIn(fn, inner);
    }
    if (fn.opcode(op) == Opcode::If) {
      flattenBranch(fn, op);
    }
  }
}

} // namespace

bool flattenBranches(Function &fn, BlockId body) {
  if (!runsInLanes(fn, body)) {
    return false;
  }
  flattenIn(fn, body);
  return true;
}

} // namespace libtile::passes
