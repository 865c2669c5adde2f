// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/kept_panels.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/cpu/mask_ends.h"
#include "passes/cpu/nest_costs.h"
#include "passes/cpu/nest_state.h"

#include <llvm/ADT/DenseSet.h>

#include <algorithm>
#include <limits>

namespace libtile::passes {

using namespace ir;

namespace {

bool isNumberOfLaunch(Opcode opcode) {
  return opcode == Opcode::Constant || opcode == Opcode::Arange || opcode == Opcode::NumPrograms;
}

// It computes the same from the same operands, each time.
bool isFunction(const Function &fn, OpId op) {
  return fn.regions(op).empty() && fn.ownEffects(op).pure() &&
         (fn.numOperands(op) != 0 || isNumberOfLaunch(fn.opcode(op)));
}

// A load, a store, or what else reads arrays and is in no order to others: a contract whose rows are read in place.
bool isPlain(const Function &fn, OpId access) {
  const Effects effects = fn.ownEffects(access);
  return (fn.opcode(access) == Opcode::Store || !effects.has(Effects::WritesGlobal)) && !fn.getBool(access, Attr::is_volatile) &&
         !fn.hasAttr(access, Attr::sem) && !effects.has(Effects::Ordered);
}

// Whether what the load reads is there from the launch's beginning to its end.
bool readsConstant(const Function &fn, const Facts &facts, OpId load) {
  const ValueId array = basePointer(fn, fn.operand(load, 0), facts);
  const std::vector<OpId> ops = fn.walk();
  return array.valid() && std::ranges::all_of(ops, [&](OpId op) {
    const Effects effects = fn.ownEffects(op);
    if (!effects.has(Effects::ReadsGlobal) && !effects.has(Effects::WritesGlobal)) {
      return !effects.has(Effects::Synchronises) && !effects.has(Effects::Async);
    }
    if (!isPlain(fn, op)) {
      return false;
    }
    if (!effects.has(Effects::WritesGlobal)) {
      return true;
    }
    const auto written = basePointers(fn, fn.operand(op, 0), facts);
    return !written.empty() && std::ranges::none_of(written, [&](ValueId other) { return mayOverlap(fn, other, array); });
  });
}

class KeySearch {
public:
  KeySearch(const Function &fn, const Facts &facts, OpId loop, OpId chunks)
      : fn_(fn), facts_(facts), loop_(loop), chunks_(chunks) {}

  std::optional<Values> run(std::span<const ValueId> roots) {
    const bool known = std::ranges::all_of(fn_.operands(loop_).first(3), [&](ValueId bound) { return add(bound); }) &&
                       std::ranges::all_of(roots, [&](ValueId root) { return add(root); });
    return known ? std::optional(keys_) : std::nullopt;
  }

private:
  bool add(ValueId value) {
    if (!seen_.insert(value.index).second) {
      return true;
    }
    if (fn_.isArg(value)) {
      return addArgument(value);
    }
    const OpId op = fn_.def(value);
    if (isComputed(value)) {
      const bool isLoad = fn_.opcode(op) == Opcode::Load && isPlain(fn_, op) && readsConstant(fn_, facts_, op);
      const auto operands = fn_.operands(op);
      return (isLoad || isFunction(fn_, op)) && std::ranges::all_of(operands, [&](ValueId operand) { return add(operand); });
    }
    return isOfLaunch(fn_, value) || addKey(value);
  }

  // In place of these, what they are computed from.
  [[nodiscard]] bool isComputed(ValueId value) const {
    return fn_.type(value).isTile() || !fn_.isDefinedOutside(value, fn_.region(loop_)) ||
           (chunks_.valid() && !fn_.isDefinedOutside(value, fn_.region(chunks_)));
  }

  bool addArgument(ValueId value) {
    const BlockId block = fn_.defBlock(value);
    if (block != fn_.region(loop_)) {
      return block == fn_.body() || addKey(value);
    }
    const unsigned slot = fn_.defIndex(value); // 0: the index
    return slot == 0 || (add(fn_.operand(loop_, slot + 2)) && add(fn_.operand(fn_.last(block), slot - 1)));
  }

  bool addKey(ValueId value) {
    const Type type = fn_.type(value);
    if (!type.isScalar() || !(type.isPointer() || type.isInteger())) {
      return false;
    }
    keys_.push_back(value);
    return true;
  }

  const Function &fn_;
  const Facts &facts_;
  OpId loop_, chunks_;
  Values keys_;
  llvm::SmallDenseSet<uint32_t, 32> seen_;
};

// Of so many iterations, as far as is known.
int64_t mostChunks(const Function &fn, OpId loop, int32_t iterations) {
  const auto lo = fn.constantInt(fn.operand(loop, 0)), hi = fn.constantInt(fn.operand(loop, 1));
  const auto step = fn.constantInt(fn.operand(loop, 2));
  const bool known = lo && hi && step && *lo >= 0 && *hi > *lo;
  return known ? ((*hi - *lo - 1) / *step) / iterations + 1 : std::numeric_limits<int32_t>::max();
}

} // namespace

std::optional<Values> keysOf(const Function &fn, const Facts &facts, OpId loop, OpId chunks, std::span<const ValueId> roots) {
  return KeySearch(fn, facts, loop, chunks).run(roots);
}

ValueId allocKept(Builder &before, int32_t slots, std::span<const int32_t> shape, Type element) {
  llvm::SmallVector<int32_t, 4> extents{slots};
  extents.append(shape.begin(), shape.end());
  const ValueId kept = allocBuffer(before, extents, element);
  before.function().setAttr(before.function().def(kept), Attr::kept, AttrValue(int64_t{1}));
  return kept;
}

ValueId keptSlot(Builder &before, ValueId kept, ValueId slot) {
  const Type whole = before.function().type(kept);
  return before.make(Opcode::BufferSlot, {kept, slot}, Type::buffer(whole.shape().subspan(1), whole.elem()));
}

ValueId recall(Builder &before, int32_t slots, ValueId slot, const Values &keys) {
  Values operands{slot};
  operands.append(keys);
  const OpId op = before.op(Opcode::Recall, operands, std::array{Type::scalar(Elem::I1)});
  before.function().setAttr(op, Attr::slots, AttrValue(int64_t{slots}));
  return before.function().result(op);
}

bool isOfLaunch(const Function &fn, ValueId value) {
  llvm::SmallDenseSet<uint32_t, 16> seen;
  Values left{value};
  while (!left.empty()) {
    const ValueId next = left.pop_back_val();
    if (!seen.insert(next.index).second) {
      continue;
    }
    if (fn.isArg(next) ? fn.defBlock(next) != fn.body() : !isFunction(fn, fn.def(next))) {
      return false;
    }
    if (!fn.isArg(next)) {
      const auto operands = fn.operands(fn.def(next));
      left.append(operands.begin(), operands.end());
    }
  }
  return true;
}

std::optional<Values> keysOfOperand(const Function &fn, const Facts &facts, OpId loop, OpId dot, unsigned operand) {
  const ValueId a = fn.operand(dot, 0), b = fn.operand(dot, 1);
  Values roots{fn.operand(dot, operand)};
  for (const auto &end : {zerosBehind(fn, a, 1), zerosBehind(fn, b, 0)}) {
    if (end) {
      roots.push_back(end->limit);
      roots.append(end->terms.begin(), end->terms.end());
    }
  }
  return keysOf(fn, facts, loop, {}, roots);
}

int32_t panelsToKeep(const Function &fn, const Facts &facts, OpId loop, OpId dot,
                     const ContractShape &shape, int32_t iterations) {
  if (shape.n != shape.paddedN || !keysOfOperand(fn, facts, loop, dot, 1)) {
    return 0;
  }
  const PackedShapes packed = packedShapes(shape, shape.packedK(fn.type(fn.operand(dot, 0)).dim(1)) * iterations);
  const int64_t bytes = int64_t{packed.b[0]} * packed.b[1] * int64_t(byteSize(packed.elemB));
  const int64_t fitting = std::max<int64_t>(1, kNestCosts.panelBytes / bytes);
  return int32_t(std::min(fitting, mostChunks(fn, loop, iterations)));
}

} // namespace libtile::passes
