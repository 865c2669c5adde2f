// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/reduce_boxes.h"

#include "ir/ops.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/gpu/store_boxes.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Opcode;
using ir::OpId;
using ir::Type;

// An atomic as a reduction of the box.
struct Reduction {
  OpId dot; // which makes what is added
  PlannedBox box;
};

class Finder {
public:
  Finder(const ir::Function &fn, const Facts &facts, const PassContext &context) : fn_(fn), facts_(facts), context_(context) {}

  [[nodiscard]] std::optional<Reduction> find(OpId op) const {
    if (fn_.opcode(op) != Opcode::AtomicRmw || !isSum(op) || !isInLoops(op)) {
      return std::nullopt;
    }
    const OpId dot = dotOf(op);
    auto box = dot.valid() ? planStoreAlone(fn_, op, fn_.operand(op, 1), facts_, context_) : std::nullopt;
    return box ? std::optional(Reduction{dot, std::move(*box)}) : std::nullopt;
  }

private:
  [[nodiscard]] bool isSum(OpId op) const {
    const Type type = fn_.type(fn_.result(op));
    return fn_.getEnum<ir::AtomicKind>(op, Attr::kind) == ir::AtomicKind::fadd && fn_.unused(fn_.result(op)) && type.isTile() &&
           type.elem() == ir::Elem::F32 && fn_.getEnum<ir::MemOrder>(op, Attr::sem) == ir::MemOrder::relaxed &&
           fn_.getEnum<ir::MemScope>(op, Attr::scope) == ir::MemScope::gpu && !fn_.hasAttr(op, Attr::within);
  }

  // All warps come there equally often, and the next iteration has something to hide it under.
  [[nodiscard]] bool isInLoops(OpId op) const {
    if (fn_.block(op) == fn_.body()) {
      return false;
    }
    for (BlockId block = fn_.block(op); block != fn_.body(); block = fn_.block(fn_.parentOp(block))) {
      if (fn_.opcode(fn_.parentOp(block)) != Opcode::For) {
        return false;
      }
    }
    return true;
  }

  // The dot of the same iteration whose sums it adds, of a unit that reads by itself.
  [[nodiscard]] OpId dotOf(OpId atomic) const {
    OpId op = fn_.def(fn_.operand(atomic, 1));
    if (op.valid() && fn_.opcode(op) == Opcode::PlaceRead) {
      op = fn_.def(fn_.operand(op, 0));
    }
    const bool is = op.valid() && fn_.opcode(op) == Opcode::Dot && fn_.block(op) == fn_.block(atomic) &&
                    readsByItself(unitOf(fn_, op, context_.target));
    return is ? op : OpId{};
  }

  const ir::Function &fn_;
  const Facts &facts_;
  const PassContext &context_;
};

// In front of the last write of what the dot reads: behind that the warps meet.
OpId frontOf(const ir::Function &fn, OpId dot) {
  const auto writes = [&](OpId op) {
    return fn.opcode(op) == Opcode::BufferWrite && std::ranges::any_of(sharedAccesses(fn, dot), [&](const SharedAccess &access) {
             return access.owner == allocOf(fn, fn.operand(op, 0));
           });
  };
  OpId front = dot;
  for (OpId op = fn.first(fn.block(dot)); op != dot; op = fn.next(op)) {
    front = writes(op) ? op : front;
  }
  return front;
}

OpId outermostOf(const ir::Function &fn, OpId op) {
  while (fn.block(op) != fn.body()) {
    op = fn.parentOp(fn.block(op));
  }
  return op;
}

} // namespace

int64_t bytesToReduce(const ir::Function &fn, const Facts &facts, const PassContext &context) {
  const Finder finder(fn, facts, context);
  int64_t bytes = 0;
  for (const OpId op : fn.walk()) {
    if (const auto reduction = finder.find(op)) {
      bytes += int64_t{reduction->box.slot.size(ir::HwDim::Offset)} * fn.type(fn.result(op)).elementBytes();
    }
  }
  return bytes;
}

bool reduceBoxes(ir::Function &fn, const PassContext &context) {
  const auto asks = [](const ir::Function &now, OpId op) { return now.opcode(op) == Opcode::AtomicRmw; };
  return storeByBoxes(fn, context, asks, [&](const ir::Function &now, OpId op, const Facts &facts) -> std::optional<BoxStore> {
    auto found = Finder(now, facts, context).find(op);
    if (!found) {
      return std::nullopt;
    }
    const OpId outermost = outermostOf(now, op);
    return BoxStore{op, now.operand(op, 1), std::move(found->box), outermost, {frontOf(now, found->dot), now.next(outermost)}};
  });
}

} // namespace libtile::passes
