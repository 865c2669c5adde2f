// SPDX-License-Identifier: Apache-2.0
// A sum of 64 bits is exact if its least and greatest value are. Then `index < limit` may be asked of the tile alone,
// with the rest of the sum subtracted from the limit, and a limit further out than all elements is as good as the
// first such one, which 32 bits hold.
#include "passes/cpu/narrow_compares.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/facts.h"

#include <optional>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI64 = Type::scalar(Elem::I64);

// sext(tile) + the terms, which are scalars.
struct Sum {
  ValueId tile;
  llvm::SmallVector<ValueId, 2> terms;
};

std::optional<IntRange> sum(IntRange a, IntRange b) {
  IntRange out;
  const bool leaves = __builtin_add_overflow(a.lo, b.lo, &out.lo) || __builtin_add_overflow(a.hi, b.hi, &out.hi);
  return leaves ? std::nullopt : std::optional(out);
}

class CompareNarrower {
public:
  explicit CompareNarrower(Function &fn) : fn_(fn), facts_(computeFacts(fn)) {}

  bool run() {
    bool changed = false;
    for (OpId op : fn_.walk()) {
      changed = (fn_.opcode(op) == Opcode::Cmp && visit(op)) || changed;
    }
    return changed;
  }

private:
  bool visit(OpId op) {
    const auto predicate = static_cast<CmpPred>(fn_.getInt(op, Attr::predicate));
    const Type type = fn_.type(fn_.operand(op, 0));
    if (!type.isTile() || type.elem() != Elem::I64 || (predicate != CmpPred::slt && predicate != CmpPred::sle)) {
      return false;
    }
    const ValueId limit = fn_.operand(op, 1);
    Sum index;
    if ((fn_.defOpcode(limit) != Opcode::Splat && !fn_.constantInt(limit)) || !addTerms(fn_.operand(op, 0), index)) {
      return false;
    }
    // Of a limit beyond the last element: the first that is behind all of them, or the last itself.
    const int64_t behind = predicate == CmpPred::slt ? 1 : 0;
    IntRange limits = facts_.range(index.tile);
    limits = {limits.lo + behind - 1, limits.hi + behind};
    std::optional<IntRange> ends = limits;
    for (const ValueId term : index.terms) {
      ends = ends ? sum(*ends, facts_.range(term)) : ends;
    }
    if (!limits.within(INT32_MIN, INT32_MAX) || !ends) {
      return false;
    }
    Builder builder(fn_, op);
    const ValueId narrow = builder.make(Opcode::Trunc, {offsetOf(builder, limit, index, limits)}, Type::scalar(Elem::I32));
    const ValueId compared = builder.cmp(predicate, index.tile, builder.splat(narrow, type.shape()));
    fn_.replaceAllUses(fn_.result(op), compared);
    return true;
  }

  // clamp(limit, base + the least, base + the greatest) - base
  ValueId offsetOf(Builder &builder, ValueId limit, const Sum &index, IntRange limits) {
    ValueId base = builder.constInt(kI64, 0);
    for (const ValueId term : index.terms) {
      base = builder.make(Opcode::Add, {base, term});
    }
    const auto from = [&](int64_t number) { return builder.make(Opcode::Add, {base, builder.constInt(kI64, number)}); };
    const auto constant = fn_.constantInt(limit);
    ValueId end = constant ? builder.constInt(kI64, *constant) : fn_.operand(fn_.def(limit), 0);
    end = builder.make(Opcode::SMax, {end, from(limits.lo)});
    end = builder.make(Opcode::SMin, {end, from(limits.hi)});
    return builder.make(Opcode::Sub, {end, base});
  }

  // Of a sum with one tile.
  bool addTerms(ValueId value, Sum &index) {
    const OpId op = fn_.def(value);
    if (!op.valid()) {
      return false;
    }
    const auto operand = [&](unsigned i) { return fn_.operand(op, i); };
    if (fn_.opcode(op) == Opcode::SExt) {
      index.tile = operand(0);
      return fn_.type(index.tile).elem() == Elem::I32;
    }
    if (fn_.opcode(op) != Opcode::Add) {
      return false;
    }
    const unsigned scalar = fn_.defOpcode(operand(0)) == Opcode::Splat ? 0 : 1;
    if (fn_.defOpcode(operand(scalar)) != Opcode::Splat || !addTerms(operand(1 - scalar), index)) {
      return false;
    }
    index.terms.push_back(fn_.operand(fn_.def(operand(scalar)), 0));
    return true;
  }

  Function &fn_;
  const Facts facts_;
};

} // namespace

bool narrowCompares(Function &fn, const PassContext &) { return CompareNarrower(fn).run(); }

} // namespace libtile::passes
