// SPDX-License-Identifier: Apache-2.0
// The walk that makes Facts: each op once, after its operands.
//
// Loops: what is carried starts with the facts of the initial values, the body is walked, and where
// its yield says less the facts are weakened and the body is walked again: runs and divisibility
// may weaken step by step, a bound of a range that moves goes to the end of its type at once. After
// kTries walks, or below kDepth loops, nothing is assumed of carried values, which holds by itself;
// so an op is visited at most (kTries + 1)^kDepth times, nearly always 2^depth.
#include "passes/analysis/facts_builder.h"

#include "ir/ops.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <numeric>

namespace libtile::passes {

using ir::Attr;
using ir::BlockId;
using ir::CmpPred;
using ir::Guard;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

constexpr unsigned kTries = 3;
constexpr unsigned kDepth = 3;

void setRange(FactsBuilder::ValueFacts &facts, IntRange range) {
  facts.proved.range = facts.promised.range = range;
}

void setDivisible(FactsBuilder::ValueFacts &facts, int64_t divisible) {
  facts.proved.axes[0].divisible = facts.promised.axes[0].divisible = divisible;
}

// What is true of both, along an axis of `extent` elements.
AxisFacts joinedAxis(const AxisFacts &x, const AxisFacts &y, int64_t extent, int64_t unit) {
  const int64_t run = commonRun(x.contiguous, y.contiguous, extent);
  const auto starts = [&](const AxisFacts &z) {
    const int64_t step =
        lowBit(run) >= AxisFacts::kMaxDivisible / 8 ? lowBit(run) : lowBit(run) * unit;
    return run >= extent || run == z.contiguous ? z.divisible : std::min(z.divisible, step);
  };
  const int64_t divisible = run == 1 ? std::min(everyElement(x, unit), everyElement(y, unit))
                                     : std::min(starts(x), starts(y));
  return {divisible, run, commonRun(x.constant, y.constant, extent)};
}

} // namespace

Facts FactsBuilder::run() {
  collectAssumptions();
  visitParams();
  visitBlock(fn_.body(), 0);
  return std::move(facts_);
}

// ---- promises of the user

// An assume holds of a value wherever both are in one block: the value lives only where it holds.
void FactsBuilder::collectAssumptions() {
  for (OpId op : fn_.walk()) {
    if (fn_.opcode(op) == Opcode::Assume) {
      assume(fn_.operand(op, 0), fn_.block(op));
    }
  }
}

void FactsBuilder::assume(ValueId condition, BlockId block) {
  const OpId def = fn_.def(condition);
  if (!def.valid() || fn_.numOperands(def) != 2) {
    return;
  }
  const ValueId a = fn_.operand(def, 0), b = fn_.operand(def, 1);
  if (fn_.opcode(def) == Opcode::And) {
    assume(a, block);
    assume(b, block);
    return;
  }
  if (fn_.opcode(def) != Opcode::Cmp) {
    return;
  }
  const auto predicate = fn_.getEnum<CmpPred>(def, Attr::predicate);
  const OpId left = fn_.def(a);
  const auto bound = fn_.constantInt(b);
  const bool remainder =
      left.valid() && (fn_.opcode(left) == Opcode::SRem || fn_.opcode(left) == Opcode::URem);
  if (predicate == CmpPred::eq && bound == 0 && remainder) {
    const auto divisor = fn_.constantInt(fn_.operand(left, 1));
    const ValueId value = fn_.operand(left, 0);
    if (divisor && *divisor > 0 && fn_.defBlock(value) == block) {
      int64_t &known = assumptions_.at(value).divisible;
      known = std::max(known, lowBit(*divisor));
    }
  }
  static constexpr std::pair<CmpPred, CmpPred> kSwapped[] = {{CmpPred::slt, CmpPred::sgt},
                                                             {CmpPred::sle, CmpPred::sge},
                                                             {CmpPred::sgt, CmpPred::slt},
                                                             {CmpPred::sge, CmpPred::sle},
                                                             {CmpPred::eq, CmpPred::eq}};
  const auto left0 = fn_.constantInt(a);
  for (const auto &[plain, swapped] : kSwapped) {
    if (predicate == plain && bound) {
      assumeBound(a, plain, *bound, block);
    } else if (predicate == plain && left0) {
      assumeBound(b, swapped, *left0, block);
    }
  }
}

void FactsBuilder::assumeBound(ValueId value, CmpPred predicate, int64_t bound, BlockId block) {
  if (fn_.defBlock(value) != block || !fn_.type(value).isScalar()) {
    return;
  }
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  IntRange range;
  if (predicate == CmpPred::sge || predicate == CmpPred::eq) {
    range.lo = bound;
  }
  if (predicate == CmpPred::sgt) {
    range.lo = bound == kMost ? kMost : bound + 1;
  }
  if (predicate == CmpPred::sle || predicate == CmpPred::eq) {
    range.hi = bound;
  }
  if (predicate == CmpPred::slt) {
    range.hi = bound == kLeast ? kLeast : bound - 1;
  }
  Assumption &assumption = assumptions_.at(value);
  assumption.range = intersect(assumption.range, range);
}

void FactsBuilder::visitParams() {
  for (uint32_t i = 0; i < fn_.params.size(); ++i) {
    const ValueId value = fn_.arg(fn_.body(), i);
    ValueFacts facts = unknown(value);
    int64_t divisible = lowBit(std::max<int64_t>(fn_.params[i].divisible, 1));
    for (const Guard &guard : fn_.guards) {
      if (guard.param != i) {
        continue;
      }
      if (guard.kind == Guard::Kind::Divisible && guard.value > 0) {
        divisible = std::max(divisible, lowBit(guard.value));
      } else if (guard.kind == Guard::Kind::Below && fn_.type(value).isInteger()) {
        setRange(facts, intersect(facts.proved.range, {facts.proved.range.lo, guard.value - 1}));
      } else if (guard.kind == Guard::Kind::Above && fn_.type(value).isInteger()) {
        setRange(facts, intersect(facts.proved.range, {guard.value + 1, facts.proved.range.hi}));
      } else if (guard.kind == Guard::Kind::Within) {
        setRange(facts, intersect(facts.proved.range, {1, guard.value}));
      }
    }
    setDivisible(facts, divisible);
    set(value, std::move(facts));
  }
}

// ---- facts of a value as such

FactsBuilder::ValueFacts FactsBuilder::unknown(ValueId value) const {
  const Type type = fn_.type(value);
  ValueFacts facts;
  facts.rank = static_cast<uint8_t>(type.rank());
  facts.shape[0] = 1;
  for (unsigned i = 0; i < type.rank(); ++i) {
    facts.shape[i] = type.dim(i);
  }
  facts.proved.axes.resize(std::max<size_t>(type.rank(), 1));
  facts.proved.range = typeRange(type);
  facts.promised = facts.proved;
  if (type.isPointer()) {
    facts.elementBytes = static_cast<uint8_t>(type.pointee().elementBytes());
  }
  return facts;
}

FactsBuilder::ValueFacts FactsBuilder::join(const ValueFacts &a, const ValueFacts &b, ValueId value,
                                            bool widen) const {
  ValueFacts result = unknown(value);
  const IntRange whole = typeRange(fn_.type(value));
  for (const auto claims : {&ValueFacts::proved, &ValueFacts::promised}) {
    const Claims &x = a.*claims, &y = b.*claims;
    Claims &out = result.*claims;
    if (x.axes.size() != out.axes.size() || y.axes.size() != out.axes.size()) {
      return unknown(value);
    }
    const int64_t unit = std::max<int64_t>(result.elementBytes, 1);
    for (size_t i = 0; i < out.axes.size(); ++i) {
      out.axes[i] = joinedAxis(x.axes[i], y.axes[i], result.shape[i], unit);
    }
    const IntRange both = hull(x.range, y.range);
    out.range = !widen ? both
                       : IntRange{both.lo < x.range.lo ? whole.lo : both.lo,
                                  both.hi > x.range.hi ? whole.hi : both.hi};
  }
  return result;
}

void FactsBuilder::set(ValueId value, ValueFacts facts) {
  if (facts.affine < 0) {
    facts.affine = ownForm(value);
  }
  const bool scalar = fn_.type(value).isScalar();
  int64_t divisible = 1;
  if (scalar && facts.affine >= 0 && !facts_.forms_[facts.affine].promised) {
    const AffineForm &form = facts_.forms_[facts.affine];
    if (!form.base.valid() && !form.offset.dependsOn(value)) {
      divisible = facts_.divisible(form.offset);
    }
  }
  IntRange range = facts.proved.range;
  if (assumptions_.contains(value)) {
    const Assumption &assumption = assumptions_[value];
    range = intersect(range, assumption.range);
    divisible = std::max(divisible, assumption.divisible);
  }
  facts.proved.range = range;
  facts.promised.range = intersect(range, facts.promised.range);
  for (Claims *claims : {&facts.proved, &facts.promised}) {
    claims->axes[0].divisible = std::max(claims->axes[0].divisible, divisible);
  }
  facts_.values_.set(value, std::move(facts));
}

// ---- ops

void FactsBuilder::visitBlock(BlockId block, unsigned depth) {
  for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
    visitOp(op, depth);
  }
}

void FactsBuilder::visitOp(OpId op, unsigned depth) {
  const Opcode opcode = fn_.opcode(op);
  if (isLoop(opcode)) {
    return visitLoop(op, depth);
  }
  if (opcode == Opcode::If) {
    return visitIf(op, depth);
  }
  if (!fn_.regions(op).empty()) {
    return visitOther(op, depth);
  }
  if (fn_.results(op).size() != 1) {
    for (ValueId result : fn_.results(op)) {
      set(result, unknown(result));
    }
    return;
  }
  ValueFacts facts = unknown(fn_.result(op));
  facts.proved = claimsOf(op, facts, Trust::Proved);
  facts.promised = mayPromiseMore(op, facts) ? claimsOf(op, facts, Trust::Promised) : facts.proved;
  facts.affine = affineOf(op);
  set(fn_.result(op), std::move(facts));
}

// Where operands promise no more than is proved of them, the promises matter to a sum that may wrap (of which
// the range says nothing), to an extension and to a division.
bool FactsBuilder::mayPromiseMore(OpId op, const ValueFacts &result) const {
  const Type type = fn_.type(fn_.result(op));
  const Opcode opcode = fn_.opcode(op);
  const bool mayWrap = type.isInteger() && type.elementBits() >= 32 &&
                       result.proved.range == typeRange(type);
  return mayWrap || opcode == Opcode::SDiv || opcode == Opcode::SRem || opcode == Opcode::SExt ||
         opcode == Opcode::PtrAdd ||
         std::ranges::any_of(fn_.operands(op), [&](ValueId operand) {
           return of(operand).promised != of(operand).proved;
         });
}

FactsBuilder::Claims FactsBuilder::claimsOf(OpId op, const ValueFacts &result, Trust trust) const {
  return {axesOf(op, result, trust), rangeOf(op, trust)};
}

FactsBuilder::ValueFacts FactsBuilder::induction(OpId op) const {
  ValueFacts facts = unknown(fn_.arg(fn_.region(op), 0));
  setDivisible(facts, std::min(facts_.divisible(fn_.operand(op, 0)),
                               facts_.divisible(fn_.operand(op, 2))));
  facts.proved.range = inductionRange(op, Trust::Proved, facts.proved.range);
  facts.promised.range = inductionRange(op, Trust::Promised, facts.promised.range);
  return facts;
}

IntRange FactsBuilder::inductionRange(OpId op, Trust trust, IntRange whole) const {
  // The index is made of the start and the step; the end feeds no address, and nothing is promised of it.
  const IntRange lo = claims(fn_.operand(op, 0), trust).range, hi = facts_.range(fn_.operand(op, 1));
  const IntRange step = claims(fn_.operand(op, 2), trust).range;
  const bool isUnsigned = fn_.getBool(op, Attr::is_unsigned);
  if (isUnsigned && (lo.lo < 0 || hi.lo < 0)) {
    return whole;
  }
  if (isUnsigned || step.lo > 0) { // hi is above iv, so it is not the least integer
    return {lo.lo, std::max(lo.lo, hi.hi - 1)};
  }
  return step.hi < 0 ? IntRange{std::min(hi.lo + 1, lo.hi), lo.hi} : whole;
}

std::vector<ValueId> FactsBuilder::carriedYield(OpId op) const {
  const OpId yield = fn_.last(fn_.regions(op).back());
  if (!yield.valid() || fn_.opcode(yield) != Opcode::Yield) {
    return {};
  }
  const auto values = fn_.operands(yield);
  const size_t skip = fn_.getBool(op, Attr::stop) ? 1 : 0;
  return {values.begin() + std::min(skip, values.size()), values.end()};
}

void FactsBuilder::loopBodies(OpId op, std::span<const ValueFacts> carried, unsigned depth) {
  for (BlockId body : fn_.regions(op)) {
    unsigned position = 0;
    if (fn_.opcode(op) == Opcode::For) {
      set(fn_.arg(body, position++), induction(op));
    }
    for (const ValueFacts &facts : carried) {
      set(fn_.arg(body, position++), facts);
    }
    visitBlock(body, depth + 1);
  }
}

void FactsBuilder::visitLoop(OpId op, unsigned depth) {
  const unsigned first = fn_.opcode(op) == Opcode::For ? 3 : 0;
  const auto results = fn_.results(op);
  std::vector<ValueFacts> carried;
  for (unsigned i = 0; i < results.size(); ++i) {
    carried.push_back(of(fn_.operand(op, first + i)));
    carried.back().affine = -1;
  }
  const auto yields = carriedYield(op);
  for (unsigned attempt = 0;; ++attempt) {
    const bool giveUp = attempt == kTries || depth >= kDepth || yields.size() != results.size();
    for (unsigned i = 0; giveUp && i < results.size(); ++i) {
      carried[i] = unknown(results[i]);
    }
    loopBodies(op, carried, depth);
    bool stable = true;
    for (unsigned i = 0; !giveUp && i < results.size(); ++i) {
      ValueFacts next = join(carried[i], of(yields[i]), results[i], true);
      stable = stable && next.proved == carried[i].proved && next.promised == carried[i].promised;
      carried[i] = std::move(next);
    }
    if (giveUp || stable) {
      break;
    }
  }
  for (unsigned i = 0; i < results.size(); ++i) {
    set(results[i], carried[i]);
  }
}

void FactsBuilder::visitIf(OpId op, unsigned depth) {
  std::vector<ValueId> yields[2];
  for (unsigned i = 0; i < fn_.regions(op).size() && i < 2; ++i) {
    visitBlock(fn_.region(op, i), depth);
    const OpId last = fn_.last(fn_.region(op, i));
    if (last.valid() && fn_.opcode(last) == Opcode::Yield) {
      yields[i] = {fn_.operands(last).begin(), fn_.operands(last).end()};
    }
  }
  const auto results = fn_.results(op);
  for (unsigned i = 0; i < results.size(); ++i) {
    const bool known = i < yields[0].size() && i < yields[1].size();
    set(results[i],
        known ? join(of(yields[0][i]), of(yields[1][i]), results[i], false) : unknown(results[i]));
  }
}

// Reduce, scan, nest, fold, prefix: nothing is known of arguments, apart from the indices of the last three.
void FactsBuilder::visitOther(OpId op, unsigned depth) {
  const auto extents = fn_.getInts(op, Attr::extents);
  for (BlockId region : fn_.regions(op)) {
    const auto args = fn_.args(region);
    for (unsigned i = 0; i < args.size(); ++i) {
      ValueFacts facts = unknown(args[i]);
      if (fn_.opcode(op) == Opcode::Nest && i < extents.size()) {
        setRange(facts, {0, std::max<int64_t>(extents[i], 1) - 1});
      } else if (fn_.hasAttr(op, Attr::extent) && i == 0 && region != fn_.regions(op)[1]) {
        setRange(facts, {0, std::max<int64_t>(fn_.getInt(op, Attr::extent), 1) - 1});
      }
      set(args[i], std::move(facts));
    }
    visitBlock(region, depth);
  }
  for (ValueId result : fn_.results(op)) {
    ValueFacts facts = unknown(result);
    if (fn_.opcode(op) == Opcode::Reduce) {
      facts.proved.axes = axesOf(op, facts, Trust::Proved);
      facts.promised.axes = axesOf(op, facts, Trust::Promised);
    }
    set(result, std::move(facts));
  }
}

} // namespace libtile::passes
