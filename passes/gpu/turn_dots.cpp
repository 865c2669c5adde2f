// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/turn_dots.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/eliminate_dead_code.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

using Chain = std::vector<OpId>;

bool isMatrix(const ir::Function &fn, ValueId value) { return fn.type(value).isTile() && fn.type(value).rank() == 2; }

bool isDot(const ir::Function &fn, OpId op) { return fn.opcode(op) == Opcode::Dot && isMatrix(fn, fn.result(op)); }

// Each element depends on the same one of the operands, whichever the axes are; a hint's promises are about axes.
bool isByElement(const ir::Function &fn, OpId op) {
  return ir::isElementwise(fn.opcode(op)) && fn.opcode(op) != Opcode::Hint && isMatrix(fn, fn.result(op));
}

bool swapsAxes(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Trans && fn.getInts(op, Attr::order).size() == 2 && fn.getInts(op, Attr::order)[0] == 1;
}

Type swapped(const Type &type) { return type.withShape(std::array{type.dim(1), type.dim(0)}); }

// Ops tied together so far: a forest, where each tree is a chain.
class Ties {
public:
  int32_t make() {
    parents_.push_back(static_cast<int32_t>(parents_.size()));
    return parents_.back();
  }
  int32_t root(int32_t i) {
    const auto parent = [&](int32_t j) -> int32_t & { return parents_[static_cast<size_t>(j)]; };
    while (parent(i) != i) {
      i = parent(i) = parent(parent(i));
    }
    return i;
  }
  void join(int32_t a, int32_t b) { parents_[static_cast<size_t>(root(a))] = root(b); }

private:
  std::vector<int32_t> parents_;
};

class Turner {
public:
  Turner(ir::Function &fn, const Chain &chain) : fn_(fn), chain_(chain), builder_(fn) {
    for (const OpId op : chain) {
      isInChain_.set(op, true);
    }
  }

  void run() {
    for (const OpId op : chain_) {
      builder_.setBefore(op);
      turned_.set(fn_.result(op), isDot(fn_, op) ? dot(op) : anew(op));
    }
    for (const OpId op : chain_) {
      handOn(op);
    }
    for (auto op = chain_.rbegin(); op != chain_.rend(); ++op) {
      fn_.erase(*op);
    }
  }

  // The tile transposed. What is not of the chain is made behind the tile.
  ValueId of(ValueId tile) {
    if (turned_[tile].valid()) {
      return turned_[tile];
    }
    const OpId op = fn_.def(tile);
    if (op.valid() && swapsAxes(fn_, op)) {
      return fn_.operand(op, 0);
    }
    if (isSameEverywhere(tile) && fn_.type(tile) == swapped(fn_.type(tile))) {
      return tile;
    }
    const auto point = builder_.point();
    const auto loc = builder_.loc;
    builder_.setBefore(op.valid() ? fn_.next(op) : fn_.first(fn_.defBlock(tile)));
    builder_.loc = op.valid() ? fn_.loc(op) : loc;
    turned_.set(tile, isMadeOfAxes(tile) ? anew(op) : trans(tile));
    builder_.setPoint(point);
    builder_.loc = loc;
    return turned_[tile];
  }

private:
  ValueId made(OpId like, std::span<const ValueId> operands) {
    const Type type = swapped(fn_.type(fn_.result(like)));
    const OpId op = builder_.op(fn_.opcode(like), operands, {&type, 1});
    fn_.copyAttrs(like, op);
    return fn_.result(op);
  }

  // (a b + c)^T = b^T a^T + c^T
  ValueId dot(OpId op) {
    const ValueId operands[] = {of(fn_.operand(op, 1)), of(fn_.operand(op, 0)), of(fn_.operand(op, 2))};
    const ValueId result = made(op, operands);
    if (fn_.hasAttr(op, Attr::format_a)) {
      fn_.setAttr(fn_.def(result), Attr::format_a, fn_.getInt(op, Attr::format_b));
      fn_.setAttr(fn_.def(result), Attr::format_b, fn_.getInt(op, Attr::format_a));
    }
    return result;
  }

  // The op on transposed tiles; what is no matrix stays as it is.
  ValueId anew(OpId op) {
    ir::Values operands(fn_.operands(op).begin(), fn_.operands(op).end());
    for (ValueId &operand : operands) {
      operand = isMatrix(fn_, operand) ? of(operand) : operand;
    }
    const ValueId result = made(op, operands);
    if (fn_.opcode(op) == Opcode::ExpandDims) {
      fn_.setAttr(fn_.def(result), Attr::axis, ir::AttrValue(1 - fn_.getInt(op, Attr::axis)));
    }
    return result;
  }

  ValueId trans(ValueId tile) {
    const ValueId result = builder_.make(Opcode::Trans, {tile}, swapped(fn_.type(tile)));
    fn_.setAttr(fn_.def(result), Attr::order, ir::AttrValue(std::vector<int64_t>{1, 0}));
    return result;
  }

  bool isSameEverywhere(ValueId tile) const {
    const auto opcode = fn_.defOpcode(tile);
    return opcode == Opcode::Constant || opcode == Opcode::Splat;
  }

  // Of numbers that are the same everywhere, or along one of the axes: its transpose is computed as easily.
  bool isMadeOfAxes(ValueId tile) {
    if (isMadeOfAxes_[tile]) {
      return *isMadeOfAxes_[tile];
    }
    const OpId op = fn_.def(tile);
    const auto isSo = [&] {
      if (!op.valid()) {
        return false;
      }
      if (isByElement(fn_, op) || fn_.opcode(op) == Opcode::Broadcast) {
        return std::ranges::all_of(fn_.operands(op), [&](ValueId operand) { return isMadeOfAxes(operand); });
      }
      return isSameEverywhere(tile) || fn_.opcode(op) == Opcode::ExpandDims;
    };
    isMadeOfAxes_.set(tile, isSo());
    return *isMadeOfAxes_[tile];
  }

  // Others than the chain get the result as it was.
  void handOn(OpId op) {
    const ValueId before = fn_.result(op), now = turned_[before];
    builder_.setBefore(op);
    ValueId back;
    for (const ir::Use use : std::vector<ir::Use>(fn_.uses(before).begin(), fn_.uses(before).end())) {
      if (isInChain_[use.op]) {
        continue;
      }
      if (swapsAxes(fn_, use.op)) {
        fn_.replaceAllUses(fn_.result(use.op), now);
        fn_.erase(use.op);
        continue;
      }
      back = back.valid() ? back : trans(now);
      fn_.setOperand(use.op, use.operand, back);
    }
  }

  ir::Function &fn_;
  const Chain &chain_;
  ir::Builder builder_;
  ir::IndexMap<OpId, bool> isInChain_{false};
  ir::IndexMap<ValueId, ValueId> turned_;
  ir::IndexMap<ValueId, std::optional<bool>> isMadeOfAxes_;
};

bool isPinned(const ir::Function &fn, OpId op) {
  return fn.opcode(op) == Opcode::Dot && (fn.hasAttr(op, Attr::unit) || fn.hasAttr(op, Attr::warps));
}

// What the op's result is used by, maybe transposed.
void addReaders(const ir::Function &fn, OpId op, std::vector<OpId> &readers) {
  for (const ir::Use use : fn.uses(fn.result(op))) {
    readers.push_back(use.op);
    if (fn.opcode(use.op) == Opcode::Trans) {
      addReaders(fn, use.op, readers);
    }
  }
}

// A dot has a left operand that is transposed from the chain, and nothing speaks against turning that.
bool mayBeTurned(const ir::Function &fn, const Chain &chain) {
  bool isTransposed = false;
  for (const OpId op : chain) {
    std::vector<OpId> readers;
    addReaders(fn, op, readers);
    isTransposed = isTransposed || std::ranges::any_of(readers, [&](OpId reader) {
                     return fn.opcode(reader) == Opcode::Dot && fn.operand(reader, 0) != fn.result(op) &&
                            untransposed(fn, fn.operand(reader, 0)) == fn.result(op);
                   });
    if (isPinned(fn, op) || std::ranges::any_of(readers, [&](OpId reader) {
          return isPinned(fn, reader) || fn.opcode(reader) == Opcode::Reduce || fn.opcode(reader) == Opcode::Scan;
        })) {
      return false;
    }
  }
  return isTransposed;
}

// A transposition that dots alone look at is one of how they read.
bool movesData(const ir::Function &fn, OpId op) {
  const Type type = fn.type(fn.result(op));
  return fn.opcode(op) == Opcode::Trans && type.numElements() > std::ranges::max(type.shape()) &&
         std::ranges::any_of(fn.uses(fn.result(op)), [&](ir::Use use) {
           return fn.opcode(use.op) != Opcode::Trans && (fn.opcode(use.op) != Opcode::Dot || use.operand == 2);
         });
}

// How many tiles threads transpose in the body, or write for a unit, as dots would be planned; nullopt: a unit there does
// not read by itself.
std::optional<size_t> tilesMoved(ir::Function fn, BlockId body, const PassContext &context) {
  planDots(fn, context);
  std::vector<ValueId> moved;
  for (const OpId op : fn.opsIn(body)) {
    if (movesData(fn, op)) {
      moved.push_back(fn.result(op));
    }
    if (fn.opcode(op) != Opcode::Dot) {
      continue;
    }
    const ir::DotUnit &unit = unitOf(fn, op, context.target);
    if (!readsByItself(unit)) {
      return std::nullopt;
    }
    const ValueId tile = untransposed(fn, fn.operand(op, 0));
    const bool isWritten = unit.a.inShared && !fn.isDefinedOutside(tile, body) && fn.defOpcode(tile) != Opcode::Load;
    if (isWritten && std::ranges::find(moved, tile) == moved.end()) {
      moved.push_back(tile);
    }
  }
  return moved.size();
}

bool turnIn(ir::Function &fn, BlockId body, const PassContext &context) {
  bool changed = false;
  for (const Chain &chain : dotChains(fn, body)) {
    if (!mayBeTurned(fn, chain)) {
      continue;
    }
    ir::Function other = fn.clone();
    turnChain(other, chain);
    const auto before = tilesMoved(fn.clone(), body, context), after = tilesMoved(other.clone(), body, context);
    if (before && after && *after < *before) {
      fn = std::move(other);
      changed = true;
    }
  }
  return changed;
}

// Dots of the body whose units read by themselves, as they would be planned.
size_t dotsByThemselves(ir::Function fn, BlockId body, const PassContext &context) {
  planDots(fn, context);
  return static_cast<size_t>(std::ranges::count_if(fn.opsIn(body), [&](OpId op) {
    return fn.opcode(op) == Opcode::Dot && readsByItself(unitOf(fn, op, context.target));
  }));
}

// A unit of the dot's types reads by itself what lies along k alone, but takes its left operand from registers.
bool asksForOneOrder(const ir::Function &fn, OpId dot, const ir::Target &target) {
  return std::ranges::any_of(target.units, [&](const ir::DotUnit &unit) {
    return readsByItself(unit) && !unit.a.inShared && unit.b.alongK && unit.a.elem == fn.type(fn.operand(dot, 0)).elem() &&
           (unit.precision == ir::Precision::ieee || unit.precision == fn.getEnum<ir::Precision>(dot, Attr::precision));
  });
}

// The position of what the loop carries for the chain alone: dots, of which the first takes it and the last gives it back.
std::optional<unsigned> carriedFor(const ir::Function &fn, OpId loop, const Chain &chain) {
  const BlockId body = fn.region(loop);
  ValueId sum = fn.operand(chain.front(), 2);
  if (!fn.isArg(sum) || fn.defBlock(sum) != body) {
    return std::nullopt;
  }
  const unsigned position = fn.defIndex(sum) - 1;
  for (const OpId op : chain) {
    if (!isDot(fn, op) || isPinned(fn, op) || fn.operand(op, 2) != sum || fn.uses(sum).size() != 1) {
      return std::nullopt;
    }
    sum = fn.result(op);
  }
  const auto uses = fn.uses(sum);
  const bool isGivenBack = uses.size() == 1 && uses[0].op == fn.last(body) && uses[0].operand == position;
  return isGivenBack ? std::optional(position) : std::nullopt;
}

// With what the loop carries for it.
void turnCarried(ir::Function &fn, OpId loop, const Chain &chain, unsigned position) {
  turnChain(fn, chain);
  const BlockId body = fn.region(loop);
  const ValueId carried = fn.args(body)[position + 1], result = fn.results(loop)[position];
  const Type type = swapped(fn.type(carried));
  const OpId there = fn.uses(carried)[0].op, back = fn.def(fn.operand(fn.last(body), position));
  fn.setType(carried, type);
  fn.replaceAllUses(fn.result(there), carried);
  fn.erase(there);
  fn.setOperand(fn.last(body), position, fn.operand(back, 0));
  fn.erase(back);
  fn.setOperand(loop, 3 + position, Turner(fn, {}).of(fn.operand(loop, 3 + position)));
  const std::vector<ir::Use> uses(fn.uses(result).begin(), fn.uses(result).end());
  fn.setType(result, type);
  const ValueId whole = Turner(fn, {}).of(result);
  for (const ir::Use use : uses) {
    fn.setOperand(use.op, use.operand, whole);
  }
}

bool turnSumsOf(ir::Function &fn, OpId loop, const PassContext &context) {
  const BlockId body = fn.region(loop);
  bool changed = false;
  for (const Chain &chain : dotChains(fn, body)) {
    const auto position = carriedFor(fn, loop, chain);
    if (!position || !std::ranges::all_of(chain, [&](OpId dot) { return asksForOneOrder(fn, dot, context.target); })) {
      continue;
    }
    ir::Function other = fn.clone();
    turnCarried(other, loop, chain, *position);
    if (dotsByThemselves(other.clone(), body, context) >= dotsByThemselves(fn.clone(), body, context) + chain.size()) {
      fn = std::move(other);
      changed = true;
    }
  }
  return changed;
}

} // namespace

std::vector<Chain> dotChains(const ir::Function &fn, BlockId block) {
  Ties ties;
  ir::IndexMap<ValueId, int32_t> chainOf{-1};
  Chain found;
  for (const OpId op : fn.opsIn(block)) {
    if (!isDot(fn, op) && !(fn.results(op).size() == 1 && isByElement(fn, op))) {
      continue;
    }
    const auto tied = isDot(fn, op) ? fn.operands(op).subspan(2) : fn.operands(op);
    int32_t chain = isDot(fn, op) ? ties.make() : -1;
    for (const ValueId operand : tied) {
      const int32_t other = chainOf[operand];
      if (chain >= 0 && other >= 0) {
        ties.join(other, chain);
      }
      chain = std::max(chain, other);
    }
    if (chain >= 0) {
      chainOf.set(fn.result(op), chain);
      found.push_back(op);
    }
  }
  std::map<int32_t, Chain> chains;
  for (const OpId op : found) {
    chains[ties.root(chainOf[fn.result(op)])].push_back(op);
  }
  std::vector<Chain> all;
  std::ranges::transform(chains, std::back_inserter(all), [](const auto &entry) { return entry.second; });
  return all;
}

void turnChain(ir::Function &fn, const Chain &chain) { Turner(fn, chain).run(); }

bool turnDots(ir::Function &fn, const PassContext &context) {
  // Without a unit that reads by itself and takes sums from registers there is nothing to win.
  if (std::ranges::none_of(context.target.units,
                           [](const ir::DotUnit &unit) { return readsByItself(unit) && !unit.a.inShared; })) {
    return false;
  }
  bool changed = false;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::For) {
      changed = turnIn(fn, fn.region(op), context) || changed;
      changed = turnSumsOf(fn, op, context) || changed;
    }
  }
  if (changed) {
    eliminateDeadCode(fn, context);
  }
  return changed;
}

} // namespace libtile::passes
