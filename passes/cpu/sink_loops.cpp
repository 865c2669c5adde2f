// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/sink_loops.h"

#include "ir/ops.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_costs.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

// Runs once an iteration for all elements, as it stands.
bool isScalarOp(const Function &fn, OpId op) {
  const auto scalar = [&](ValueId value) { return !isTile(fn, value); };
  if (!std::ranges::all_of(fn.operands(op), scalar) ||
      !std::ranges::all_of(fn.results(op), scalar) || !fn.regions(op).empty()) {
    return false;
  }
  const Effects effects = fn.effects(op);
  const bool reads = fn.opcode(op) == Opcode::Load && !fn.getBool(op, Attr::is_volatile);
  return effects.pure() || reads || fn.opcode(op) == Opcode::Assume;
}

bool bodyIsElementwise(const Function &fn, BlockId body) {
  int32_t ops = 0;
  for (OpId op : fn.opsIn(body)) {
    if (op == fn.last(body)) {
      break;
    }
    // What a gather reads is at indices of the iteration, not of the nest.
    if (++ops > kNestCosts.sunkOps || fn.opcode(op) == Opcode::Gather ||
        (!isInlinable(fn, op) && !isScalarOp(fn, op))) {
      return false;
    }
  }
  return true;
}

// The new tile reads what the loop carries at its own elements only, and no address is a remainder.
bool keepsElements(const NestView &nests, ValueId next, BlockId body) {
  const Function &fn = nests.fn;
  bool keeps = true;
  walkExpression(nests, next, [&](const ExpressionNode &node) {
    if (fn.defBlock(node.value) != body) {
      return false;
    }
    const bool carried = fn.isArg(node.value);
    const bool remainder = !carried && (fn.opcode(fn.def(node.value)) == Opcode::SRem ||
                                        fn.opcode(fn.def(node.value)) == Opcode::URem);
    keeps &= (!carried || node.sameElement) && !(remainder && node.part == Part::Address);
    return keeps;
  });
  return keeps;
}

bool canSink(const NestView &nests, OpId loop) {
  const Function &fn = nests.fn;
  const BlockId body = fn.region(loop);
  const std::vector<ValueId> used = usedTiles(fn, loop);
  if (used.empty() || !bodyIsElementwise(fn, body)) {
    return false;
  }
  int32_t tiles = 0;
  for (unsigned i = 0; i < fn.results(loop).size(); ++i) {
    const Slot slot = slotOf(fn, loop, i);
    if (!isTile(fn, slot.result)) {
      continue;
    }
    if (++tiles > kNestCosts.sunkTiles || !fn.type(slot.result).sameShape(fn.type(used[0])) ||
        !keepsElements(nests, slot.next, body)) {
      return false;
    }
  }
  return true;
}

} // namespace

Slot slotOf(const Function &fn, OpId loop, unsigned index) {
  const BlockId body = fn.region(loop);
  const unsigned stop = fn.getBool(loop, Attr::stop) ? 1 : 0;
  return {fn.operand(loop, index + 3), fn.arg(body, index + 1),
          fn.operand(fn.last(body), index + stop), fn.result(loop, index)};
}

std::optional<Slot> sunkSlot(const NestView &nests, ValueId value) {
  const Function &fn = nests.fn;
  if (fn.isArg(value)) {
    const OpId loop = fn.parentOp(fn.defBlock(value));
    const bool carried = loop.valid() && nests.sunk[loop] && fn.defIndex(value) > 0;
    return carried ? std::optional(slotOf(fn, loop, fn.defIndex(value) - 1)) : std::nullopt;
  }
  const OpId loop = fn.def(value);
  return loop.valid() && nests.sunk[loop] ? std::optional(slotOf(fn, loop, fn.defIndex(value)))
                                          : std::nullopt;
}

OpId sunkLoopAround(const NestView &nests, OpId op) {
  if (nests.sunk[op]) {
    return op;
  }
  const OpId parent = nests.fn.parentOp(nests.fn.block(op));
  return parent.valid() && nests.sunk[parent] ? parent : OpId{};
}

std::vector<ValueId> usedTiles(const Function &fn, OpId loop) {
  std::vector<ValueId> tiles;
  for (ValueId result : fn.results(loop)) {
    if (isTile(fn, result) && !fn.unused(result)) {
      tiles.push_back(result);
    }
  }
  return tiles;
}

void planSunkLoops(const Function &fn, CpuPlan &plan) {
  const IndexMap<ValueId, ValueId> nothing;
  const NestView nests{fn, plan.sunk, nothing};
  for (OpId op : fn.walk()) {
    if (fn.opcode(op) != Opcode::For) {
      continue;
    }
    const bool can = canSink(nests, op), isPinned = fn.hasAttr(op, Attr::sunk);
    const int64_t pin = fn.getInt(op, Attr::sunk);
    if (isPinned && (pin < 0 || pin > int64_t{can})) {
      refusePin(fn, op, Attr::sunk, can ? "it is 0 or 1" : "what the loop carries is not updated element by element");
    }
    plan.sunk.set(op, isPinned ? pin == 1 : can);
  }
}

} // namespace libtile::passes
