// SPDX-License-Identifier: Apache-2.0
// The first of two takes in the second, in its own place for folds, which others wait for, and in that of the second
// for nests, which may use what was computed in between. There an op of the second that the first has already is
// that one. Only arrays that are known not to overlap are written by one and touched by the other; scratch may be, at
// the nest's own index.
#include "passes/cpu/fuse_nests.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/cpu/nest_costs.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

class NestFuser {
public:
  NestFuser(Function &fn, const Target &target) : fn_(fn), target_(target), facts_(computeFacts(fn)) {}

  bool run() {
    bool changed = false;
    std::vector<BlockId> blocks{fn_.body()};
    uint32_t position = 0;
    for (OpId op : fn_.walk()) {
      order_.set(op, ++position);
      blocks.insert(blocks.end(), fn_.regions(op).begin(), fn_.regions(op).end());
    }
    for (BlockId block : blocks) {
      changed = visit(block) || changed;
    }
    return changed;
  }

private:
  // `before` is the last nest or fold that nothing since keeps from the next one.
  bool visit(BlockId block) {
    bool changed = false;
    OpId before;
    for (OpId op : fn_.opsIn(block)) {
      if (fn_.opcode(op) != Opcode::Nest && fn_.opcode(op) != Opcode::Fold) {
        before = fn_.effects(op).pure() ? before : OpId{};
        continue;
      }
      const bool fuses = before.valid() && isLike(before, op) && shareLoads(before, op) && isFree(before, op);
      changed = fuses || changed;
      before = fuses ? fuse(before, op) : op;
    }
    return changed;
  }

  [[nodiscard]] bool isLike(OpId a, OpId b) const {
    const auto sameExtents = [&] {
      return fn_.opcode(a) == Opcode::Fold ? fn_.getInt(a, Attr::extent) == fn_.getInt(b, Attr::extent)
                                           : std::ranges::equal(fn_.getInts(a, Attr::extents), fn_.getInts(b, Attr::extents));
    };
    return fn_.opcode(a) == fn_.opcode(b) && sameExtents() && std::ranges::equal(fn_.operands(a), fn_.operands(b)) &&
           fn_.getInt(a, Attr::lanes) == fn_.getInt(b, Attr::lanes) && fn_.hasAttr(a, Attr::sets) == fn_.hasAttr(b, Attr::sets) &&
           opsIn(a) + opsIn(b) <= 2 * kNestCosts.opsForUnroll4;
  }

  // Else there is nothing to gain, and two streams and their registers to find room for.
  [[nodiscard]] bool shareLoads(OpId a, OpId b) const {
    const std::vector<OpId> firsts = fn_.opsIn(fn_.region(a));
    return std::ranges::any_of(fn_.opsIn(fn_.region(b)), [&](OpId second) {
      return fn_.opcode(second) == Opcode::Load && std::ranges::any_of(firsts, [&](OpId first) {
        return fn_.opcode(first) == Opcode::Load && isSame(fn_.operand(first, 0), fn_.operand(second, 0));
      });
    });
  }

  // Of values of two bodies at the same index.
  [[nodiscard]] bool isSame(ValueId a, ValueId b) const {
    if (a == b || fn_.isArg(a) || fn_.isArg(b)) {
      return a == b || (fn_.isArg(a) && fn_.isArg(b) && fn_.defIndex(a) == fn_.defIndex(b) &&
                        fn_.opcode(fn_.parentOp(fn_.defBlock(a))) == fn_.opcode(fn_.parentOp(fn_.defBlock(b))));
    }
    const OpId first = fn_.def(a), second = fn_.def(b);
    return fn_.opcode(first) == fn_.opcode(second) && fn_.effects(first).pure() && fn_.regions(first).empty() &&
           std::ranges::equal(fn_.attrs(first), fn_.attrs(second)) &&
           std::ranges::equal(fn_.operands(first), fn_.operands(second), [&](ValueId x, ValueId y) { return isSame(x, y); });
  }

  [[nodiscard]] int32_t opsIn(OpId op) const {
    return int32_t(std::ranges::count_if(fn_.opsIn(fn_.region(op)), [&](OpId each) { return opCost(fn_.opcode(each)) > 0; }));
  }

  // Element after element one may follow the other: neither writes what the other touches elsewhere. A second fold
  // needs nothing that comes behind the first.
  [[nodiscard]] bool isFree(OpId a, OpId b) const {
    for (OpId second : fn_.walk(fn_.region(b))) {
      if (!isPlain(second)) {
        return false;
      }
      for (OpId first : fn_.walk(fn_.region(a))) {
        if (!isPlain(first) || meet(first, second)) {
          return false;
        }
      }
    }
    return fn_.opcode(a) == Opcode::Nest || (isInFront(fn_.region(b, 0), a) && isInFront(fn_.region(b, 1), a));
  }

  // What the region needs from outside is there in front of `place`.
  [[nodiscard]] bool isInFront(BlockId region, OpId place) const {
    return std::ranges::all_of(fn_.walk(region), [&](OpId each) {
      return std::ranges::all_of(fn_.operands(each), [&](ValueId value) {
        return !fn_.isDefinedOutside(value, region) || fn_.isArg(value) || order_[fn_.def(value)] < order_[place];
      });
    });
  }

  [[nodiscard]] bool isPlain(OpId op) const {
    const Opcode opcode = fn_.opcode(op);
    const bool isAccess = opcode == Opcode::Load || opcode == Opcode::Store || opcode == Opcode::ElementRead || opcode == Opcode::ElementWrite;
    return opcode == Opcode::Yield || (fn_.regions(op).empty() && fn_.effects(op).pure()) || (isAccess && !fn_.effects(op).has(Effects::Ordered));
  }

  // Of an access in each of the two: one writes where the other, at another index, may be.
  [[nodiscard]] bool meet(OpId first, OpId second) const {
    const Effects a = fn_.effects(first), b = fn_.effects(second);
    if (fn_.opcode(first) == Opcode::Yield || fn_.opcode(second) == Opcode::Yield || !a.conflicts(b)) {
      return false;
    }
    const ValueId place = fn_.operand(first, 0), other = fn_.operand(second, 0);
    if (fn_.type(place).isPointer()) {
      return mayOverlap(fn_, basePointer(fn_, place, facts_), basePointer(fn_, other, facts_));
    }
    return place == other && !isOwnElement(first, second);
  }

  // Both are at the index of their nest, all of it.
  [[nodiscard]] bool isOwnElement(OpId first, OpId second) const {
    const BlockId a = fn_.block(first), b = fn_.block(second);
    const std::span<const ValueId> at = indices(first), other = indices(second);
    for (size_t i = 0; i < at.size(); ++i) {
      const bool own = fn_.isArg(at[i]) && fn_.isArg(other[i]) && fn_.defBlock(at[i]) == a && fn_.defBlock(other[i]) == b &&
                       fn_.defIndex(at[i]) == fn_.defIndex(other[i]);
      if (!own && at[i] != other[i]) {
        return false;
      }
    }
    return std::ranges::all_of(fn_.args(a), [&](ValueId index) { return std::ranges::find(at, index) != at.end(); });
  }

  [[nodiscard]] std::span<const ValueId> indices(OpId access) const {
    return fn_.operands(access).subspan(fn_.opcode(access) == Opcode::ElementWrite ? 2 : 1);
  }

  // ---- the rewrite

  // The op that both are then.
  OpId fuse(OpId a, OpId b) {
    return fn_.opcode(a) == Opcode::Nest ? fuseNest(a, b) : fuseFold(a, b);
  }

  OpId fuseNest(OpId a, OpId b) {
    const BlockId from = fn_.region(a), to = fn_.region(b);
    const std::vector<OpId> seconds = fn_.opsIn(to);
    fn_.erase(fn_.last(from));
    for (unsigned i = 0; i < fn_.args(from).size(); ++i) {
      fn_.replaceAllUses(fn_.arg(from, i), fn_.arg(to, i));
    }
    fn_.spliceBefore(seconds.front(), from);
    const int64_t unroll = std::min(fn_.getInt(a, Attr::unroll), fn_.getInt(b, Attr::unroll));
    fn_.erase(a);
    share(to, seconds);
    setUnroll(b, unroll, 0);
    return b;
  }

  OpId fuseFold(OpId a, OpId b) {
    std::vector<Type> types;
    for (OpId op : {a, b}) {
      std::ranges::transform(fn_.results(op), std::back_inserter(types), [&](ValueId result) { return fn_.type(result); });
    }
    const size_t firsts = fn_.results(a).size();
    Builder builder(fn_, a);
    const OpId both = builder.op(Opcode::Fold, fn_.operands(a), types);
    fn_.copyAttrs(a, both);
    order_.set(both, order_[a]);
    const ValueId index = fn_.addArg(fn_.region(both, 0), Type::scalar(Elem::I32));
    for (size_t i = 0; i < 2 * types.size(); ++i) {
      fn_.addArg(fn_.region(both, 1), types[i % types.size()]);
    }
    const std::vector<OpId> seconds = fn_.opsIn(fn_.region(b, 0));
    for (OpId op : {a, b}) {
      fn_.replaceAllUses(fn_.arg(fn_.region(op, 0), 0), index);
      const size_t count = fn_.results(op).size(), start = op == a ? 0 : firsts;
      for (size_t i = 0; i < count; ++i) {
        fn_.replaceAllUses(fn_.result(op, i), fn_.result(both, start + i));
        fn_.replaceAllUses(fn_.arg(fn_.region(op, 1), i), fn_.arg(fn_.region(both, 1), start + i));
        fn_.replaceAllUses(fn_.arg(fn_.region(op, 1), count + i), fn_.arg(fn_.region(both, 1), types.size() + start + i));
      }
    }
    for (const unsigned region : {0U, 1U}) {
      joinBodies(fn_.region(a, region), fn_.region(b, region), fn_.region(both, region));
    }
    const int64_t unroll = std::min(fn_.getInt(a, Attr::unroll), fn_.getInt(b, Attr::unroll));
    fn_.erase(a);
    fn_.erase(b);
    share(fn_.region(both, 0), seconds);
    setUnroll(both, unroll, types.size());
    return both;
  }

  // Yields what both yield.
  void joinBodies(BlockId a, BlockId b, BlockId both) {
    Values yielded;
    for (BlockId body : {a, b}) {
      const std::span<const ValueId> values = fn_.operands(fn_.last(body));
      yielded.insert(yielded.end(), values.begin(), values.end());
    }
    Builder(fn_, both).yield(yielded);
    const OpId end = fn_.last(both);
    for (BlockId body : {a, b}) {
      fn_.erase(fn_.last(body));
      fn_.spliceBefore(end, body);
    }
  }

  // Ops of the second that the first has, its loads included: nothing that was written meets them.
  void share(BlockId body, const std::vector<OpId> &seconds) {
    std::vector<OpId> kept;
    for (OpId op : fn_.opsIn(body)) {
      const bool mayShare = std::ranges::find(seconds, op) != seconds.end() && fn_.results(op).size() == 1 &&
                            (fn_.effects(op).pure() || fn_.opcode(op) == Opcode::Load);
      const auto found = mayShare ? std::ranges::find_if(kept, [&](OpId other) { return equal(op, other); }) : kept.end();
      if (found == kept.end()) {
        kept.push_back(op);
      } else {
        fn_.replaceAllUses(fn_.result(op), fn_.result(*found));
        fn_.erase(op);
      }
    }
  }

  [[nodiscard]] bool equal(OpId a, OpId b) const {
    return fn_.opcode(a) == fn_.opcode(b) && fn_.results(b).size() == 1 && fn_.type(fn_.result(a)) == fn_.type(fn_.result(b)) &&
           std::ranges::equal(fn_.operands(a), fn_.operands(b)) && std::ranges::equal(fn_.attrs(a), fn_.attrs(b));
  }

  // As many vectors at once as for a nest of that size, and as find registers for what they sum up.
  void setUnroll(OpId op, int64_t unroll, size_t sums) {
    const int64_t most = opsIn(op) <= kNestCosts.opsForUnroll4 ? 4 : 2;
    unroll = std::min(unroll, most);
    while (int64_t(sums) * unroll > std::max(target_.vectorRegisters, 16) / 2) {
      unroll /= 2;
    }
    fn_.setAttr(op, Attr::unroll, AttrValue(std::max<int64_t>(unroll, 1)));
  }

  Function &fn_;
  const Target &target_;
  const Facts facts_;
  IndexMap<OpId, uint32_t> order_;
};

} // namespace

bool fuseNests(Function &fn, const PassContext &context) { return NestFuser(fn, context.target).run(); }

} // namespace libtile::passes
