// SPDX-License-Identifier: Apache-2.0
// Moments are positions in text order. A buffer lives from its first to its last use; a use inside a
// loop that the alloc is outside of counts for the whole loop, since what it holds may cross the back
// edge. What the next program finds lives in all moments.
#include "passes/cpu/allocate_scratch.h"

#include "ir/ops.h"
#include "passes/allocate_arena.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

constexpr int64_t kAlign = 64;

struct Span {
  int64_t first = 0, last = 0;
};

class ScratchAllocator {
public:
  explicit ScratchAllocator(Function &fn) : fn_(fn) {}

  bool run() {
    number(fn_.body());
    std::vector<OpId> allocs;
    std::vector<Lifetime> lifetimes;
    int64_t head = 0;
    for (OpId op : fn_.walk()) {
      const Opcode opcode = fn_.opcode(op);
      if (opcode == Opcode::Alloc || opcode == Opcode::Recall || opcode == Opcode::CallSums) {
        allocs.push_back(op);
        lifetimes.push_back(opcode == Opcode::Recall ? lifetimeOfKeys(op) : lifetimeOf(op));
        head = opcode == Opcode::Recall ? kArenaHead : head;
      }
    }
    const ArenaPlan plan = allocateArena(lifetimes);
    for (size_t i = 0; i < allocs.size(); ++i) {
      fn_.setAttr(allocs[i], Attr::offset, AttrValue(head + plan.offsets[i]));
    }
    fn_.arenaBytes = head + (plan.bytes + kAlign - 1) / kAlign * kAlign;
    return !allocs.empty();
  }

private:
  void number(BlockId block) {
    for (OpId op : fn_.opsIn(block)) {
      const int64_t first = moment_++;
      for (BlockId region : fn_.regions(op)) {
        number(region);
      }
      spans_.set(op, {first, moment_ - 1});
    }
  }

  Lifetime lifetimeOfKeys(OpId recall) const {
    const int64_t bytes = fn_.getInt(recall, Attr::slots) * fn_.numOperands(recall) * kKeyBytes;
    return {0, moment_, (bytes + kAlign - 1) / kAlign * kAlign, kAlign};
  }

  Lifetime lifetimeOf(OpId alloc) const {
    const ValueId buffer = fn_.result(alloc);
    const Type &type = fn_.type(buffer);
    Lifetime life{spans_[alloc].first, spans_[alloc].first,
                  type.numElements() * int64_t{type.elementBytes()}, kAlign};
    life.bytes = (life.bytes + kAlign - 1) / kAlign * kAlign;
    if (fn_.opcode(alloc) == Opcode::CallSums || fn_.getBool(alloc, Attr::kept)) {
      return {0, moment_, life.bytes, kAlign};
    }
    for (const Use &use : fn_.uses(buffer)) {
      // Of the ops around the use, the one beside the alloc: loops between the two are held whole.
      OpId op = use.op;
      while (fn_.block(op) != fn_.block(alloc)) {
        op = fn_.parentOp(fn_.block(op));
      }
      life.end = std::max(life.end, spans_[op].last);
    }
    return life;
  }

  Function &fn_;
  int64_t moment_ = 0;
  IndexMap<OpId, Span> spans_;
};

} // namespace

bool allocateScratch(Function &fn, const PassContext &context) { return ScratchAllocator(fn).run(); }

} // namespace libtile::passes
