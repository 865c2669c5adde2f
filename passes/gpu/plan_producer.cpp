// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_producer.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_around.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_residency.h"

#include <algorithm>
#include <set>
#include <utility>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

// Adds to a slice what the copies of a loop depend on.
class Slicer {
public:
  Slicer(const ir::Function &fn, const Facts &facts, ProducerSlice slice) : fn_(fn), facts_(facts), slice_(std::move(slice)) {}

  // "" or why not.
  std::string add(const LoopPlan &plan) {
    needLoop(plan.loop);
    for (const PlannedLoad &load : plan.loads) {
      for (const Polynomial &coordinate : load.box->coordinates) {
        for (const Monomial &monomial : coordinate.monomials()) {
          work_.insert(work_.end(), monomial.factors.begin(), monomial.factors.end());
        }
      }
    }
    while (!work_.empty() && why_.empty()) {
      const ValueId value = work_.back();
      work_.pop_back();
      need(value);
    }
    return why_;
  }
  ProducerSlice take() { return std::move(slice_); }

private:
  void need(ValueId value) {
    if (!seen_.insert(value.index).second) {
      return;
    }
    if (fn_.isArg(value)) {
      const BlockId block = fn_.defBlock(value);
      if (block != fn_.body()) {
        needCarried(fn_.parentOp(block), static_cast<int64_t>(fn_.defIndex(value)) - 1);
      }
      return;
    }
    const OpId op = fn_.def(value);
    if (fn_.opcode(op) == Opcode::For) {
      return needCarried(op, fn_.defIndex(value));
    }
    if (!isScalarCode(op)) {
      why_ = "what is copied, or how often, depends on more than scalar code";
      return;
    }
    slice_.ops.insert(op);
    work_.insert(work_.end(), fn_.operands(op).begin(), fn_.operands(op).end());
    needAround(op);
  }

  // -1: the loop's index.
  void needCarried(OpId loop, int64_t position) {
    needLoop(loop);
    if (position >= 0 && why_.empty()) {
      const auto at = static_cast<unsigned>(position);
      slice_.loops[loop].insert(at);
      work_.push_back(fn_.operand(loop, 3 + at));
      work_.push_back(fn_.operand(fn_.last(fn_.region(loop)), at));
    }
  }

  void needLoop(OpId loop) {
    if (fn_.opcode(loop) != Opcode::For || fn_.getBool(loop, Attr::stop)) {
      why_ = "the copies stand in a branch, a while, or a loop that may stop early";
      return;
    }
    if (slice_.loops.try_emplace(loop).second) {
      const auto bounds = fn_.operands(loop).first(3);
      work_.insert(work_.end(), bounds.begin(), bounds.end());
      needAround(loop);
    }
  }
  void needAround(OpId op) {
    if (const BlockId block = fn_.block(op); block != fn_.body()) {
      needLoop(fn_.parentOp(block));
    }
  }

  [[nodiscard]] bool isScalarCode(OpId op) const {
    const auto isScalar = [&](ValueId value) { return fn_.type(value).isScalar(); };
    const bool scalar = fn_.regions(op).empty() && std::ranges::all_of(fn_.results(op), isScalar) &&
                        std::ranges::all_of(fn_.operands(op), isScalar);
    const bool reads = fn_.opcode(op) == Opcode::Load && !fn_.ownEffects(op).has(ir::Effects::Ordered) &&
                       !mayWriteTo(fn_, fn_.body(), op, facts_);
    return scalar && (fn_.effects(op).pure() || reads);
  }

  const ir::Function &fn_;
  const Facts &facts_;
  ProducerSlice slice_;
  std::set<uint32_t> seen_;
  std::vector<ValueId> work_;
  std::string why_;
};

void addReaders(const ir::Function &fn, ValueId value, std::vector<OpId> &readers) {
  for (const ir::Use use : fn.uses(value)) {
    readers.push_back(use.op);
    if (fn.opcode(use.op) == Opcode::Trans) {
      addReaders(fn, fn.result(use.op), readers);
    }
  }
}

// "" or why not, as far as the loop alone says.
std::string refusalOf(const ir::Function &fn, const Plan &plan, const LoopPlan &loop, const PassContext &context) {
  if (std::ranges::any_of(loop.loads, [](const PlannedLoad &load) { return !load.box.has_value(); })) {
    return "threads copy some of its loads";
  }
  const bool isNested = std::ranges::any_of(plan.loops, [&](const LoopPlan &other) {
    return other.loop != loop.loop &&
           (fn.isInside(fn.block(loop.loop), fn.region(other.loop)) || fn.isInside(fn.block(other.loop), fn.region(loop.loop)));
  });
  if (isNested) {
    return "a loop inside or around it copies ahead, too";
  }
  const bool byThemselves = std::ranges::all_of(fn.walk(fn.region(loop.loop)), [&](OpId op) {
    return fn.opcode(op) != Opcode::Dot || readsByItself(unitOf(fn, op, context.target));
  });
  if (!byThemselves) {
    return "threads bring operands to a dot";
  }
  // The producer waits as its consumers do.
  const auto waits = [&](OpId op) { return fn.opcode(op) == Opcode::GridWait && fn.block(op) != fn.body(); };
  if (std::ranges::any_of(fn.walk(), waits)) {
    return "launches before are waited for in a branch or loop";
  }
  // Dots that end one iteration later leave nothing to hide but what stands around the loop; programs of a cluster meet in no loop.
  if (context.cluster <= 1 && !loop.underWay.empty() && fn.block(loop.loop) == fn.body()) {
    return "no iteration waits for its dots";
  }
  const bool known = std::ranges::all_of(loop.loads, [&](const PlannedLoad &load) { return slotReaders(fn, loop, load).has_value(); });
  return known ? "" : "its slots are read in a branch";
}

} // namespace

std::optional<SlotReaders> slotReaders(const ir::Function &fn, const LoopPlan &plan, const PlannedLoad &load) {
  std::vector<OpId> readers;
  addReaders(fn, fn.result(load.load), readers);
  const BlockId body = fn.region(plan.loop);
  SlotReaders found;
  for (OpId &reader : readers) {
    found.delayed |= std::ranges::find(plan.underWay, reader) != plan.underWay.end();
    while (fn.block(reader) != body) {
      reader = fn.parentOp(fn.block(reader));
      if (fn.opcode(reader) != Opcode::For) {
        return std::nullopt;
      }
    }
  }
  for (const OpId op : fn.opsIn(body)) {
    if (std::ranges::find(readers, op) != readers.end()) {
      found.first = found.first.valid() ? found.first : op;
      found.last = op;
    }
  }
  return found.first.valid() ? std::optional(found) : std::nullopt;
}

// What the loops around those that a producer copies for bring for them.
static void addAround(const ir::Function &fn, const Facts &facts, const PassContext &context, Plan &plan) {
  std::vector<OpId> outer;
  size_t boxes = 0;
  for (const LoopPlan &loop : plan.loops) {
    boxes += static_cast<size_t>(std::ranges::count_if(loop.loads, [](const PlannedLoad &load) { return load.box.has_value(); }));
    if (loop.byProducer && fn.block(loop.loop) != fn.body() && std::ranges::find(outer, fn.parentOp(fn.block(loop.loop))) == outer.end()) {
      outer.push_back(fn.parentOp(fn.block(loop.loop)));
    }
  }
  for (const OpId loop : outer) {
    LoopPlan around = planAround(fn, loop, facts, context);
    boxes += around.loads.size();
    Slicer slicer(fn, facts, plan.producer);
    if (around.loads.empty() || boxes > ir::TensorMap::kMost || !slicer.add(around).empty()) {
      continue;
    }
    std::vector<LoopPlan> loops = plan.loops;
    loops.insert(loops.begin(), std::move(around)); // outer loops first
    const auto team = producerTeam(fn, loops, context);
    if (team && team->resident == plan.team.resident) {
      plan.loops = std::move(loops);
      plan.producer = slicer.take();
    }
  }
}

void planProducer(const ir::Function &fn, const Facts &facts, const PassContext &context, Plan &plan) {
  if (!hasTeams(fn, context)) {
    return;
  }
  for (LoopPlan &loop : plan.loops) {
    loop.noProducer = refusalOf(fn, plan, loop, context);
    if (loop.noProducer.empty()) {
      Slicer slicer(fn, facts, plan.producer);
      loop.noProducer = slicer.add(loop);
      loop.byProducer = loop.noProducer.empty();
      if (loop.byProducer) {
        plan.producer = slicer.take();
      }
    }
  }
  if (std::ranges::none_of(plan.loops, &LoopPlan::byProducer)) {
    return;
  }
  if (const auto team = producerTeam(fn, plan.loops, context)) {
    plan.team = *team;
    return addAround(fn, facts, context, plan);
  }
  for (LoopPlan &loop : plan.loops) {
    if (std::exchange(loop.byProducer, false)) {
      loop.noProducer = "its registers would push the last neighbour off, or the others lack them";
    }
  }
}

} // namespace libtile::passes
