// SPDX-License-Identifier: Apache-2.0
#include "passes/analysis/facts.h"

#include "passes/analysis/facts_builder.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>

namespace libtile::passes {

using ir::ValueId;

Facts computeFacts(const ir::Function &fn) { return FactsBuilder(fn).run(); }

// ---- arithmetic of runs

int64_t lowBit(int64_t value) {
  constexpr uint64_t kMost = AxisFacts::kMaxDivisible;
  const auto bits = static_cast<uint64_t>(value);
  return static_cast<int64_t>(bits == 0 ? kMost : std::min(bits & -bits, kMost));
}

int64_t commonRun(int64_t a, int64_t b, int64_t extent) {
  if (a >= extent) {
    return std::min(b, extent);
  }
  return b >= extent ? a : std::gcd(a, b);
}

int64_t everyElement(const AxisFacts &axis, int64_t unit) {
  return axis.contiguous == 1 ? axis.divisible : std::min(axis.divisible, unit);
}

int64_t alignedGroup(int64_t run, int64_t extent) {
  return run >= extent ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)))
                       : lowBit(run);
}

namespace {

const AxisFacts &axisOf(std::span<const AxisFacts> axes, unsigned axis) {
  static const AxisFacts kNothing;
  return axis < axes.size() ? axes[axis] : kNothing;
}

// Every element is a multiple of this.
int64_t divisibleBy(std::span<const AxisFacts> axes, int64_t unit) {
  int64_t best = 1;
  for (const AxisFacts &axis : axes) {
    best = std::max(best, everyElement(axis, unit));
  }
  return best;
}

} // namespace

const AxisFacts &Facts::axis(ValueId value, unsigned axis) const {
  return axisOf(values_[value].proved.axes, axis);
}

int64_t Facts::divisible(ValueId value) const {
  const ValueFacts &facts = values_[value];
  return divisibleBy(facts.proved.axes, std::max<int64_t>(facts.elementBytes, 1));
}

IntRange Facts::range(ValueId value) const { return values_[value].proved.range; }

bool Facts::isUniform(ValueId value) const {
  const ValueFacts &facts = values_[value];
  for (unsigned i = 0; i < facts.rank; ++i) {
    if (facts.proved.axes[i].constant < facts.shape[i]) {
      return false;
    }
  }
  return facts.rank != 0 || !facts.proved.axes.empty();
}

const AffineForm *Facts::form(ValueId value) const {
  const int32_t form = values_[value].affine;
  return form < 0 ? nullptr : &forms_[static_cast<size_t>(form)];
}

const AffineForm *Facts::affine(ValueId value) const {
  const AffineForm *known = form(value);
  return known == nullptr || known->promised ? nullptr : known;
}

int64_t Facts::equalGroup(ValueId value, unsigned axis) const {
  const ValueFacts &facts = values_[value];
  return axis < facts.rank ? alignedGroup(facts.proved.axes[axis].constant, facts.shape[axis]) : 1;
}

// ---- what accesses may assume

const AxisFacts &AccessFacts::axis(ValueId value, unsigned axis) const {
  return axisOf(facts_.values_[value].promised.axes, axis);
}

const AffineForm *AccessFacts::affine(ValueId value) const { return facts_.form(value); }

int64_t AccessFacts::equalGroup(ValueId mask, unsigned axis) const {
  const Facts::ValueFacts &facts = facts_.values_[mask];
  return axis < facts.rank ? alignedGroup(facts.promised.axes[axis].constant, facts.shape[axis])
                           : 1;
}

std::optional<int64_t> AccessFacts::constantStride(ValueId value, unsigned axis) const {
  const Facts::ValueFacts &facts = facts_.values_[value];
  if (axis >= facts.rank) {
    return std::nullopt;
  }
  const AffineForm *form = affine(value);
  if (form != nullptr && form->strides[axis].isConstant()) {
    return form->strides[axis].constant();
  }
  const AxisFacts &along = facts.promised.axes[axis];
  if (along.constant >= facts.shape[axis]) {
    return 0;
  }
  if (along.contiguous >= facts.shape[axis]) {
    return std::max<int64_t>(facts.elementBytes, 1);
  }
  return std::nullopt;
}

AccessRun AccessFacts::run(ValueId pointer, unsigned axis) const {
  const Facts::ValueFacts &facts = facts_.values_[pointer];
  if (axis >= facts.rank || facts.elementBytes == 0) {
    return {1, std::max<int64_t>(facts.elementBytes, 1)};
  }
  const int64_t extent = facts.shape[axis];
  const AxisFacts &along = facts.promised.axes[axis];
  AccessRun best{std::min(along.contiguous, extent), along.divisible};
  if (along.contiguous == 1) {
    best.alignBytes = divisibleBy(facts.promised.axes, facts.elementBytes);
  }
  const AffineForm *form = affine(pointer);
  if (form == nullptr) {
    return best;
  }
  int64_t align = std::min(facts_.divisible(form->base), facts_.divisible(form->offset));
  for (unsigned i = 0; i < facts.rank; ++i) {
    align = i == axis ? align : std::min(align, facts_.divisible(form->strides[i]));
  }
  const Polynomial &stride = form->strides[axis];
  const bool consecutive =
      extent == 1 || (stride.isConstant() && stride.constant() == facts.elementBytes);
  if (consecutive && (extent > best.elements || align > best.alignBytes)) {
    return {extent, align};
  }
  if (!consecutive && best.elements == 1) {
    best.alignBytes =
        std::max(best.alignBytes, std::min(align, facts_.divisible(stride)));
  }
  return best;
}

int64_t AccessFacts::maxVectorElements(ValueId pointer, unsigned axis, int64_t maxBytes) const {
  const Facts::ValueFacts &facts = facts_.values_[pointer];
  if (axis >= facts.rank || facts.elementBytes == 0) {
    return 1;
  }
  const AccessRun longest = run(pointer, axis);
  const int64_t extent = facts.shape[axis], bytes = facts.elementBytes;
  const int64_t group = std::min({alignedGroup(longest.elements, extent), lowBit(extent),
                                  std::min(maxBytes, longest.alignBytes) / bytes});
  return std::max<int64_t>(1, std::bit_floor(static_cast<uint64_t>(group)));
}

namespace {

using Wide = __int128;

struct WideRange {
  Wide lo, hi;
};

constexpr Wide kLimit = Wide{1} << 100; // of a sum's terms
constexpr Wide kFactor = Wide{1} << 63; // times 64 bits does not overflow

bool multiply(WideRange &a, IntRange b) {
  if (a.lo < -kFactor || a.hi > kFactor) {
    return a.lo == 0 && a.hi == 0;
  }
  const Wide corners[] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
  a = {*std::ranges::min_element(corners), *std::ranges::max_element(corners)};
  return true;
}

IntRange narrow(WideRange range) {
  const IntRange whole;
  return range.lo < whole.lo || range.hi > whole.hi
             ? whole
             : IntRange{static_cast<int64_t>(range.lo), static_cast<int64_t>(range.hi)};
}

} // namespace

IntRange Facts::range(const Polynomial &polynomial) const { return rangeBy(polynomial, &ValueFacts::proved); }
IntRange AccessFacts::range(const Polynomial &polynomial) const { return facts_.rangeBy(polynomial, &Facts::ValueFacts::promised); }

IntRange Facts::rangeBy(const Polynomial &polynomial, Claims ValueFacts::*claims) const {
  WideRange sum{polynomial.constant(), polynomial.constant()};
  for (const Monomial &monomial : polynomial.monomials()) {
    WideRange product{monomial.coefficient, monomial.coefficient};
    for (ValueId factor : monomial.factors) {
      if (!multiply(product, (values_[factor].*claims).range)) {
        return {};
      }
    }
    if (product.lo < -kLimit || product.hi > kLimit) {
      return {};
    }
    sum = {sum.lo + product.lo, sum.hi + product.hi};
  }
  return narrow(sum);
}

int64_t Facts::divisible(const Polynomial &polynomial) const {
  int64_t result = lowBit(polynomial.constant());
  for (const Monomial &monomial : polynomial.monomials()) {
    int64_t product = lowBit(monomial.coefficient);
    for (ValueId factor : monomial.factors) {
      const int64_t known = divisible(factor);
      product =
          product >= AxisFacts::kMaxDivisible / known ? AxisFacts::kMaxDivisible : product * known;
    }
    result = std::min(result, product);
  }
  return result;
}

IntRange Facts::offsetRange(ValueId value) const {
  const AffineForm *known = form(value);
  if (known == nullptr) {
    return {};
  }
  const ValueFacts &facts = values_[value];
  const IntRange start = range(known->offset);
  WideRange sum{start.lo, start.hi};
  for (unsigned i = 0; i < facts.rank; ++i) {
    const IntRange stride = range(known->strides[i]);
    const Wide last = facts.shape[i] - 1;
    sum.lo += std::min<Wide>(0, stride.lo * last);
    sum.hi += std::max<Wide>(0, stride.hi * last);
  }
  return narrow(sum);
}

std::string Facts::str(const ir::Function &fn) const {
  std::string text;
  const auto axes = [&](const Claims &claims) {
    for (const AxisFacts &axis : claims.axes) {
      text += " (div=" + std::to_string(axis.divisible) +
              " cont=" + std::to_string(axis.contiguous) +
              " const=" + std::to_string(axis.constant) + ")";
    }
    if (claims.range != IntRange{}) {
      text += " range=[" + std::to_string(claims.range.lo) + "," +
              std::to_string(claims.range.hi) + "]";
    }
  };
  const auto affine = [&](const AffineForm &form) {
    text += " affine=" + (form.base.valid() ? "%" + std::to_string(form.base.index) + " + " : "") +
            form.offset.str();
    for (const Polynomial &stride : form.strides) {
      text += " [" + stride.str() + "]";
    }
  };
  const auto line = [&](ValueId value) {
    if (!values_.contains(value)) {
      return;
    }
    const ValueFacts &facts = values_[value];
    const AffineForm *known = form(value);
    text += "%" + std::to_string(value.index) + ":";
    axes(facts.proved);
    if (known != nullptr && !known->promised) {
      affine(*known);
    }
    const bool more = facts.promised != facts.proved, moves = known != nullptr && known->promised;
    text += more || moves ? " promised" : "";
    if (more) {
      axes(facts.promised);
    }
    if (moves) {
      affine(*known);
    }
    text += "\n";
  };
  for (ValueId arg : fn.args(fn.body())) {
    line(arg);
  }
  for (ir::OpId op : fn.walk()) {
    for (ir::BlockId region : fn.regions(op)) {
      std::ranges::for_each(fn.args(region), line);
    }
    std::ranges::for_each(fn.results(op), line);
  }
  return text;
}

} // namespace libtile::passes
