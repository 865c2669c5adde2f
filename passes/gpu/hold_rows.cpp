// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/hold_rows.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/facts.h"
#include "passes/gpu/live_tiles.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>

namespace libtile::passes {
namespace {

using ir::BlockId;
using ir::Builder;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

constexpr int64_t kBesideRows = 32; // registers for addresses, and what is being computed
constexpr size_t kMostOps = 8;      // that one tile is computed by again

// Of one instruction or two for each element.
bool isCheap(const ir::Function &fn, OpId op) {
  constexpr std::array kCheap = {Opcode::FpExt, Opcode::SIToFp, Opcode::UIToFp, Opcode::Add, Opcode::Sub, Opcode::Mul,
                                 Opcode::Fma, Opcode::Neg, Opcode::Abs, Opcode::FMax, Opcode::FMin, Opcode::Exp2, Opcode::Select};
  return std::ranges::find(kCheap, fn.opcode(op)) != kCheap.end();
}

bool isRow(const ir::Function &fn, ValueId value) {
  const Type type = fn.type(value);
  return type.isTile() && !type.isPointer() && !type.isBuffer() && type.elementBits() > 1;
}

// What a tile is computed from again.
struct Recipe {
  std::vector<OpId> ops;      // operands first
  std::vector<ValueId> rows;  // narrower tiles, which are held
};

// Rows of less than a word an element that are loaded.
std::set<uint32_t> narrowLoads(const ir::Function &fn) {
  std::set<uint32_t> found;
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Load && isRow(fn, fn.result(op)) && fn.type(fn.result(op)).elementBytes() < 4) {
      found.insert(fn.result(op).index);
    }
  }
  return found;
}

// Neighbours come in words, so that an element has no register of its own.
bool comesInWords(const ir::Function &fn, const AccessFacts &access, ValueId row) {
  const OpId load = fn.def(row);
  int64_t most = 1;
  for (unsigned axis = 0; axis < fn.type(row).rank(); ++axis) {
    const int64_t neighbours = access.maxVectorElements(fn.operand(load, 0), axis);
    most = std::max(most, fn.numOperands(load) > 1 ? std::min(neighbours, access.equalGroup(fn.operand(load, 1), axis)) : neighbours);
  }
  return most * fn.type(row).elementBytes() >= 4;
}

class RowHolder {
public:
  // `byElement`: loaded rows each element of which has a register of its own.
  RowHolder(ir::Function &fn, const std::set<uint32_t> &byElement) : fn_(fn), byElement_(byElement) {}

  // The most registers of a thread that lie across a reduction, with those of tiles that are loaded behind it.
  [[nodiscard]] int64_t across() const {
    int64_t most = 0;
    std::map<uint32_t, Lives> lives; // by block
    const auto livesAt = [&](OpId op) -> const Lives & {
      const BlockId block = fn_.block(op);
      const auto found = lives.find(block.index);
      return found != lives.end() ? found->second : lives.emplace(block.index, livesOf(block)).first->second;
    };
    for (const OpId point : points()) {
      int64_t registers = loadedBehind(point) + livesAt(point).beyond(point);
      for (OpId owner = fn_.parentOp(fn_.block(point)); owner.valid(); owner = fn_.parentOp(fn_.block(owner))) {
        registers += livesAt(owner).upTo(owner); // what a loop or a branch uses itself lies across it, too
      }
      most = std::max(most, registers);
    }
    return most;
  }

  bool run() {
    bool changed = false;
    for (const OpId point : points()) {
      changed |= holdAcross(point);
    }
    return changed;
  }

private:
  // Registers of rows that a block makes in front of its op and uses behind it, or also in it.
  struct Lives {
    std::map<uint32_t, size_t> placeOf;
    std::vector<int64_t> behind, inOrBehind; // by place

    [[nodiscard]] int64_t beyond(OpId op) const { return behind[placeOf.at(op.index)]; }
    [[nodiscard]] int64_t upTo(OpId op) const { return inOrBehind[placeOf.at(op.index)]; }
  };

  [[nodiscard]] Lives livesOf(BlockId block) const {
    Lives lives;
    for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
      lives.placeOf.emplace(op.index, lives.placeOf.size());
    }
    // First what begins and ends at a place, then its sum.
    lives.behind.resize(lives.placeOf.size() + 1);
    lives.inOrBehind.resize(lives.placeOf.size() + 1);
    for (OpId op = fn_.first(block); op.valid(); op = fn_.next(op)) {
      const size_t first = lives.placeOf.at(op.index) + 1;
      for (const ValueId value : fn_.results(op)) {
        const size_t last = isRow(fn_, value) && !isMadeOfNumbers(value) ? lastUse(value, block, lives) : 0;
        if (last >= first) {
          lives.behind[first] += registersOf(value);
          lives.behind[last] -= registersOf(value);
          lives.inOrBehind[first] += registersOf(value);
          lives.inOrBehind[last + 1] -= registersOf(value);
        }
      }
    }
    std::partial_sum(lives.behind.begin(), lives.behind.end(), lives.behind.begin());
    std::partial_sum(lives.inOrBehind.begin(), lives.inOrBehind.end(), lives.inOrBehind.begin());
    return lives;
  }

  // The place of the last op that uses it or has such ops in it; 0: there is none.
  [[nodiscard]] size_t lastUse(ValueId value, BlockId block, const Lives &lives) const {
    size_t last = 0;
    for (const ir::Use &use : fn_.uses(value)) {
      const OpId owner = ownerIn(block, use.op);
      last = owner.valid() ? std::max(last, lives.placeOf.at(owner.index)) : last;
    }
    return last;
  }

  // Of a thread.
  [[nodiscard]] int64_t registersOf(ValueId row) const {
    return byElement_.contains(row.index) ? fn_.layout(fn_.type(row).layout()).size(ir::HwDim::Reg) : registersOfThread(fn_, row);
  }

  [[nodiscard]] std::vector<OpId> points() const {
    std::vector<OpId> found;
    std::ranges::copy_if(fn_.walk(), std::back_inserter(found), [&](OpId op) {
      return fn_.opcode(op) == Opcode::Reduce && fn_.type(fn_.operand(op, 0)).isTile();
    });
    return found;
  }

  [[nodiscard]] int64_t loadedBehind(OpId point) const {
    int64_t registers = 0;
    for (OpId op = fn_.next(point); op.valid() && fn_.opcode(op) != Opcode::Reduce; op = fn_.next(op)) {
      registers += fn_.opcode(op) == Opcode::Load && isRow(fn_, fn_.result(op)) ? registersOf(fn_.result(op)) : 0;
    }
    return registers;
  }

  // The op of the block that the user is, or lies in; invalid: it lies elsewhere.
  [[nodiscard]] OpId ownerIn(BlockId block, OpId user) const {
    while (user.valid() && fn_.block(user) != block) {
      user = fn_.parentOp(fn_.block(user));
    }
    return user;
  }

  [[nodiscard]] std::set<uint32_t> behind(OpId point) const {
    std::set<uint32_t> ops;
    for (OpId op = fn_.next(point); op.valid(); op = fn_.next(op)) {
      ops.insert(op.index);
    }
    return ops;
  }

  // Rows that its block makes in front of it and uses behind it.
  [[nodiscard]] std::vector<ValueId> crossing(OpId point) const {
    const std::set<uint32_t> later = behind(point);
    const BlockId block = fn_.block(point);
    std::vector<ValueId> found;
    for (OpId op = fn_.first(block); op != point; op = fn_.next(op)) {
      for (const ValueId value : fn_.results(op)) {
        const bool isUsed = isRow(fn_, value) && !isMadeOfNumbers(value) && std::ranges::any_of(fn_.uses(value), [&](const ir::Use &use) {
          const OpId owner = ownerIn(block, use.op);
          return owner.valid() && later.contains(owner.index);
        });
        if (isUsed) {
          found.push_back(value);
        }
      }
    }
    return found;
  }

  // Indices, and numbers that are the same everywhere: threads make them from few. Asked once of a value, which many paths of ops may reach.
  [[nodiscard]] bool isMadeOfNumbers(ValueId value) const {
    if (!ofNumbers_[value]) {
      ofNumbers_.set(value, findWhetherMadeOfNumbers(value));
    }
    return *ofNumbers_[value];
  }

  [[nodiscard]] bool findWhetherMadeOfNumbers(ValueId value) const {
    const OpId op = fn_.def(value);
    if (!fn_.type(value).isTile()) {
      return true;
    }
    if (!op.valid()) {
      return false;
    }
    const Opcode opcode = fn_.opcode(op);
    const bool isMade = opcode == Opcode::Constant || opcode == Opcode::Splat || opcode == Opcode::Arange;
    return isMade || ((ir::isElementwise(opcode) || opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims) &&
                      std::ranges::all_of(fn_.operands(op), [&](ValueId operand) { return isMadeOfNumbers(operand); }));
  }

  // Takes the value apart; false: it is not made of narrower rows by cheap ops in front of the point.
  bool takeApart(ValueId value, int64_t bits, Recipe &recipe) const {
    if (isMadeOfNumbers(value) || std::ranges::find(recipe.rows, value) != recipe.rows.end()) {
      return true;
    }
    if (fn_.type(value).elementBits() < bits && isRow(fn_, value)) {
      recipe.rows.push_back(value);
      return true;
    }
    const OpId op = fn_.def(value);
    if (!op.valid() || !isCheap(fn_, op)) {
      return false;
    }
    if (std::ranges::find(recipe.ops, op) != recipe.ops.end()) {
      return true;
    }
    if (recipe.ops.size() == kMostOps || !std::ranges::all_of(fn_.operands(op), [&](ValueId operand) { return takeApart(operand, bits, recipe); })) {
      return false;
    }
    recipe.ops.push_back(op);
    return true;
  }

  bool holdAcross(OpId point) {
    bool changed = false;
    ir::IndexMap<ValueId, ValueId> copies; // behind the point
    for (const ValueId value : crossing(point)) {
      Recipe recipe;
      const bool isWide = takeApart(value, fn_.type(value).elementBits(), recipe) && !recipe.ops.empty();
      int64_t registers = 0;
      for (const ValueId row : recipe.rows) {
        registers += registersOf(row);
      }
      if (isWide && registers < registersOf(value)) {
        remake(point, value, recipe, copies);
        changed = true;
      }
    }
    return changed;
  }

  void remake(OpId point, ValueId value, const Recipe &recipe, ir::IndexMap<ValueId, ValueId> &copies) {
    const std::set<uint32_t> later = behind(point);
    const OpId user = firstUser(point, value, later);
    for (const ValueId row : recipe.rows) {
      if (!copies[row].valid()) {
        Builder builder(fn_, fn_.next(point));
        copies.set(row, builder.make(Opcode::Hold, {row}, fn_.type(row)));
        replaceBehind(point, row, copies[row], later);
      }
    }
    for (const OpId op : recipe.ops) {
      if (!copies[fn_.result(op)].valid()) {
        const OpId copy = fn_.copyOp(op, copies);
        fn_.insertBefore(user, copy);
        bringOperandsForward(copy);
      }
    }
    bringForward(copies[value], user);
    replaceBehind(point, value, copies[value], later);
  }

  // An earlier value may be computed from the same copy, behind the user.
  void bringForward(ValueId copy, OpId user) {
    const OpId op = fn_.def(copy);
    if (op.valid() && behind(user).contains(op.index)) {
      fn_.unlink(op);
      fn_.insertBefore(user, op);
      bringOperandsForward(op);
    }
  }
  void bringOperandsForward(OpId op) {
    for (const ValueId operand : fn_.operands(op)) {
      bringForward(operand, op);
    }
  }

  [[nodiscard]] OpId firstUser(OpId point, ValueId value, const std::set<uint32_t> &later) const {
    std::set<uint32_t> users;
    for (const ir::Use &use : fn_.uses(value)) {
      const OpId owner = ownerIn(fn_.block(point), use.op);
      if (owner.valid() && later.contains(owner.index)) {
        users.insert(owner.index);
      }
    }
    OpId op = fn_.next(point);
    while (!users.contains(op.index)) {
      op = fn_.next(op);
    }
    return op;
  }

  // Uses by ops that stood behind the point at first.
  void replaceBehind(OpId point, ValueId from, ValueId to, const std::set<uint32_t> &later) {
    const std::vector<ir::Use> uses(fn_.uses(from).begin(), fn_.uses(from).end());
    for (const ir::Use &use : uses) {
      const OpId owner = ownerIn(fn_.block(point), use.op);
      if (owner.valid() && later.contains(owner.index)) {
        fn_.setOperand(use.op, use.operand, to);
      }
    }
  }

  ir::Function &fn_;
  const std::set<uint32_t> &byElement_;
  mutable ir::IndexMap<ValueId, std::optional<bool>> ofNumbers_;
};

int64_t programs(const ir::Function &fn, int64_t registers, const ir::Target &target) {
  return target.registers / (int64_t{fn.numWarps} * target.warpSize * (registers + kBesideRows));
}

} // namespace

bool holdRows(ir::Function &fn, const PassContext &context) {
  const std::vector<OpId> ops = fn.walk();
  const auto has = [&](Opcode opcode) { return std::ranges::any_of(ops, [&](OpId op) { return fn.opcode(op) == opcode; }); };
  if (has(Opcode::Dot) || !has(Opcode::Reduce)) {
    return false;
  }
  // First as if no row came in words: most functions end here, without facts.
  std::set<uint32_t> byElement = narrowLoads(fn);
  const int64_t most = RowHolder(fn, byElement).across();
  if (most == 0 || programs(fn, most, context.target) > 1) {
    return false;
  }
  const Facts facts = computeFacts(fn);
  std::erase_if(byElement, [&](uint32_t row) { return comesInWords(fn, facts.access(), ValueId{row}); });
  const int64_t before = RowHolder(fn, byElement).across();
  if (programs(fn, before, context.target) > 1) {
    return false;
  }
  ir::Function tried = fn.clone();
  if (!RowHolder(tried, byElement).run()) {
    return false;
  }
  const int64_t room = programs(tried, RowHolder(tried, byElement).across(), context.target);
  if (room <= programs(fn, before, context.target)) {
    return false;
  }
  fn = std::move(tried);
  fn.resident = static_cast<int32_t>(room);
  return true;
}

} // namespace libtile::passes
