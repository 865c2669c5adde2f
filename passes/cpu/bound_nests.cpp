// SPDX-License-Identifier: Apache-2.0
// A compare counts if its left side is a sum of the index, what is known in front of the nest, and
// perhaps the index of one sunk loop, whose first iteration reaches furthest. Sums that could leave 32
// bits, where a compare may become true again, are found at run time and give up the end.
#include "passes/cpu/bound_nests.h"

#include "ir/builder.h"
#include "passes/fold_constants.h"

#include <algorithm>
#include <bit>
#include <map>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);
const Type kI64 = Type::scalar(Elem::I64);

// left < bound (or <=), where left = index + the terms + loop's index.
struct Bound {
  OpId compare;
  Values terms;
  OpId loop; // invalid: none
  bool isSigned, orEqual;
};

// An element's number, as `value` of a constant has it.
struct Number {
  bool isFloat = false;
  int64_t integer = 0;
  double real = 0;

  static Number of(const AttrValue &value) {
    const double *real = std::get_if<double>(&value);
    return real != nullptr ? Number{true, 0, *real} : Number{false, std::get<int64_t>(value), 0};
  }
  [[nodiscard]] AttrValue attr() const { return isFloat ? AttrValue(real) : AttrValue(integer); }
  [[nodiscard]] bool same(const Number &other) const {
    return isFloat == other.isFloat && integer == other.integer &&
           std::bit_cast<uint64_t>(real) == std::bit_cast<uint64_t>(other.real);
  }
};

class NestBounder {
public:
  NestBounder(Function &fn, OpId nest)
      : fn_(fn), nest_(nest), body_(fn.region(nest)), index_(fn.args(body_).back()),
        isFold_(fn.opcode(nest) == Opcode::Fold),
        extent_(isFold_ ? fn.getInt(nest, Attr::extent) : fn.getInts(nest, Attr::extents).back()) {}

  bool run() {
    const int64_t lanes = fn_.getInt(nest_, Attr::lanes);
    if (fn_.numOperands(nest_) != 0 || lanes < 2 || extent_ < 2 * lanes ||
        !(isFold_ ? foldEnds() : nestEnds())) {
      return false;
    }
    Builder builder(fn_, nest_);
    ValueId end;
    for (const Bound &bound : bounds_) {
      const ValueId one = endOf(builder, bound);
      end = end.valid() ? builder.make(Opcode::SMax, {end, one}) : one;
    }
    if (isFold_) {
      end = builder.make(Opcode::Add, {end, builder.constInt(kI64, 1)});
      end = builder.make(Opcode::SMin, {end, builder.constInt(kI64, extent_)});
    }
    fn_.addOperand(nest_, builder.make(Opcode::Trunc, {end}, kI32));
    return true;
  }

private:
  // ---- compares

  std::optional<Bound> boundOf(OpId op) {
    if (!op.valid() || fn_.opcode(op) != Opcode::Cmp || !outside(fn_.operand(op, 1)) ||
        fn_.type(fn_.operand(op, 0)) != kI32) {
      return std::nullopt;
    }
    const auto predicate = static_cast<CmpPred>(fn_.getInt(op, Attr::predicate));
    Bound bound{op, {}, {}, predicate == CmpPred::slt || predicate == CmpPred::sle,
                predicate == CmpPred::sle || predicate == CmpPred::ule};
    if (!bound.isSigned && !bound.orEqual && predicate != CmpPred::ult) {
      return std::nullopt;
    }
    int indices = 0;
    return addTerms(fn_.operand(op, 0), bound, indices) && indices == 1 ? std::optional(bound)
                                                                        : std::nullopt;
  }

  bool addTerms(ValueId value, Bound &bound, int &indices) {
    if (value == index_) {
      return ++indices == 1;
    }
    if (outside(value)) {
      bound.terms.push_back(value);
      return true;
    }
    if (fn_.isArg(value)) {
      const OpId loop = fn_.parentOp(fn_.defBlock(value));
      const bool first = !bound.loop.valid() && fn_.opcode(loop) == Opcode::For &&
                         fn_.defIndex(value) == 0 && countsUp(loop) && bound.isSigned;
      bound.loop = loop;
      return first;
    }
    const OpId op = fn_.def(value);
    return fn_.opcode(op) == Opcode::Add && addTerms(fn_.operand(op, 0), bound, indices) &&
           addTerms(fn_.operand(op, 1), bound, indices);
  }

  bool countsUp(OpId loop) const {
    return fn_.constantInt(fn_.operand(loop, 2)).value_or(0) > 0 &&
           !fn_.getBool(loop, Attr::is_unsigned) && outside(fn_.operand(loop, 0)) &&
           outside(fn_.operand(loop, 1));
  }

  // Known in front of the nest; a constant is made there again.
  bool outside(ValueId value) const {
    return fn_.isDefinedOutside(value, body_) || fn_.constantInt(value).has_value();
  }
  ValueId inFront(Builder &builder, ValueId value) const {
    return fn_.isDefinedOutside(value, body_)
               ? value
               : builder.constInt(fn_.type(value), *fn_.constantInt(value));
  }

  // In 64 bits: clamp(bound - offset, 0, extent), or the extent where the index may wrap.
  ValueId endOf(Builder &builder, const Bound &bound) {
    const auto wide = [&](ValueId value) {
      return builder.make(bound.isSigned ? Opcode::SExt : Opcode::ZExt, {value}, kI64);
    };
    const auto number = [&](int64_t value) { return builder.constInt(kI64, value); };
    const auto add = [&](ValueId a, ValueId b) { return builder.make(Opcode::Add, {a, b}); };
    ValueId sum;
    for (ValueId term : bound.terms) {
      const ValueId known = inFront(builder, term);
      sum = sum.valid() ? add(sum, known) : known;
    }
    const ValueId offset = sum.valid() ? wide(sum) : number(0);
    const int64_t greatest = bound.isSigned ? INT32_MAX : int64_t{UINT32_MAX};
    ValueId first = offset, last = add(offset, number(extent_ - 1));
    ValueId wraps;
    if (bound.loop.valid()) {
      first = add(offset, wide(inFront(builder, fn_.operand(bound.loop, 0))));
      last = add(last, wide(inFront(builder, fn_.operand(bound.loop, 1))));
      wraps = builder.cmp(CmpPred::slt, first, number(INT32_MIN));
    }
    const ValueId above = builder.cmp(CmpPred::sgt, last, number(greatest));
    wraps = wraps.valid() ? builder.make(Opcode::Or, {wraps, above}) : above;
    const ValueId limit = wide(inFront(builder, fn_.operand(bound.compare, 1)));
    ValueId end = builder.make(Opcode::Sub, {limit, first});
    if (bound.orEqual) {
      end = add(end, number(1));
    }
    end = builder.make(Opcode::SMax, {end, number(0)});
    end = builder.make(Opcode::SMin, {end, number(extent_)});
    return builder.make(Opcode::Select, {wraps, number(extent_), end});
  }

  // ---- nests: each effect is a store that some compare in its mask turns off

  bool nestEnds() {
    for (OpId op : fn_.walk(body_)) {
      if (fn_.effects(op).removable() || fn_.opcode(op) == Opcode::Yield) {
        continue;
      }
      const bool masked = fn_.opcode(op) == Opcode::Store && fn_.numOperands(op) == 3 &&
                          !fn_.getBool(op, Attr::is_volatile);
      if (!masked || !addMask(fn_.operand(op, 2))) {
        return false;
      }
    }
    return !bounds_.empty();
  }

  // One compare that the mask needs is enough.
  bool addMask(ValueId mask) {
    const OpId op = fn_.def(mask);
    if (const auto bound = boundOf(op)) {
      const auto known = [&](const Bound &other) { return other.compare == op; };
      if (std::ranges::none_of(bounds_, known)) {
        bounds_.push_back(*bound);
      }
      return true;
    }
    return op.valid() && fn_.opcode(op) == Opcode::And &&
           (addMask(fn_.operand(op, 0)) || addMask(fn_.operand(op, 1)));
  }

  // ---- folds: with all compares false the elements are numbers that combine leaves as they are

  bool foldEnds() {
    for (OpId op : fn_.walk(body_)) {
      if (!fn_.effects(op).removable() && fn_.opcode(op) != Opcode::Yield) {
        return false;
      }
      if (const auto bound = boundOf(op)) {
        bounds_.push_back(*bound);
        numbers_[fn_.result(op)] = Number();
      }
    }
    if (bounds_.empty()) {
      return false;
    }
    evaluate(body_);
    const BlockId combine = fn_.region(nest_, 1);
    const OpId elements = fn_.last(body_);
    const unsigned count = fn_.numOperands(elements);
    for (unsigned i = 0; i < count; ++i) {
      const auto element = numbers_.find(fn_.operand(elements, i));
      if (element == numbers_.end()) {
        return false;
      }
      numbers_[fn_.arg(combine, i)] = numbers_[fn_.arg(combine, count + i)] = element->second;
    }
    evaluate(combine);
    for (unsigned i = 0; i < count; ++i) {
      if (!equal(fn_.operand(fn_.last(combine), i), fn_.operand(elements, i))) {
        return false;
      }
    }
    return true;
  }

  bool equal(ValueId a, ValueId b) const {
    const auto x = numbers_.find(a), y = numbers_.find(b);
    return x != numbers_.end() && y != numbers_.end() && x->second.same(y->second);
  }

  void evaluate(BlockId block) {
    for (OpId op : fn_.opsIn(block)) {
      const Opcode opcode = fn_.opcode(op);
      if (opcode == Opcode::For) {
        evaluateLoop(op);
      } else if (opcode == Opcode::Load) {
        evaluateLoad(op);
      } else if (isElementwise(opcode) && !numbers_.contains(fn_.result(op))) {
        evaluateElementwise(op);
      } else if (opcode == Opcode::Constant) {
        numbers_[fn_.result(op)] = Number::of(*fn_.findAttr(op, Attr::value));
      }
    }
  }

  // Numbers that it begins with and that one iteration leaves as they are.
  void evaluateLoop(OpId loop) {
    const BlockId body = fn_.region(loop);
    const unsigned stop = fn_.getBool(loop, Attr::stop) ? 1 : 0;
    const unsigned count = fn_.results(loop).size();
    for (unsigned i = 0; i < count; ++i) {
      alias(fn_.arg(body, i + 1), fn_.operand(loop, i + 3));
    }
    evaluate(body);
    for (unsigned i = 0; i < count; ++i) {
      const ValueId next = fn_.operand(fn_.last(body), i + stop);
      if (!equal(next, fn_.arg(body, i + 1)) && numbers_.contains(fn_.arg(body, i + 1))) {
        return;
      }
    }
    for (unsigned i = 0; i < count; ++i) {
      alias(fn_.result(loop, i), fn_.arg(body, i + 1));
    }
  }

  void evaluateLoad(OpId load) {
    const bool masked = fn_.numOperands(load) > 1 && isFalse(fn_.operand(load, 1));
    if (masked && fn_.numOperands(load) > 2) {
      alias(fn_.result(load), fn_.operand(load, 2));
    } else if (masked && !fn_.type(fn_.result(load)).isPointer()) {
      numbers_[fn_.result(load)] = Number{fn_.type(fn_.result(load)).isFloating()};
    }
  }

  void evaluateElementwise(OpId op) {
    const auto condition =
        fn_.opcode(op) == Opcode::Select ? numbers_.find(fn_.operand(op, 0)) : numbers_.end();
    if (condition != numbers_.end()) {
      alias(fn_.result(op), fn_.operand(op, isFalse(fn_.operand(op, 0)) ? 2 : 1));
      return;
    }
    Values operands;
    Builder builder(fn_, nest_);
    std::vector<OpId> made;
    for (ValueId operand : fn_.operands(op)) {
      const auto number = numbers_.find(operand);
      if (number == numbers_.end() && !fn_.isDefinedOutside(operand, body_)) {
        break;
      }
      if (number != numbers_.end()) {
        made.push_back(builder.op(Opcode::Constant, {}, std::array{fn_.type(operand)}));
        fn_.setAttr(made.back(), Attr::value, number->second.attr());
        operand = fn_.result(made.back());
      }
      operands.push_back(operand);
    }
    if (operands.size() == fn_.numOperands(op)) {
      const OpId copy = builder.op(fn_.opcode(op), operands, std::array{fn_.type(fn_.result(op))});
      fn_.copyAttrs(op, copy);
      if (const auto number = foldConstants(fn_, copy)) {
        numbers_[fn_.result(op)] = Number::of(*number);
      }
      fn_.erase(copy);
    }
    for (OpId constant : made) {
      fn_.erase(constant);
    }
  }

  void alias(ValueId value, ValueId same) {
    if (const auto number = numbers_.find(same); number != numbers_.end()) {
      numbers_[value] = number->second;
    } else if (const OpId op = fn_.def(same); op.valid() && fn_.opcode(op) == Opcode::Constant) {
      numbers_[value] = Number::of(*fn_.findAttr(op, Attr::value));
    }
  }
  bool isFalse(ValueId value) const {
    const auto number = numbers_.find(value);
    return number != numbers_.end() && number->second.same(Number());
  }

  Function &fn_;
  OpId nest_;
  BlockId body_;
  ValueId index_;
  bool isFold_;
  int64_t extent_;
  std::vector<Bound> bounds_;
  std::map<ValueId, Number> numbers_; // with all compares false
};

bool isNest(Opcode opcode) { return opcode == Opcode::Nest || opcode == Opcode::Fold; }

bool isInNest(const Function &fn, OpId op) {
  for (OpId around = fn.parentOp(fn.block(op)); around.valid();
       around = fn.parentOp(fn.block(around))) {
    if (isNest(fn.opcode(around))) {
      return true;
    }
  }
  return false;
}

} // namespace

bool boundNests(Function &fn, const PassContext &) {
  bool changed = false;
  for (OpId op : fn.walk()) {
    if (isNest(fn.opcode(op)) && !isInNest(fn, op)) {
      changed |= NestBounder(fn, op).run();
    }
  }
  return changed;
}

} // namespace libtile::passes
