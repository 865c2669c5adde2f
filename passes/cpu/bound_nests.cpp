// SPDX-License-Identifier: Apache-2.0
// A compare counts if its left side is a sum of the index, what is known in front of the nest, and
// perhaps the index of one sunk loop, whose first iteration reaches furthest. Sums that could leave 32
// bits, where a compare may become true again, are found at run time and give up the end.
//
// Nests and contracts are visited from the last to the first: where those that read a scratch buffer end, those that
// write it may end too, each dimension by itself.
#include "passes/cpu/bound_nests.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/cpu/contract_blocks.h"
#include "passes/cpu/kept_panels.h"
#include "passes/cpu/masked_numbers.h"
#include "passes/cpu/steering.h"

#include <algorithm>
#include <map>
#include <tuple>

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
  int64_t multiple = 1; // a contract reads whole blocks: what they begin with is needed to their end

  friend bool operator==(const Bound &, const Bound &) = default;
};
using Bounds = std::vector<Bound>;

void addBound(Bounds &bounds, const Bound &bound) {
  if (std::ranges::find(bounds, bound) == bounds.end()) {
    bounds.push_back(bound);
  }
}

bool isNest(Opcode opcode) { return opcode == Opcode::Nest || opcode == Opcode::Fold; }

// One dimension of a nest or fold that is in no other one.
struct Nest {
  Nest(const Function &fn, OpId op, unsigned axis)
      : op(op), axis(axis), body(fn.region(op)), index(fn.arg(body, axis)),
        isFold(fn.opcode(op) == Opcode::Fold),
        extent(isFold ? fn.getInt(op, Attr::extent) : fn.getInts(op, Attr::extents)[axis]) {}

  OpId op;
  unsigned axis;
  BlockId body;
  ValueId index;
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

// A dimension of a nest or of a contract: rows, then columns.
struct Place {
  OpId op;
  unsigned axis;
  friend bool operator==(const Place &, const Place &) = default;
  friend bool operator<(const Place &a, const Place &b) { return std::tie(a.op, a.axis) < std::tie(b.op, b.axis); }
};

class NestBounder {
public:
  NestBounder(Function &fn, const Target &target) : fn_(fn), target_(target) {}

  bool run() {
    std::vector<OpId> ops;
    uint32_t position = 0;
    for (OpId op : fn_.walk()) {
      order_.set(op, ++position);
      const bool isOutermost = isNest(fn_.opcode(op)) && outermostNest(op) == op;
      if (isOutermost || fn_.opcode(op) == Opcode::Contract) {
        ops.push_back(op);
      }
    }
    bool changed = false;
    for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
      changed |= fn_.opcode(*op) == Opcode::Contract ? boundContract(*op) : boundNest(*op);
    }
    return changed;
  }

private:
  // Behind the first end, dimensions without one end with their extents.
  bool boundNest(OpId op) {
    if (fn_.numOperands(op) != 0) {
      return false;
    }
    Values ends;
    for (unsigned axis = 0; axis < fn_.args(fn_.region(op)).size(); ++axis) {
      const Nest nest(fn_, op, axis);
      const ValueId end = bound(nest);
      if (end.valid() || !ends.empty()) {
        Builder builder(fn_, op);
        ends.push_back(end.valid() ? end : builder.constInt(kI32, nest.extent));
      }
    }
    std::ranges::for_each(ends, [&](ValueId end) { fn_.addOperand(op, end); });
    return !ends.empty();
  }

  ValueId bound(const Nest &nest) {
    const bool isLast = nest.axis + 1 == fn_.args(nest.body).size();
    const int64_t lanes = isLast ? fn_.getInt(nest.op, Attr::lanes) : 1;
    if ((isLast && lanes < 2) || nest.extent < 2 * lanes) {
      return {};
    }
    Bounds bounds;
    if (!effectsEnd(nest, bounds) || (nest.isFold && !elementsEnd(nest, bounds)) ||
        bounds.empty()) {
      return {};
    }
    const Place place{nest.op, nest.axis};
    ends_[place] = bounds;
    Builder builder(fn_, nest.op);
    ValueId end = greatestEnd(builder, place, nest.extent, bounds);
    if (nest.isFold) {
      end = builder.make(Opcode::Add, {end, builder.constInt(kI64, 1)});
      end = builder.make(Opcode::SMin, {end, builder.constInt(kI64, nest.extent)});
    }
    return builder.make(Opcode::Trunc, {end}, kI32);
  }

  // Sums are needed where they are read.
  bool boundContract(OpId op) {
    if (fn_.numOperands(op) != firstEndOf(fn_, op)) {
      return false;
    }
    const ValueId acc = fn_.operand(op, 2);
    Builder builder(fn_, op);
    Values ends;
    bool found = false;
    for (const unsigned axis : {0U, 1U}) {
      const Place place{op, axis};
      const int64_t extent = fn_.type(acc).dim(axis);
      Bounds bounds;
      if (addReaders(place, acc, axis, bounds) && !bounds.empty()) {
        ends_[place] = bounds;
        const ValueId end = greatestEnd(builder, place, extent, bounds);
        ends.push_back(builder.make(Opcode::Trunc, {end}, kI32));
        found = true;
      } else {
        ends.push_back(builder.constInt(kI32, extent));
      }
    }
    if (found) {
      std::ranges::for_each(ends, [&](ValueId end) { fn_.addOperand(op, end); });
    }
    return found;
  }

  // ---- effects: stores that some compare in their mask turns off, and scratch that nobody reads. A load
  // that is checked has one, too: it may be out of bounds.

  bool effectsEnd(const Nest &nest, Bounds &bounds) {
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

  // The write is at the nest's index along one dimension of the buffer.
  bool addReaders(const Nest &writer, OpId write, Bounds &bounds) {
    const auto indices = fn_.operands(write).subspan(2);
    const auto at = std::ranges::find(indices, writer.index);
    return at != indices.end() &&
           addReaders({writer.op, writer.axis}, fn_.operand(write, 0), unsigned(at - indices.begin()), bounds);
  }

  // The ends of all that read the buffer, each at its own index along the dimension. What they are computed
  // from is the same for as long as the buffer lives, and known in front of the writer. What the writer itself
  // reads at its index is needed no further than what it writes.
  bool addReaders(const Place &writer, ValueId buffer, unsigned dimension, Bounds &bounds) {
    const auto maker = fn_.defOpcode(buffer);
    const OpId recall = maker == Opcode::BufferSlot ? recallOf(writer.op) : OpId();
    if (maker != Opcode::Alloc && !recall.valid()) {
      return false;
    }
    const BlockId life = fn_.defBlock(buffer);
    const auto usable = [&](const Known &known) {
      return known.number || (fn_.isInside(life, fn_.defBlock(known.value)) &&
                              isInFront(known.value, writer.op));
    };
    for (const Use &use : fn_.uses(buffer)) {
      const bool transposes = fn_.opcode(use.op) == Opcode::TransposeWords;
      if (fn_.opcode(use.op) == Opcode::ElementWrite || (transposes && use.operand == 1)) {
        continue;
      }
      // Rows that become columns are needed where these are.
      if (transposes) {
        if (dimension != 0 || !addReaders(writer, fn_.operand(use.op, 1), 1, bounds)) {
          return false;
        }
        continue;
      }
      const auto reader = readerOf(use, dimension);
      if (reader && *reader == writer) {
        continue;
      }
      const auto end = reader ? ends_.find(*reader) : ends_.end();
      if (end == ends_.end() || steersAt(use.op, *reader)) {
        return false;
      }
      const int64_t block = blockOf(*reader);
      for (Bound bound : end->second) {
        const bool fits = block == 1 || bound.multiple == 1 || bound.multiple == block;
        if (!std::ranges::all_of(bound.terms, usable) || !usable(bound.limit) ||
            !std::ranges::all_of(bound.loop, usable) || !fits) {
          return false;
        }
        bound.multiple = std::max(bound.multiple, block);
        addBound(bounds, bound);
      }
    }
    return !recall.valid() || addKeys(recall, bounds);
  }

  // The recall without which a kept panel is written here. Invalid: there is none.
  OpId recallOf(OpId writer) const {
    OpId branch = fn_.parentOp(fn_.block(writer));
    while (branch.valid() && (fn_.opcode(branch) != Opcode::If || fn_.defOpcode(fn_.operand(branch, 0)) != Opcode::Recall)) {
      branch = fn_.parentOp(fn_.block(branch));
    }
    return branch.valid() ? fn_.def(fn_.operand(branch, 0)) : branch;
  }

  // Up to where a panel is packed for this program decides what the next one finds. False: not everything is known there.
  bool addKeys(OpId recall, const Bounds &bounds) {
    Values keys;
    bool known = true;
    for (const Bound &bound : bounds) {
      std::vector<Known> parts = bound.terms;
      parts.push_back(bound.limit);
      parts.insert(parts.end(), bound.loop.begin(), bound.loop.end());
      for (const Known &part : parts) {
        const bool isKey = !part.number && !isOfLaunch(fn_, part.value) &&
                           std::ranges::find(fn_.operands(recall), part.value) == fn_.operands(recall).end();
        known = known && (!isKey || isInFront(part.value, recall));
        if (isKey) {
          keys.push_back(part.value);
        }
      }
    }
    if (known) {
      std::ranges::for_each(keys, [&](ValueId key) { fn_.addOperand(recall, key); });
    }
    return known;
  }

  // Whose index along which of its dimensions a read of the buffer's dimension is at; nullopt: none's.
  std::optional<Place> readerOf(const Use &use, unsigned dimension) const {
    if (fn_.opcode(use.op) == Opcode::Contract) {
      const bool isAcc = use.operand == 2;
      const bool isRows = use.operand > 2 && dimension == 0;
      return isAcc || isRows || use.operand == dimension ? std::optional(Place{use.op, dimension}) : std::nullopt;
    }
    const OpId nest = outermostNest(use.op);
    if (!nest.valid() || fn_.opcode(use.op) != Opcode::ElementRead) {
      return std::nullopt;
    }
    const ValueId index = fn_.operand(use.op, dimension + 1);
    const bool isIndex = fn_.isArg(index) && fn_.defBlock(index) == fn_.region(nest);
    return isIndex ? std::optional(Place{nest, fn_.defIndex(index)}) : std::nullopt;
  }

  // Nests go on to where a vector ends, which may be further than their writers do: behind its end a number may be
  // any, but no address.
  bool steersAt(OpId read, const Place &reader) const {
    if (fn_.opcode(read) == Opcode::Contract) {
      return false;
    }
    const Nest nest(fn_, reader.op, reader.axis);
    const Bounds &ends = ends_.at(reader);
    return steers(fn_, fn_.result(read), reader.op, [&](ValueId mask) { return isOffBehind(nest, mask, ends); });
  }

  bool isOffBehind(const Nest &nest, ValueId mask, const Bounds &ends) const {
    const OpId op = fn_.def(mask);
    const auto bound = CompareReader(fn_, nest).read(op);
    return (bound && std::ranges::find(ends, *bound) != ends.end()) ||
           (op.valid() && fn_.opcode(op) == Opcode::And &&
            (isOffBehind(nest, fn_.operand(op, 0), ends) || isOffBehind(nest, fn_.operand(op, 1), ends)));
  }

  // What a contract reads of a, b and acc at once where the last block ends: the last columns it takes by vectors.
  int64_t blockOf(const Place &place) const {
    if (fn_.opcode(place.op) != Opcode::Contract) {
      return 1;
    }
    const ContractUnit &unit = contractUnitOf(fn_, place.op, target_);
    if (place.axis == 0) {
      return rowBlocks(unit, fn_.type(fn_.operand(place.op, 2)).dim(0), int32_t(fn_.getInt(place.op, Attr::block_m)))->both;
    }
    return unit.ofTiles() ? fn_.getInt(place.op, Attr::block_n) : unit.lanes;
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

  ValueId greatestEnd(Builder &builder, const Place &place, int64_t extent, const Bounds &bounds) const {
    ValueId end;
    for (const Bound &bound : bounds) {
      const ValueId one = endOf(builder, place, extent, bound);
      end = end.valid() ? builder.make(Opcode::SMax, {end, one}) : one;
    }
    return end;
  }

  // In 64 bits: clamp(bound - offset, 0, extent), or the extent where the index may wrap.
  ValueId endOf(Builder &builder, const Place &place, int64_t extent, const Bound &bound) const {
    const auto wide = [&](ValueId value) {
      return builder.make(bound.isSigned ? Opcode::SExt : Opcode::ZExt, {value}, kI64);
    };
    const auto number = [&](int64_t value) { return builder.constInt(kI64, value); };
    const auto add = [&](ValueId a, ValueId b) { return builder.make(Opcode::Add, {a, b}); };
    const auto inFront = [&](const Known &known) {
      return isInFront(known.value, place.op) ? known.value
                                             : builder.constInt(kI32, *known.number);
    };
    ValueId sum;
    for (const Known &term : bound.terms) {
      const ValueId known = inFront(term);
      sum = sum.valid() ? add(sum, known) : known;
    }
    const ValueId offset = sum.valid() ? wide(sum) : number(0);
    const int64_t greatest = bound.isSigned ? INT32_MAX : int64_t{UINT32_MAX};
    ValueId first = offset, last = add(offset, number(extent - 1));
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
    if (bound.multiple != 1) {
      end = add(end, number(bound.multiple - 1));
      end = builder.make(Opcode::Sub, {end, builder.make(Opcode::URem, {end, number(bound.multiple)})});
    }
    end = builder.make(Opcode::SMin, {end, number(extent)});
    return builder.make(Opcode::Select, {wraps, number(extent), end});
  }

  Function &fn_;
  const Target &target_;
  IndexMap<OpId, uint32_t> order_;
  std::map<Place, Bounds> ends_;
};

} // namespace

bool boundNests(Function &fn, const PassContext &context) { return NestBounder(fn, context.target).run(); }

} // namespace libtile::passes
