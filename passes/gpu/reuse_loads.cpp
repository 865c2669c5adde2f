// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/reuse_loads.h"

#include "ir/ops.h"
#include "passes/analysis/alias.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace libtile::passes {
namespace {

using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::ValueId;

constexpr int64_t kHeldByThread = 64; // registers: a quarter of what it may have
constexpr int64_t kMostWarps = 16;    // that the compiler takes for a row

class LoadReuser {
public:
  LoadReuser(ir::Function &fn, const PassContext &context) : fn_(fn), context_(context) {}

  bool run() {
    std::set<uint32_t> blocks;
    for (const OpId op : fn_.walk()) {
      if (fn_.opcode(op) == Opcode::Load) {
        blocks.insert(fn_.block(op).index);
      }
    }
    std::ranges::for_each(blocks, [&](uint32_t block) { visit(BlockId{block}); });
    return changed_;
  }

private:
  void visit(BlockId block) {
    const std::vector<OpId> ops = fn_.opsIn(block);
    std::map<std::vector<uint32_t>, int> toCome; // loads of these operands
    for (const OpId op : ops) {
      if (isPlainLoad(op)) {
        ++toCome[operandsOf(op)];
      }
    }
    std::vector<OpId> loaded; // what is loaded once more: most is not, and each access is compared with all of it
    for (const OpId op : ops) {
      if (!isPlainLoad(op)) {
        forget(loaded, op);
        continue;
      }
      const int others = --toCome[operandsOf(op)];
      const auto earlier = std::ranges::find_if(loaded, [&](OpId load) { return gives(load, op); });
      if (earlier == loaded.end()) {
        if (others > 0) {
          loaded.push_back(op);
        }
      } else if (hold(*earlier)) {
        fn_.replaceAllUses(fn_.result(op), fn_.result(*earlier));
        fn_.erase(op);
        changed_ = true;
      }
    }
  }

  [[nodiscard]] std::vector<uint32_t> operandsOf(OpId load) const {
    std::vector<uint32_t> operands;
    std::ranges::transform(fn_.operands(load), std::back_inserter(operands), [](ValueId operand) { return operand.index; });
    return operands;
  }

  // What the op may change. Behind an access that is ordered another program may have written.
  void forget(std::vector<OpId> &loaded, OpId op) {
    const ir::Effects effects = fn_.effects(op);
    if (!effects.pure()) {
      std::erase_if(loaded, [&](OpId load) { return effects.has(ir::Effects::Ordered) || mayConflict(fn_, load, op, facts()); });
    }
  }

  [[nodiscard]] bool isPlainLoad(OpId op) const {
    return fn_.opcode(op) == Opcode::Load && fn_.type(fn_.result(op)).isTile() && fn_.ownEffects(op) == ir::Effects(ir::Effects::ReadsGlobal);
  }

  // All that `later` loads `earlier` has.
  [[nodiscard]] bool gives(OpId earlier, OpId later) const {
    return std::ranges::equal(fn_.operands(earlier), fn_.operands(later)) && std::ranges::equal(fn_.attrs(earlier), fn_.attrs(later));
  }

  bool hold(OpId load) {
    if (!held_.contains(load.index)) {
      const int64_t more = registersHeld(fn_.type(fn_.result(load)));
      if (!holdsTile(registers_ + more, context_)) {
        return false;
      }
      held_.insert(load.index);
      registers_ += more;
    }
    return true;
  }

  // Addresses stay as they are. Most kernels load nothing twice.
  [[nodiscard]] const Facts &facts() {
    if (!facts_) {
      facts_.emplace(computeFacts(fn_));
    }
    return *facts_;
  }

  ir::Function &fn_;
  const PassContext &context_;
  std::optional<Facts> facts_;
  std::set<uint32_t> held_;
  int64_t registers_ = 0;
  bool changed_ = false;
};

} // namespace

int64_t registersHeld(ir::Type tile) {
  const int64_t bits = tile.numElements() * std::max<int64_t>(tile.elementBits(), 8);
  return (bits + 31) / 32;
}

bool holdsTile(int64_t registers, const PassContext &context) {
  const int64_t warps = context.numWarps > 0 ? context.numWarps : std::min<int64_t>(kMostWarps, context.target.maxWarps);
  return registers <= kHeldByThread * warps * context.target.warpSize;
}

bool reuseLoads(ir::Function &fn, const PassContext &context) { return LoadReuser(fn, context).run(); }

} // namespace libtile::passes
