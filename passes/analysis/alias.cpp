// SPDX-License-Identifier: Apache-2.0
// Two accesses with one base touch different bytes if the distance of their first elements, a polynomial in which what they
// share cancels, and what their axes add to it provably never sum up to 0.
#include "passes/analysis/alias.h"

#include "ir/ops.h"
#include "passes/op_properties.h"

#include <llvm/ADT/DenseSet.h>
#include <llvm/ADT/STLExtras.h>

#include <algorithm>
#include <numeric>

namespace libtile::passes {

using ir::BlockId;
using ir::Effects;
using ir::Function;
using ir::Guard;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

namespace {

// Follows a pointer to the parameters that it is made from. What it meets again on the way round a
// loop adds nothing.
class BaseSearch {
public:
  explicit BaseSearch(const Function &fn) : fn_(fn) {}

  llvm::SmallVector<ValueId, 2> run(ValueId pointer) {
    work_ = {pointer};
    llvm::SmallVector<ValueId, 2> bases;
    while (!work_.empty()) {
      const ValueId value = work_.back();
      work_.pop_back();
      if (!seen_.insert(value.index).second) {
        continue;
      }
      if (seen_.size() > kSteps || !expand(value)) {
        return {};
      }
      if (isParameter(value)) {
        bases.push_back(value);
      }
    }
    return bases;
  }

private:
  static constexpr unsigned kSteps = 256;

  [[nodiscard]] bool isParameter(ValueId value) const {
    return fn_.isArg(value) && fn_.defBlock(value) == fn_.body();
  }

  bool expand(ValueId value) {
    if (isParameter(value)) {
      return true;
    }
    const OpId owner = fn_.isArg(value) ? fn_.parentOp(fn_.defBlock(value)) : fn_.def(value);
    const Opcode opcode = fn_.opcode(owner);
    const unsigned index = fn_.defIndex(value);
    if (isLoop(opcode)) {
      const unsigned shift = fn_.isArg(value) && opcode == Opcode::For ? 1 : 0;
      const unsigned first = opcode == Opcode::For ? 3 : 0;
      const unsigned stop = fn_.getBool(owner, ir::Attr::stop) ? 1 : 0;
      work_.push_back(fn_.operand(owner, first + index - shift));
      work_.push_back(fn_.operand(fn_.last(fn_.regions(owner).back()), stop + index - shift));
      return true;
    }
    if (opcode == Opcode::If) {
      for (BlockId region : fn_.regions(owner)) {
        work_.push_back(fn_.operand(fn_.last(region), index));
      }
      return true;
    }
    if (opcode == Opcode::Select) {
      work_.push_back(fn_.operand(owner, 1));
      work_.push_back(fn_.operand(owner, 2));
      return true;
    }
    const bool keeps =
        opcode == Opcode::PtrAdd || opcode == Opcode::Splat || opcode == Opcode::Broadcast ||
        opcode == Opcode::ExpandDims || opcode == Opcode::Reshape || opcode == Opcode::Trans ||
        opcode == Opcode::Slice || opcode == Opcode::Gather ||
        opcode == Opcode::Hint || opcode == Opcode::Bitcast || opcode == Opcode::ConvertLayout;
    if (!keeps || !fn_.type(fn_.operand(owner, 0)).isPointer()) {
      return false;
    }
    work_.push_back(fn_.operand(owner, 0));
    return true;
  }

  const Function &fn_;
  llvm::SmallVector<ValueId, 8> work_;
  llvm::SmallDenseSet<uint32_t, 16> seen_; // a search is short, whatever the function's size
};

bool areDisjoint(const Function &fn, ValueId paramA, ValueId paramB) {
  const unsigned a = fn.defIndex(paramA), b = fn.defIndex(paramB);
  return std::ranges::any_of(fn.guards, [&](const Guard &guard) {
    return guard.kind == Guard::Kind::Disjoint &&
           ((guard.param == a && guard.value == b) || (guard.param == b && guard.value == a));
  });
}

using Wide = __int128;

Wide floorOf(Wide a, Wide positive) { return a / positive - (a % positive < 0 ? 1 : 0); }

// What an axis of one of two tiles adds to the distance of their elements, in bytes: multiples of the stride from lo to hi.
struct Axis {
  uint64_t stride = 0; // its magnitude; 0: not a constant; all between lo and hi
  Wide lo = 0, hi = 0;
};

void addAxes(const Function &fn, const Facts &facts, ValueId pointer, const AffineForm &form, Wide sign,
             llvm::SmallVectorImpl<Axis> &axes) {
  for (unsigned i = 0; i < form.strides.size(); ++i) {
    const IntRange stride = facts.range(form.strides[i]);
    const Wide last = fn.type(pointer).dim(i) - 1;
    const Wide a = sign * stride.lo * last, b = sign * stride.hi * last;
    if (a != 0 || b != 0) {
      const uint64_t magnitude = stride.lo < 0 ? -static_cast<uint64_t>(stride.lo) : static_cast<uint64_t>(stride.lo);
      axes.push_back({stride.lo == stride.hi ? magnitude : 0, std::min<Wide>({0, a, b}), std::max<Wide>({0, a, b})});
    }
  }
}

// Iterations may differ in the value. The condition of a while is part of the iteration.
bool varies(const Function &fn, BlockId body, ValueId value) {
  const OpId loop = fn.parentOp(body);
  if (!loop.valid() || fn.opcode(loop) != Opcode::While) {
    return !fn.isDefinedOutside(value, body);
  }
  return std::ranges::any_of(
      fn.regions(loop), [&](BlockId region) { return !fn.isDefinedOutside(value, region); });
}

// The terms with a symbol that the loop defines, and the others.
std::pair<Polynomial, Polynomial> splitVarying(const Function &fn, BlockId body,
                                               const Polynomial &polynomial) {
  Polynomial fixed = polynomial;
  for (const Monomial &monomial : polynomial.monomials()) {
    for (ValueId factor : monomial.factors) {
      if (varies(fn, body, factor)) {
        fixed = fixed.without(factor);
      }
    }
  }
  return {fixed, polynomial.minus(fixed).value_or(Polynomial())};
}

// Least and greatest distance of the two first elements, a - b; nullopt if unknown.
struct Distance {
  Wide lo, hi;
};
std::optional<Distance> distanceOf(const Function &fn, const Facts &facts, const AffineForm &a,
                                   const AffineForm &b, BlockId body) {
  if (!body.valid()) {
    const auto difference = a.offset.minus(b.offset);
    if (!difference) {
      return std::nullopt;
    }
    const IntRange range = facts.range(*difference);
    return Distance{range.lo, range.hi};
  }
  const auto [fixedA, varyingA] = splitVarying(fn, body, a.offset);
  const auto [fixedB, varyingB] = splitVarying(fn, body, b.offset);
  const auto difference = fixedA.minus(fixedB);
  if (!difference) {
    return std::nullopt;
  }
  const IntRange fixed = facts.range(*difference);
  const IntRange x = facts.range(varyingA), y = facts.range(varyingB);
  return Distance{Wide{fixed.lo} + x.lo - y.hi, Wide{fixed.hi} + x.hi - y.lo};
}

// Whether a distance between lo and hi and the axes can sum up to 0. What the larger strides add is a multiple of their
// greatest divisor: tiles that interleave, as the halves of each row, do not meet where the others never reach one.
bool mayMeet(Distance distance, llvm::SmallVectorImpl<Axis> &axes) {
  std::ranges::sort(axes, {}, &Axis::stride);
  for (size_t smaller = 0; smaller <= axes.size(); ++smaller) {
    const bool isConstant = smaller == axes.size() || axes[smaller].stride != 0;
    uint64_t divisor = 0;
    for (const Axis &axis : llvm::drop_begin(axes, smaller)) {
      divisor = std::gcd(divisor, axis.stride);
    }
    const bool meets = divisor == 0 ? distance.lo <= 0 && distance.hi >= 0
                                    : floorOf(distance.hi, divisor) * divisor >= distance.lo;
    if (isConstant && !meets) {
      return false;
    }
    if (smaller < axes.size()) {
      distance.lo += axes[smaller].lo;
      distance.hi += axes[smaller].hi;
    }
  }
  return true;
}

bool overlaps(const Function &fn, ValueId ptrA, ValueId ptrB, const Facts &facts, BlockId body) {
  const ValueId baseA = basePointer(fn, ptrA, facts), baseB = basePointer(fn, ptrB, facts);
  if (!mayOverlap(fn, baseA, baseB)) {
    return false;
  }
  const AffineForm *a = facts.access().affine(ptrA), *b = facts.access().affine(ptrB);
  if (a == nullptr || b == nullptr || a->base != b->base ||
      (body.valid() && varies(fn, body, a->base))) {
    return true;
  }
  const auto distance = distanceOf(fn, facts, *a, *b, body);
  if (!distance) {
    return true;
  }
  llvm::SmallVector<Axis, 8> axes;
  addAxes(fn, facts, ptrA, *a, 1, axes);
  addAxes(fn, facts, ptrB, *b, -1, axes);
  const Wide bytesA = fn.type(ptrA).pointee().elementBytes(), bytesB = fn.type(ptrB).pointee().elementBytes();
  return mayMeet({distance->lo - (bytesB - 1), distance->hi + (bytesA - 1)}, axes);
}

// No two elements of the tile touch the same bytes: each stride clears what the smaller ones span.
bool isInjective(const Function &fn, const Facts &facts, ValueId pointer) {
  const ir::Type type = fn.type(pointer);
  std::vector<std::pair<Wide, Wide>> axes; // least |stride|, extent
  Wide reach = type.pointee().elementBytes();
  for (unsigned i = 0; i < type.rank(); ++i) {
    if (type.dim(i) == 1) {
      continue;
    }
    const auto stride = facts.access().constantStride(pointer, i);
    if (!stride) {
      return false;
    }
    axes.emplace_back(*stride < 0 ? -Wide{*stride} : Wide{*stride}, type.dim(i));
  }
  std::ranges::sort(axes);
  for (const auto &[stride, extent] : axes) {
    if (stride < reach) {
      return false;
    }
    reach += stride * (extent - 1);
  }
  return true;
}

bool accessesGlobal(Effects effects) {
  return effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal);
}

} // namespace

bool mayOverlap(const Function &fn, ValueId paramA, ValueId paramB) {
  return !paramA.valid() || !paramB.valid() || paramA == paramB || !areDisjoint(fn, paramA, paramB);
}

llvm::SmallVector<ValueId, 2> basePointers(const Function &fn, ValueId pointer, const Facts &facts) {
  const AffineForm *form = facts.access().affine(pointer);
  return BaseSearch(fn).run(form != nullptr ? form->base : pointer);
}

ValueId basePointer(const Function &fn, ValueId pointer, const Facts &facts) {
  const llvm::SmallVector<ValueId, 2> bases = basePointers(fn, pointer, facts);
  return bases.size() == 1 ? bases.front() : ValueId();
}

bool mayAlias(const Function &fn, ValueId ptrA, ValueId ptrB, const Facts &facts) {
  return overlaps(fn, ptrA, ptrB, facts, {});
}

bool mayAliasAcross(const Function &fn, BlockId loopBody, ValueId ptrA, ValueId ptrB,
                    const Facts &facts) {
  return overlaps(fn, ptrA, ptrB, facts, loopBody);
}

bool sameElements(const Function &fn, ValueId ptrA, ValueId ptrB, const Facts &facts) {
  const ir::Type typeA = fn.type(ptrA), typeB = fn.type(ptrB);
  if (!typeA.sameShape(typeB) || typeA.pointee().elementBytes() != typeB.pointee().elementBytes()) {
    return false;
  }
  const AffineForm *a = facts.access().affine(ptrA), *b = facts.access().affine(ptrB);
  const bool equal = ptrA == ptrB || (a != nullptr && b != nullptr && a->base == b->base &&
                                      a->offset == b->offset && a->strides == b->strides);
  return equal && isInjective(fn, facts, ptrA);
}

bool mayConflict(const Function &fn, OpId a, OpId b, const Facts &facts) {
  const Effects x = fn.effects(a), y = fn.effects(b);
  if (!x.conflicts(y)) {
    return false;
  }
  constexpr unsigned kGlobal = Effects::ReadsGlobal | Effects::WritesGlobal;
  const auto onlyGlobal = [](Effects effects) {
    return (effects | Effects(kGlobal)) == Effects(kGlobal);
  };
  const bool plain = fn.regions(a).empty() && fn.regions(b).empty() && onlyGlobal(x) &&
                     onlyGlobal(y) && accessesGlobal(x) && accessesGlobal(y);
  return !plain || mayAlias(fn, fn.operand(a, 0), fn.operand(b, 0), facts);
}

bool mayWriteTo(const Function &fn, BlockId block, OpId load, const Facts &facts) {
  const std::vector<OpId> ops = fn.walk(block);
  return std::ranges::any_of(ops, [&](OpId op) {
    return op != load && fn.ownEffects(op).has(Effects::WritesGlobal) &&
           mayAliasAcross(fn, block, fn.operand(op, 0), fn.operand(load, 0), facts);
  });
}

} // namespace libtile::passes
