// SPDX-License-Identifier: Apache-2.0
#include "passes/analysis/access_box.h"

#include "ir/ops.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::CmpPred;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;
using MaybePolynomial = std::optional<Polynomial>;

bool isParameter(const ir::Function &fn, ValueId value) {
  return fn.isArg(value) && fn.defBlock(value) == fn.body();
}

// The monomial as a polynomial.
MaybePolynomial productOf(const Monomial &monomial) {
  MaybePolynomial product = Polynomial(monomial.coefficient);
  for (const ValueId factor : monomial.factors) {
    product = product ? product->times(Polynomial::symbol(factor)) : product;
  }
  return product;
}

// dividend / divisor, where that leaves nothing over. Both are products; a number has no factors.
std::optional<Monomial> quotient(const Monomial &dividend, const Monomial &divisor) {
  if (divisor.coefficient == 0 || dividend.coefficient % divisor.coefficient != 0) {
    return std::nullopt;
  }
  Monomial result{dividend.coefficient / divisor.coefficient, {}};
  result.factors = dividend.factors;
  for (const ValueId factor : divisor.factors) {
    const auto found = std::ranges::find(result.factors, factor);
    if (found == result.factors.end()) {
      return std::nullopt;
    }
    result.factors.erase(found);
  }
  return result;
}

// All its products, the number among them.
std::vector<Monomial> monomialsOf(const Polynomial &polynomial) {
  std::vector<Monomial> all(polynomial.monomials().begin(), polynomial.monomials().end());
  if (polynomial.constant() != 0) {
    all.push_back({polynomial.constant(), {}});
  }
  return all;
}

bool addTo(Polynomial &sum, const Monomial &monomial) {
  const MaybePolynomial product = productOf(monomial);
  const MaybePolynomial result = product ? sum.plus(*product) : std::nullopt;
  if (result) {
    sum = *result;
  }
  return result.has_value();
}

// What the n-th iteration has of a value that starts as `init` and grows by `growth`, n from 0:
// init + growth * (index - lo) / step.
MaybePolynomial afterSteps(const Polynomial &init, const Polynomial &growth, const Polynomial &index,
                           const Polynomial &lo, int64_t step) {
  Polynomial perIndex;
  for (const Monomial &monomial : monomialsOf(growth)) {
    const auto part = quotient(monomial, {step, {}});
    if (!part || !addTo(perIndex, *part)) {
      return std::nullopt;
    }
  }
  const MaybePolynomial turns = index.minus(lo);
  const MaybePolynomial grown = turns ? turns->times(perIndex) : std::nullopt;
  return grown ? init.plus(*grown) : std::nullopt;
}

// Of an argument that a `for` carries.
MaybePolynomial closedFormOf(const ir::Function &fn, ValueId carried, const Facts &facts) {
  const ir::BlockId body = fn.defBlock(carried);
  const unsigned position = fn.defIndex(carried);
  const OpId loop = body == fn.body() ? OpId{} : fn.parentOp(body);
  if (!fn.isArg(carried) || !loop.valid() || fn.opcode(loop) != Opcode::For || position == 0) {
    return std::nullopt;
  }
  const auto step = fn.constantInt(fn.operand(loop, 2));
  const AccessFacts access = facts.access();
  const AffineForm *next = access.affine(fn.operand(fn.last(body), position - 1 + (fn.getBool(loop, Attr::stop) ? 1 : 0)));
  const AffineForm *init = access.affine(fn.operand(loop, 2 + position));
  const AffineForm *lo = access.affine(fn.operand(loop, 0));
  if (!step || *step == 0 || next == nullptr || init == nullptr || lo == nullptr || next->base.valid() ||
      init->base.valid()) {
    return std::nullopt;
  }
  const MaybePolynomial growth = next->offset.minus(Polynomial::symbol(carried));
  const auto isOutside = [&](const Monomial &monomial) {
    return std::ranges::all_of(monomial.factors, [&](ValueId factor) { return fn.isDefinedOutside(factor, body); });
  };
  if (!growth || !std::ranges::all_of(growth->monomials(), isOutside)) {
    return std::nullopt;
  }
  return afterSteps(init->offset, *growth, Polynomial::symbol(fn.arg(body, 0)), lo->offset, *step);
}

// A condition on one index of a tile: it is at least, or at most, `bound`.
struct IndexBound {
  std::optional<unsigned> axis; // nullopt: no index matters
  bool isLower = false;
  Polynomial bound;
};

class Finder {
public:
  Finder(const ir::Function &fn, const Facts &facts) : fn_(fn), facts_(facts) {}

  std::optional<AccessBox> run(ValueId pointers, ValueId mask) {
    const AffineForm *form = facts_.access().affine(pointers);
    if (form == nullptr || !form->base.valid() || !isParameter(fn_, form->base)) {
      return std::nullopt;
    }
    box_.base = form->base;
    shape_.assign(fn_.type(pointers).shape().begin(), fn_.type(pointers).shape().end());
    const auto bytes = static_cast<int64_t>(fn_.type(pointers).pointee().elementBytes());
    if (!makeDims(*form, bytes) || !distribute(closedForm(fn_, form->offset, facts_)) ||
        (mask.valid() && !takeMask(mask, identity()))) {
      return std::nullopt;
    }
    for (BoxDim &dim : box_.dims) {
      const bool hasNone = facts_.access().range(dim.coordinate).lo >= 0;
      dim.startsAtZero = dim.startsAtZero || hasNone;
    }
    return std::move(box_);
  }

private:
  // One a tile's axis, strides from large to small: those with parameters first, the elements' own last.
  bool makeDims(const AffineForm &form, int64_t bytes) {
    for (unsigned axis = 0; axis < form.strides.size(); ++axis) {
      const Polynomial stride = closedForm(fn_, form.strides[axis], facts_);
      if (stride.isZero()) {
        if (shape_[axis] != 1) {
          return false; // elements that come several times
        }
        continue;
      }
      if (monomialsOf(stride).size() != 1) {
        return false;
      }
      box_.dims.push_back({axis, {}, stride, {}, false});
    }
    const auto bySize = [](const BoxDim &a, const BoxDim &b) {
      return a.stride.isConstant() != b.stride.isConstant() ? b.stride.isConstant()
                                                           : a.stride.constant() > b.stride.constant();
    };
    std::ranges::stable_sort(box_.dims, bySize);
    if (box_.dims.empty() || box_.dims.back().stride != Polynomial(bytes)) {
      box_.dims.push_back({std::nullopt, {}, bytes, {}, false});
    }
    return true;
  }

  // Gives each product of the offset to the first dimension whose stride divides it.
  bool distribute(const Polynomial &offset) {
    for (const Monomial &monomial : monomialsOf(offset)) {
      if (!give(monomial)) {
        return false;
      }
    }
    return true;
  }

  bool give(const Monomial &monomial) {
    for (BoxDim &dim : box_.dims) {
      // What has a parameter and no dimension of that stride belongs to a dimension of its own.
      const bool isOwn = dim.stride.isConstant() && std::ranges::any_of(monomial.factors, [&](ValueId factor) {
                           return isParameter(fn_, factor) && monomial.factors.size() > 1;
                         });
      const auto part = quotient(monomial, monomialsOf(dim.stride)[0]);
      if (part && !isOwn) {
        return addTo(dim.coordinate, *part);
      }
    }
    Monomial stride{monomial.coefficient, {}}, coordinate{1, {}};
    for (const ValueId factor : monomial.factors) {
      (isParameter(fn_, factor) ? stride : coordinate).factors.push_back(factor);
    }
    const MaybePolynomial step = productOf(stride), first = productOf(coordinate);
    if (stride.factors.empty() || !step || !first) {
      return false;
    }
    box_.dims.insert(box_.dims.begin(), BoxDim{std::nullopt, *first, *step, {}, false});
    return true;
  }

  // Of each axis of a part of the mask, the axis of the tile.
  using Axes = std::vector<std::optional<unsigned>>;
  [[nodiscard]] Axes identity() const {
    Axes axes;
    for (unsigned axis = 0; axis < shape_.size(); ++axis) {
      axes.emplace_back(axis);
    }
    return axes;
  }

  // Takes the mask apart down to its comparisons.
  bool takeMask(ValueId mask, const Axes &axes) {
    const OpId op = fn_.def(mask);
    if (!op.valid()) {
      return false;
    }
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::And) {
      return takeMask(fn_.operand(op, 0), axes) && takeMask(fn_.operand(op, 1), axes);
    }
    if (opcode == Opcode::Broadcast || opcode == Opcode::ConvertLayout) {
      return takeMask(fn_.operand(op, 0), axes);
    }
    if (opcode == Opcode::ExpandDims) {
      Axes inner = axes;
      inner.erase(inner.begin() + fn_.getInt(op, Attr::axis));
      return takeMask(fn_.operand(op, 0), inner);
    }
    if (opcode == Opcode::Trans) {
      Axes inner(axes.size());
      const auto order = fn_.getInts(op, Attr::order);
      for (size_t i = 0; i < axes.size(); ++i) {
        inner[static_cast<size_t>(order[i])] = axes[i];
      }
      return takeMask(fn_.operand(op, 0), inner);
    }
    if (opcode == Opcode::Cmp) {
      const auto bound = boundOf(op);
      return bound && takeBound(*bound, axes);
    }
    return fn_.constantInt(mask) == int64_t{1};
  }

  // The comparison as  offset + stride * index >= 0.
  [[nodiscard]] std::optional<IndexBound> boundOf(OpId cmp) const {
    ValueId less = fn_.operand(cmp, 0), more = fn_.operand(cmp, 1);
    const auto predicate = fn_.getEnum<CmpPred>(cmp, Attr::predicate);
    if (predicate == CmpPred::sgt || predicate == CmpPred::sge) {
      std::swap(less, more);
    } else if (predicate != CmpPred::slt && predicate != CmpPred::sle) {
      return std::nullopt;
    }
    const bool isStrict = predicate == CmpPred::slt || predicate == CmpPred::sgt;
    const auto from = formOf(less, more), to = formOf(more, less);
    if (!from || !to) {
      return std::nullopt;
    }
    IndexBound result;
    MaybePolynomial offset = to->offset.minus(from->offset);
    offset = offset ? offset->minus(isStrict ? 1 : 0) : offset;
    for (unsigned axis = 0; offset && axis < from->strides.size(); ++axis) {
      const MaybePolynomial stride = to->strides[axis].minus(from->strides[axis]);
      if (stride && stride->isZero()) {
        continue;
      }
      if (!stride || !stride->isConstant() || result.axis || (stride->constant() != 1 && stride->constant() != -1)) {
        return std::nullopt;
      }
      result.axis = axis;
      result.isLower = stride->constant() > 0;
    }
    const MaybePolynomial bound = offset && result.isLower ? Polynomial().minus(*offset) : offset;
    if (!bound) {
      return std::nullopt;
    }
    result.bound = closedForm(fn_, *bound, facts_);
    return result;
  }

  // Of one side of a comparison. A bound that is cut off at the ends of what it is compared with, an arange, is
  // as good without.
  [[nodiscard]] std::optional<AffineForm> formOf(ValueId value, ValueId other) const {
    const AffineForm *form = facts_.access().affine(value);
    const AffineForm *index = facts_.access().affine(other);
    if (form == nullptr || index == nullptr || form->base.valid()) {
      return std::nullopt;
    }
    const OpId op = fn_.def(value);
    const ir::Type type = fn_.type(value);
    const bool isPlainIndex = type.rank() == 1 && index->strides.size() == 1 && index->offset.isZero() &&
                              index->strides[0] == Polynomial(1);
    if (!isPlainIndex || !op.valid() || fn_.opcode(op) != Opcode::Splat) {
      return *form;
    }
    AffineForm result = *form;
    const AffineForm *inner = facts_.access().affine(withoutClamps(fn_.operand(op, 0), type.dim(0)));
    if (inner != nullptr) {
      result.offset = inner->offset;
    }
    return result;
  }

  // Of a scalar that is compared with 0, 1, ..., extent - 1: what is at least 0 before it is cut off there, and at
  // most the extent, may be cut off.
  [[nodiscard]] ValueId withoutClamps(ValueId value, int64_t extent) const {
    for (;;) {
      const OpId op = fn_.def(value);
      if (!op.valid()) {
        return value;
      }
      const Opcode opcode = fn_.opcode(op);
      const auto limit = fn_.numOperands(op) == 2 ? fn_.constantInt(fn_.operand(op, 1)) : std::nullopt;
      const bool isCut = (opcode == Opcode::SMin && limit && *limit >= extent) ||
                         (opcode == Opcode::SMax && limit && *limit <= 0);
      const bool isNarrowed = opcode == Opcode::Trunc && facts_.range(fn_.operand(op, 0)).within(INT32_MIN, INT32_MAX) &&
                              fn_.type(value).elementBits() >= 32;
      if (!isCut && !isNarrowed) {
        return value;
      }
      value = fn_.operand(op, 0);
    }
  }

  bool takeBound(const IndexBound &bound, const Axes &axes) {
    if (!bound.axis || !axes[*bound.axis]) {
      return false;
    }
    const unsigned axis = *axes[*bound.axis];
    const auto found = std::ranges::find_if(box_.dims, [&](const BoxDim &dim) { return dim.axis && *dim.axis == axis; });
    if (found == box_.dims.end()) {
      return false;
    }
    const MaybePolynomial end = bound.bound.plus(found->coordinate);
    if (!end) {
      return false;
    }
    if (bound.isLower) {
      found->startsAtZero = end->isZero();
      return found->startsAtZero;
    }
    const MaybePolynomial extent = end->plus(1);
    if (!extent || (found->extent && *found->extent != *extent)) {
      return false;
    }
    found->extent = extent;
    return true;
  }

  const ir::Function &fn_;
  const Facts &facts_;
  std::vector<int32_t> shape_;
  AccessBox box_;
};

} // namespace

Polynomial closedForm(const ir::Function &fn, const Polynomial &polynomial, const Facts &facts) {
  Polynomial result = polynomial.constant();
  for (const Monomial &monomial : polynomial.monomials()) {
    MaybePolynomial product = Polynomial(monomial.coefficient);
    for (const ValueId factor : monomial.factors) {
      const MaybePolynomial closed = closedFormOf(fn, factor, facts);
      product = product ? product->times(closed ? closedForm(fn, *closed, facts) : Polynomial::symbol(factor)) : product;
    }
    const MaybePolynomial sum = product ? result.plus(*product) : std::nullopt;
    if (!sum) {
      return polynomial;
    }
    result = *sum;
  }
  return result;
}

std::optional<AccessBox> accessBox(const ir::Function &fn, ValueId pointers, ValueId mask, const Facts &facts) {
  return Finder(fn, facts).run(pointers, mask);
}

std::string AccessBox::str() const {
  std::string text = "%" + std::to_string(base.index);
  for (const BoxDim &dim : dims) {
    text += " [" + (dim.axis ? "axis " + std::to_string(*dim.axis) + ": " : std::string()) + dim.coordinate.str() + " of " +
            (dim.extent ? dim.extent->str() : "any") + " by " + dim.stride.str() +
            (dim.startsAtZero ? "]" : ", below 0 too]");
  }
  return text;
}

} // namespace libtile::passes
