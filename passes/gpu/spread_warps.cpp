// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/spread_warps.h"

#include "ir/ops.h"
#include "passes/expand_assembly.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/propose_layouts.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;

// Assembly that knows how many threads there are, or may: a barrier has their count.
bool countsThreads(const ir::Function &fn, OpId op) {
  return namesRegisters(fn, op) || (fn.opcode(op) == Opcode::Assembly && fn.getBool(op, ir::Attr::is_volatile));
}

// More warps than have all registers of a multiprocessor hold no more.
int32_t leastWarps(const ir::Function &fn, const ir::Target &target, int32_t warps) {
  if (std::ranges::any_of(fn.walk(), [&](OpId op) { return countsThreads(fn, op); })) {
    return warps;
  }
  const int64_t live = liveRegisters(fn), named = live - liveSums(fn);
  const auto holds = [&](int64_t registers, int64_t available) {
    return registers / (int64_t{warps} * target.warpSize) + kBesideTiles <= available;
  };
  const auto hasMore = [&] {
    const int64_t twice = int64_t{2} * warps;
    return twice <= target.maxWarps && twice * target.warpSize * target.registersPerThread <= target.registers;
  };
  while (hasMore() && !(holds(live, target.registersPerThread) &&
                        holds(named, std::min<int64_t>(target.registersPerThread, kNamedRegisters)))) {
    warps *= 2;
  }
  return warps;
}

} // namespace

bool spreadWarps(ir::Function &fn, const PassContext &context) {
  if (!context.spreadsWarps || context.numWarps == 0) {
    return false;
  }
  PassContext asIs = context;
  asIs.spreadsWarps = false;
  const int32_t asked = chooseWarps(fn, asIs);
  fn.numWarps = leastWarps(fn, context.target, asked);
  if (fn.numWarps > asked) {
    fn.fallbacks.push_back(std::to_string(fn.numWarps) + " warps instead of " + std::to_string(context.numWarps) +
                           ", whose registers do not hold the program's tiles; spread_warps=False keeps them");
  }
  return true;
}

} // namespace libtile::passes
