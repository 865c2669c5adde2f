// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_residency.h"

#include "ir/ops.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/live_tiles.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_registers.h"
#include "passes/gpu/reduce_boxes.h"

#include <algorithm>
#include <set>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// What the dots of the loop take: registers of a thread for their sums, and bytes of shared memory for operands that
// stay there from before the loop.
struct Held {
  int64_t sums = 0, bytes = 0;
};

Held heldBy(const ir::Function &fn, const LoopPlan &plan, const ir::Target &target) {
  Held held;
  std::set<uint32_t> counted;
  const ir::BlockId body = fn.region(plan.loop);
  for (const OpId op : fn.walk(body)) {
    if (fn.opcode(op) != Opcode::Dot) {
      continue;
    }
    held.sums += fn.layout(fn.type(fn.result(op)).layout()).size(ir::HwDim::Reg);
    const ir::DotUnit &unit = unitOf(fn, op, target);
    for (const unsigned operand : {0U, 1U}) {
      const ValueId tile = untransposed(fn, fn.operand(op, operand));
      if ((operand == 0 ? unit.a : unit.b).inShared && fn.isDefinedOutside(tile, body) && counted.insert(tile.index).second) {
        held.bytes += fn.type(tile).numElements() * fn.type(tile).elementBytes();
      }
    }
  }
  return held;
}

constexpr int32_t kLeastRegisters = 24; // that setmaxnreg leaves a thread
constexpr int64_t kMostRegisters = 240;
constexpr int64_t kBesideSums = 60;    // what threads of softmax between two dots were seen to take
constexpr int64_t kMostResident = 8;

} // namespace

bool hasTeams(const ir::Function &fn, const PassContext &context) {
  const int32_t team = context.target.registerTeam;
  return context.specialises && team != 0 && fn.numWarps >= 2 * team;
}

std::optional<ProducerTeam> producerTeam(const ir::Function &fn, std::span<const LoopPlan> loops, const PassContext &context) {
  const ir::Target &target = context.target;
  ProducerTeam team{.warps = target.registerTeam, .own = kLeastRegisters};
  const int32_t all = fn.numWarps + team.warps;
  if (team.warps == 0 || fn.numWarps % team.warps != 0 || all > target.maxWarps) {
    return std::nullopt;
  }
  // Loops that the producer has nothing to do with hold what they load ahead.
  Held held{.sums = liveSums(fn) / (int64_t{fn.numWarps} * target.warpSize) + registersAhead(fn, loops)};
  int64_t bytes = 0;
  for (const LoopPlan &loop : loops) {
    held.bytes = std::max(held.bytes, heldBy(fn, loop, target).bytes);
    bytes += loop.byProducer ? loop.slots() * loop.slotBytes() : 0;
  }
  const int64_t byBytes = target.sharedMemory / std::max<int64_t>(bytes + held.bytes, 1);
  const int64_t without = std::min(byBytes, programsByRegisters(held.sums, fn.numWarps, target));
  for (int64_t resident = std::clamp<int64_t>(byBytes, 1, kMostResident); resident > 0; --resident) {
    const int64_t threads = int64_t{all} * target.warpSize;
    const int64_t entry = std::min<int64_t>(target.registers / (threads * resident) / 8 * 8, 256);
    const int64_t left = entry * threads - int64_t{team.own} * team.warps * target.warpSize;
    const int64_t others = std::min<int64_t>(left / (int64_t{fn.numWarps} * target.warpSize) / 8 * 8, kMostRegisters);
    if (others >= held.sums + kBesideSums) {
      team.others = static_cast<int32_t>(others);
      team.resident = static_cast<int32_t>(resident);
      return resident == 1 && without > 1 ? std::nullopt : std::optional(team);
    }
  }
  return std::nullopt;
}

bool keepsNeighbour(const ir::Function &fn, int64_t before, int64_t bytes, const ir::Target &target) {
  const Held held{.sums = liveSums(fn) / (int64_t{fn.numWarps} * target.warpSize)};
  const int64_t byRegisters = fn.resident > 0 ? fn.resident : programsByRegisters(held.sums, fn.numWarps, target);
  const bool hasOne = byRegisters > 1 && 2 * before <= target.sharedMemory;
  return (hasOne ? 2 : 1) * bytes <= target.sharedMemory;
}

void leaveRoomToReduce(const ir::Function &fn, Plan &plan, const Facts &facts, const PassContext &context) {
  const int64_t wanted = plan.loops.empty() ? 0 : bytesToReduce(fn, facts, context);
  if (wanted == 0) {
    return;
  }
  const auto ringBytes = [](const LoopPlan *loop) { return loop->slots() * loop->slotBytes(); };
  const ir::Function without = withPlan(fn, plan, context);
  Plan tried = plan;
  while (!keepsNeighbour(without, sharedBytes(without), sharedBytes(withPlan(fn, tried, context)) + wanted, context.target)) {
    LoopPlan *largest = nullptr;
    for (LoopPlan &loop : tried.loops) {
      const bool isGiven = context.numStages > 0 || fn.getInt(loop.loop, Attr::num_stages) > 0;
      if (!isGiven && loop.stages > 2 && (largest == nullptr || ringBytes(&loop) > ringBytes(largest))) {
        largest = &loop;
      }
    }
    if (largest == nullptr) {
      return;
    }
    --largest->stages;
  }
  plan = std::move(tried);
}

void keepNeighbours(const ir::Function &fn, LoopPlan &plan, const PassContext &context) {
  const ir::Target &target = context.target;
  const Held held = heldBy(fn, plan, target);
  const int64_t byRegisters = programsByRegisters(held.sums, fn.numWarps + (plan.byProducer ? target.registerTeam : 0), target);
  const auto leavesOne = [&] {
    const int64_t bytes = plan.slots() * plan.slotBytes() + held.bytes;
    return std::min(byRegisters, target.sharedMemory / std::max<int64_t>(bytes, 1)) < 2;
  };
  const LoopPlan asWanted = plan;
  const bool isPinned =
      std::ranges::any_of(plan.underWay, [&](OpId dot) { return fn.hasAttr(dot, Attr::behind); });
  if (leavesOne() && !isPinned) {
    plan.underWay.clear();
  }
  const bool isGiven = context.numStages > 0 || fn.getInt(plan.loop, Attr::num_stages) > 0;
  while (leavesOne() && !isGiven && plan.underWay.empty() && plan.stages > 2) {
    --plan.stages;
  }
  if (leavesOne()) {
    plan = asWanted; // alone in any case
  }
}

} // namespace libtile::passes
