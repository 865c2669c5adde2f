// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/allocate_shared.h"

#include "ir/ops.h"
#include "passes/allocate_arena.h"
#include "passes/gpu/shared_accesses.h"

#include <algorithm>

namespace libtile::passes {
namespace {

using ir::BlockId;
using ir::Opcode;
using ir::OpId;

// Of an op inside of which warps meet: what more than this would take of other programs' room is not kept longer than it must be.
constexpr int64_t kMostKept = 1024;
constexpr int64_t kMostPrograms = 32; // of a multiprocessor, on any target

// How long the op's scratch is kept where warps meet inside of it.
enum class Scratch : uint8_t {
  WhileInside,
  UntilNext, // the warps meet in the next such op of the block: that one need not wait for those that still read
};

class Lifetimes {
public:
  Lifetimes(const ir::Function &fn, const std::vector<SharedObject> &objects) : fn_(fn), ops_(fn.walk()) {
    for (size_t i = 0; i < ops_.size(); ++i) {
      moment_.set(ops_[i], static_cast<int64_t>(i));
    }
    for (const SharedObject &object : objects) {
      if (fn_.opcode(object.owner) != Opcode::Alloc) {
        meetings_.push_back(object.owner);
      }
    }
  }

  [[nodiscard]] Lifetime of(const SharedObject &object, Scratch scratch) const {
    Lifetime life{moment_[object.owner], moment_[object.owner], object.bytes, object.align};
    if (scratch == Scratch::UntilNext && object.bytes <= kMostKept) {
      const auto next = std::ranges::find_if(meetings_, [&](OpId op) { return fn_.block(op) == fn_.block(object.owner) && moment_[op] > life.end; });
      life.end = next == meetings_.end() ? life.end : moment_[*next];
    }
    if (fn_.opcode(object.owner) == Opcode::Alloc) {
      Asynchronous async;
      bool first = true;
      extend(life, fn_.result(object.owner), fn_.block(object.owner), first, async);
      const int64_t end = life.end;
      life.end = std::max(async.copied ? nextFullWait(end, Opcode::AsyncWait) : end,
                          async.multiplied ? nextFullWait(end, Opcode::DotWait) : end);
    }
    return life;
  }

private:
  struct Asynchronous {
    bool copied = false, multiplied = false;
  };

  // Covers the uses of the buffer and of its views.
  void extend(Lifetime &life, ir::ValueId buffer, BlockId home, bool &first,
              Asynchronous &async) const {
    for (const ir::Use use : fn_.uses(buffer)) {
      if (isBufferView(fn_, use.op)) {
        extend(life, fn_.result(use.op), home, first, async);
        continue;
      }
      async.copied |= fn_.opcode(use.op) == Opcode::AsyncCopy;
      async.multiplied |= startsDot(fn_, use.op);
      // The op of the home block that the use lies in: the whole loop.
      OpId around = use.op;
      while (fn_.block(around) != home) {
        around = fn_.parentOp(fn_.block(around));
      }
      const int64_t start = moment_[around], end = lastMomentIn(around);
      life.start = first ? start : std::min(life.start, start);
      life.end = first ? end : std::max(life.end, end);
      first = false;
    }
  }

  [[nodiscard]] int64_t lastMomentIn(OpId op) const {
    int64_t last = moment_[op];
    for (const BlockId block : fn_.regions(op)) {
      last = std::max(last, lastMomentIn(fn_.last(block)));
    }
    return last;
  }

  [[nodiscard]] int64_t nextFullWait(int64_t moment, Opcode wait) const {
    for (size_t i = static_cast<size_t>(moment); i < ops_.size(); ++i) {
      if (fn_.opcode(ops_[i]) == wait && fn_.getInt(ops_[i], ir::Attr::count) == 0) {
        return static_cast<int64_t>(i);
      }
    }
    return static_cast<int64_t>(ops_.size());
  }

  const ir::Function &fn_;
  std::vector<OpId> ops_;
  std::vector<OpId> meetings_; // ops inside of which warps meet, in order
  ir::IndexMap<OpId, int64_t> moment_;
};

ArenaPlan planArena(const Lifetimes &lifetimes, const std::vector<SharedObject> &objects, Scratch scratch) {
  std::vector<Lifetime> lives;
  for (const SharedObject &object : objects) {
    lives.push_back(lifetimes.of(object, scratch));
  }
  return allocateArena(lives);
}

} // namespace

int64_t sharedBytes(const ir::Function &fn) {
  const std::vector<SharedObject> objects = sharedObjects(fn);
  return planArena(Lifetimes(fn, objects), objects, Scratch::WhileInside).bytes;
}

bool allocateShared(ir::Function &fn, const PassContext &context) {
  const std::vector<SharedObject> objects = sharedObjects(fn);
  const Lifetimes lifetimes(fn, objects);
  ArenaPlan plan = planArena(lifetimes, objects, Scratch::WhileInside);
  // As many programs as before have room for it, or it is not worth it.
  ArenaPlan kept = planArena(lifetimes, objects, Scratch::UntilNext);
  const auto programs = [&](int64_t bytes) { return std::min(context.target.sharedMemory / std::max<int64_t>(bytes, 1), kMostPrograms); };
  if (programs(kept.bytes) == programs(plan.bytes)) {
    plan = std::move(kept);
  }
  if (plan.bytes > context.target.sharedMemory) {
    throw ir::Unsupported("the kernel needs " + std::to_string(plan.bytes) +
                          " bytes of shared memory; " + context.target.name + " has " +
                          std::to_string(context.target.sharedMemory) +
                          ": take smaller tiles or fewer stages");
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    fn.setAttr(objects[i].owner, ir::Attr::offset, ir::AttrValue(plan.offsets[i]));
  }
  fn.arenaBytes = plan.bytes;
  return !objects.empty();
}

} // namespace libtile::passes
