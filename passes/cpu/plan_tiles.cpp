// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/plan_tiles.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/sink_loops.h"
#include "passes/op_properties.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

// Which nests compute a value: none, those of one op, or of several.
struct Consumers {
  OpId one;
  bool several = false;
  bool deeper = false;  // one lies in a loop that the value does not lie in
  bool repeated = false; // a nest reads each element many times

  void add(OpId op) {
    several |= one.valid() && one != op;
    one = op;
  }
  void add(const Consumers &other) {
    if (other.one.valid()) {
      add(other.one);
    }
    several |= other.several;
    repeated |= other.repeated;
    deeper |= other.deeper;
  }
  [[nodiscard]] bool often() const { return several || deeper || repeated; }
  [[nodiscard]] KeptFor why() const {
    return deeper ? KeptFor::InnerLoop : several ? KeptFor::SeveralNests : KeptFor::Repeats;
  }
};

class TilePlanner {
public:
  TilePlanner(const Function &fn, const Facts &facts, CpuPlan &plan)
      : fn_(fn), facts_(facts), plan_(plan), nests_{fn, plan.sunk, nothing_} {}

  void run() {
    const std::vector<OpId> ops = fn_.walk();
    for (OpId op : ops) {
      measureDepth(op);
    }
    for (size_t i = ops.size(); i-- > 0;) {
      if (fn_.hasAttr(ops[i], Attr::keep)) {
        requirePinnable(ops[i]);
      }
      visit(ops[i]);
    }
  }

private:
  [[nodiscard]] Keep kept(ValueId value) const { return plan_.tiles[value].keep; }
  void keep(ValueId value, Keep keep, KeptFor why) { plan_.tiles.set(value, {keep, why}); }

  void measureDepth(OpId op) {
    const OpId loop = sunkLoopAround(nests_, op);
    if (loop.valid() && (op == loop || op == fn_.last(fn_.region(loop)))) {
      measureSunk(loop, op);
    }
    if (!isInlinable(fn_, op)) {
      return;
    }
    int32_t depth = 0;
    for (ValueId operand : fn_.operands(op)) {
      depth = std::max(depth, depth_[operand]);
    }
    const ValueId result = fn_.result(op);
    if (++depth > kNestCosts.maxDepth && !loop.valid()) {
      keep(result, Keep::definition, KeptFor::Depth);
      depth = 0;
    }
    depth_.set(result, depth);
  }

  // A body begins as deep as the initial values are, and the results are as deep as what it yields.
  void measureSunk(OpId loop, OpId op) {
    for (unsigned i = 0; i < fn_.results(loop).size(); ++i) {
      const Slot slot = slotOf(fn_, loop, i);
      if (op == loop) {
        depth_.set(slot.arg, depth_[slot.init]);
      } else if (depth_[slot.next] > kNestCosts.maxDepth) {
        keep(slot.result, Keep::definition, KeptFor::Depth);
      } else {
        depth_.set(slot.result, depth_[slot.next]);
      }
    }
  }

  void visit(OpId op) {
    const OpId loop = sunkLoopAround(nests_, op);
    if (loop.valid() && (op == loop || op == fn_.last(fn_.region(loop)))) {
      const Consumers consumers = decideSunk(loop);
      for (ValueId operand : fn_.operands(op)) {
        consume(operand, op, consumers);
      }
      return;
    }
    if (!isInlinable(fn_, op)) {
      for (unsigned i = 0; i < fn_.numOperands(op); ++i) {
        consume(fn_.operand(op, i), op, root(op, i));
      }
      return;
    }
    const ValueId result = fn_.result(op);
    const Consumers consumers = consumers_[result];
    if (fn_.hasAttr(op, Attr::keep)) {
      keep(result, fn_.getEnum<Keep>(op, Attr::keep), KeptFor::Pin);
    } else if (!loop.valid()) {
      decide(result, consumers);
    }
    Consumers below = consumers;
    if (kept(result) != Keep::inline_) {
      below = {};
      below.add(op);
    }
    if (fn_.opcode(op) == Opcode::Broadcast) {
      below.repeated |= repeatsOuterAxis(op);
    }
    for (ValueId operand : fn_.operands(op)) {
      consume(operand, op, below);
    }
    if (fn_.opcode(op) == Opcode::Gather) {
      storeGathered(fn_.operand(op, 0));
    }
  }

  void requirePinnable(OpId op) const {
    const auto refuse = [&](const std::string &reason) { refusePin(fn_, op, Attr::keep, reason); };
    if (!isInlinable(fn_, op)) {
      refuse("it has no tile that is computed element by element");
    }
    if (sunkLoopAround(nests_, op).valid()) {
      refuse("it is computed inside a loop that is sunk");
    }
    if (plan_.tiles[fn_.result(op)].why == KeptFor::Depth && fn_.getEnum<Keep>(op, Attr::keep) == Keep::inline_) {
      refuse("the tile ends a long expression");
    }
  }

  // Its elements are computed in any order and number, unless they are cheap.
  void storeGathered(ValueId src) {
    if (computeCost(src) > kNestCosts.recompute) { // a pin of it is read later
      keep(src, Keep::definition, KeptFor::AnyOrder);
    }
  }

  // What the body computes, the nests compute that need the results, or the one that stores them.
  Consumers decideSunk(OpId loop) {
    const std::vector<ValueId> results = usedTiles(fn_, loop);
    Consumers all;
    bool store = false;
    for (ValueId result : results) {
      all.add(consumers_[result]);
      store |= kept(result) != Keep::inline_;
    }
    if (!store && !all.often()) {
      return all;
    }
    for (ValueId result : results) {
      if (kept(result) == Keep::inline_) {
        keep(result, Keep::definition, all.often() ? all.why() : KeptFor::Depth);
      }
    }
    return root(loop, 0);
  }

  // Each operand of a dot gets a nest of its own.
  static Consumers root(OpId op, unsigned) {
    Consumers consumers;
    consumers.add(op);
    return consumers;
  }

  void consume(ValueId value, OpId user, const Consumers &consumers) {
    if (!fn_.type(value).isTile()) {
      return;
    }
    Consumers &all = consumers_.at(value);
    all.add(consumers);
    all.deeper |= loopBetween(fn_.block(user), fn_.defBlock(value));
  }

  // A loop that is not sunk lies around `inner` that does not lie around `outer`.
  bool loopBetween(BlockId inner, BlockId outer) const {
    for (BlockId block = inner; block != outer;) {
      const OpId parent = fn_.parentOp(block);
      if (!parent.valid()) {
        return false;
      }
      if (isLoop(fn_.opcode(parent)) && !plan_.sunk[parent]) {
        return true;
      }
      block = fn_.block(parent);
    }
    return false;
  }

  bool repeatsOuterAxis(OpId broadcast) const {
    const Type &from = fn_.type(fn_.operand(broadcast, 0));
    const Type &to = fn_.type(fn_.result(broadcast));
    for (unsigned axis = 0; axis + 1 < to.rank(); ++axis) {
      if (from.dim(axis) != to.dim(axis)) {
        return true;
      }
    }
    return false;
  }

  void decide(ValueId value, const Consumers &consumers) {
    if (!consumers.often() || kept(value) != Keep::inline_ || opCost(fn_.opcode(fn_.def(value))) == 0 ||
        fn_.opcode(fn_.def(value)) == Opcode::Load || facts_.isUniform(value) ||
        computeCost(value) <= kNestCosts.recompute) {
      return;
    }
    keep(value, consumers.deeper ? Keep::definition : Keep::first_use, consumers.why());
  }

  // Of the ops on as many elements: smaller tiles below are computed less often, and decided for
  // themselves. Loads are as cheap to read again as scratch would be.
  int32_t computeCost(ValueId root) const {
    int32_t cost = 0;
    int32_t nodes = 0;
    walkExpression(nests_, root, [&](const ExpressionNode &node) {
      const OpId op = fn_.def(node.value);
      if (sunkSlot(nests_, node.value)) {
        cost += kNestCosts.recompute + 1;
        return false;
      }
      if (!op.valid() || !isInlinable(fn_, op) || facts_.isUniform(node.value) ||
          node.part != Part::Element ||
          fn_.type(node.value).numElements() != fn_.type(root).numElements()) {
        return false;
      }
      cost += fn_.opcode(op) == Opcode::Load ? 0 : opCost(fn_.opcode(op));
      return ++nodes < kNestCosts.maxNodes;
    });
    return cost;
  }

  const Function &fn_;
  const Facts &facts_;
  CpuPlan &plan_;
  const IndexMap<ValueId, ValueId> nothing_; // is stored yet
  const NestView nests_;
  IndexMap<ValueId, int32_t> depth_{0};
  IndexMap<ValueId, Consumers> consumers_;
};

} // namespace

void planTiles(const Function &fn, const Facts &facts, CpuPlan &plan) { TilePlanner(fn, facts, plan).run(); }

} // namespace libtile::passes
