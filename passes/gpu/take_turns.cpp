// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/take_turns.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_residency.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::Opcode;
using ir::OpId;

class TurnTaker {
public:
  TurnTaker(ir::Function &fn, const PassContext &context)
      : fn_(fn), target_(context.target) {}

  bool run() {
    for (const OpId op : fn_.walk()) {
      if (fn_.opcode(op) == Opcode::For && !producerAround(fn_, op).valid()) {
        takeIn(op);
      }
    }
    if (taken_) {
      begin();
    }
    return taken_;
  }

private:
  void takeIn(OpId loop) {
    const BlockId body = fn_.region(loop);
    std::vector<OpId> dots;
    for (const OpId op : fn_.walk(body)) {
      if (isLoop(fn_.opcode(op)) || meetsInside(fn_, op) || fn_.ownEffects(op).has(ir::Effects::Synchronises)) {
        return;
      }
      if (fn_.opcode(op) == Opcode::Dot) {
        if (fn_.block(op) != body || !endsWithin(op) || !isOfOneTeam(op)) {
          return;
        }
        dots.push_back(op);
      }
    }
    if (dots.size() < 2) {
      return;
    }
    // The gap behind each dot; behind the last one lies the next iteration's start.
    std::vector<int64_t> work(dots.size(), 0);
    size_t behind = dots.size() - 1;
    for (const OpId op : fn_.opsIn(body)) {
      const auto dot = std::ranges::find(dots, op);
      if (dot != dots.end()) {
        behind = static_cast<size_t>(dot - dots.begin());
      } else {
        work[behind] += workOf(op);
      }
    }
    const auto longest = static_cast<size_t>(std::ranges::max_element(work) - work.begin());
    int64_t multiplied = 0;
    for (const OpId dot : dots) {
      multiplied += cyclesOf(dot);
    }
    // Shorter work is hidden well enough as it comes, without the pauses between turns. So are short dots that start together
    // (rotate_dots.h), under which the team's own work goes on.
    constexpr int64_t kLeastTogether = 1000; // cycles
    if (4 * work[longest] < 3 * multiplied || (startsDot(fn_, dots[0]) && multiplied < kLeastTogether)) {
      return;
    }
    taken_ = true;
    Builder given(fn_, fn_.next(dots[longest]));
    given.op(Opcode::GiveTurn, {});
    Builder taken(fn_, dots[(longest + 1) % dots.size()]);
    taken.op(Opcode::TakeTurn, {});
    if (longest + 1 < dots.size()) {
      Builder before(fn_, loop), after(fn_, fn_.next(loop));
      before.op(Opcode::TakeTurn, {});
      after.op(Opcode::GiveTurn, {});
    }
  }

  // In the iteration that it starts in.
  [[nodiscard]] bool endsWithin(OpId dot) const {
    return !startsDot(fn_, dot) || fn_.opcode(fn_.uses(fn_.result(dot))[0].op) == Opcode::PlaceRead;
  }

  [[nodiscard]] bool isOfOneTeam(OpId dot) const {
    const ir::DotUnit &unit = unitOf(fn_, dot, target_);
    return readsByItself(unit) && warpsTogether(unit) == target_.registerTeam;
  }

  // Cycles of a team's dot.
  [[nodiscard]] int64_t cyclesOf(OpId dot) const {
    constexpr int64_t kBytesPerCycle = 4096; // products of a multiprocessor times the size of what is multiplied
    const ir::Type a = fn_.type(fn_.operand(dot, 0)), acc = fn_.type(fn_.result(dot));
    const int64_t products = acc.numElements() * a.dim(a.rank() - 1);
    return products * a.elementBytes() * target_.registerTeam / (fn_.numWarps * kBytesPerCycle);
  }

  // Cycles of a team for the op: one for each element of a thread, eight for a special function.
  [[nodiscard]] int64_t workOf(OpId op) const {
    constexpr int64_t kSpecial = 8;
    if (fn_.opcode(op) == Opcode::PlaceRead || fn_.opcode(op) == Opcode::PlaceWrite) {
      return 0; // names for registers
    }
    int64_t work = 0;
    for (const auto &list : {fn_.results(op), fn_.operands(op)}) {
      for (const ir::ValueId value : list) {
        const ir::Type type = fn_.type(value);
        work = std::max<int64_t>(work, type.isTile() ? fn_.layout(type.layout()).size(ir::HwDim::Reg) : 0);
      }
    }
    return ir::isFunction(fn_.opcode(op)) ? kSpecial * work : work;
  }

  // The first team has the first turn. What a producer does concerns no team.
  void begin() {
    OpId place = fn_.first(fn_.body());
    for (const OpId op : fn_.opsIn(fn_.body())) {
      place = fn_.opcode(op) == Opcode::Producer ? fn_.next(op) : place;
    }
    Builder(fn_, place).op(Opcode::BeginTurns, {});
  }

  ir::Function &fn_;
  const ir::Target &target_;
  bool taken_ = false;
};

} // namespace

bool takeTurns(ir::Function &fn, const PassContext &context) {
  if (!hasTeams(fn, context) || fn.numWarps % context.target.registerTeam != 0) {
    return false;
  }
  return TurnTaker(fn, context).run();
}

} // namespace libtile::passes
