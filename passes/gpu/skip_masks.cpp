// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/skip_masks.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/facts.h"
#include "passes/polynomial_code.h"

#include <algorithm>
#include <optional>
#include <ranges>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::Builder;
using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// Elements of a thread: the scalars have to be worth it; and of more a branch keeps all in registers at one time, where
// the assembler would work on some after the other and spills.
constexpr int64_t kLeastElements = 16, kMostElements = 64;

// One side of a comparison over its tile: first + [below, above].
struct Side {
  Polynomial first; // the element at index 0, modulo 2^32
  int64_t below = 0, above = 0;
};
// less < more, or less <= more.
struct Comparison {
  Side less, more;
  bool isStrict = false;
};

class MaskSkipper {
public:
  MaskSkipper(ir::Function &fn, int32_t threads) : fn_(fn), threads_(threads) {}

  bool run() {
    bool changed = false;
    for (const OpId op : fn_.walk()) {
      std::vector<Comparison> comparisons;
      if (isCandidate(op) && takeMask(fn_.operand(op, 0), comparisons)) {
        skip(op, comparisons);
        changed = true;
      }
    }
    return changed;
  }

private:
  // Of the function as it was: asked first in front of the first change. Most kernels have no candidate.
  [[nodiscard]] const Facts &facts() const {
    if (!facts_) {
      facts_.emplace(computeFacts(fn_));
    }
    return *facts_;
  }

  [[nodiscard]] bool isCandidate(OpId op) const {
    if (fn_.opcode(op) != Opcode::Select || fn_.block(op) == fn_.body()) {
      return false;
    }
    const Type mask = fn_.type(fn_.operand(op, 0));
    return fn_.opcode(fn_.parentOp(fn_.block(op))) == Opcode::For && mask.isTile() && hasDot(fn_.block(op)) &&
           mask.numElements() >= kLeastElements * threads_ && mask.numElements() <= kMostElements * threads_;
  }

  // Where there is none, elements come from memory and go into sums a few at a time. A branch would hold all of them in
  // registers, and the programs that have room there are worth more than the selects.
  [[nodiscard]] bool hasDot(ir::BlockId block) const {
    return std::ranges::any_of(fn_.opsIn(block), [&](OpId op) { return fn_.opcode(op) == Opcode::Dot; });
  }

  // Takes the mask apart down to its comparisons.
  bool takeMask(ValueId mask, std::vector<Comparison> &comparisons) const {
    const OpId op = fn_.def(mask);
    if (!op.valid()) {
      return false;
    }
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::And) {
      return takeMask(fn_.operand(op, 0), comparisons) && takeMask(fn_.operand(op, 1), comparisons);
    }
    if (opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims || opcode == Opcode::Trans || opcode == Opcode::ConvertLayout) {
      return takeMask(fn_.operand(op, 0), comparisons);
    }
    if (opcode == Opcode::Cmp && fn_.type(fn_.operand(op, 0)).elem() == Elem::I32) {
      const auto comparison = comparisonOf(op);
      if (comparison) {
        comparisons.push_back(*comparison);
      }
      return comparison.has_value();
    }
    return fn_.constantInt(mask) == int64_t{1};
  }

  [[nodiscard]] std::optional<Comparison> comparisonOf(OpId cmp) const {
    const auto predicate = fn_.getEnum<CmpPred>(cmp, Attr::predicate);
    const bool isLess = predicate == CmpPred::slt || predicate == CmpPred::sle;
    if (!isLess && predicate != CmpPred::sgt && predicate != CmpPred::sge) {
      return std::nullopt;
    }
    const auto less = sideOf(fn_.operand(cmp, isLess ? 0 : 1)), more = sideOf(fn_.operand(cmp, isLess ? 1 : 0));
    const bool isStrict = predicate == CmpPred::slt || predicate == CmpPred::sgt;
    return less && more ? std::optional(Comparison{*less, *more, isStrict}) : std::nullopt;
  }

  [[nodiscard]] std::optional<Side> sideOf(ValueId value) const {
    const AffineForm *form = facts().affine(value);
    if (form == nullptr || form->base.valid()) {
      return std::nullopt;
    }
    Side side{form->offset, 0, 0};
    const Type type = fn_.type(value);
    for (unsigned axis = 0; axis < form->strides.size(); ++axis) {
      if (!form->strides[axis].isConstant()) {
        return std::nullopt;
      }
      const int64_t stride = form->strides[axis].constant();
      if (stride <= INT32_MIN || stride > INT32_MAX) {
        return std::nullopt;
      }
      const int64_t reach = stride * (type.dim(axis) - 1);
      (reach < 0 ? side.below : side.above) += reach;
    }
    const auto isPlain = [&](const Monomial &monomial) {
      return std::ranges::all_of(monomial.factors, [&](ValueId factor) { return fn_.type(factor).elementBits() >= 32; });
    };
    return std::ranges::all_of(side.first.monomials(), isPlain) ? std::optional(side) : std::nullopt;
  }

  void skip(OpId select, const std::vector<Comparison> &comparisons) {
    Builder builder(fn_, select);
    ValueId all;
    const auto require = [&](ValueId condition) {
      all = all.valid() ? builder.make(Opcode::And, {all, condition}) : condition;
    };
    for (const Comparison &comparison : comparisons) {
      const ValueId less = makeFirst(builder, comparison.less), more = makeFirst(builder, comparison.more);
      const ValueId greatest = plus(builder, less, comparison.less.above), least = plus(builder, more, comparison.more.below);
      require(builder.cmp(comparison.isStrict ? CmpPred::slt : CmpPred::sle, greatest, least));
      // Elements that wrap around compare otherwise. What lies between the two, and the greatest and the least
      // themselves, does not: first elements are i32.
      if (comparison.less.below < 0) {
        require(builder.cmp(CmpPred::sge, plus(builder, less, comparison.less.below), number(builder, INT32_MIN)));
      }
      if (comparison.more.above > 0) {
        require(builder.cmp(CmpPred::sle, plus(builder, more, comparison.more.above), number(builder, INT32_MAX)));
      }
    }
    const Type type = fn_.type(fn_.result(select));
    const OpId branch = builder.op(Opcode::If, std::array{all.valid() ? all : builder.constInt(Type::scalar(Elem::I1), 1)}, {&type, 1});
    fn_.replaceAllUses(fn_.result(select), fn_.result(branch));
    Builder(fn_, fn_.region(branch, 0)).yield(std::array{fn_.operand(select, 1)});
    fn_.unlink(select);
    fn_.append(fn_.region(branch, 1), select);
    Builder(fn_, fn_.region(branch, 1)).yield(std::array{fn_.result(select)});
    sinkInto(fn_.region(branch, 1));
  }

  // What only the region uses is computed there: users before what they use.
  void sinkInto(ir::BlockId region) {
    const OpId branch = fn_.parentOp(region);
    std::vector<OpId> before;
    for (const OpId op : fn_.opsIn(fn_.block(branch))) {
      if (op == branch) {
        break;
      }
      before.push_back(op);
    }
    for (const OpId op : before | std::views::reverse) {
      const bool isSunk = fn_.results(op).size() == 1 && fn_.effects(op).pure() && fn_.regions(op).empty() &&
                          !fn_.unused(fn_.result(op)) && std::ranges::all_of(fn_.uses(fn_.result(op)), [&](ir::Use use) {
                            return fn_.block(use.op) == region;
                          });
      if (isSunk) {
        fn_.unlink(op);
        fn_.insertBefore(*fn_.opsIn(region).begin(), op);
      }
    }
  }

  static ValueId number(Builder &builder, int64_t value) { return builder.constInt(Type::scalar(Elem::I64), value); }
  static ValueId plus(Builder &builder, ValueId value, int64_t more) {
    return more == 0 ? value : builder.make(Opcode::Add, {value, number(builder, more)});
  }

  // The first element as an i64. The form holds modulo 2^32 only.
  static ValueId makeFirst(Builder &builder, const Side &side) {
    const ValueId sum = makeNumber(builder, side.first, [](ValueId symbol) { return symbol; });
    const ValueId narrow = builder.make(Opcode::Trunc, {sum}, Type::scalar(Elem::I32));
    return builder.make(Opcode::SExt, {narrow}, Type::scalar(Elem::I64));
  }

  ir::Function &fn_;
  const int32_t threads_;
  mutable std::optional<Facts> facts_;
};

} // namespace

bool skipMasks(ir::Function &fn, const PassContext &context) {
  return MaskSkipper(fn, fn.numWarps * context.target.warpSize).run();
}

} // namespace libtile::passes
