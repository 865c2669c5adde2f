// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_registers.h"

#include "ir/ops.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/live_tiles.h"

#include <algorithm>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;

constexpr int64_t kSixteenths = 11, kSixteenthsComputing = 9; // of kNamedRegisters for tiles
constexpr int64_t kEnoughWarps = 16;                          // of a multiprocessor: more hide no more
constexpr int64_t kEnoughMultiplying = 2;                     // programs, where loops do nothing else

// Of one thread while it is under way: each instruction has registers of its own, and what is below 32 bits is put together later.
int64_t registersOfLoad(const ir::Function &fn, const PlannedLoad &planned) {
  const ir::ValueId tile = fn.result(planned.load);
  const int64_t elements = fn.layout(fn.type(tile).layout()).size(ir::HwDim::Reg);
  return planned.vectorBytes < 4 ? elements : registersOfThread(fn, tile);
}

// Of one thread, for all that is loaded ahead while the loop runs.
int64_t loadedAhead(const ir::Function &fn, std::span<const LoopPlan> loops, OpId loop) {
  int64_t registers = 0;
  for (const LoopPlan &each : loops) {
    if (each.loop == loop || fn.isInside(fn.block(loop), fn.region(each.loop))) {
      for (const PlannedLoad &planned : each.loads) {
        registers += planned.byRegisters ? registersOfLoad(fn, planned) : 0;
      }
    }
  }
  return registers;
}

// For what a plan's loops load ahead.
class Room {
public:
  Room(const ir::Function &fn, const PassContext &context) : fn_(fn), context_(context), tiles_(liveOfThread(fn, context.target)) {}

  [[nodiscard]] bool has(const Plan &plan) const {
    const int64_t ahead = registersAhead(fn_, plan.loops);
    bool computes = false;
    for (const LoopPlan &loop : plan.loops) {
      computes = computes || computesWithSums(fn_, loop.loop);
    }
    if ((tiles_ + ahead) * 16 > kNamedRegisters * (computes ? kSixteenthsComputing : kSixteenths)) {
      return false;
    }
    if (context_.target.asyncCopy) {
      return true;
    }
    if (computes && programsByRegisters(tiles_) * fn_.numWarps >= kEnoughWarps && programsByBytesNow() * fn_.numWarps >= kEnoughWarps) {
      return false; // the others' arithmetic hides the loads
    }
    const int64_t enough = computes ? std::max<int64_t>(kEnoughWarps / fn_.numWarps, 1) : kEnoughMultiplying;
    const int64_t before = std::min(programsByRegisters(tiles_), enough);
    const int64_t after = std::min(before, programsByRegisters(tiles_ + ahead));
    const int64_t byBytes = programsByBytes(plan);
    return (after == before && byBytes >= before) || std::min(after, byBytes) >= std::min(before, programsByBytesNow());
  }

private:
  // Programs that a multiprocessor holds.
  [[nodiscard]] int64_t programsByRegisters(int64_t tiles) const {
    return passes::programsByRegisters(tiles, fn_.numWarps, context_.target);
  }
  [[nodiscard]] int64_t programsByBytes(const Plan &plan) const {
    return context_.target.sharedMemory / std::max<int64_t>(sharedBytes(withPlan(fn_, plan, context_)), 1);
  }
  // As it is, asked for when first needed.
  [[nodiscard]] int64_t programsByBytesNow() const {
    now_ = now_ ? now_ : programsByBytes({});
    return *now_;
  }

  const ir::Function &fn_;
  const PassContext &context_;
  const int64_t tiles_; // of a thread
  mutable std::optional<int64_t> now_;
};

} // namespace

bool computesWithSums(const ir::Function &fn, OpId loop) {
  return std::ranges::any_of(fn.walk(fn.region(loop)), [&](OpId op) {
    return fn.opcode(op) == Opcode::Dot && std::ranges::any_of(fn.uses(fn.result(op)), [&](ir::Use use) {
             return fn.opcode(use.op) != Opcode::Yield && (fn.opcode(use.op) != Opcode::Dot || use.operand != 2);
           });
  });
}

bool goesByRegisters(const LoopPlan &plan) { return std::ranges::any_of(plan.loads, &PlannedLoad::byRegisters); }

int64_t registersAhead(const ir::Function &fn, std::span<const LoopPlan> loops) {
  int64_t most = 0;
  for (const LoopPlan &loop : loops) {
    most = std::max(most, loadedAhead(fn, loops, loop.loop));
  }
  return most;
}

std::vector<OpId> keepRegisters(const ir::Function &fn, Plan &plan, const PassContext &context) {
  std::vector<OpId> taken;
  if (std::ranges::none_of(plan.loops, goesByRegisters)) {
    return taken;
  }
  const Room room(fn, context);
  while (std::ranges::any_of(plan.loops, goesByRegisters) && !room.has(plan)) {
    LoopPlan &most = *std::ranges::max_element(plan.loops, {}, [](const LoopPlan &loop) { return goesByRegisters(loop) ? loop.slotBytes() : -1; });
    for (const PlannedLoad &planned : most.loads) {
      if (planned.byRegisters) {
        taken.push_back(planned.load);
      }
    }
    std::erase_if(most.loads, [](const PlannedLoad &planned) { return planned.byRegisters; });
    std::erase_if(plan.loops, [](const LoopPlan &loop) { return loop.loads.empty(); });
  }
  return taken;
}

} // namespace libtile::passes
