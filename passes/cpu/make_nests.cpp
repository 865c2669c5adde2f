// SPDX-License-Identifier: Apache-2.0
// One walk in program order. Inline ops and sunk loops are passed over; each root
// gets its nests before itself; region ops get buffers for their tiles and are entered. At the end everything with a tile is swept.
//
//   %x = load %p, %m                        (nothing)
//   %y = add %x, %x                  ->     (nothing)
//   store %q, %y, %m                        nest {extents=[1024] lanes=16} { ^(%i: i32): ... store }
#include "passes/cpu/make_nests.h"

#include "ir/ops.h"
#include "passes/cpu/carried_tiles.h"
#include "passes/cpu/chunk_dot_loops.h"
#include "passes/cpu/lower_roots.h"
#include "passes/cpu/memory_order.h"
#include "passes/cpu/nest_emitter.h"
#include "passes/cpu/pack_operands.h"

#include <algorithm>
#include <optional>

namespace libtile::passes {

using namespace ir;

namespace {

bool isTile(const Function &fn, ValueId value) { return fn.type(value).isTile(); }

class NestFormer {
public:
  explicit NestFormer(NestState &state) : state_(state), fn_(state.fn) {}

  void run() {
    order_.emplace(state_);
    lowerBlock(fn_.body(), Frame());
    sweep();
    fn_.stage = Stage::Nested;
  }

private:
  // The region op around the current block, as its yield sees it.
  struct Frame {
    const TileHomes *homes = nullptr;
    unsigned skip = 0; // operands of the yield that are not results
    const ChunkedLoop *chunk = nullptr;
  };

  void lowerBlock(BlockId block, const Frame &frame) {
    order_->enterBlock();
    for (OpId op : fn_.opsIn(block)) {
      lowerOp(op, frame);
    }
    order_->leaveBlock();
  }

  void lowerOp(OpId op, const Frame &frame) {
    state_.root = op;
    if (isInlinable(fn_, op) || state_.plan.sunk[op]) {
      inlineOp(op);
      return;
    }
    order_->settle(op);
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Yield) {
      if (frame.homes != nullptr) {
        closeHomes(state_, op, *frame.homes, frame.skip);
      }
    } else if (info(opcode).rule == TypeRule::Region) {
      lowerRegions(op);
      return;
    } else if (opcode == Opcode::Dot) {
      lowerDotIn(op, frame);
    } else if (opcode == Opcode::Reduce) {
      lowerReduce(state_, op);
    } else if (opcode == Opcode::Histogram) {
      lowerHistogram(state_, op);
    } else if (opcode == Opcode::Map) {
      lowerMap(state_, op);
    } else if (opcode == Opcode::Scan) {
      lowerScan(state_, op);
    } else if (opcode == Opcode::Sort) {
      lowerSort(state_, op);
    } else if (opcode == Opcode::Print && touchesTiles(op)) {
      lowerPrint(state_, op);
    } else if (touchesTiles(op)) {
      order_->stageOperands(op);
      if (opcode == Opcode::Store) {
        lowerStore(state_, op);
      } else {
        lowerOrderedAccess(state_, op);
      }
    }
    state_.lowered.set(op, true);
  }

  void lowerDotIn(OpId op, const Frame &frame) {
    if (frame.chunk != nullptr) {
      const auto dot = std::ranges::find(*frame.chunk, op, &ChunkedDot::dot);
      packOperands(state_, {.dot = op, .places = {op, op}, .shape = dot->shape, .packed = dot->packed, .column = dot->column,
                            .slice = {}, .inPlace = dot->inPlace, .isKept = dot->isKept});
      return;
    }
    ValueId home;
    if (frame.homes != nullptr) {
      home = homeOfDot(state_, op, *frame.homes, fn_.last(fn_.block(op)), frame.skip);
    }
    lowerDot(state_, op, home);
  }

  void inlineOp(OpId op) {
    order_->pass(op);
    for (unsigned i = 0; i < fn_.results(op).size(); ++i) {
      const ValueId result = fn_.result(op, i);
      if (state_.keep(result) == Keep::definition && !fn_.unused(result)) {
        storeTile(state_, result, fn_.next(op));
      }
    }
  }

  void lowerRegions(OpId op) {
    const Opcode opcode = fn_.opcode(op);
    if (const auto planned = state_.plan.chunks.find(op); planned != state_.plan.chunks.end()) {
      const ChunkedLoop chunk = chunkDotLoop(state_, op, planned->second);
      state_.lowered.set(op, true);
      lowerBlock(fn_.region(op), Frame{.chunk = &chunk});
      return;
    }
    const TileHomes homes = openHomes(state_, op);
    state_.lowered.set(op, true);
    const bool stops = fn_.getBool(op, Attr::stop);
    const std::vector<BlockId> regions(fn_.regions(op).begin(), fn_.regions(op).end());
    for (size_t i = 0; i < regions.size(); ++i) {
      const bool condition = opcode == Opcode::While && i == 0;
      lowerBlock(regions[i], condition ? Frame{} : Frame{.homes = &homes, .skip = stops ? 1U : 0U});
    }
  }

  bool touchesTiles(OpId op) const {
    const auto tile = [&](ValueId value) { return isTile(fn_, value); };
    return std::ranges::any_of(fn_.operands(op), tile) || std::ranges::any_of(fn_.results(op), tile);
  }

  // Users go before what they use, so everything that is left of the tiles falls.
  void sweep() {
    std::vector<OpId> ops = fn_.walk();
    for (OpId op : ops) {
      if (info(fn_.opcode(op)).rule == TypeRule::Region || fn_.opcode(op) == Opcode::Yield) {
        dropTileOperands(op);
      }
    }
    for (size_t i = ops.size(); i-- > 0;) {
      const OpId op = ops[i];
      if (fn_.isErased(op)) {
        continue;
      }
      const Opcode opcode = fn_.opcode(op);
      if (info(opcode).rule == TypeRule::Region) {
        dropTileResults(op);
      } else if (touchesTiles(op) || opcode == Opcode::Assume || opcode == Opcode::Hint) {
        if (opcode == Opcode::Hint && !touchesTiles(op)) {
          fn_.replaceAllUses(fn_.result(op), fn_.operand(op, 0));
        }
        fn_.erase(op);
      }
    }
  }

  void dropTileOperands(OpId op) {
    for (unsigned i = fn_.numOperands(op); i-- > 0;) {
      if (isTile(fn_, fn_.operand(op, i))) {
        fn_.eraseOperand(op, i);
      }
    }
  }

  void dropTileResults(OpId op) {
    for (unsigned i = fn_.results(op).size(); i-- > 0;) {
      if (isTile(fn_, fn_.result(op, i))) {
        fn_.eraseResult(op, i);
      }
    }
    for (BlockId region : fn_.regions(op)) {
      for (unsigned i = fn_.args(region).size(); i-- > 0;) {
        if (isTile(fn_, fn_.arg(region, i))) {
          fn_.eraseArg(region, i);
        }
      }
    }
  }

  NestState &state_;
  Function &fn_;
  std::optional<MemoryOrder> order_; // when it is planned what lies where
};

} // namespace

void makeNests(NestState &state) { NestFormer(state).run(); }

} // namespace libtile::passes
