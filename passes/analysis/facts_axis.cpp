// SPDX-License-Identifier: Apache-2.0
// Alignment and runs along the axes (family 1 of facts.h).
//
// Notation: along one axis a value has (contiguous c, divisible d, constant k). An "aligned run" of
// x is a power of two g such that each aligned group of g elements is consecutive and starts at a
// multiple of g: then x / b is constant, and x % b consecutive, over groups of min(g, lowBit(b)).
// It never crosses the wrap of the integer, so it also decides comparisons.
#include "ir/ops.h"
#include "passes/analysis/facts_builder.h"

#include <algorithm>
#include <numeric>

namespace libtile::passes {

using ir::Attr;
using ir::CmpPred;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

namespace {

constexpr int64_t kMax = AxisFacts::kMaxDivisible;

int64_t timesCapped(int64_t a, int64_t b) { return a >= kMax / b ? kMax : a * b; }

// Divisibility of the first element of each aligned group of `group`, which fits x's groups.
int64_t firstOfGroups(const AxisFacts &x, int64_t group, int64_t extent, int64_t unit) {
  if (group >= extent || group == x.contiguous) {
    return x.divisible;
  }
  return std::min(x.divisible, timesCapped(lowBit(group), unit));
}

// At most half of the type's numbers, so that a run does not cross from positive to negative.
int64_t alignedRun(const AxisFacts &x, int64_t extent, Type type) {
  const int64_t half = int64_t{1} << std::clamp<unsigned>(type.elementBits() - 1, 0, 32);
  const int64_t run = std::min(x.divisible, half);
  return x.contiguous >= extent ? run : std::min(run, lowBit(x.contiguous));
}

// Runs of an integer that may cross the end of the type, as parts that do not.
AxisFacts cutAtWrap(const AxisFacts &x, int64_t extent, Type type) {
  const int64_t group = std::min(alignedRun(x, extent, type), extent);
  if (group == 1) {
    return {everyElement(x, 1), 1, x.constant};
  }
  return {firstOfGroups(x, group, extent, 1), group, x.constant};
}

} // namespace

int64_t FactsBuilder::allDivisible(ValueId value, Trust trust) const {
  const int64_t unit = std::max<int64_t>(of(value).elementBytes, 1);
  int64_t best = 1;
  for (const AxisFacts &axis : claims(value, trust).axes) {
    best = std::max(best, everyElement(axis, unit));
  }
  return best;
}

// The rules, for one op: they improve out_, which says nothing before.
class FactsBuilder::AxisRules {
public:
  AxisRules(const FactsBuilder &builder, OpId op, const ValueFacts &result, Trust trust)
      : builder_(builder), fn_(builder.fn_), op_(op), result_(result), trust_(trust),
        out_(result.proved.axes.size()) {}

  Axes run();

private:
  void arithmetic();
  void shape();
  void reduce();
  void reshape();
  void hint();
  void cast();
  void compare();
  void select();
  void elementwise();
  void byTypeRule(); // of elementwise ops
  // The operand of ptr_add as the 64 bits that are added.
  AxisFacts offset(ValueId index, unsigned axis) const;
  // The extension of the integer to more bits keeps its runs: none crosses the end of its type.
  bool extendsRuns(ValueId value, bool isSigned) const;
  bool isIndex(ValueId dividend) const;

  const ValueFacts &of(ValueId value) const { return builder_.of(value); }
  const Axes &axes(ValueId value) const { return builder_.claims(value, trust_).axes; }
  const IntRange &range(ValueId value) const { return builder_.claims(value, trust_).range; }
  int64_t all(ValueId value) const { return builder_.allDivisible(value, trust_); }
  ValueId operand(unsigned i) const { return fn_.operand(op_, i); }

  const FactsBuilder &builder_;
  const ir::Function &fn_;
  const OpId op_;
  const ValueFacts &result_;
  const Trust trust_;
  Axes out_;
};

FactsBuilder::Axes FactsBuilder::axesOf(OpId op, const ValueFacts &result, Trust trust) const {
  return AxisRules(*this, op, result, trust).run();
}

FactsBuilder::Axes FactsBuilder::AxisRules::run() {
  const Opcode opcode = fn_.opcode(op_);
  if (opcode == Opcode::Constant || opcode == Opcode::Splat) {
    const auto value = fn_.constantInt(fn_.result(op_));
    const int64_t each = opcode == Opcode::Splat ? all(operand(0)) : value ? lowBit(*value) : 1;
    for (unsigned i = 0; i < out_.size(); ++i) {
      out_[i] = {each, 1, result_.shape[i]};
    }
  } else if (opcode == Opcode::Arange) {
    out_[0] = {lowBit(fn_.getInt(op_, Attr::start)), result_.shape[0], 1};
  } else if (opcode == Opcode::ConvertLayout) {
    out_ = axes(operand(0));
  } else if (opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
             opcode == Opcode::Trans || opcode == Opcode::Slice) {
    shape();
  } else if (opcode == Opcode::Reshape) {
    reshape();
  } else if (opcode == Opcode::Hint) {
    hint();
  } else if (opcode == Opcode::Reduce) {
    reduce();
  } else if (ir::isElementwise(opcode) ||
             (opcode == Opcode::Load && !fn_.getBool(op_, Attr::is_volatile))) {
    elementwise();
    byTypeRule();
  }
  return std::move(out_);
}

void FactsBuilder::AxisRules::byTypeRule() {
  switch (fn_.opInfo(op_).rule) {
  case ir::TypeRule::Same:
  case ir::TypeRule::SameInt:
  case ir::TypeRule::PtrAdd:
    return arithmetic();
  case ir::TypeRule::Compare:
    return compare();
  case ir::TypeRule::Select:
    return select();
  case ir::TypeRule::Cast:
    return cast();
  case ir::TypeRule::None:
  case ir::TypeRule::Explicit:
  case ir::TypeRule::SameFloat:
  case ir::TypeRule::Load:
  case ir::TypeRule::Dot:
  case ir::TypeRule::Reduce:
  case ir::TypeRule::Map:
  case ir::TypeRule::Scan:
  case ir::TypeRule::Region:
  case ir::TypeRule::Nest:
  case ir::TypeRule::Fold:
    return;
  }
}

void FactsBuilder::AxisRules::reduce() {
  const auto reduced = static_cast<unsigned>(fn_.getInt(op_, Attr::axis));
  for (unsigned i = 0; i < result_.rank; ++i) {
    int64_t run = result_.shape[i];
    for (ValueId operand : fn_.operands(op_)) {
      const Axes &input = axes(operand);
      const unsigned axis = i < reduced ? i : i + 1;
      run = axis < input.size() ? commonRun(run, input[axis].constant, run) : 1;
    }
    out_[i].constant = run;
  }
}

// Equal operands give equal results.
void FactsBuilder::AxisRules::elementwise() {
  for (unsigned i = 0; i < out_.size(); ++i) {
    int64_t run = result_.shape[i];
    for (ValueId operand : fn_.operands(op_)) {
      const Axes &known = axes(operand);
      run = i < known.size() ? commonRun(run, known[i].constant, result_.shape[i]) : 1;
    }
    out_[i] = {1, 1, run};
  }
}

// Each of the next functions improves `out`, which elementwiseAxes has set, along one axis.
struct FactsBuilder::AxisPair {
  Opcode opcode;
  AxisFacts x, y; // of the two operands, along the axis
  int64_t extent;
  int64_t unit;                    // what one step of y is worth: the pointee's size for ptr_add
  int64_t run;                     // aligned run of x
  int64_t allA, allB;              // divisibility of every element, b's in units
  std::optional<int64_t> constant; // b, if it is one number
  bool nonNegative;                // x
};

namespace {

using Pair = FactsBuilder::AxisPair;

void sumAxis(const Pair &p, AxisFacts &out) {
  const int64_t first = commonRun(p.x.contiguous, p.y.constant, p.extent);
  const int64_t second =
      p.opcode == Opcode::Sub ? 1 : commonRun(p.x.constant, p.y.contiguous, p.extent);
  if (first >= second) {
    out.contiguous = first;
    out.divisible = std::min(firstOfGroups(p.x, first, p.extent, p.unit), p.allB);
  } else {
    out.contiguous = second;
    out.divisible = std::min(p.allA, timesCapped(firstOfGroups(p.y, second, p.extent, 1), p.unit));
  }
  if (out.contiguous == 1) {
    out.divisible = std::max(out.divisible, std::min(p.allA, p.allB));
  }
}

void quotientAxis(const Pair &p, AxisFacts &out) {
  const bool power = p.constant && *p.constant > 0 && lowBit(*p.constant) == *p.constant;
  out.divisible = power ? std::max<int64_t>(1, p.allA / *p.constant) : 1;
  if ((p.opcode == Opcode::UDiv || p.nonNegative) && p.x.contiguous > 1) {
    const int64_t group = std::min({p.run, p.allB, p.extent});
    out.constant = std::max(out.constant, commonRun(group, p.y.constant, p.extent));
  }
}

void remainderAxis(const Pair &p, AxisFacts &out) {
  out.divisible = std::min(p.allA, p.allB);
  if ((p.opcode == Opcode::URem || p.nonNegative) && p.x.contiguous > 1) {
    const int64_t group = commonRun(std::min({p.run, p.allB, p.extent}), p.y.constant, p.extent);
    if (group > 1) {
      out.contiguous = group;
      out.divisible = std::min(firstOfGroups(p.x, group, p.extent, 1), p.allB);
    }
  }
}

void andAxis(const Pair &p, AxisFacts &out) {
  out.divisible = std::max(p.allA, p.allB);
  if (!p.constant || p.x.contiguous == 1) {
    return;
  }
  // A mask of low bits is x % low; one of high bits x - x % high.
  const auto mask = static_cast<uint64_t>(*p.constant);
  const int64_t low = lowBit(static_cast<int64_t>(mask + 1)), high = lowBit(*p.constant);
  const int64_t group = std::min({p.run, low, p.extent});
  if (*p.constant > 0 && *p.constant == low - 1 && group > 1) {
    out.contiguous = group;
    out.divisible = firstOfGroups(p.x, group, p.extent, 1);
  }
  out.constant = std::max(out.constant, std::min({p.run, high, p.extent}));
}

void shiftAxis(const Pair &p, AxisFacts &out) {
  const bool known = p.constant && *p.constant >= 0 && *p.constant < 31;
  const int64_t power = known ? int64_t{1} << *p.constant : 1;
  if (p.opcode == Opcode::Shl) {
    out.divisible = timesCapped(p.allA, power);
    return;
  }
  out.divisible = known ? std::max<int64_t>(1, p.allA / power) : 1;
  if (known && p.x.contiguous > 1) {
    out.constant = std::max(out.constant, std::min({p.run, power, p.extent}));
  }
}

void binaryAxis(const Pair &p, AxisFacts &out) {
  const Opcode op = p.opcode;
  if (op == Opcode::Add || op == Opcode::Sub || op == Opcode::PtrAdd) {
    sumAxis(p, out);
  } else if (op == Opcode::Mul) {
    out.divisible = timesCapped(p.allA, p.allB);
  } else if (op == Opcode::SDiv || op == Opcode::UDiv) {
    quotientAxis(p, out);
  } else if (op == Opcode::SRem || op == Opcode::URem) {
    remainderAxis(p, out);
  } else if (op == Opcode::And) {
    andAxis(p, out);
  } else if (op == Opcode::Shl || op == Opcode::LShr || op == Opcode::AShr) {
    shiftAxis(p, out);
  } else if (op == Opcode::Or || op == Opcode::Xor || op == Opcode::SMin || op == Opcode::SMax ||
             op == Opcode::UMin || op == Opcode::UMax) {
    // An operand, or bits above the zeros that both end in.
    out.divisible = std::min(p.allA, p.allB);
  }
}

} // namespace

bool isPromisedNatural(IntRange proved, Type type) {
  const bool isOpen = proved.lo <= typeRange(type).lo / 2 && proved.hi >= 0;
  return proved.lo >= 0 || (type.elementBits() >= 32 && isOpen);
}

// Not negative: known, or promised.
bool FactsBuilder::AxisRules::isIndex(ValueId dividend) const {
  const IntRange known = range(dividend);
  return known.lo >= 0 || (trust_ == Trust::Promised && isPromisedNatural(known, fn_.type(dividend)));
}

// Consecutive numbers cross the end of the type where both its ends, or -1 and 0, are among them.
bool FactsBuilder::AxisRules::extendsRuns(ValueId value, bool isSigned) const {
  const Type type = fn_.type(value);
  const IntRange known = range(value), whole = typeRange(type);
  if (type.isBool()) {
    return false;
  }
  if (!isSigned) {
    return known.lo >= 0 || known.hi < 0;
  }
  const bool promised = trust_ == Trust::Promised && type.elementBits() >= 32;
  return promised || known.lo > whole.lo || known.hi < whole.hi;
}

AxisFacts FactsBuilder::AxisRules::offset(ValueId index, unsigned axis) const {
  const Type type = fn_.type(index);
  const bool whole = type.elementBits() == 64 || extendsRuns(index, true);
  return whole ? axes(index)[axis] : cutAtWrap(axes(index)[axis], result_.shape[axis], type);
}

void FactsBuilder::AxisRules::arithmetic() {
  const Opcode opcode = fn_.opcode(op_);
  const Type type = fn_.type(fn_.result(op_));
  if (!type.isInteger() && !type.isPointer()) {
    return;
  }
  const ValueId a = operand(0);
  if (fn_.numOperands(op_) != 2) {
    for (AxisFacts &axis : out_) {
      axis.divisible = opcode == Opcode::Neg || opcode == Opcode::Abs ? all(a) : 1;
    }
    return;
  }
  const ValueId b = operand(1);
  const bool address = opcode == Opcode::PtrAdd;
  const int64_t unit = address ? std::max<int64_t>(result_.elementBytes, 1) : 1;
  const int64_t allA = all(a), allB = timesCapped(all(b), unit);
  for (unsigned i = 0; i < out_.size(); ++i) {
    const AxisFacts x = axes(a)[i], y = address ? offset(b, i) : axes(b)[i];
    const int64_t extent = result_.shape[i];
    binaryAxis({opcode, x, y, extent, unit, alignedRun(x, extent, type), allA, allB,
                fn_.constantInt(b), isIndex(a)},
               out_[i]);
  }
}

void FactsBuilder::AxisRules::shape() {
  const ValueId a = operand(0);
  const Axes &in = axes(a);
  const auto &extents = of(a).shape;
  const int64_t each = all(a);
  const auto inserted = static_cast<unsigned>(fn_.getInt(op_, Attr::axis));
  const auto order = fn_.getInts(op_, Attr::order);
  const Opcode opcode = fn_.opcode(op_);
  for (unsigned i = 0; i < out_.size(); ++i) {
    AxisFacts &out = out_[i];
    if (opcode == Opcode::Broadcast) {
      out = extents[i] == result_.shape[i] ? in[i] : AxisFacts{each, 1, result_.shape[i]};
    } else if (opcode == Opcode::ExpandDims) {
      out = i == inserted ? AxisFacts{each, 1, 1} : in[i < inserted ? i : i - 1];
    } else if (opcode == Opcode::Slice) { // cuts the groups anew, unless all elements are equal
      const int64_t equal = in[i].constant >= extents[i] ? result_.shape[i] : 1;
      out = i == inserted ? AxisFacts{each, 1, equal} : in[i];
    } else {
      out = in[static_cast<size_t>(order[i])];
    }
  }
}

void FactsBuilder::AxisRules::reshape() {
  const ValueId a = operand(0);
  const Axes &in = axes(a);
  const auto &extents = of(a).shape;
  const int64_t each = all(a);
  bool uniform = true;
  for (unsigned i = 0; i < in.size(); ++i) {
    uniform = uniform && in[i].constant >= extents[i];
  }
  for (unsigned i = 0; i < out_.size(); ++i) {
    out_[i] = {each, 1, uniform ? result_.shape[i] : 1};
  }
  // The innermost axis that is not 1 keeps the order of its elements when it is split or kept.
  int from = static_cast<int>(in.size()) - 1, to = static_cast<int>(out_.size()) - 1;
  while (from > 0 && extents[from] == 1) {
    --from;
  }
  while (to > 0 && result_.shape[to] == 1) {
    --to;
  }
  const int64_t outer = extents[from], inner = result_.shape[to];
  if (uniform || outer % inner != 0) {
    return;
  }
  const AxisFacts &x = in[from];
  AxisFacts &out = out_[to];
  out.contiguous = x.contiguous >= outer ? inner : std::gcd(x.contiguous, inner);
  out.constant = x.constant >= outer ? inner : std::gcd(x.constant, inner);
  const int64_t unit = std::max<int64_t>(result_.elementBytes, 1);
  out.divisible = out.contiguous == 1 ? each : firstOfGroups(x, out.contiguous, outer, unit);
}

void FactsBuilder::AxisRules::hint() {
  const auto promised = [&](Attr attr, unsigned axis) -> int64_t {
    const auto values = fn_.getInts(op_, attr);
    return axis < values.size() && values[axis] > 0 ? values[axis] : 1;
  };
  out_ = axes(operand(0));
  for (unsigned i = 0; i < out_.size(); ++i) {
    AxisFacts &out = out_[i];
    const int64_t extent = result_.shape[i];
    const int64_t contiguous = std::min(promised(Attr::contiguous, i), extent);
    if (contiguous > out.contiguous) {
      // Starts of the longer groups are starts of the known ones where those fit.
      out.divisible = contiguous % out.contiguous == 0 || contiguous >= extent ? out.divisible : 1;
      out.contiguous = contiguous;
    }
    out.divisible = std::max(out.divisible, lowBit(promised(Attr::divisible, i)));
    out.constant = std::max(out.constant, std::min(promised(Attr::constant, i), extent));
  }
}

void FactsBuilder::AxisRules::cast() {
  const ValueId a = operand(0);
  const Type from = fn_.type(a), to = fn_.type(fn_.result(op_));
  if ((!from.isInteger() && !from.isPointer()) || (!to.isInteger() && !to.isPointer())) {
    return;
  }
  const int64_t bytes = of(a).elementBytes;
  const bool keepsSteps =
      bytes == result_.elementBytes || std::max<int64_t>(bytes, result_.elementBytes) == 1;
  const Opcode opcode = fn_.opcode(op_);
  const bool extends = opcode == Opcode::SExt || opcode == Opcode::ZExt;
  const bool whole =
      extends                   ? extendsRuns(a, opcode == Opcode::SExt)
      : opcode == Opcode::Trunc ? range(a).within(typeRange(to).lo, typeRange(to).hi)
                                : true;
  for (unsigned i = 0; i < out_.size(); ++i) {
    const AxisFacts &x = axes(a)[i];
    const AxisFacts kept = whole ? x : cutAtWrap(x, result_.shape[i], extends ? from : to);
    const bool runs = keepsSteps && kept.contiguous > 1;
    out_[i].contiguous = runs ? kept.contiguous : 1;
    out_[i].divisible = runs ? kept.divisible : all(a);
  }
}

// x < b and x >= b are constant over aligned runs of x that b's multiples do not cut.
void FactsBuilder::AxisRules::compare() {
  const ValueId a = operand(0), b = operand(1);
  if (!fn_.type(a).isInteger() || fn_.type(a).isBool()) {
    return;
  }
  const auto predicate = fn_.getEnum<CmpPred>(op_, Attr::predicate);
  const bool less = predicate == CmpPred::slt || predicate == CmpPred::ult;
  const bool greaterEqual = predicate == CmpPred::sge || predicate == CmpPred::uge;
  const bool lessEqual = predicate == CmpPred::sle || predicate == CmpPred::ule;
  const bool greater = predicate == CmpPred::sgt || predicate == CmpPred::ugt;
  if (!less && !greaterEqual && !lessEqual && !greater) {
    return;
  }
  for (unsigned i = 0; i < out_.size(); ++i) {
    const int64_t extent = result_.shape[i];
    const auto improve = [&](ValueId runs, ValueId bound, uint64_t plus) {
      const AxisFacts &x = axes(runs)[i];
      int64_t multiple = all(bound);
      if (plus != 0) {
        const auto number = fn_.constantInt(bound);
        multiple = number ? lowBit(static_cast<int64_t>(static_cast<uint64_t>(*number) + plus)) : 1;
      }
      if (x.contiguous > 1) {
        const int64_t group = std::min({alignedRun(x, extent, fn_.type(runs)), multiple, extent});
        int64_t &run = out_[i].constant;
        run = std::max(run, commonRun(group, axes(bound)[i].constant, extent));
      }
    };
    improve(a, b, less || greaterEqual ? 0 : 1);
    improve(b, a, lessEqual || greater ? 0 : 1);
  }
}

void FactsBuilder::AxisRules::select() {
  const ValueId c = operand(0), a = operand(1), b = operand(2);
  const int64_t unit = std::max<int64_t>(result_.elementBytes, 1);
  for (unsigned i = 0; i < out_.size(); ++i) {
    const int64_t extent = result_.shape[i];
    const AxisFacts &x = axes(a)[i], &y = axes(b)[i];
    const int64_t group =
        commonRun(commonRun(x.contiguous, y.contiguous, extent), axes(c)[i].constant, extent);
    AxisFacts &out = out_[i];
    out.contiguous = group;
    out.divisible = group == 1 ? std::min(all(a), all(b))
                               : std::min(firstOfGroups(x, group, extent, unit),
                                          firstOfGroups(y, group, extent, unit));
  }
}

} // namespace libtile::passes
