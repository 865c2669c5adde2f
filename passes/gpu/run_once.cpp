// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/run_once.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/gpu/reuse_loads.h"

#include <algorithm>
#include <optional>
#include <set>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::CmpPred;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// Code is made twice.
constexpr size_t kMostOps = 256;

// Start and step are constants, the end is not.
struct Range {
  int64_t start = 0, step = 0;
  ValueId end;
  friend bool operator==(const Range &, const Range &) = default;
};

struct Group {
  Range range;
  std::vector<OpId> loops;
};

class OnceRunner {
public:
  OnceRunner(ir::Function &fn, const PassContext &context) : fn_(fn), context_(context) {}

  bool run() {
    std::vector<BlockId> blocks = {fn_.body()};
    for (const OpId op : fn_.walk()) {
      const auto regions = fn_.regions(op);
      blocks.insert(blocks.end(), regions.begin(), regions.end());
    }
    std::vector<Group> wanted;
    for (const BlockId block : blocks) {
      const auto group = groupIn(block);
      if (group && isWorthIt(*group)) {
        wanted.push_back(*group);
      }
    }
    bool changed = false;
    for (const Group &group : wanted) {
      changed |= run(group);
    }
    return changed;
  }

private:
  [[nodiscard]] std::optional<Range> rangeOf(OpId loop) const {
    const auto start = fn_.constantInt(fn_.operand(loop, 0)), step = fn_.constantInt(fn_.operand(loop, 2));
    const ValueId end = fn_.operand(loop, 1);
    const bool isKnown = start && step && *step > 0 && *start >= 0 && *step <= INT32_MAX - *start;
    return isKnown && !fn_.constantInt(end) && !fn_.getBool(loop, Attr::is_unsigned) ? std::optional(Range{*start, *step, end}) : std::nullopt;
  }

  // The first range of the block that two loops have.
  [[nodiscard]] std::optional<Group> groupIn(BlockId block) const {
    std::vector<Group> groups;
    for (const OpId op : fn_.opsIn(block)) {
      const auto range = fn_.opcode(op) == Opcode::For ? rangeOf(op) : std::nullopt;
      if (!range) {
        continue;
      }
      const auto found = std::ranges::find(groups, *range, &Group::range);
      if (found == groups.end()) {
        groups.push_back({*range, {op}});
      } else {
        found->loops.push_back(op);
      }
    }
    const auto several = std::ranges::find_if(groups, [](const Group &group) { return group.loops.size() > 1; });
    return several == groups.end() ? std::nullopt : std::optional(*several);
  }

  // From the first loop to the last, with what stands between.
  [[nodiscard]] std::vector<OpId> opsOf(const Group &group) const {
    std::vector<OpId> ops;
    for (OpId op = group.loops.front(); op != group.loops.back(); op = fn_.next(op)) {
      ops.push_back(op);
    }
    ops.push_back(group.loops.back());
    return ops;
  }

  [[nodiscard]] bool isWorthIt(const Group &group) const {
    size_t count = 0;
    for (const OpId op : opsOf(group)) {
      ++count;
      for (const BlockId region : fn_.regions(op)) {
        const std::vector<OpId> inside = fn_.walk(region);
        count += inside.size();
        if (!std::ranges::all_of(inside, [&](OpId each) { return isSmall(each); })) {
          return false;
        }
      }
    }
    return count <= kMostOps && readTwice(group);
  }

  [[nodiscard]] bool isSmall(OpId op) const {
    return fn_.opcode(op) != Opcode::Dot &&
           (fn_.opcode(op) != Opcode::Load || holdsTile(registersHeld(fn_.type(fn_.result(op))), context_));
  }

  // Two of the loops read the same array.
  [[nodiscard]] bool readTwice(const Group &group) const {
    const Facts facts = computeFacts(fn_);
    std::set<uint32_t> before;
    for (const OpId loop : group.loops) {
      std::set<uint32_t> arrays;
      for (const OpId op : fn_.walk(fn_.region(loop))) {
        const bool isTile = fn_.opcode(op) == Opcode::Load && fn_.type(fn_.result(op)).isTile();
        const ValueId base = isTile ? basePointer(fn_, fn_.operand(op, 0), facts) : ValueId{};
        if (base.valid()) {
          arrays.insert(base.index);
        }
      }
      if (std::ranges::any_of(arrays, [&](uint32_t array) { return before.contains(array); })) {
        return true;
      }
      before.merge(arrays);
    }
    return false;
  }

  // Code that may rely on guards has one step; code that may not stays as it is, since who runs it has longer rows.
  bool run(const Group &group) {
    const auto parameters = fn_.args(fn_.body());
    const auto parameter = std::ranges::find(parameters, group.range.end);
    if (group.range.start != 0 || parameter == parameters.end()) {
      split(group);
      return true;
    }
    if (context_.relies != Reliance::Numbers) {
      return false;
    }
    for (const OpId loop : group.loops) {
      Builder builder(fn_, loop);
      fn_.setOperand(loop, 1, builder.constInt(fn_.type(group.range.end), group.range.step));
    }
    fn_.guards.push_back({ir::Guard::Kind::Within, static_cast<uint32_t>(parameter - parameters.begin()), group.range.step});
    return true;
  }

  void split(const Group &group) {
    const std::vector<OpId> ops = opsOf(group);
    const std::vector<ValueId> results = usedBehind(ops);
    std::vector<Type> types;
    std::ranges::transform(results, std::back_inserter(types), [&](ValueId value) { return fn_.type(value); });
    Builder builder(fn_, ops.front());
    const Type scalar = fn_.type(group.range.end);
    const ValueId start = builder.constInt(scalar, group.range.start), step = builder.constInt(scalar, group.range.start + group.range.step);
    const ValueId once = builder.make(Opcode::And, {builder.cmp(CmpPred::sgt, group.range.end, start), builder.cmp(CmpPred::sle, group.range.end, step)});
    const OpId branch = builder.op(Opcode::If, std::array{once}, types);
    const std::set<uint32_t> inside = insideOf(ops);
    for (unsigned i = 0; i < results.size(); ++i) {
      const std::vector<ir::Use> uses(fn_.uses(results[i]).begin(), fn_.uses(results[i]).end());
      for (const ir::Use &use : uses) {
        if (!inside.contains(use.op.index)) {
          fn_.setOperand(use.op, use.operand, fn_.result(branch, i));
        }
      }
    }
    fillOnce(group, ops, results, step, fn_.region(branch, 0));
    for (const OpId op : ops) {
      fn_.unlink(op);
      fn_.append(fn_.region(branch, 1), op);
    }
    Builder(fn_, fn_.region(branch, 1)).yield(results);
  }

  // Copies of the ops, whose loops end behind one step.
  void fillOnce(const Group &group, const std::vector<OpId> &ops, const std::vector<ValueId> &results, ValueId end, BlockId region) {
    ir::IndexMap<ValueId, ValueId> copies;
    for (const OpId op : ops) {
      const OpId copy = fn_.copyOp(op, copies);
      fn_.append(region, copy);
      if (std::ranges::find(group.loops, op) != group.loops.end()) {
        fn_.setOperand(copy, 1, end);
      }
    }
    std::vector<ValueId> copied;
    std::ranges::transform(results, std::back_inserter(copied), [&](ValueId value) { return copies[value]; });
    Builder(fn_, region).yield(copied);
  }

  [[nodiscard]] std::set<uint32_t> insideOf(const std::vector<OpId> &ops) const {
    std::set<uint32_t> inside;
    for (const OpId op : ops) {
      inside.insert(op.index);
      for (const BlockId region : fn_.regions(op)) {
        for (const OpId each : fn_.walk(region)) {
          inside.insert(each.index);
        }
      }
    }
    return inside;
  }

  [[nodiscard]] std::vector<ValueId> usedBehind(const std::vector<OpId> &ops) const {
    const std::set<uint32_t> inside = insideOf(ops);
    std::vector<ValueId> used;
    for (const OpId op : ops) {
      std::ranges::copy_if(fn_.results(op), std::back_inserter(used), [&](ValueId value) {
        return std::ranges::any_of(fn_.uses(value), [&](const ir::Use &use) { return !inside.contains(use.op.index); });
      });
    }
    return used;
  }

  ir::Function &fn_;
  const PassContext &context_;
};

} // namespace

bool runOnce(ir::Function &fn, const PassContext &context) { return OnceRunner(fn, context).run(); }

} // namespace libtile::passes
