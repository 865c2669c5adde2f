// SPDX-License-Identifier: Apache-2.0
// Puts the copies of marked loops into a producer. Rings and counters stand at the kernel's start, in front of it; the number of
// the slot in turn and the parity of its phase go through all loops around the copies, on either side alike.
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/loop_rings.h"
#include "passes/gpu/plan_cluster.h"
#include "passes/gpu/plan_producer.h"

#include <algorithm>
#include <array>
#include <map>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// Loads whose slots are filled and freed together.
struct Group {
  std::vector<size_t> loads;
  OpId last; // of the loads, in the loop's order: where it stands they are copied
  SlotReaders readers;
  ValueId filled, freed; // counters
};

// The slot in turn, and the parity of its phase.
struct Turn {
  ValueId slot, parity;
};

struct Rings {
  Rings(ir::Function &fn, const LoopPlan &loop) : plan(loop), rings(fn, loop) {}
  const LoopPlan &plan;
  LoopRings rings;
  std::vector<Group> groups;
  Turn turn; // where the producer's code is made
  std::map<OpId, ValueId> same = {}; // of loads, there: all programs of the cluster want the box
};

class ProducerRewriter {
public:
  ProducerRewriter(ir::Function &fn, const Plan &plan) : fn_(fn), plan_(plan), slice_(plan.producer), team_(plan.team) {
    for (const LoopPlan &loop : plan.loops) {
      if (loop.byProducer) {
        all_.emplace_back(fn, loop);
      }
    }
  }

  void run() {
    if (all_.empty()) {
      return;
    }
    Builder top(fn_, fn_.first(fn_.body()));
    Builder end(fn_, fn_.last(fn_.body()));
    meetCluster(end); // others may still arrive at its counters
    for (Rings &rings : all_) {
      top.loc = fn_.loc(rings.plan.loop);
      rings.rings.make(top);
      makeGroups(rings, top, end);
    }
    meetCluster(top); // others have theirs
    const OpId producer = top.op(Opcode::Producer, {});
    fn_.setAttr(producer, Attr::count, ir::AttrValue(int64_t{team_.warps}));
    fn_.setAttr(producer, Attr::registers, ir::AttrValue(std::vector<int64_t>{team_.own, team_.others}));
    fn_.resident = team_.resident;
    Builder inside(fn_, fn_.region(producer));
    for (Rings &rings : all_) {
      // Slots are free at first: as if a phase had ended before the first one.
      rings.turn = {inside.i32(0), inside.i32(1)};
    }
    ClusterCode code(plan_, inside, map_);
    cluster_ = &code;
    copyBlock(fn_.body(), inside);
    inside.yield({});
    for (Rings &rings : all_) {
      consume(rings);
    }
  }

private:
  void meetCluster(Builder &builder) {
    if (plan_.cluster > 1) {
      fn_.setAttr(builder.op(Opcode::ClusterBarrier, {}), Attr::count, ir::AttrValue(int64_t{plan_.cluster}));
    }
  }

  void makeGroups(Rings &rings, Builder &top, Builder &end) {
    for (size_t i = 0; i < rings.plan.loads.size(); ++i) {
      const SlotReaders readers = slotReaders(fn_, rings.plan, rings.plan.loads[i]).value();
      const auto same = [&](const Group &group) {
        return group.readers.first == readers.first && group.readers.last == readers.last;
      };
      auto found = std::ranges::find_if(rings.groups, same);
      if (found == rings.groups.end()) {
        found = rings.groups.insert(found, {{}, {}, readers, {}, {}});
      }
      found->loads.push_back(i);
    }
    for (Group &group : rings.groups) {
      for (const OpId op : fn_.opsIn(fn_.region(rings.plan.loop))) {
        const auto isThis = [&](size_t load) { return rings.plan.loads[load].load == op; };
        group.last = std::ranges::any_of(group.loads, isThis) ? op : group.last;
      }
      group.filled = rings.rings.makeCounters(top, static_cast<int64_t>(group.loads.size()));
      group.freed = rings.rings.makeCounters(top, fn_.numWarps, plan_.cluster);
      end.op(Opcode::ArrivalsEnd, std::array{group.filled});
      end.op(Opcode::ArrivalsEnd, std::array{group.freed});
    }
  }

  // ---- the producer
  void copyBlock(BlockId block, Builder &builder) {
    const auto range = fn_.opsIn(block);
    const std::vector<OpId> ops(range.begin(), range.end());
    for (const OpId op : ops) {
      if (slice_.loops.contains(op)) {
        copyLoop(op, builder);
      } else if (slice_.ops.contains(op) || fn_.opcode(op) == Opcode::GridWait) { // its copies are accesses, too
        builder.insert(fn_.copyOp(op, map_));
      } else {
        copyBoxes(op, builder);
      }
    }
  }

  [[nodiscard]] ValueId mapped(ValueId value) { return map_[value].valid() ? map_[value] : value; }

  // With what it carries for the producer, and the turns of the rings inside of it.
  void copyLoop(OpId op, Builder &builder) {
    const BlockId from = fn_.region(op);
    const std::set<unsigned> &positions = slice_.loops.at(op);
    std::vector<Rings *> within;
    for (Rings &rings : all_) {
      if (rings.plan.loop == op || fn_.isInside(fn_.block(rings.plan.loop), from)) {
        within.push_back(&rings);
      }
    }
    findShared(op, within);
    std::vector<ValueId> operands = {mapped(fn_.operand(op, 0)), mapped(fn_.operand(op, 1)), mapped(fn_.operand(op, 2))};
    for (const unsigned position : positions) {
      operands.push_back(mapped(fn_.operand(op, 3 + position)));
    }
    for (const Rings *rings : within) {
      operands.insert(operands.end(), {rings->turn.slot, rings->turn.parity});
    }
    std::vector<Type> types;
    for (size_t i = 3; i < operands.size(); ++i) {
      types.push_back(fn_.type(operands[i]));
    }
    builder.loc = fn_.loc(op);
    const OpId loop = builder.op(Opcode::For, operands, types);
    if (fn_.getBool(op, Attr::is_unsigned)) {
      fn_.setAttr(loop, Attr::is_unsigned, ir::AttrValue(true));
    }
    const BlockId body = fn_.region(loop);
    map_.set(fn_.arg(from, 0), fn_.addArg(body, fn_.type(fn_.arg(from, 0))));
    for (const unsigned position : positions) {
      const ValueId carried = fn_.arg(from, 1 + position);
      map_.set(carried, fn_.addArg(body, fn_.type(carried)));
    }
    for (Rings *rings : within) {
      const Type type = fn_.type(rings->turn.slot);
      rings->turn = {fn_.addArg(body, type), fn_.addArg(body, type)};
    }
    Builder inside(fn_, body);
    inside.loc = builder.loc;
    copyBlock(from, inside);
    for (Rings *rings : within) {
      if (rings->plan.loop == op) {
        rings->turn = nextTurn(*rings, rings->turn, inside);
      }
    }
    finishLoop(op, loop, within, inside);
  }

  void finishLoop(OpId op, OpId loop, const std::vector<Rings *> &within, Builder &inside) {
    const OpId end = fn_.last(fn_.region(op));
    std::vector<ValueId> yielded;
    unsigned number = 0;
    for (const unsigned position : slice_.loops.at(op)) {
      yielded.push_back(mapped(fn_.operand(end, position)));
      map_.set(fn_.result(op, position), fn_.result(loop, number++));
    }
    for (Rings *rings : within) {
      yielded.insert(yielded.end(), {rings->turn.slot, rings->turn.parity});
      rings->turn = {fn_.result(loop, number), fn_.result(loop, number + 1)};
      number += 2;
    }
    inside.yield(yielded);
  }

  // In front of an outermost loop: which boxes of those that are copied in it all programs of the cluster want.
  void findShared(OpId loop, const std::vector<Rings *> &within) {
    for (Rings *rings : within) {
      for (const PlannedLoad &load : rings->plan.loads) {
        if (load.shared && fn_.block(loop) == fn_.body()) {
          rings->same[load.load] = cluster_->wantSame(load);
        }
      }
    }
  }

  // Those of the groups that end with this load.
  void copyBoxes(OpId op, Builder &builder) {
    const auto of = [&](ValueId value) { return mapped(value); };
    for (const Rings &rings : all_) {
      for (const Group &group : rings.groups) {
        if (group.last != op) {
          continue;
        }
        builder.op(Opcode::ArrivalsWait, std::array{rings.rings.counterOf(builder, group.freed, rings.turn.slot), rings.turn.parity});
        for (const size_t load : group.loads) {
          const auto same = rings.same.find(rings.plan.loads[load].load);
          if (same == rings.same.end()) {
            rings.rings.copyBox(builder, load, rings.turn.slot, group.filled, yes(builder), of);
            continue;
          }
          const ValueId alone = builder.make(Opcode::Xor, {same->second, yes(builder)});
          rings.rings.copyBox(builder, load, rings.turn.slot, group.filled, alone, of);
          rings.rings.setCluster(rings.rings.copyBox(builder, load, rings.turn.slot, group.filled, same->second, of), plan_.cluster);
        }
      }
    }
  }

  static ValueId yes(Builder &builder) { return builder.constInt(Type::scalar(Elem::I1), 1); }

  static Turn nextTurn(const Rings &rings, Turn turn, Builder &builder) {
    const auto [slot, wraps] = rings.rings.nextSlot(builder, turn.slot);
    return {slot, LoopRings::nextParity(builder, turn.parity, wraps)};
  }

  // ---- the consumers
  void consume(Rings &rings) {
    const OpId loop = rings.plan.loop;
    std::vector<OpId> around = {loop}; // innermost first
    while (fn_.block(around.back()) != fn_.body()) {
      around.push_back(fn_.parentOp(fn_.block(around.back())));
    }
    Builder outside(fn_, around.back());
    Turn turn = {outside.i32(0), outside.i32(0)};
    for (auto it = around.rbegin(); it != around.rend(); ++it) {
      turn = {carry(*it, turn.slot), carry(*it, turn.parity)};
    }
    Builder before(fn_, loop), after(fn_, fn_.next(loop)), inside(fn_, fn_.first(fn_.region(loop)));
    after.loc = before.loc;
    readAndFree(rings, turn);
    for (size_t i = 0; i < rings.plan.loads.size(); ++i) {
      rings.rings.readSlot(inside, i, turn.slot);
    }
    if (!rings.plan.underWay.empty()) {
      Builder behind = rings.rings.makePlaces(before, after);
      freeDelayed(rings, turn, behind, after);
    }
    for (const PlannedLoad &planned : rings.plan.loads) {
      fn_.erase(planned.load);
    }
    Builder end(fn_, fn_.last(fn_.region(loop)));
    Turn next = nextTurn(rings, turn, end);
    for (const OpId each : around) {
      const OpId yield = fn_.last(fn_.region(each));
      fn_.addOperand(yield, next.slot);
      fn_.addOperand(yield, next.parity);
      const auto results = static_cast<unsigned>(fn_.results(each).size());
      next = {fn_.result(each, results - 2), fn_.result(each, results - 1)};
    }
  }

  // One thing more that the loop carries.
  ValueId carry(OpId loop, ValueId init) {
    fn_.addOperand(loop, init);
    fn_.addResult(loop, fn_.type(init));
    return fn_.addArg(fn_.region(loop), fn_.type(init));
  }

  // Waits in front of each slot's first reader, and behind its last one an arrival.
  void readAndFree(const Rings &rings, Turn turn) {
    for (const Group &group : rings.groups) {
      Builder first(fn_, group.readers.first);
      first.op(Opcode::ArrivalsWait, std::array{rings.rings.counterOf(first, group.filled, turn.slot), turn.parity});
      if (!group.readers.delayed) {
        Builder behind(fn_, fn_.next(group.readers.last));
        const ValueId counter = rings.rings.counterOf(behind, group.freed, turn.slot);
        arrive(rings, behind, counter, yes(behind));
      }
    }
  }

  void arrive(const Rings &rings, Builder &builder, ValueId counter, ValueId on) {
    rings.rings.setCluster(builder.op(Opcode::Arrive, std::array{counter, on}), plan_.cluster);
  }

  // Of dots that end one iteration later: there is an iteration before, and behind the loop a last one.
  void freeDelayed(const Rings &rings, Turn turn, Builder &behind, Builder &after) {
    const OpId loop = rings.plan.loop;
    const ValueId low = fn_.operand(loop, 0), high = fn_.operand(loop, 1), index = fn_.arg(fn_.region(loop), 0);
    const auto results = static_cast<unsigned>(fn_.results(loop).size());
    const auto less = fn_.getBool(loop, Attr::is_unsigned) ? CmpPred::ult : CmpPred::slt;
    free(rings, behind, turn.slot, behind.cmp(CmpPred::ne, index, low));
    free(rings, after, fn_.result(loop, results - 2), after.cmp(less, low, high));
  }
  void free(const Rings &rings, Builder &builder, ValueId slot, ValueId on) {
    const ValueId wraps = builder.cmp(CmpPred::eq, slot, builder.i32(0));
    const ValueId one = builder.make(Opcode::Sub, {slot, builder.i32(1)});
    const ValueId before = builder.make(Opcode::Select, {wraps, builder.i32(rings.plan.slots() - 1), one});
    for (const Group &group : rings.groups) {
      if (group.readers.delayed) {
        arrive(rings, builder, rings.rings.counterOf(builder, group.freed, before), on);
      }
    }
  }

  ir::Function &fn_;
  const Plan &plan_;
  const ProducerSlice &slice_;
  const ProducerTeam team_;
  std::vector<Rings> all_;
  ClusterCode *cluster_ = nullptr; // where the producer's code is made
  ir::IndexMap<ValueId, ValueId> map_; // values of the kernel, in the producer
};

} // namespace

void applyProducer(ir::Function &fn, const Plan &plan) { ProducerRewriter(fn, plan).run(); }

} // namespace libtile::passes
