// SPDX-License-Identifier: Apache-2.0
// Scans, run by run as passes/gpu/scan_plan.h says.
#include "codegen/nvidia/emitter.h"
#include "ir/ops.h"

#include "passes/gpu/layout_maps.h"
#include "passes/gpu/scan_plan.h"

#include <algorithm>
#include <map>

namespace libtile::codegen::nvidia {

using ir::HwDim;
using passes::ScanRun;

class ScanEmitter {
public:
  ScanEmitter(Emitter &emitter, ir::OpId op)
      : e_(emitter), fn_(emitter.fn_), op_(op), plan_(passes::planScan(emitter.fn_, op)),
        type_(fn_.type(fn_.operand(op, 0))), layout_(fn_.layout(type_.layout())),
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

  llvm::IRBuilder<> &builder() { return e_.builder_; }

  // Each element that a thread holds is a block. Registers wholly in the padding are left out.
  void collect() {
    const int32_t canonical = layout_.canonicalBits(HwDim::Reg);
    const int32_t inner = layout_.subtileSize(HwDim::Reg) - 1;
    for (int32_t reg = 0; reg < layout_.size(HwDim::Reg); ++reg) {
      if ((reg & inner & ~canonical) != 0 ||
          !passes::inTile(layout_, reg, type_.shape()).somewhere) {
        continue;
      }
      Regs tuple;
      for (const ir::ValueId input : fn_.operands(op_)) {
        tuple.push_back(e_.regs(input)[static_cast<size_t>(reg)]);
      }
      ir::Coords coords = layout_.applyOne(HwDim::Reg, reg);
      const int32_t along = std::exchange(coords[plan_.axis], 0);
      rows_[coords].push_back({{{along, tuple}}, tuple});
    }
    for (auto &[coords, row] : rows_) {
      std::ranges::sort(row, [&](const Block &a, const Block &b) {
        return plan_.reverse ? a.coord() > b.coord() : a.coord() < b.coord();
      });
    }
  }

  // The region's results for two tuples.
  Regs combine(const Regs &left, const Regs &right) {
    const ir::BlockId block = fn_.region(op_);
    for (size_t i = 0; i < left.size(); ++i) {
      e_.set(fn_.arg(block, static_cast<unsigned>(i)), left[i]);
      e_.set(fn_.arg(block, static_cast<unsigned>(i + left.size())), right[i]);
    }
    e_.emitBlock(block);
    return e_.carried(fn_.operands(fn_.last(block)));
  }
  // Where `hasLeft` (null: everywhere), else the right tuple.
  Regs combineWhere(llvm::Value *hasLeft, const Regs &left, const Regs &right) {
    const Regs joined = combine(left, right);
    return hasLeft == nullptr ? joined : select(hasLeft, joined, right);
  }
  Regs select(llvm::Value *condition, const Regs &a, const Regs &b) {
    Regs out;
    for (size_t i = 0; i < a.size(); ++i) {
      out.push_back(builder().CreateSelect(condition, a[i], b[i]));
    }
    return out;
  }
  [[nodiscard]] ir::Type elementOf(size_t i) const {
    return fn_.type(fn_.operand(op_, static_cast<unsigned>(i))).element();
  }
  Regs fromLane(const Regs &tuple, llvm::Value *lane) {
    Regs out;
    for (size_t i = 0; i < tuple.size(); ++i) {
      out.push_back(e_.shuffle(elementOf(i), tuple[i], "idx", lane));
    }
    return out;
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

  void joinLanes(const ScanRun &run) {
    const int32_t first = run.bits.front(), parts = run.parts;
    llvm::Value *place = builder().CreateAnd(builder().CreateLShr(e_.lane_, e_.i32(first)),
                                             e_.i32(parts - 1));
    const auto lane = [&](int32_t before) {
      llvm::Value *distance = e_.i32(int64_t{before} << first);
      return plan_.reverse ? builder().CreateAdd(e_.lane_, distance)
                           : builder().CreateSub(e_.lane_, distance);
    };
    const auto hasLane = [&](const Block &block, int32_t before) {
      llvm::Value *has = plan_.reverse ? builder().CreateICmpSLT(place, e_.i32(parts - before))
                                       : builder().CreateICmpSGE(place, e_.i32(before));
      return e_.both(has, reaches(block, run.distance, before * run.distance));
    };
    const int32_t mask = (parts - 1) << first;
    llvm::Value *lastLane = plan_.reverse ? builder().CreateAnd(e_.lane_, e_.i32(~mask))
                                          : builder().CreateOr(e_.lane_, e_.i32(mask));
    for (auto &[coords, row] : rows_) {
      for (Block &block : row) {
        Regs total = block.total;
        for (int32_t before = 1; before < parts; before *= 2) {
          total = combineWhere(hasLane(block, before), fromLane(total, lane(before)), total);
        }
        if (isLocal_ && block.elements.size() == 1) {
          block.elements[0].tuple = total;
        } else {
          apply(block, hasLane(block, 1), fromLane(total, lane(1)));
        }
        if (!isLast_) {
          block.total = fromLane(total, lastLane);
        }
      }
    }
    isLocal_ = false;
  }

  // Address of a total of the warp in the scratch of element i.
  llvm::Value *scratch(const ScanRun &run, size_t i, llvm::Value *warp, size_t entry) {
    std::vector<int32_t> columns(layout_.bases(HwDim::Lane).size(), 0);
    for (size_t bit = 0; bit < run.rowLaneBits.size(); ++bit) {
      columns[static_cast<size_t>(run.rowLaneBits[bit])] = 1 << bit;
    }
    llvm::Value *slot = builder().CreateMul(warp, e_.i32(run.entries));
    slot = builder().CreateAdd(slot, e_.i32(static_cast<int64_t>(entry)));
    slot = builder().CreateShl(slot, e_.i32(static_cast<int64_t>(run.rowLaneBits.size())));
    slot = builder().CreateAdd(slot, e_.linear(e_.lane_, columns));
    llvm::Value *offset = builder().CreateMul(slot, e_.i32(elementOf(i).elementBytes()));
    const int64_t base = fn_.getInt(op_, ir::Attr::offset) + run.scratch[i];
    llvm::Value *start = builder().CreateConstGEP1_64(builder().getInt8Ty(), e_.sharedBase(),
                                                      static_cast<uint64_t>(base));
    return builder().CreateGEP(builder().getInt8Ty(), start, offset);
  }

  void joinWarps(const ScanRun &run) {
    size_t entry = 0;
    for (auto &[coords, row] : rows_) {
      for (const Block &block : row) {
        for (size_t i = 0; i < block.total.size(); ++i) {
          e_.storeShared(elementOf(i), block.total[i], scratch(run, i, e_.warp_, entry));
        }
        ++entry;
      }
    }
    ir::check(static_cast<int32_t>(entry) <= run.entries, "the scratch has room");
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
      Regs own;
      for (size_t i = 0; i < block.total.size(); ++i) {
        llvm::Value *from = scratch(run, i, builder().CreateOr(others, e_.i32(warp)), entry);
        own.push_back(e_.loadShared(elementOf(i), from));
      }
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

  Emitter &e_;
  const ir::Function &fn_;
  const ir::OpId op_;
  const passes::ScanPlan plan_;
  const ir::Type type_;
  const ir::Layout &layout_;
  const int32_t extent_;
  const bool checksPadding_;
  bool isLocal_ = true; // blocks lie in one thread
  bool isLast_ = false; // nobody needs the totals
  std::map<ir::Coords, Row> rows_; // by the other coordinates of the registers
};

void Emitter::lowerScan(ir::OpId op) { ScanEmitter(*this, op).run(); }

} // namespace libtile::codegen::nvidia
