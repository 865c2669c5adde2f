// SPDX-License-Identifier: Apache-2.0
#include "passes/analysis/facts.h"

#include "passes/analysis/facts_builder.h"

#include <algorithm>
#include <numeric>

namespace libtile::passes {

using ir::ValueId;

Facts computeFacts(const ir::Function &fn) { return FactsBuilder(fn).run(); }

const AxisFacts &Facts::axis(ValueId value, unsigned axis) const {
  static const AxisFacts kNothing;
  const ValueFacts &facts = values_[value];
  return axis < facts.axes.size() ? facts.axes[axis] : kNothing;
}

int64_t Facts::divisible(ValueId value) const {
  const ValueFacts &facts = values_[value];
  int64_t best = 1;
  for (const AxisFacts &axis : facts.axes) {
    const int64_t unit = std::max<int64_t>(facts.elementBytes, 1);
    best = std::max(best, axis.contiguous == 1 ? axis.divisible : std::min(axis.divisible, unit));
  }
  return best;
}

IntRange Facts::range(ValueId value) const { return values_[value].range; }

bool Facts::isUniform(ValueId value) const {
  const ValueFacts &facts = values_[value];
  for (unsigned i = 0; i < facts.rank; ++i) {
    if (facts.axes[i].constant < facts.shape[i]) {
      return false;
    }
  }
  return facts.rank != 0 || !facts.axes.empty();
}

const AffineForm *Facts::affine(ValueId value) const {
  const int32_t form = values_[value].affine;
  return form < 0 ? nullptr : &forms_[static_cast<size_t>(form)];
}

std::optional<int64_t> Facts::constantStride(ValueId value, unsigned axis) const {
  const ValueFacts &facts = values_[value];
  if (axis >= facts.rank) {
    return std::nullopt;
  }
  const AffineForm *form = affine(value);
  if (form != nullptr && form->strides[axis].isConstant()) {
    return form->strides[axis].constant();
  }
  if (facts.axes[axis].constant >= facts.shape[axis]) {
    return 0;
  }
  if (facts.axes[axis].contiguous >= facts.shape[axis]) {
    return std::max<int64_t>(facts.elementBytes, 1);
  }
  return std::nullopt;
}

AccessRun Facts::accessRun(ValueId pointer, unsigned axis) const {
  const ValueFacts &facts = values_[pointer];
  if (axis >= facts.rank || facts.elementBytes == 0) {
    return {1, std::max<int64_t>(facts.elementBytes, 1)};
  }
  const int64_t extent = facts.shape[axis];
  AccessRun best{std::min(facts.axes[axis].contiguous, extent), facts.axes[axis].divisible};
  if (facts.axes[axis].contiguous == 1) {
    best.alignBytes = divisible(pointer);
  }
  const AffineForm *form = affine(pointer);
  if (form == nullptr) {
    return best;
  }
  int64_t align = std::min(divisible(form->base), divisible(form->offset));
  for (unsigned i = 0; i < facts.rank; ++i) {
    align = i == axis ? align : std::min(align, divisible(form->strides[i]));
  }
  const Polynomial &stride = form->strides[axis];
  const bool consecutive =
      extent == 1 || (stride.isConstant() && stride.constant() == facts.elementBytes);
  if (consecutive && (extent > best.elements || align > best.alignBytes)) {
    return {extent, align};
  }
  if (!consecutive && best.elements == 1) {
    best.alignBytes = std::max(best.alignBytes, std::min(align, divisible(stride)));
  }
  return best;
}

int64_t Facts::maxVectorElements(ValueId pointer, unsigned axis, int64_t maxBytes) const {
  const ValueFacts &facts = values_[pointer];
  if (axis >= facts.rank || facts.elementBytes == 0) {
    return 1;
  }
  const AccessRun run = accessRun(pointer, axis);
  const int64_t extent = facts.shape[axis], bytes = facts.elementBytes;
  int64_t elements = 1;
  for (int64_t next = 2; next * bytes <= std::min(maxBytes, run.alignBytes); next *= 2) {
    const bool fits = run.elements >= extent ? next <= extent : run.elements % next == 0;
    if (!fits || extent % next != 0) {
      break;
    }
    elements = next;
  }
  return elements;
}

int64_t Facts::maskAlignment(ValueId mask, unsigned axis) const {
  const ValueFacts &facts = values_[mask];
  return axis < facts.rank ? std::min<int64_t>(facts.axes[axis].constant, facts.shape[axis]) : 1;
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

IntRange Facts::range(const Polynomial &polynomial) const {
  WideRange sum{polynomial.constant(), polynomial.constant()};
  for (const Monomial &monomial : polynomial.monomials()) {
    WideRange product{monomial.coefficient, monomial.coefficient};
    for (ValueId factor : monomial.factors) {
      if (!multiply(product, range(factor))) {
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
  const AffineForm *form = affine(value);
  if (form == nullptr) {
    return {};
  }
  const ValueFacts &facts = values_[value];
  const IntRange start = range(form->offset);
  WideRange sum{start.lo, start.hi};
  for (unsigned i = 0; i < facts.rank; ++i) {
    const IntRange stride = range(form->strides[i]);
    const Wide last = facts.shape[i] - 1;
    sum.lo += std::min<Wide>(0, stride.lo * last);
    sum.hi += std::max<Wide>(0, stride.hi * last);
  }
  return narrow(sum);
}

std::string Facts::str(const ir::Function &fn) const {
  std::string text;
  const auto line = [&](ValueId value) {
    if (!values_.contains(value)) {
      return;
    }
    text += "%" + std::to_string(value.index) + ":";
    const ValueFacts &facts = values_[value];
    for (const AxisFacts &axis : facts.axes) {
      text += " (div=" + std::to_string(axis.divisible) +
              " cont=" + std::to_string(axis.contiguous) +
              " const=" + std::to_string(axis.constant) + ")";
    }
    if (facts.range != IntRange{}) {
      text +=
          " range=[" + std::to_string(facts.range.lo) + "," + std::to_string(facts.range.hi) + "]";
    }
    if (const AffineForm *form = affine(value)) {
      text +=
          " affine=" + (form->base.valid() ? "%" + std::to_string(form->base.index) + " + " : "") +
          form->offset.str();
      for (const Polynomial &stride : form->strides) {
        text += " [" + stride.str() + "]";
      }
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
