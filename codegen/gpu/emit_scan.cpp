// SPDX-License-Identifier: Apache-2.0
// Scans, run by run as passes/gpu/scan_plan.h says.
#include "codegen/gpu/combine.h"

#include "ir/ops.h"
#include "passes/gpu/scan_plan.h"

#include <algorithm>
#include <map>

namespace libtile::codegen::gpu {

using ir::HwDim;
using passes::ScanRun;

class ScanEmitter : CombineEmitter {
public:
  ScanEmitter(Emitter &emitter, ir::OpId op)
      : CombineEmitter(emitter, op), plan_(passes::planScan(emitter.fn_, op)),
        extent_(type_.dim(plan_.axis)),
        checksPadding_(plan_.reverse &&
                       layout_.subtile()[plan_.axis] * layout_.repeats()[plan_.axis] > extent_) {}

  void run() {
    collect();
    for (size_t i = 0; i < plan_.runs.size(); ++i) {
      const ScanRun &run = plan_.runs[i];
      isLast_ = i + 1 == plan_.runs.size();
      switch (run.kind) {
      case ScanRun::Kind::Registers:
        joinRegisters(run);
        break;
      case ScanRun::Kind::Lanes:
        joinLanes(run);
        break;
      case ScanRun::Kind::Warps:
        joinWarps(run);
        break;
      }
    }
    setResults();
  }

private:
  // Neighbours along the axis that one thread holds, in the order of the scan.
  struct Element {
    int32_t coord; // the register's part of the coordinate along the axis
    Regs tuple;
  };
  struct Block {
    std::vector<Element> elements;
    Regs total; // of the block, in all threads that hold parts of it
    [[nodiscard]] int32_t coord() const { return elements.front().coord; }
  };
  using Row = std::vector<Block>; // in the order of the scan

  // Each element that a thread holds is a block.
  void collect() {
    forEachRegister([&](int32_t, ir::Coords coords, Regs tuple) {
      const int32_t along = std::exchange(coords[plan_.axis], 0);
      rows_[coords].push_back({{{along, tuple}}, tuple});
    });
    for (auto &[coords, row] : rows_) {
      std::ranges::sort(row, [&](const Block &a, const Block &b) {
        return plan_.reverse ? a.coord() > b.coord() : a.coord() < b.coord();
      });
    }
  }

  // Where `hasLeft` (null: everywhere), else the right tuple.
  Regs combineWhere(llvm::Value *hasLeft, const Regs &left, const Regs &right) {
    const Regs joined = combine(left, right);
    return hasLeft == nullptr ? joined : select(hasLeft, joined, right);
  }

  // In a scan from the end: the coordinate `offset` above the first one of the `size` elements, a power
  // of two times a repeat, that the block lies in is an element. Null: surely.
  llvm::Value *reaches(const Block &block, int32_t size, int32_t offset) {
    if (!checksPadding_) {
      return nullptr;
    }
    // Repeats are whole subtiles, above which threads have no bits.
    const int32_t subtile = layout_.subtile()[plan_.axis];
    const int32_t inner = std::min(size, subtile);
    llvm::Value *first =
        builder().CreateAnd(e_.threadCoord(layout_, plan_.axis), e_.i32(~(inner - 1)));
    const int32_t low = block.coord() % subtile & ~(inner - 1);
    first = builder().CreateXor(first, e_.i32(low));
    const int32_t high = block.coord() / subtile * subtile;
    return builder().CreateICmpSLT(first, e_.i32(extent_ - high - offset));
  }

  void apply(Block &block, llvm::Value *hasLeft, const Regs &left) {
    for (Element &element : block.elements) {
      element.tuple = combineWhere(hasLeft, left, element.tuple);
    }
  }

  void joinRegisters(const ScanRun &run) {
    for (auto &[coords, row] : rows_) {
      Row joined;
      for (Block &block : row) {
        const int32_t group = run.distance * run.parts;
        if (joined.empty() || joined.back().coord() / group != block.coord() / group) {
          joined.push_back(std::move(block));
          continue;
        }
        Block &whole = joined.back();
        llvm::Value *hasLeft = reaches(block, run.distance, run.distance);
        apply(block, hasLeft, whole.total);
        whole.total = isLocal_ ? block.elements.back().tuple
                               : combineWhere(hasLeft, whole.total, block.total);
        std::ranges::move(block.elements, std::back_inserter(whole.elements));
      }
      row = std::move(joined);
    }
  }

  // The lanes of a run: `parts` neighbours from the bit `first` on.
  class RunLanes {
  public:
    RunLanes(ScanEmitter &scan, const ScanRun &run)
        : scan_(scan), e_(scan.e_), first_(run.bits.front()), reverse_(scan.plan_.reverse) {}

    // The lane's place among so many neighbours.
    llvm::Value *place(int32_t parts) {
      return builder().CreateAnd(builder().CreateLShr(e_.lane_, e_.i32(first_)), e_.i32(parts - 1));
    }
    // The lane `before` places in front, for lanes that have one among `parts`.
    LaneExchange shifted(int32_t before, int32_t parts) {
      const int32_t distance = before << first_;
      llvm::Value *lane = reverse_ ? builder().CreateAdd(e_.lane_, e_.i32(distance))
                                   : builder().CreateSub(e_.lane_, e_.i32(distance));
      return from(lane, [=, this](int32_t own) {
        const int32_t at = placeOf(own, parts);
        const bool has = reverse_ ? at + before < parts : at >= before;
        return has ? onlyLane(reverse_ ? own + distance : own - distance) : kAnyLane;
      });
    }
    // The last lane of `parts`.
    LaneExchange last(int32_t parts) {
      const int32_t mask = (parts - 1) << first_;
      llvm::Value *lane = reverse_ ? builder().CreateAnd(e_.lane_, e_.i32(~mask)) : builder().CreateOr(e_.lane_, e_.i32(mask));
      return from(lane, [=, this](int32_t own) { return onlyLane(reverse_ ? own & ~mask : own | mask); });
    }
    // The last lane of the `half` places in front, for lanes that have them among twice as many.
    LaneExchange lastInFront(int32_t half) {
      const int32_t low = (half - 1) << first_, bit = half << first_;
      const int32_t end = reverse_ ? bit : low;
      llvm::Value *lane = builder().CreateOr(builder().CreateAnd(e_.lane_, e_.i32(~(low | bit))), e_.i32(end));
      return from(lane, [=, this](int32_t own) {
        return ((own & bit) != 0) != reverse_ ? onlyLane((own & ~(low | bit)) | end) : kAnyLane;
      });
    }

  private:
    llvm::IRBuilder<> &builder() { return scan_.builder(); }
    [[nodiscard]] int32_t placeOf(int32_t lane, int32_t parts) const { return lane >> first_ & (parts - 1); }
    template <class Sources> LaneExchange from(llvm::Value *lane, Sources sources) {
      return {LaneExchange::Mode::From, lane, laneSources(e_.target_.warpSize, sources)};
    }
    ScanEmitter &scan_;
    Emitter &e_;
    const int32_t first_;
    const bool reverse_;
  };

  // By shifts within rows of neighbours, then row by row, of which the last lanes are told.
  void joinLanes(const ScanRun &run) {
    RunLanes lanes(*this, run);
    const int32_t parts = run.parts, near = std::clamp(e_.laneRow() >> run.bits.front(), 1, parts);
    llvm::Value *place = lanes.place(parts), *nearPlace = near == parts ? place : lanes.place(near);
    const auto hasLane = [&](const Block &block, int32_t before, int32_t among) {
      llvm::Value *at = among == parts ? place : nearPlace;
      llvm::Value *has = plan_.reverse ? builder().CreateICmpSLT(at, e_.i32(among - before))
                                       : builder().CreateICmpSGE(at, e_.i32(before));
      return e_.both(has, reaches(block, run.distance, before * run.distance));
    };
    const auto hasHalf = [&](const Block &block, int32_t half) {
      const auto inHalf = plan_.reverse ? llvm::CmpInst::ICMP_EQ : llvm::CmpInst::ICMP_NE;
      llvm::Value *has = builder().CreateICmp(inHalf, builder().CreateAnd(place, e_.i32(half)), e_.i32(0));
      return e_.both(has, reaches(block, 2 * half * run.distance, half * run.distance));
    };
    for (auto &[coords, row] : rows_) {
      for (Block &block : row) {
        Regs total = block.total;
        for (int32_t before = 1; before < near; before *= 2) {
          total = combineWhere(hasLane(block, before, near), shuffle(total, lanes.shifted(before, near)), total);
        }
        for (int32_t half = near; half < parts; half *= 2) {
          total = combineWhere(hasHalf(block, half), shuffle(total, lanes.lastInFront(half)), total);
        }
        if (isLocal_ && block.elements.size() == 1) {
          block.elements[0].tuple = total;
        } else {
          apply(block, hasLane(block, 1, parts), shuffle(total, lanes.shifted(1, parts)));
        }
        if (!isLast_) {
          block.total = shuffle(total, lanes.last(parts));
        }
      }
    }
    isLocal_ = false;
  }

  void joinWarps(const ScanRun &run) {
    size_t entry = 0;
    for (auto &[coords, row] : rows_) {
      for (const Block &block : row) {
        store(run.scratch, block.total, slot(run.scratch, e_.warp_, entry++));
      }
    }
    ir::check(static_cast<int32_t>(entry) <= run.scratch.entries, "the scratch has room");
    e_.barrier();
    entry = 0;
    for (auto &[coords, row] : rows_) {
      for (Block &block : row) {
        joinWarpsOf(run, block, entry++);
      }
    }
    isLocal_ = false;
  }

  void joinWarpsOf(const ScanRun &run, Block &block, size_t entry) {
    std::vector<int32_t> columns(layout_.bases(HwDim::Warp).size(), 0);
    int32_t along = 0;
    for (size_t bit = 0; bit < run.bits.size(); ++bit) {
      columns[static_cast<size_t>(run.bits[bit])] = 1 << bit;
      along |= 1 << run.bits[bit];
    }
    llvm::Value *place = e_.linear(e_.warp_, columns);
    llvm::Value *others = builder().CreateAnd(e_.warp_, e_.i32(~along));
    Regs total, before;
    for (int32_t step = 0; step < run.parts; ++step) {
      const int32_t part = plan_.reverse ? run.parts - 1 - step : step;
      int32_t warp = 0;
      for (size_t bit = 0; bit < run.bits.size(); ++bit) {
        warp |= (part >> bit & 1) << run.bits[bit];
      }
      if (step + 1 == run.parts && isLast_) {
        break;
      }
      llvm::Value *from = builder().CreateOr(others, e_.i32(warp));
      const Regs own = load(run.scratch, slot(run.scratch, from, entry));
      llvm::Value *hasLeft =
          reaches(block, run.distance * run.parts, (part + 1) * run.distance);
      total = step == 0 ? own : combineWhere(hasLeft, total, own);
      const int32_t next = plan_.reverse ? part - 1 : part + 1;
      before = step == 0 ? total
                         : select(builder().CreateICmpEQ(place, e_.i32(next)), total, before);
    }
    const int32_t first = plan_.reverse ? run.parts - 1 : 0;
    llvm::Value *hasLeft = e_.both(builder().CreateICmpNE(place, e_.i32(first)),
                                   reaches(block, run.distance, run.distance));
    apply(block, hasLeft, before);
    block.total = total;
  }

  void setResults() {
    std::map<ir::Coords, const Regs *> found;
    for (const auto &[coords, row] : rows_) {
      for (const Block &block : row) {
        for (const Element &element : block.elements) {
          ir::Coords where = coords;
          where[plan_.axis] = element.coord;
          found[where] = &element.tuple;
        }
      }
    }
    const Regs &padding = *found.begin()->second;
    for (size_t i = 0; i < fn_.results(op_).size(); ++i) {
      Regs out;
      for (int32_t reg = 0; reg < layout_.size(HwDim::Reg); ++reg) {
        const auto element = found.find(layout_.applyOne(HwDim::Reg, reg));
        out.push_back(element == found.end() ? padding[i] : (*element->second)[i]);
      }
      e_.set(fn_.result(op_, static_cast<unsigned>(i)), std::move(out));
    }
  }

  const passes::ScanPlan plan_;
  const int32_t extent_;
  const bool checksPadding_;
  bool isLocal_ = true; // blocks lie in one thread
  bool isLast_ = false; // nobody needs the totals
  std::map<ir::Coords, Row> rows_; // by the other coordinates of the registers
};

void Emitter::lowerScan(ir::OpId op) { ScanEmitter(*this, op).run(); }

} // namespace libtile::codegen::gpu
