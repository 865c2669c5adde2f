// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/live_tiles.h"

#include "ir/ops.h"
#include "passes/gpu/plan_dots.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <ranges>
#include <vector>

namespace libtile::passes {
namespace {

using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// Makes tiles without an operand.
bool isSource(Opcode opcode) {
  return opcode == Opcode::Arange || opcode == Opcode::Constant || opcode == Opcode::Splat;
}

// Each element of the result depends on one element of an operand alone.
bool isByElement(Opcode opcode) {
  return ir::isElementwise(opcode) || opcode == Opcode::Broadcast || opcode == Opcode::ExpandDims ||
         opcode == Opcode::Hint;
}

class LiveTiles {
public:
  enum class Of : uint8_t { All, Sums, Thread };
  LiveTiles(const ir::Function &fn, Of of, const ir::Target *target = nullptr) : fn_(fn), of_(of), target_(target) {
    number(fn.body());
    markSums();
  }

  int64_t most() {
    changes_.assign(static_cast<size_t>(count_) + 2, 0);
    isPassed_.resize(changes_.size(), true);
    for (const OpId op : fn_.walk()) {
      for (const ValueId value : fn_.results(op)) {
        isIndex_.set(value, isIndex(op, value));
        add(value, end_[op]);
      }
      for (const BlockId region : fn_.regions(op)) {
        for (const ValueId arg : fn_.args(region)) {
          add(arg, begin_[fn_.first(region)]);
        }
      }
    }
    int64_t live = 0, most = 0;
    for (size_t i = 0; i < changes_.size(); ++i) {
      live += changes_[i];
      most = isPassed_[i] ? most : std::max(most, live);
    }
    return most;
  }

private:
  void number(BlockId block) {
    for (const OpId op : fn_.opsIn(block)) {
      begin_.set(op, count_++);
      isPassed_.push_back(isSource(fn_.opcode(op)) || isByElement(fn_.opcode(op)));
      for (const BlockId region : fn_.regions(op)) {
        number(region);
      }
      end_.set(op, begin_[op]);
      if (!fn_.regions(op).empty()) {
        end_.set(op, count_++);
        isPassed_.push_back(false);
      }
    }
  }

  void add(ValueId value, int32_t from) {
    const int64_t registers = registersOf(value);
    if (registers == 0) {
      return;
    }
    int32_t to = from + 1;
    for (const ir::Use &use : fn_.uses(value)) {
      to = std::max(to, positionOf(use.op, fn_.defBlock(value)));
    }
    changes_[static_cast<size_t>(from)] += registers;
    changes_[static_cast<size_t>(to)] -= registers;
  }

  // Where the op is done with what is defined in that block: loops below the block read it to their end.
  [[nodiscard]] int32_t positionOf(OpId op, BlockId defined) const {
    int32_t position = begin_[op];
    for (BlockId block = fn_.block(op); block != defined; block = fn_.block(fn_.parentOp(block))) {
      const OpId owner = fn_.parentOp(block);
      position = isLoop(fn_.opcode(owner)) ? end_[owner] : position;
    }
    return position;
  }

  [[nodiscard]] bool isIndex(OpId op, ValueId value) const {
    const auto isCheap = [&](ValueId operand) {
      return !fn_.type(operand).isTile() || isIndex_[operand];
    };
    const Opcode opcode = fn_.opcode(op);
    return isSource(opcode) || (isByElement(opcode) && fn_.type(value).isInteger() &&
                                std::ranges::all_of(fn_.operands(op), isCheap));
  }

  [[nodiscard]] bool isHeld(ValueId value) const {
    const std::optional<Opcode> opcode = fn_.defOpcode(value);
    return !isIndex_[value] && opcode != Opcode::Broadcast && !isOperandOfDots(value) &&
           (opcode != Opcode::Load || !canWait(value));
  }

  [[nodiscard]] bool isOperandOfDots(ValueId value) const {
    const auto uses = fn_.uses(value);
    return !uses.empty() && std::ranges::all_of(uses, [&](const ir::Use &use) {
      return fn_.opcode(use.op) == Opcode::Dot && use.operand < 2 && (of_ != Of::Thread || isInShared(use));
    });
  }

  [[nodiscard]] bool isInShared(ir::Use use) const {
    const ir::DotUnit &unit = unitOf(fn_, use.op, *target_);
    return use.operand == 0 ? unit.a.inShared : unit.b.inShared;
  }

  // For its one use.
  [[nodiscard]] bool canWait(ValueId load) const {
    const auto uses = fn_.uses(load);
    return uses.size() == 1 && fn_.block(uses[0].op) == fn_.defBlock(load) &&
           fn_.regions(uses[0].op).empty() && fn_.opcode(uses[0].op) != Opcode::Yield;
  }

  // What dots add to and return, and what loops and branches make of it.
  void markSums() {
    std::vector<OpId> ops;
    for (const OpId op : fn_.walk()) {
      ops.push_back(op);
      if (fn_.opcode(op) == Opcode::Dot) {
        isSum_.set(fn_.operand(op, 2), true);
        isSum_.set(fn_.result(op), true);
      }
    }
    for (const OpId op : std::views::reverse(ops)) { // what is inside comes first
      for (const BlockId region : fn_.regions(op)) {
        const OpId end = fn_.last(region);
        for (uint32_t i = 0; fn_.opcode(end) == Opcode::Yield && i < fn_.results(op).size(); ++i) {
          if (isSum_[fn_.operand(end, i)]) {
            isSum_.set(fn_.result(op, i), true);
            isSum_.set(fn_.opcode(op) == Opcode::For ? fn_.args(region)[i + 1] : fn_.result(op, i), true);
          }
        }
      }
    }
  }

  [[nodiscard]] int64_t registersOf(ValueId value) const {
    const Type type = fn_.type(value);
    if (!type.isTile() || type.isPointer() || !isHeld(value) || (of_ == Of::Sums && !isSum_[value])) {
      return 0;
    }
    if (of_ == Of::Thread) {
      return registersOfThread(fn_, value);
    }
    const bool isHalf = type.elem() == ir::Elem::F16 || type.elem() == ir::Elem::BF16;
    const int64_t halves = isHalf ? 1 : type.elementBytes() > 4 ? 4 : 2;
    return (type.numElements() * halves + 1) / 2;
  }

  const ir::Function &fn_;
  const Of of_;
  const ir::Target *const target_; // Of::Thread
  int32_t count_ = 0;
  ir::IndexMap<OpId, int32_t> begin_{0}, end_{0};
  ir::IndexMap<ValueId, bool> isIndex_{false}, isSum_{false};
  std::vector<bool> isPassed_;   // no op there takes whole tiles
  std::vector<int64_t> changes_; // of the live registers, at each position
};

} // namespace

int64_t liveRegisters(const ir::Function &fn) { return LiveTiles(fn, LiveTiles::Of::All).most(); }
int64_t liveSums(const ir::Function &fn) { return LiveTiles(fn, LiveTiles::Of::Sums).most(); }
int64_t liveOfThread(const ir::Function &fn, const ir::Target &target) { return LiveTiles(fn, LiveTiles::Of::Thread, &target).most(); }

int64_t programsByRegisters(int64_t tiles, int32_t warps, const ir::Target &target) {
  return target.registers / (int64_t{warps} * target.warpSize * (tiles + kBesideTiles));
}

int64_t threadRegisters(const ir::Function &fn, const ir::Target &target) {
  for (const OpId op : fn.opsIn(fn.body())) {
    if (fn.opcode(op) == Opcode::Producer) {
      return fn.getInts(op, ir::Attr::registers)[1];
    }
  }
  const int64_t threads = int64_t{fn.numWarps} * target.warpSize * std::max(fn.resident, 1);
  return std::min<int64_t>(target.registersPerThread, target.registers / threads);
}

int64_t registersOfThread(const ir::Function &fn, ValueId tile) {
  const Type type = fn.type(tile);
  return (int64_t{fn.layout(type.layout()).size(ir::HwDim::Reg)} * type.elementBytes() + 3) / 4;
}

} // namespace libtile::passes
