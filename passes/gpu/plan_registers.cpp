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
constexpr int64_t kFewWarps = 12;                             // of a multiprocessor, for which registers are there: fewer hide little

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

// Of the loop's body, in order, those that read what is loaded.
std::vector<int64_t> dotsOf(const ir::Function &fn, const LoopPlan &loop, OpId load) {
  std::vector<ir::ValueId> tiles = {fn.result(load)};
  std::vector<int64_t> dots;
  int64_t number = 0;
  for (const OpId op : fn.opsIn(fn.region(loop.loop))) {
    const bool reads = std::ranges::any_of(fn.operands(op), [&](ir::ValueId operand) { return std::ranges::find(tiles, operand) != tiles.end(); });
    if (reads && fn.opcode(op) == Opcode::Dot) {
      dots.push_back(number);
    } else if (reads && (fn.opcode(op) == Opcode::ConvertLayout || fn.opcode(op) == Opcode::Trans)) {
      tiles.push_back(fn.result(op));
    }
    number += fn.opcode(op) == Opcode::Dot ? 1 : 0;
  }
  return dots;
}

// The first dot of the loop, and no other, reads what is loaded. It waits for that in each iteration; loads for later dots go on
// while the loop computes what stands in front of these.
bool isForFirstDot(const ir::Function &fn, const LoopPlan &loop, const PlannedLoad &planned) {
  return dotsOf(fn, loop, planned.load) == std::vector<int64_t>{0};
}

bool loadsForFirstDot(const ir::Function &fn, const LoopPlan &loop) {
  return std::ranges::all_of(loop.loads, [&](const PlannedLoad &planned) { return !planned.byRegisters || isForFirstDot(fn, loop, planned); });
}

// For what a plan's loops load ahead.
class Room {
public:
  Room(const ir::Function &fn, const PassContext &context) : fn_(fn), context_(context), tiles_(liveOfThread(fn, context.target)) {}

  [[nodiscard]] bool has(const Plan &plan) const {
    const int64_t ahead = registersAhead(fn_, plan.loops);
    const bool computes = doesCompute(plan);
    if (isTight(plan) && std::ranges::all_of(plan.loops, [&](const LoopPlan &loop) { return loadsForFirstDot(fn_, loop); })) {
      return tiles_ + ahead + kBesideTiles <= kNamedRegisters && std::min(programsByRegisters(tiles_ + ahead), programsByBytes(plan)) >= programsNow();
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

  // Dots of its loops wait for what they load, and few other warps hide that.
  [[nodiscard]] bool isTight(const Plan &plan) const {
    return !context_.target.asyncCopy && doesCompute(plan) &&
           context_.target.registers / (context_.target.warpSize * (tiles_ + kBesideTiles)) < kFewWarps;
  }

private:
  [[nodiscard]] bool doesCompute(const Plan &plan) const {
    return std::ranges::any_of(plan.loops, [&](const LoopPlan &loop) { return computesWithSums(fn_, loop.loop); });
  }
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
  [[nodiscard]] int64_t programsNow() const { return std::min(programsByRegisters(tiles_), programsByBytesNow()); }

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
    const bool keepsFirst = room.isTight(plan) && !loadsForFirstDot(fn, most);
    std::erase_if(most.loads, [&](const PlannedLoad &planned) {
      const bool goes = planned.byRegisters && !(keepsFirst && isForFirstDot(fn, most, planned));
      if (goes) {
        taken.push_back(planned.load);
      }
      return goes;
    });
    std::erase_if(plan.loops, [](const LoopPlan &loop) { return loop.loads.empty(); });
  }
  return taken;
}

} // namespace libtile::passes
