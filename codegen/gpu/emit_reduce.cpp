// SPDX-License-Identifier: Apache-2.0
// Reductions, step by step as passes/gpu/reduce_plan.h says. A thread's state is a list of entries:
// a partial result for each row that it holds and each part of the axis not yet joined.
#include "codegen/gpu/combine.h"

#include "ir/ops.h"
#include "passes/gpu/reduce_plan.h"

#include <algorithm>
#include <cmath>

namespace libtile::codegen::gpu {

using ir::Attr;
using ir::HwDim;
using ir::Opcode;
using passes::ReduceStep;

class ReduceEmitter : CombineEmitter {
public:
  ReduceEmitter(Emitter &emitter, ir::OpId op)
      : CombineEmitter(emitter, op), plan_(passes::planReduce(emitter.fn_, op)),
        extent_(type_.dim(plan_.axis)),
        padded_(layout_.subtile()[plan_.axis] * layout_.repeats()[plan_.axis] > extent_) {}

  void run() {
    collect();
    for (const ReduceStep &step : plan_.steps) {
      if (step.kind == ReduceStep::Kind::Lane || step.kind == ReduceStep::Kind::Warp) {
        selectEntries();
      }
      switch (step.kind) {
      case ReduceStep::Kind::Register:
        joinEntries(step.distance, step.distance);
        break;
      case ReduceStep::Kind::Repeat:
        joinRepeats();
        break;
      case ReduceStep::Kind::Lane:
        joinLanes(step);
        break;
      case ReduceStep::Kind::Warp:
        joinWarps();
        break;
      }
    }
    selectEntries();
    setResults();
  }

private:
  struct Entry {
    ir::Coords coords; // of the register: where the entry lies in thread 0
    Regs tuple;
    llvm::Value *condition = nullptr; // if it does not hold, the entry is what the tile's select gives then
  };

  // The tile is select(c, x, k), and k op k is k: entries of one condition are selected once they have been joined. invalid: it is not.
  [[nodiscard]] ir::OpId selectBefore() const {
    const ir::ValueId tile = fn_.operand(op_, 0);
    if (!plan_.commutative || padded_ || fn_.defOpcode(tile) != Opcode::Select || fn_.uses(tile).size() != 1) {
      return {};
    }
    const auto number = fn_.constantFloat(fn_.operand(fn_.def(tile), 2));
    const Opcode opcode = *plan_.commutative;
    const bool stays = opcode == Opcode::Add ? number == 0.0 : opcode == Opcode::FMin || opcode == Opcode::FMax;
    return number && stays ? fn_.def(tile) : ir::OpId{};
  }

  // Every register of the tile once; padding becomes neutral where the order is free.
  void collect() {
    const ir::OpId select = selectBefore();
    forEachRegister([&](int32_t reg, ir::Coords coords, Regs tuple) {
      if (select.valid()) {
        const auto at = static_cast<size_t>(reg);
        entries_.push_back({std::move(coords), {e_.regs(fn_.operand(select, 1))[at]}, e_.regs(fn_.operand(select, 0))[at]});
        return;
      }
      if (plan_.commutative && padded_) {
        llvm::Value *inside =
            builder().CreateICmpSLT(e_.coord(layout_, reg, plan_.axis), e_.i32(extent_));
        tuple[0] = builder().CreateSelect(inside, tuple[0], neutral());
      }
      entries_.push_back({std::move(coords), std::move(tuple)});
    });
  }

  // x op neutral == x, for every x.
  llvm::Constant *neutral() {
    const ir::Type element = type_.element();
    if (element.isFloating()) {
      const bool nan = fn_.getBool(fn_.first(fn_.region(op_)), Attr::nan);
      const Opcode opcode = *plan_.commutative;
      const double number = opcode == Opcode::Add    ? -0.0
                            : opcode == Opcode::Mul  ? 1.0
                            : !nan                   ? std::nan("")
                            : opcode == Opcode::FMin ? HUGE_VAL
                                                     : -HUGE_VAL;
      return e_.elementwise_.floatConstant(element.elem(), number);
    }
    const unsigned bits = element.elementBits();
    return llvm::ConstantInt::get(e_.elementwise_.registerType(element), neutralInteger(bits));
  }
  [[nodiscard]] llvm::APInt neutralInteger(unsigned bits) const {
    const Opcode opcode = *plan_.commutative;
    if (opcode == Opcode::Mul) {
      return llvm::APInt(bits, 1);
    }
    if (opcode == Opcode::And || opcode == Opcode::UMin) {
      return llvm::APInt::getAllOnes(bits);
    }
    if (opcode == Opcode::SMin) {
      return llvm::APInt::getSignedMaxValue(bits);
    }
    return opcode == Opcode::SMax ? llvm::APInt::getSignedMinValue(bits)
                                  : llvm::APInt::getZero(bits);
  }

  // What has not been selected yet.
  void selectEntry(Entry &entry) {
    if (entry.condition != nullptr) {
      const ir::ValueId other = fn_.operand(fn_.def(fn_.operand(op_, 0)), 2);
      entry.tuple = select(entry.condition, entry.tuple, {e_.regs(other)[0]});
      entry.condition = nullptr;
    }
  }
  void selectEntries() { std::ranges::for_each(entries_, [&](Entry &entry) { selectEntry(entry); }); }

  void joinInto(Entry &left, Entry &right, llvm::Value *rightInside) {
    if (left.condition != right.condition) {
      selectEntry(left);
      selectEntry(right);
    }
    left.tuple = combineInside(left.tuple, right.tuple, rightInside);
  }

  // combine, where the right tuple's first element may lie in the padding: then the left alone.
  Regs combineInside(const Regs &left, const Regs &right, llvm::Value *rightInside) {
    const Regs joined = combine(left, right);
    return rightInside == nullptr ? joined : select(rightInside, joined, left);
  }

  [[nodiscard]] bool checksPadding() const { return padded_ && !plan_.commutative; }

  // Whether what an entry is joined with has elements inside: the first one, at `start` where the entry's coordinate has no bits that
  // have been joined, nor the step's. null: surely. Later ones do not count in the padding, as they were left out.
  llvm::Value *blockInside(const Entry &entry, int32_t bits, int32_t start) {
    const int32_t own = entry.coords[plan_.axis], subtile = layout_.subtile()[plan_.axis];
    if (!checksPadding() || (own / subtile + 1) * subtile <= extent_) {
      return nullptr;
    }
    llvm::Value *coord = builder().CreateXor(e_.threadCoord(layout_, plan_.axis), e_.i32(own));
    coord = builder().CreateAnd(coord, e_.i32(~(joined_ | bits)));
    return builder().CreateICmpSLT(builder().CreateOr(coord, e_.i32(start)), e_.i32(extent_));
  }

  // Entries that differ in `distance` along the axis.
  void joinEntries(int32_t distance, int32_t bit) {
    std::vector<Entry> joined;
    for (Entry &right : entries_) {
      ir::Coords where = right.coords;
      where[plan_.axis] &= ~bit;
      const bool isRight = where != right.coords;
      const auto left = std::ranges::find(joined, where, &Entry::coords);
      if (!isRight || left == joined.end()) {
        right.coords = where;
        joined.push_back(std::move(right));
        continue;
      }
      joinInto(*left, right, blockInside(*left, distance, distance));
    }
    entries_ = std::move(joined);
    joined_ |= distance;
  }

  // Repeats come by rising coordinate.
  void joinRepeats() {
    const int32_t subtile = layout_.subtile()[plan_.axis];
    std::vector<Entry> joined;
    for (Entry &entry : entries_) {
      ir::Coords where = entry.coords;
      const int32_t start = where[plan_.axis] / subtile * subtile;
      where[plan_.axis] %= subtile;
      const auto left = std::ranges::find(joined, where, &Entry::coords);
      if (left == joined.end()) {
        entry.coords = where;
        joined.push_back(std::move(entry));
        continue;
      }
      // In order, everything below the repeats has been joined, and each begins in the tile.
      ir::check(start < extent_, "a repeat reaches the tile");
      joinInto(*left, entry, plan_.inOrder ? nullptr : blockInside(entry, 0, 0));
    }
    entries_ = std::move(joined);
  }

  // Both lanes must get the same bits, so neither fuses its own product with the other's rounded one.
  void joinLanes(const ReduceStep &step) {
    e_.contracts_ = false;
    llvm::Value *mask = e_.i32(int64_t{1} << step.bit);
    llvm::Value *isRight = nullptr;
    if (!plan_.commutative) {
      isRight = builder().CreateICmpNE(builder().CreateAnd(e_.lane_, mask), e_.i32(0));
    }
    const bool byRows = joinsToLast_ && 1 << step.bit >= e_.laneRow();
    const LaneExchange exchange{LaneExchange::Mode::Xor, mask, laneSources(e_.target_.warpSize, [&](int32_t lane) {
                                  return byRows && !isLast(lane, step.bit) ? kAnyLane : agreeingWith(lane ^ 1 << step.bit);
                                })};
    for (Entry &entry : entries_) {
      const Regs other = shuffle(entry.tuple, exchange);
      const Regs left = isRight == nullptr ? entry.tuple : select(isRight, other, entry.tuple);
      const Regs right = isRight == nullptr ? other : select(isRight, entry.tuple, other);
      entry.tuple = combineInside(left, right, blockInside(entry, step.distance, step.distance));
    }
    joined_ |= step.distance;
    e_.contracts_ = e_.options_.contracts;
    joinedLanes_ |= byRows ? 0 : 1 << step.bit;
    if (byRows && 2 << step.bit == e_.target_.warpSize) {
      tellLast();
    }
  }

  // A whole warp of four rows or more, in the order of its lanes: the rows may be joined towards the last one, whose total all are told.
  [[nodiscard]] bool joinsToLast() const {
    std::vector<int32_t> bits;
    for (const ReduceStep &step : plan_.steps) {
      if (step.kind == ReduceStep::Kind::Lane) {
        bits.push_back(step.bit);
      }
    }
    return plan_.commutative && 4 * e_.laneRow() <= e_.target_.warpSize && 1 << bits.size() == e_.target_.warpSize && std::ranges::is_sorted(bits);
  }
  // The lane lies in the last row of those that are joined by the bit.
  [[nodiscard]] bool isLast(int32_t lane, int32_t bit) const {
    const int32_t rows = (2 << bit) - e_.laneRow();
    return (lane & rows) == rows;
  }
  void tellLast() {
    const int32_t lanes = e_.target_.warpSize;
    uint64_t lastRow = 0;
    for (int32_t lane = lanes - e_.laneRow(); lane < lanes; ++lane) {
      lastRow |= onlyLane(lane);
    }
    const LaneExchange exchange{LaneExchange::Mode::From, e_.i32(lanes - 1), LaneSources(static_cast<size_t>(lanes), lastRow)};
    for (Entry &entry : entries_) {
      entry.tuple = shuffle(entry.tuple, exchange);
    }
  }

  // Lanes that have joined hold the same, or what is as good.
  [[nodiscard]] uint64_t agreeingWith(int32_t lane) const {
    uint64_t lanes = 0;
    for (int32_t other = 0; other < e_.target_.warpSize; ++other) {
      lanes |= ((other ^ lane) & ~joinedLanes_) == 0 ? onlyLane(other) : 0;
    }
    return lanes;
  }

  void joinWarps() {
    ir::check(static_cast<int32_t>(entries_.size()) <= plan_.scratch.entries,
              "the scratch has room");
    for (size_t index = 0; index < entries_.size(); ++index) {
      store(plan_.scratch, entries_[index].tuple, slot(plan_.scratch, e_.warp_, index));
    }
    e_.barrier();
    int32_t along = 0, distances = 0;
    for (const int32_t bit : plan_.warpBits) {
      along |= 1 << bit;
      distances |= layout_.bases(HwDim::Warp)[static_cast<size_t>(bit)][plan_.axis];
    }
    // Where all warps are joined, addresses are numbers, and need no register.
    const int32_t apart = (fn_.numWarps - 1) & ~along;
    llvm::Value *others = apart == 0 ? e_.i32(0) : builder().CreateAnd(e_.warp_, e_.i32(apart));
    for (size_t index = 0; index < entries_.size(); ++index) {
      joinWarpsOf(index, others, distances);
    }
    joined_ |= distances;
  }

  void joinWarpsOf(size_t index, llvm::Value *others, int32_t distances) {
    Entry &entry = entries_[index];
    const auto &warpBases = layout_.bases(HwDim::Warp);
    for (int32_t number = 0; number < 1 << plan_.warpBits.size(); ++number) {
      int32_t warp = 0, start = 0;
      for (size_t bit = 0; bit < plan_.warpBits.size(); ++bit) {
        if ((number >> bit & 1) != 0) {
          warp |= 1 << plan_.warpBits[bit];
          start |= warpBases[static_cast<size_t>(plan_.warpBits[bit])][plan_.axis];
        }
      }
      llvm::Value *from = builder().CreateOr(others, e_.i32(warp));
      const Regs tuple = load(plan_.scratch, slot(plan_.scratch, from, index));
      entry.tuple = number == 0 ? tuple : combineInside(entry.tuple, tuple, blockInside(entry, distances, start));
    }
  }

  void setResults() {
    for (size_t i = 0; i < fn_.results(op_).size(); ++i) {
      const ir::ValueId result = fn_.result(op_, static_cast<unsigned>(i));
      if (!fn_.type(result).isTile()) {
        e_.set(result, entries_.at(0).tuple[i]);
        continue;
      }
      const ir::Layout &layout = e_.layoutOf(result);
      Regs out;
      for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
        ir::Coords coords = layout.applyOne(HwDim::Reg, reg);
        coords.insert(coords.begin() + plan_.axis, 0);
        const auto entry = std::ranges::find(entries_, coords, &Entry::coords);
        // Rows in the padding were left out.
        out.push_back(entry == entries_.end() ? entries_.at(0).tuple[i] : entry->tuple[i]);
      }
      e_.set(result, std::move(out));
    }
  }

  const passes::ReducePlan plan_;
  const int32_t extent_;
  const bool padded_;
  std::vector<Entry> entries_;
  int32_t joinedLanes_ = 0; // bits of the lane
  int32_t joined_ = 0;      // bits of the coordinate
  const bool joinsToLast_ = joinsToLast();
};

void Emitter::lowerReduce(ir::OpId op) { ReduceEmitter(*this, op).run(); }

} // namespace libtile::codegen::gpu
