// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/memory_order.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/cpu/expression.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/cpu/sink_loops.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

MemoryOrder::MemoryOrder(NestState &state) : state_(state), fn_(state.fn) {
  const std::vector<OpId> ops = fn_.walk();
  for (size_t i = 0; i < ops.size(); ++i) {
    places_.set(ops[i], i + 1);
  }
  findLastNeeds(fn_.body());
}

// Users first: a sunk loop's results are asked for what stands in it.
void MemoryOrder::findLastNeeds(BlockId block) {
  const std::vector<OpId> ops = fn_.opsIn(block);
  for (size_t i = ops.size(); i-- > 0;) {
    for (ValueId result : fn_.results(ops[i])) {
      lastNeeds_.set(result, lastNeed(result));
    }
    for (BlockId region : fn_.regions(ops[i])) {
      findLastNeeds(region);
    }
  }
}

size_t MemoryOrder::lastNeed(ValueId value) const {
  size_t last = 0;
  for (const Use &use : fn_.uses(value)) {
    const OpId loop = sunkLoopAround(state_, use.op);
    if (!loop.valid() && !isInlinable(fn_, use.op)) {
      last = std::max(last, places_[use.op]);
      continue;
    }
    for (ValueId result : fn_.results(loop.valid() ? loop : use.op)) {
      last = std::max(last, lastNeeds_[result]);
    }
  }
  return last;
}

ValueId MemoryOrder::arrayOf(OpId access) const {
  return basePointer(fn_, fn_.operand(access, 0), state_.facts);
}

void MemoryOrder::pass(OpId op) {
  passed_.set(op, true);
  if (fn_.opcode(op) == Opcode::Load) {
    loads_.push_back(op);
    pending_[arrayOf(op)].push_back(op);
  } else if (state_.plan.sunk[op]) {
    for (OpId inner : fn_.opsIn(fn_.region(op))) {
      pass(inner);
    }
  }
}

void MemoryOrder::leaveBlock() {
  for (; loads_.size() > marks_.back(); loads_.pop_back()) {
    std::vector<OpId> &pending = pending_[arrayOf(loads_.back())];
    if (!pending.empty() && pending.back() == loads_.back()) {
      pending.pop_back();
    }
  }
  marks_.pop_back();
}

std::set<ValueId> MemoryOrder::written(OpId op) const {
  std::set<ValueId> arrays;
  const auto add = [&](OpId access) {
    const Effects effects = fn_.ownEffects(access);
    if (effects.has(Effects::Ordered)) {
      arrays.insert(ValueId());
    } else if (effects.has(Effects::WritesGlobal)) {
      arrays.insert(arrayOf(access));
    }
  };
  add(op);
  for (BlockId region : fn_.regions(op)) {
    std::ranges::for_each(fn_.walk(region), add);
  }
  return arrays;
}

bool MemoryOrder::clobbers(OpId op, OpId load) const {
  const Effects effects = fn_.effects(op);
  if (effects.has(Effects::Ordered)) {
    return true;
  }
  if (!effects.has(Effects::WritesGlobal)) {
    return false;
  }
  if (fn_.regions(op).empty()) {
    return mayConflict(fn_, op, load, state_.facts);
  }
  for (BlockId region : fn_.regions(op)) {
    if (mayWriteTo(fn_, region, load, state_.facts)) {
      return true;
    }
  }
  return false;
}

void MemoryOrder::settle(OpId op) {
  const Effects effects = fn_.effects(op);
  if (!effects.has(Effects::Ordered) && !effects.has(Effects::WritesGlobal)) {
    return;
  }
  const std::set<ValueId> arrays = written(op);
  std::vector<OpId> clobbered;
  for (auto &[array, loads] : pending_) {
    const auto mayBe = [&](ValueId other) { return mayOverlap(fn_, array, other); };
    if (std::ranges::none_of(arrays, mayBe)) {
      continue;
    }
    std::erase_if(loads, [&](OpId load) {
      return state_.stored(fn_.result(load)) || lastNeeds_[fn_.result(load)] <= places_[op];
    });
    std::ranges::copy_if(loads, std::back_inserter(clobbered),
                         [&](OpId load) { return clobbers(op, load); });
  }
  std::ranges::sort(clobbered, {}, [&](OpId load) { return places_[load]; });
  // Storing a value makes no load pending.
  for (OpId load : clobbered) {
    if (!state_.stored(fn_.result(load))) {
      storeWhatNeeds(load, op);
    }
  }
}

void MemoryOrder::storeWhatNeeds(OpId load, OpId op) {
  std::vector<ValueId> toStore;
  answers_.clear();
  const OpId loop = sunkLoopAround(state_, load);
  if (!loop.valid()) {
    if (needs(fn_.result(load), op, toStore)) {
      toStore.push_back(fn_.result(load));
    }
  } else {
    for (ValueId result : usedTiles(fn_, loop)) {
      if (!state_.stored(result) && needs(result, op, toStore)) {
        toStore.push_back(result);
      }
    }
  }
  for (ValueId stored : toStore) {
    storeTile(state_, stored, op);
  }
}

// Some nest that does not stand yet, other than those of `except`, computes `value` inline. Values to
// be kept that need it are gathered instead: once they are stored, nobody else does. Only values that
// stand before `except` can be: what else a later one needs may not be there yet.
bool MemoryOrder::needs(ValueId value, OpId except, std::vector<ValueId> &toStore) {
  bool needed = false;
  for (const Use &use : fn_.uses(value)) {
    if (use.op == except || state_.lowered[use.op]) {
      continue;
    }
    if (const OpId loop = sunkLoopAround(state_, use.op); loop.valid()) {
      for (ValueId result : usedTiles(fn_, loop)) {
        needed |= !state_.stored(result) && needsOnce(result, loop, except, toStore);
      }
      continue;
    }
    if (!isInlinable(fn_, use.op)) {
      needed = true;
      continue;
    }
    const ValueId result = fn_.result(use.op);
    if (state_.stored(result)) {
      continue;
    }
    needed |= needsOnce(result, use.op, except, toStore);
  }
  return needed;
}

bool MemoryOrder::needsOnce(ValueId value, OpId user, OpId except, std::vector<ValueId> &toStore) {
  auto found = answers_.find(value);
  if (found == answers_.end()) {
    bool answer = needs(value, except, toStore);
    if (answer && passed_[user] && state_.keep(value) != Keep::inline_) {
      toStore.push_back(value);
      answer = false;
    }
    found = answers_.emplace(value, answer).first;
  }
  return found->second;
}

bool MemoryOrder::readsWhatItWrites(OpId access, ValueId operand) const {
  const ValueId pointer = fn_.operand(access, 0);
  bool conflict = false;
  walkExpression(state_, operand, [&](const ExpressionNode &node) {
    const OpId op = fn_.def(node.value);
    if (conflict || state_.stored(node.value) || !op.valid()) {
      return false;
    }
    if (fn_.opcode(op) == Opcode::Load && mayConflict(fn_, access, op, state_.facts)) {
      conflict = !node.sameElement ||
                 !sameElements(fn_, fn_.operand(op, 0), pointer, state_.facts);
    }
    return !conflict;
  });
  return conflict;
}

void MemoryOrder::stageOperands(OpId access) {
  for (unsigned i = 0; i < fn_.numOperands(access); ++i) {
    const ValueId operand = fn_.operand(access, i);
    if (fn_.type(operand).isTile() && readsWhatItWrites(access, operand)) {
      storeTile(state_, operand, access);
    }
  }
}

} // namespace libtile::passes
