// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/separate_accesses.h"

#include "ir/ops.h"
#include "passes/gpu/access_layouts.h"
#include "passes/gpu/plan_dots.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <map>
#include <set>

namespace libtile::passes {
namespace {

using ir::Opcode;
using ir::OpId;
using ir::ValueId;

constexpr int64_t kRunBytes = 32;   // of memory's sectors
constexpr int32_t kMostAgain = 64;  // ops of a store's pointers and mask: addresses are a few sums of scalars
constexpr size_t kMostBetween = 64; // ops between loads and a store

// The axis of the one long run; -1: there is none, or two.
int32_t runAxis(const ir::Function &fn, const Facts &facts, ValueId pointers) {
  const ir::Type type = fn.type(pointers);
  int32_t found = -1;
  for (unsigned axis = 0; axis < type.rank(); ++axis) {
    if (facts.access().run(pointers, axis).elements * type.pointee().elementBytes() >= kRunBytes) {
      if (found >= 0) {
        return -1;
      }
      found = static_cast<int32_t>(axis);
    }
  }
  return found;
}

// Loads that the value is computed from, element by element, by few ops.
std::vector<OpId> loadsOf(const ir::Function &fn, ValueId value) {
  std::vector<OpId> loads;
  std::vector<ValueId> open = {value};
  std::set<uint32_t> seen;
  while (!open.empty() && seen.size() < kMostBetween) {
    const OpId op = fn.def(open.back());
    open.pop_back();
    if (!op.valid() || !seen.insert(op.index).second) {
      continue;
    }
    if (fn.opcode(op) == Opcode::Load) {
      loads.push_back(op);
    } else if (ir::isElementwise(fn.opcode(op))) {
      const auto operands = fn.operands(op);
      std::ranges::copy_if(operands, std::back_inserter(open), [&](ValueId v) { return fn.type(v).isTile(); });
    }
  }
  return loads;
}

// The dot whose sums the value is, element by element, those of a loop's last iteration too; invalid if there is none.
OpId dotOf(const ir::Function &fn, ValueId value) {
  std::vector<ValueId> open = {value};
  std::set<uint32_t> seen;
  while (!open.empty() && seen.size() < kMostBetween) {
    const ValueId next = open.back();
    const OpId op = fn.def(next);
    open.pop_back();
    if (!op.valid() || !seen.insert(next.index).second) {
      continue;
    }
    const Opcode opcode = fn.opcode(op);
    if (opcode == Opcode::Dot) {
      return op;
    }
    if (opcode == Opcode::For) {
      const auto results = fn.results(op);
      const auto index = static_cast<size_t>(std::ranges::find(results, next) - results.begin());
      const size_t first = fn.getBool(op, ir::Attr::stop) ? 1 : 0;
      open.push_back(fn.operands(fn.last(fn.region(op)))[first + index]);
    } else if (ir::isElementwise(opcode)) {
      std::ranges::copy_if(fn.operands(op), std::back_inserter(open), [&](ValueId v) { return fn.type(v).isTile(); });
    }
  }
  return {};
}

// What a dot's unit lets each warp hold can be stored as it is there.
bool isStoredInWarps(const ir::Function &fn, OpId store, const Facts &facts, const PassContext &context, int32_t warps) {
  const OpId dot = dotOf(fn, fn.operand(store, 1));
  if (!dot.valid() || !unitOf(fn, dot, context.target).together) {
    return false;
  }
  const ir::Type sums = fn.type(fn.result(dot));
  const ir::Layout held = accumulatorLayout(unitOf(fn, dot, context.target), sums.shape(), warpGridOf(fn, dot, warps), warps);
  return sums.sameShape(fn.type(fn.operand(store, 1))) &&
         layoutInWarps(fn, store, facts, held, context.target).has_value();
}

// What the access' pointers and mask are computed from element by element: all of it has one layout. `seen` gets the ops.
std::vector<ValueId> partsOfPlace(const ir::Function &fn, OpId access, std::set<uint32_t> &seen) {
  std::vector<OpId> open = {access};
  seen = {access.index};
  std::vector<ValueId> values;
  while (!open.empty() && seen.size() < kMostAgain) {
    const OpId op = open.back();
    open.pop_back();
    for (unsigned i = 0; i < fn.numOperands(op); ++i) {
      const ValueId value = fn.operand(op, i);
      if (!fn.type(value).isTile() || (op == access && fn.opcode(op) == Opcode::Store && i == 1)) {
        continue;
      }
      values.push_back(value);
      const OpId def = fn.def(value);
      if (def.valid() && ir::isElementwise(fn.opcode(def)) && seen.insert(def.index).second) {
        open.push_back(def);
      }
    }
  }
  return values;
}

// Others use a part of it.
bool sharesPointers(const ir::Function &fn, OpId store) {
  std::set<uint32_t> seen;
  const std::vector<ValueId> values = partsOfPlace(fn, store, seen);
  return std::ranges::any_of(values, [&](ValueId value) {
    return std::ranges::any_of(fn.uses(value), [&](ir::Use use) { return !seen.contains(use.op.index); });
  });
}

// Pointers and mask are cheap to compute again.
bool hasCheapPlace(const ir::Function &fn, OpId store) {
  int32_t budget = kMostAgain;
  return isCheap(fn, fn.operand(store, 0), budget) && (fn.numOperands(store) < 3 || isCheap(fn, fn.operand(store, 2), budget));
}

bool isStoreOfTile(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Store && fn.type(fn.operand(op, 0)).isTile() && fn.type(fn.operand(op, 0)).rank() >= 2;
}

// The place that the value is a part of is tied to numbers that are computed: its mask selects them, or atomics add them there.
bool isTiedToNumbers(const ir::Function &fn, ValueId value) {
  std::vector<ValueId> open = {value};
  std::set<uint32_t> seen = {value.index};
  for (size_t i = 0; i < open.size() && i < kMostAgain; ++i) {
    for (const ir::Use use : fn.uses(open[i])) {
      const Opcode opcode = fn.opcode(use.op);
      if (opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas ||
          (ir::isElementwise(opcode) && fn.type(fn.result(use.op)).isFloating())) {
        return true;
      }
      if (ir::isElementwise(opcode) && seen.insert(fn.result(use.op).index).second) {
        open.push_back(fn.result(use.op));
      }
    }
  }
  return false;
}

// A load of what turns in registers, whose pointers or mask have a layout that others ask for.
bool turnsBesideNumbers(const ir::Function &fn, OpId op, const Facts &facts, const PassContext &context) {
  if (fn.opcode(op) != Opcode::Load || !fn.type(fn.operand(op, 0)).isTile() || fn.type(fn.operand(op, 0)).rank() < 2) {
    return false;
  }
  const auto fast = static_cast<unsigned>(axesByRuns(fn, fn.operand(op, 0), facts)[0]);
  const auto operands = fn.operands(op);
  int32_t budget = kMostAgain;
  std::set<uint32_t> seen;
  return operandRun(fn, fn.result(op), fast, context.target) &&
         std::ranges::all_of(operands, [&](ValueId value) { return isCheap(fn, value, budget); }) &&
         std::ranges::any_of(partsOfPlace(fn, op, seen), [&](ValueId value) { return isTiedToNumbers(fn, value); });
}

// Copies what is computed from tiles, each op behind the original.
class Copier {
public:
  explicit Copier(ir::Function &fn) : fn_(fn) {}

  ValueId copy(ValueId value) {
    if (!fn_.type(value).isTile()) {
      return value;
    }
    const auto known = made_.find(value.index);
    if (known != made_.end()) {
      return known->second;
    }
    const OpId op = fn_.def(value);
    ir::Values operands;
    for (const ValueId operand : fn_.operands(op)) {
      operands.push_back(copy(operand));
    }
    const ir::Type type = fn_.type(value);
    const OpId made = fn_.createOp(fn_.opcode(op), operands, {&type, 1}, fn_.loc(op));
    fn_.copyAttrs(op, made);
    fn_.insertAfter(op, made);
    return made_[value.index] = fn_.result(made);
  }

private:
  ir::Function &fn_;
  std::map<uint32_t, ValueId> made_;
};

} // namespace

bool isCheap(const ir::Function &fn, ValueId value, int32_t &budget) {
  const OpId op = fn.def(value);
  if (!fn.type(value).isTile()) {
    return true;
  }
  if (!op.valid() || --budget < 0) {
    return false;
  }
  const Opcode opcode = fn.opcode(op);
  const bool leaf = opcode == Opcode::Constant || opcode == Opcode::Splat || opcode == Opcode::Arange;
  const bool inner = ir::isElementwise(opcode) || opcode == Opcode::Hint || opcode == Opcode::ExpandDims ||
                     opcode == Opcode::Broadcast;
  if (!leaf && (!inner || fn.type(value).isFloating())) {
    return false;
  }
  return leaf || std::ranges::all_of(fn.operands(op), [&](ValueId operand) { return isCheap(fn, operand, budget); });
}

bool goesAcross(const ir::Function &fn, const Facts &facts, OpId store) {
  if (!isStoreOfTile(fn, store)) {
    return false;
  }
  const int32_t axis = runAxis(fn, facts, fn.operand(store, 0));
  if (axis < 0) {
    return false;
  }
  const std::vector<OpId> loads = loadsOf(fn, fn.operand(store, 1));
  const auto isAcross = [&](OpId load) {
    const int32_t other = runAxis(fn, facts, fn.operand(load, 0));
    return other >= 0 && other != axis;
  };
  return !loads.empty() && std::ranges::all_of(loads, isAcross) && hasCheapPlace(fn, store);
}

bool separateAccesses(ir::Function &fn, const Facts &facts, const PassContext &context, int32_t warps) {
  std::vector<OpId> accesses = fn.walk();
  std::erase_if(accesses, [&](OpId op) {
    const bool ofSums = isStoreOfTile(fn, op) && sharesPointers(fn, op) && hasCheapPlace(fn, op) &&
                        isStoredInWarps(fn, op, facts, context, warps);
    return !ofSums && !goesAcross(fn, facts, op) && !turnsBesideNumbers(fn, op, facts, context);
  });
  for (const OpId access : accesses) {
    Copier copier(fn);
    for (unsigned operand = 0; operand < fn.numOperands(access); ++operand) {
      if (fn.opcode(access) == Opcode::Load || operand != 1) {
        fn.setOperand(access, operand, copier.copy(fn.operand(access, operand)));
      }
    }
  }
  return !accesses.empty();
}

} // namespace libtile::passes
