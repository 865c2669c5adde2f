// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_registers.h"

#include "ir/ops.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/lower_conversions.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;

constexpr int64_t kNamed = 256; // registers that instructions name; what CDNA has beside them is for sums alone
constexpr int64_t kSixteenths = 11, kSixteenthsComputing = 9; // of them for tiles
constexpr int64_t kBesideTiles = 40;                          // that threads take at least
constexpr int64_t kEnoughWarps = 16;                          // of a multiprocessor: more hide no more

// Of one thread, for all that is loaded ahead while the loop runs.
int64_t loadedAhead(const ir::Function &fn, const Plan &plan, OpId loop) {
  int64_t registers = 0;
  for (const LoopPlan &each : plan.loops) {
    if (each.loop == loop || fn.isInside(fn.block(loop), fn.region(each.loop))) {
      for (const PlannedLoad &planned : each.loads) {
        registers += registersOfThread(fn, fn.result(planned.load));
      }
    }
  }
  return registers;
}

// The loop does more with the result of a dot than to hand it on to the next.
bool computesWithSums(const ir::Function &fn, OpId loop) {
  return std::ranges::any_of(fn.walk(fn.region(loop)), [&](OpId op) {
    return fn.opcode(op) == Opcode::Dot && std::ranges::any_of(fn.uses(fn.result(op)), [&](ir::Use use) {
             return fn.opcode(use.op) != Opcode::Yield && (fn.opcode(use.op) != Opcode::Dot || use.operand != 2);
           });
  });
}

struct Needs {
  int64_t tiles = 0, bytes = 0; // registers of a thread, shared memory of the program
};

Needs needsOf(const ir::Function &fn, const Plan &plan, const PassContext &context) {
  ir::Function trial = fn.clone();
  applyPlan(trial, plan);
  lowerConversions(trial, context);
  int64_t ahead = 0;
  for (const LoopPlan &loop : plan.loops) {
    ahead = std::max(ahead, loadedAhead(fn, plan, loop.loop));
  }
  return {liveOfThread(trial, context.target) + ahead, sharedBytes(trial)};
}

int64_t residentPrograms(const ir::Function &fn, const Needs &needs, const ir::Target &target) {
  const int64_t threads = int64_t{fn.numWarps} * target.warpSize;
  return std::min({target.registers / (threads * (needs.tiles + kBesideTiles)), target.sharedMemory / std::max<int64_t>(needs.bytes, 1),
                   std::max<int64_t>(kEnoughWarps / fn.numWarps, 1)});
}

} // namespace

void keepRegisters(const ir::Function &fn, Plan &plan, const PassContext &context) {
  if (plan.loops.empty()) {
    return;
  }
  const int64_t before = residentPrograms(fn, needsOf(fn, {}, context), context.target);
  const auto fits = [&] {
    const Needs needs = needsOf(fn, plan, context);
    const bool computes = std::ranges::any_of(plan.loops, [&](const LoopPlan &loop) { return computesWithSums(fn, loop.loop); });
    return needs.tiles * 16 <= kNamed * (computes ? kSixteenthsComputing : kSixteenths) &&
           residentPrograms(fn, needs, context.target) >= before;
  };
  while (!plan.loops.empty() && !fits()) {
    plan.loops.erase(std::ranges::max_element(plan.loops, {}, [](const LoopPlan &loop) { return loop.slotBytes(); }));
  }
}

} // namespace libtile::passes
