// SPDX-License-Identifier: Apache-2.0
// A compare counts if its left side is a sum of the index, what is known in front of the nest, and
// perhaps the index of one sunk loop, whose first iteration reaches furthest. Sums that could leave 32
// bits, where a compare may become true again, are found at run time and give up the end.
//
// Nests are visited from the last to the first: where those that read a scratch buffer end, those that
// write it may end too.
#include "passes/cpu/bound_nests.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/cpu/masked_numbers.h"
#include "passes/cpu/steering.h"

#include <algorithm>
#include <map>

namespace libtile::passes {

using namespace ir;

namespace {

const Type kI32 = Type::scalar(Elem::I32);
const Type kI64 = Type::scalar(Elem::I64);

// Known in front of a nest: a value, and its number if it is a constant, which may be made anywhere.
struct Known {
  ValueId value;
  std::optional<int64_t> number;

  friend bool operator==(const Known &a, const Known &b) {
    return a.number && b.number ? a.number == b.number : a.value == b.value;
  }
};

// left < limit (or <=), where left = index + the terms + the index of a loop.
struct Bound {
  std::vector<Known> terms;
  Known limit;
  std::vector<Known> loop; // its first index and its end; empty: no loop
  bool isSigned = false, orEqual = false;

  friend bool operator==(const Bound &, const Bound &) = default;
};
using Bounds = std::vector<Bound>;

void addBound(Bounds &bounds, const Bound &bound) {
  if (std::ranges::find(bounds, bound) == bounds.end()) {
    bounds.push_back(bound);
  }
}

bool isNest(Opcode opcode) { return opcode == Opcode::Nest || opcode == Opcode::Fold; }

// A nest or fold that is in no other one.
struct Nest {
  Nest(const Function &fn, OpId op)
      : op(op), body(fn.region(op)), index(fn.args(body).back()),
        isFold(fn.opcode(op) == Opcode::Fold),
        extent(isFold ? fn.getInt(op, Attr::extent) : fn.getInts(op, Attr::extents).back()) {}

  OpId op;
  BlockId body;
  ValueId index; // of the last dimension
  bool isFold;
  int64_t extent;
};

// ---- compares

class CompareReader {
public:
  CompareReader(const Function &fn, const Nest &nest) : fn_(fn), nest_(nest) {}

  // The compare's bound, if it is one on the nest's index.
  std::optional<Bound> read(OpId op) const {
    if (!op.valid() || fn_.opcode(op) != Opcode::Cmp || !isKnown(fn_.operand(op, 1)) ||
        fn_.type(fn_.operand(op, 0)) != kI32) {
      return std::nullopt;
    }
    const auto predicate = static_cast<CmpPred>(fn_.getInt(op, Attr::predicate));
    Bound bound;
    bound.limit = known(fn_.operand(op, 1));
    bound.isSigned = predicate == CmpPred::slt || predicate == CmpPred::sle;
    bound.orEqual = predicate == CmpPred::sle || predicate == CmpPred::ule;
    if (!bound.isSigned && !bound.orEqual && predicate != CmpPred::ult) {
      return std::nullopt;
    }
    int indices = 0;
    return addTerms(fn_.operand(op, 0), bound, indices) && indices == 1 ? std::optional(bound)
                                                                        : std::nullopt;
  }

private:
  bool addTerms(ValueId value, Bound &bound, int &indices) const {
    if (value == nest_.index) {
      return ++indices == 1;
    }
    if (isKnown(value)) {
      bound.terms.push_back(known(value));
      return true;
    }
    if (fn_.isArg(value)) {
      const OpId loop = fn_.parentOp(fn_.defBlock(value));
      const bool first = bound.loop.empty() && fn_.opcode(loop) == Opcode::For &&
                         fn_.defIndex(value) == 0 && countsUp(loop) && bound.isSigned;
      if (first) {
        bound.loop = {known(fn_.operand(loop, 0)), known(fn_.operand(loop, 1))};
      }
      return first;
    }
    const OpId op = fn_.def(value);
    return fn_.opcode(op) == Opcode::Add && addTerms(fn_.operand(op, 0), bound, indices) &&
           addTerms(fn_.operand(op, 1), bound, indices);
  }

  bool countsUp(OpId loop) const {
    return fn_.constantInt(fn_.operand(loop, 2)).value_or(0) > 0 &&
           !fn_.getBool(loop, Attr::is_unsigned) && isKnown(fn_.operand(loop, 0)) &&
           isKnown(fn_.operand(loop, 1));
  }

  bool isKnown(ValueId value) const {
    return fn_.isDefinedOutside(value, nest_.body) || fn_.constantInt(value).has_value();
  }
  Known known(ValueId value) const { return {value, fn_.constantInt(value)}; }

  const Function &fn_;
  const Nest &nest_;
};

// ---- ends

class NestBounder {
public:
  explicit NestBounder(Function &fn) : fn_(fn) {}

  bool run() {
    std::vector<OpId> nests;
    uint32_t position = 0;
    for (OpId op : fn_.walk()) {
      order_.set(op, ++position);
      if (isNest(fn_.opcode(op)) && outermostNest(op) == op) {
        nests.push_back(op);
      }
    }
    bool changed = false;
    for (auto op = nests.rbegin(); op != nests.rend(); ++op) {
      changed |= bound(Nest(fn_, *op));
    }
    return changed;
  }

private:
  bool bound(const Nest &nest) {
    const int64_t lanes = fn_.getInt(nest.op, Attr::lanes);
    if (fn_.numOperands(nest.op) != 0 || lanes < 2 || nest.extent < 2 * lanes) {
      return false;
    }
    Bounds bounds;
    if (!effectsEnd(nest, bounds) || (nest.isFold && !elementsEnd(nest, bounds)) ||
        bounds.empty()) {
      return false;
    }
    Builder builder(fn_, nest.op);
    ValueId end;
    for (const Bound &bound : bounds) {
      const ValueId one = endOf(builder, nest, bound);
      end = end.valid() ? builder.make(Opcode::SMax, {end, one}) : one;
    }
    if (nest.isFold) {
      end = builder.make(Opcode::Add, {end, builder.constInt(kI64, 1)});
      end = builder.make(Opcode::SMin, {end, builder.constInt(kI64, nest.extent)});
    }
    fn_.addOperand(nest.op, builder.make(Opcode::Trunc, {end}, kI32));
    ends_[nest.op] = std::move(bounds);
    return true;
  }

  // ---- effects: stores that some compare in their mask turns off, and scratch that nobody reads. A load
  // that is checked has one, too: it may be out of bounds.

  bool effectsEnd(const Nest &nest, Bounds &bounds) const {
    for (OpId op : fn_.walk(nest.body)) {
      const Opcode opcode = fn_.opcode(op);
      const bool isChecked = fn_.hasAttr(op, Attr::within);
      if ((fn_.effects(op).removable() && !isChecked) || opcode == Opcode::Yield) {
        continue;
      }
      const unsigned mask = opcode == Opcode::Load ? 1 : 2;
      const bool masked = (opcode == Opcode::Load || opcode == Opcode::Store) &&
                          fn_.numOperands(op) > mask && !fn_.getBool(op, Attr::is_volatile);
      const bool ends = masked ? addMask(nest, fn_.operand(op, mask), bounds)
                               : opcode == Opcode::ElementWrite && addReaders(nest, op, bounds);
      if (!ends) {
        return false;
      }
    }
    return true;
  }

  // One compare that the mask needs is enough.
  bool addMask(const Nest &nest, ValueId mask, Bounds &bounds) const {
    const OpId op = fn_.def(mask);
    if (const auto bound = CompareReader(fn_, nest).read(op)) {
      addBound(bounds, *bound);
      return true;
    }
    return op.valid() && fn_.opcode(op) == Opcode::And &&
           (addMask(nest, fn_.operand(op, 0), bounds) || addMask(nest, fn_.operand(op, 1), bounds));
  }

  // The ends of all nests that read what `write` writes, each at its own index. What they are computed
  // from is the same for as long as the buffer lives, and known in front of the writer.
  bool addReaders(const Nest &writer, OpId write, Bounds &bounds) const {
    const ValueId buffer = fn_.operand(write, 0);
    if (fn_.defOpcode(buffer) != Opcode::Alloc) {
      return false;
    }
    const BlockId life = fn_.defBlock(buffer);
    const auto usable = [&](const Known &known) {
      return known.number || (fn_.isInside(life, fn_.defBlock(known.value)) &&
                              isInFront(known.value, writer.op));
    };
    for (const Use &use : fn_.uses(buffer)) {
      const OpId op = outermostNest(use.op);
      if (!op.valid() || !isAtIndex(use.op, Nest(fn_, op))) {
        return false;
      }
      if (op == writer.op || fn_.opcode(use.op) == Opcode::ElementWrite) {
        continue;
      }
      const auto end = ends_.find(op);
      const Nest reader(fn_, op);
      if (end == ends_.end() || reader.extent != writer.extent || steersAt(use.op, reader)) {
        return false;
      }
      for (const Bound &bound : end->second) {
        if (!std::ranges::all_of(bound.terms, usable) || !usable(bound.limit) ||
            !std::ranges::all_of(bound.loop, usable)) {
          return false;
        }
        addBound(bounds, bound);
      }
    }
    return true;
  }

  // Nests go on to where a vector ends, which may be further than their writers do: behind its end a number may be
  // any, but no address.
  bool steersAt(OpId read, const Nest &reader) const {
    const Bounds &ends = ends_.at(reader.op);
    return steers(fn_, fn_.result(read), reader.op, [&](ValueId mask) { return isOffBehind(reader, mask, ends); });
  }

  bool isOffBehind(const Nest &nest, ValueId mask, const Bounds &ends) const {
    const OpId op = fn_.def(mask);
    const auto bound = CompareReader(fn_, nest).read(op);
    return (bound && std::ranges::find(ends, *bound) != ends.end()) ||
           (op.valid() && fn_.opcode(op) == Opcode::And &&
            (isOffBehind(nest, fn_.operand(op, 0), ends) || isOffBehind(nest, fn_.operand(op, 1), ends)));
  }

  bool isAtIndex(OpId access, const Nest &nest) const {
    const Opcode opcode = fn_.opcode(access);
    return (opcode == Opcode::ElementRead || opcode == Opcode::ElementWrite) &&
           fn_.operands(access).back() == nest.index;
  }

  bool isInFront(ValueId value, OpId op) const {
    return fn_.isInside(fn_.block(op), fn_.defBlock(value)) &&
           (fn_.isArg(value) || order_[fn_.def(value)] < order_[op]);
  }

  // Invalid: in no nest.
  OpId outermostNest(OpId op) const {
    OpId found;
    for (; op.valid(); op = fn_.parentOp(fn_.block(op))) {
      found = isNest(fn_.opcode(op)) ? op : found;
    }
    return found;
  }

  // ---- folds: with all compares false the elements are numbers that combine leaves as they are

  bool elementsEnd(const Nest &nest, Bounds &bounds) {
    const CompareReader compares(fn_, nest);
    MaskedNumbers numbers(fn_, nest.op, nest.body);
    for (OpId op : fn_.walk(nest.body)) {
      if (const auto bound = compares.read(op)) {
        addBound(bounds, *bound);
        numbers.setFalse(fn_.result(op));
      }
    }
    if (bounds.empty()) {
      return false;
    }
    numbers.evaluate();
    return numbers.combineKeeps(fn_.region(nest.op, 1));
  }

  // ---- code

  // In 64 bits: clamp(bound - offset, 0, extent), or the extent where the index may wrap.
  ValueId endOf(Builder &builder, const Nest &nest, const Bound &bound) const {
    const auto wide = [&](ValueId value) {
      return builder.make(bound.isSigned ? Opcode::SExt : Opcode::ZExt, {value}, kI64);
    };
    const auto number = [&](int64_t value) { return builder.constInt(kI64, value); };
    const auto add = [&](ValueId a, ValueId b) { return builder.make(Opcode::Add, {a, b}); };
    const auto inFront = [&](const Known &known) {
      return isInFront(known.value, nest.op) ? known.value
                                             : builder.constInt(kI32, *known.number);
    };
    ValueId sum;
    for (const Known &term : bound.terms) {
      const ValueId known = inFront(term);
      sum = sum.valid() ? add(sum, known) : known;
    }
    const ValueId offset = sum.valid() ? wide(sum) : number(0);
    const int64_t greatest = bound.isSigned ? INT32_MAX : int64_t{UINT32_MAX};
    ValueId first = offset, last = add(offset, number(nest.extent - 1));
    ValueId wraps;
    if (!bound.loop.empty()) {
      first = add(offset, wide(inFront(bound.loop[0])));
      last = add(last, wide(inFront(bound.loop[1])));
      wraps = builder.cmp(CmpPred::slt, first, number(INT32_MIN));
    }
    const ValueId above = builder.cmp(CmpPred::sgt, last, number(greatest));
    wraps = wraps.valid() ? builder.make(Opcode::Or, {wraps, above}) : above;
    const ValueId limit = wide(inFront(bound.limit));
    ValueId end = builder.make(Opcode::Sub, {limit, first});
    if (bound.orEqual) {
      end = add(end, number(1));
    }
    end = builder.make(Opcode::SMax, {end, number(0)});
    end = builder.make(Opcode::SMin, {end, number(nest.extent)});
    return builder.make(Opcode::Select, {wraps, number(nest.extent), end});
  }

  Function &fn_;
  IndexMap<OpId, uint32_t> order_;
  std::map<OpId, Bounds> ends_;
};

} // namespace

bool boundNests(Function &fn, const PassContext &) { return NestBounder(fn).run(); }

} // namespace libtile::passes
