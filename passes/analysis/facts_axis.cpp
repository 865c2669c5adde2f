// SPDX-License-Identifier: Apache-2.0
// Alignment and runs along the axes (family 1 of facts.h).
//
// Notation: along one axis a value has (contiguous c, divisible d, constant k). An "aligned run" of
// x is a power of two g such that each aligned group of g elements is consecutive and starts at a
// multiple of g: then x / b is constant, and x % b consecutive, over groups of min(g, lowBit(b)).
// It never crosses the wrap of the integer, so it also decides comparisons.
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

int64_t lowBit(int64_t value) {
  return value == 0 ? AxisFacts::kMaxDivisible : std::min(value & -value, AxisFacts::kMaxDivisible);
}

int64_t commonRun(int64_t a, int64_t b, int64_t extent) {
  if (a >= extent) {
    return std::min(b, extent);
  }
  return b >= extent ? a : std::gcd(a, b);
}

namespace {

constexpr int64_t kMax = AxisFacts::kMaxDivisible;

int64_t timesCapped(int64_t a, int64_t b) { return a >= kMax / b ? kMax : a * b; }

// Divisibility of every element, not only of the first of each group.
int64_t everyElement(const AxisFacts &axis, int64_t unit) {
  return axis.contiguous == 1 ? axis.divisible : std::min(axis.divisible, unit);
}

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

} // namespace

int64_t FactsBuilder::allDivisible(ValueId value) const {
  const ValueFacts &facts = of(value);
  int64_t best = 1;
  for (const AxisFacts &axis : facts.axes) {
    best = std::max(best, everyElement(axis, std::max<int64_t>(facts.elementBytes, 1)));
  }
  return best;
}

void FactsBuilder::axesOf(OpId op, ValueFacts &result) const {
  const Opcode opcode = fn_.opcode(op);
  if (opcode == Opcode::Constant || opcode == Opcode::Splat) {
    const auto value = fn_.constantInt(fn_.result(op));
    const int64_t all = opcode == Opcode::Splat ? allDivisible(fn_.operand(op, 0))
                        : value                 ? lowBit(*value)
                                                : 1;
    for (unsigned i = 0; i < result.axes.size(); ++i) {
      result.axes[i] = {all, 1, result.shape[i]};
    }
  } else if (opcode == Opcode::Arange) {
    result.axes[0] = {lowBit(fn_.getInt(op, Attr::start)), result.shape[0], 1};
  } else if (opcode == Opcode::ConvertLayout) {
    result.axes = of(fn_.operand(op, 0)).axes;
  } else if (opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
             opcode == Opcode::Trans) {
    shapeAxes(op, result);
  } else if (opcode == Opcode::Reshape) {
    reshapeAxes(op, result);
  } else if (opcode == Opcode::Hint) {
    hintAxes(op, result);
  } else if (opcode == Opcode::Reduce) {
    reduceAxes(op, result);
  } else if (opcode == Opcode::Load) {
    if (!fn_.getBool(op, Attr::is_volatile)) {
      elementwiseAxes(op, result);
    }
  } else if (ir::isElementwise(opcode)) {
    elementwiseAxes(op, result);
    switch (fn_.opInfo(op).rule) {
    case ir::TypeRule::Same:
    case ir::TypeRule::SameInt:
    case ir::TypeRule::PtrAdd:
      return arithmeticAxes(op, result);
    case ir::TypeRule::Compare:
      return compareAxes(op, result);
    case ir::TypeRule::Select:
      return selectAxes(op, result);
    case ir::TypeRule::Cast:
      return castAxes(op, result);
    case ir::TypeRule::None:
    case ir::TypeRule::Explicit:
    case ir::TypeRule::SameFloat:
    case ir::TypeRule::Load:
    case ir::TypeRule::Dot:
    case ir::TypeRule::Reduce:
    case ir::TypeRule::Region:
    case ir::TypeRule::Nest:
    case ir::TypeRule::Fold:
      return;
    }
  }
}

void FactsBuilder::reduceAxes(OpId op, ValueFacts &result) const {
  const auto reduced = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
  for (unsigned i = 0; i < result.rank; ++i) {
    int64_t run = result.shape[i];
    for (ValueId operand : fn_.operands(op)) {
      const ValueFacts &input = of(operand);
      const unsigned axis = i < reduced ? i : i + 1;
      run = axis < input.axes.size() ? commonRun(run, input.axes[axis].constant, run) : 1;
    }
    result.axes[i].constant = run;
  }
}

// Equal operands give equal results.
void FactsBuilder::elementwiseAxes(OpId op, ValueFacts &result) const {
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    int64_t run = result.shape[i];
    for (ValueId operand : fn_.operands(op)) {
      const ValueFacts &facts = of(operand);
      run = i < facts.axes.size() ? commonRun(run, facts.axes[i].constant, result.shape[i]) : 1;
    }
    result.axes[i] = {1, 1, run};
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
  bool nonNegative;                // x, by the promise
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
  } else {
    // or, xor, minima and maxima: an operand, or bits above the zeros that both end in.
    out.divisible = std::min(p.allA, p.allB);
  }
}

} // namespace

// Not negative: known, or promised of an index whose sign the program does not show. A lower bound in the
// lower half of the type's negative numbers shows nothing: it comes from bounds that say little.
bool FactsBuilder::isIndex(const IntRange &promised, Type type) {
  const bool isOpen = promised.lo <= typeRange(type).lo / 2 && promised.hi >= 0;
  return promised.lo >= 0 || (type.elementBits() >= 32 && isOpen);
}

void FactsBuilder::arithmeticAxes(OpId op, ValueFacts &result) const {
  const Opcode opcode = fn_.opcode(op);
  const Type type = fn_.type(fn_.result(op));
  if (!type.isInteger() && !type.isPointer()) {
    return;
  }
  const ValueId a = fn_.operand(op, 0);
  if (fn_.numOperands(op) != 2) {
    for (AxisFacts &axis : result.axes) {
      axis.divisible = allDivisible(a); // neg and abs
    }
    return;
  }
  const ValueId b = fn_.operand(op, 1);
  const int64_t unit = opcode == Opcode::PtrAdd ? std::max<int64_t>(result.elementBytes, 1) : 1;
  const int64_t allA = allDivisible(a), allB = timesCapped(allDivisible(b), unit);
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    const AxisFacts &x = of(a).axes[i], &y = of(b).axes[i];
    const int64_t extent = result.shape[i];
    binaryAxis({opcode, x, y, extent, unit, alignedRun(x, extent, type), allA, allB,
                fn_.constantInt(b), isIndex(of(a).promised, type)},
               result.axes[i]);
  }
}

void FactsBuilder::shapeAxes(OpId op, ValueFacts &result) const {
  const ValueId a = fn_.operand(op, 0);
  const ValueFacts &in = of(a);
  const int64_t all = allDivisible(a);
  const auto inserted = static_cast<unsigned>(fn_.getInt(op, Attr::axis));
  const auto order = fn_.getInts(op, Attr::order);
  const Opcode opcode = fn_.opcode(op);
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    AxisFacts &out = result.axes[i];
    if (opcode == Opcode::Broadcast) {
      out = in.shape[i] == result.shape[i] ? in.axes[i] : AxisFacts{all, 1, result.shape[i]};
    } else if (opcode == Opcode::ExpandDims) {
      out = i == inserted ? AxisFacts{all, 1, 1} : in.axes[i < inserted ? i : i - 1];
    } else {
      out = in.axes[static_cast<size_t>(order[i])];
    }
  }
}

void FactsBuilder::reshapeAxes(OpId op, ValueFacts &result) const {
  const ValueId a = fn_.operand(op, 0);
  const ValueFacts &in = of(a);
  const int64_t all = allDivisible(a);
  bool uniform = true;
  for (unsigned i = 0; i < in.axes.size(); ++i) {
    uniform = uniform && in.axes[i].constant >= in.shape[i];
  }
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    result.axes[i] = {all, 1, uniform ? result.shape[i] : 1};
  }
  // The innermost axis that is not 1 keeps the order of its elements when it is split or kept.
  int from = static_cast<int>(in.axes.size()) - 1, to = static_cast<int>(result.axes.size()) - 1;
  while (from > 0 && in.shape[from] == 1) {
    --from;
  }
  while (to > 0 && result.shape[to] == 1) {
    --to;
  }
  const int64_t outer = in.shape[from], inner = result.shape[to];
  if (uniform || outer % inner != 0) {
    return;
  }
  const AxisFacts &x = in.axes[from];
  AxisFacts &out = result.axes[to];
  out.contiguous = x.contiguous >= outer ? inner : std::gcd(x.contiguous, inner);
  out.constant = x.constant >= outer ? inner : std::gcd(x.constant, inner);
  const int64_t unit = std::max<int64_t>(in.elementBytes, 1);
  out.divisible = out.contiguous == 1 ? all : firstOfGroups(x, out.contiguous, outer, unit);
}

void FactsBuilder::hintAxes(OpId op, ValueFacts &result) const {
  const auto promised = [&](Attr attr, unsigned axis) -> int64_t {
    const auto values = fn_.getInts(op, attr);
    return axis < values.size() && values[axis] > 0 ? values[axis] : 1;
  };
  result.axes = of(fn_.operand(op, 0)).axes;
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    AxisFacts &out = result.axes[i];
    const int64_t extent = result.shape[i];
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

void FactsBuilder::castAxes(OpId op, ValueFacts &result) const {
  const ValueId a = fn_.operand(op, 0);
  const ValueFacts &in = of(a);
  if (!fn_.type(a).isInteger() && !fn_.type(a).isPointer()) {
    return;
  }
  const Type type = fn_.type(fn_.result(op));
  if (!type.isInteger() && !type.isPointer()) {
    return;
  }
  const bool keepsRuns =
      in.elementBytes == result.elementBytes || std::max(in.elementBytes, result.elementBytes) == 1;
  // Elsewhere a run may cross the wrap of the narrower type.
  const Opcode opcode = fn_.opcode(op);
  const bool whole =
      opcode == Opcode::SExt    ? fn_.type(a).elementBits() >= 32
      : opcode == Opcode::ZExt  ? fn_.type(a).elementBits() >= 32 && in.promised.lo >= 0
      : opcode == Opcode::Trunc ? in.promised.within(typeRange(type).lo, typeRange(type).hi)
                                : true;
  const Type narrow = opcode == Opcode::Trunc ? type : fn_.type(a);
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    const AxisFacts &x = in.axes[i];
    AxisFacts &out = result.axes[i];
    out.divisible = allDivisible(a);
    if (x.contiguous == 1 || !keepsRuns) {
      continue;
    }
    const int64_t extent = result.shape[i];
    const int64_t group = whole ? x.contiguous : std::min(alignedRun(x, extent, narrow), extent);
    if (group > 1) {
      out.contiguous = group;
      out.divisible = firstOfGroups(x, group, extent, std::max<int64_t>(in.elementBytes, 1));
    }
  }
}

// x < b and x >= b are constant over aligned runs of x that b's multiples do not cut.
void FactsBuilder::compareAxes(OpId op, ValueFacts &result) const {
  ValueId a = fn_.operand(op, 0), b = fn_.operand(op, 1);
  if (!fn_.type(a).isInteger() || fn_.type(a).isBool()) {
    return;
  }
  const auto predicate = fn_.getEnum<CmpPred>(op, Attr::predicate);
  const bool less = predicate == CmpPred::slt || predicate == CmpPred::ult;
  const bool greaterEqual = predicate == CmpPred::sge || predicate == CmpPred::uge;
  const bool lessEqual = predicate == CmpPred::sle || predicate == CmpPred::ule;
  const bool greater = predicate == CmpPred::sgt || predicate == CmpPred::ugt;
  if (!less && !greaterEqual && !lessEqual && !greater) {
    return;
  }
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    const int64_t extent = result.shape[i];
    const auto improve = [&](ValueId runs, ValueId bound, uint64_t plus) {
      const AxisFacts &x = of(runs).axes[i];
      int64_t multiple = allDivisible(bound);
      if (plus != 0) {
        const auto number = fn_.constantInt(bound);
        multiple = number ? lowBit(static_cast<int64_t>(static_cast<uint64_t>(*number) + plus)) : 1;
      }
      if (x.contiguous > 1) {
        const int64_t group = std::min({alignedRun(x, extent, fn_.type(runs)), multiple, extent});
        int64_t &run = result.axes[i].constant;
        run = std::max(run, commonRun(group, of(bound).axes[i].constant, extent));
      }
    };
    improve(a, b, less || greaterEqual ? 0 : 1);
    improve(b, a, lessEqual || greater ? 0 : 1);
  }
}

void FactsBuilder::selectAxes(OpId op, ValueFacts &result) const {
  const ValueId c = fn_.operand(op, 0), a = fn_.operand(op, 1), b = fn_.operand(op, 2);
  const int64_t unit = std::max<int64_t>(result.elementBytes, 1);
  for (unsigned i = 0; i < result.axes.size(); ++i) {
    const int64_t extent = result.shape[i];
    const AxisFacts &x = of(a).axes[i], &y = of(b).axes[i];
    const int64_t group =
        commonRun(commonRun(x.contiguous, y.contiguous, extent), of(c).axes[i].constant, extent);
    AxisFacts &out = result.axes[i];
    out.contiguous = group;
    out.divisible = group == 1 ? std::min(allDivisible(a), allDivisible(b))
                               : std::min(firstOfGroups(x, group, extent, unit),
                                          firstOfGroups(y, group, extent, unit));
  }
}

} // namespace libtile::passes
