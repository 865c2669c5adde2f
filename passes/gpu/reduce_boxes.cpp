// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/reduce_boxes.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/analysis/alias.h"
#include "passes/eliminate_dead_code.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/loop_rings.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/plan_dots.h"
#include "passes/gpu/plan_residency.h"
#include "passes/gpu/shared_accesses.h"
#include "passes/op_properties.h"

#include <algorithm>
#include <array>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::Effects;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// An atomic as a reduction of the box.
struct Reduction {
  OpId atomic, dot; // which makes what is added
  PlannedBox box;
};

class Finder {
public:
  Finder(const ir::Function &fn, const Facts &facts, const PassContext &context) : fn_(fn), facts_(facts), context_(context) {}

  [[nodiscard]] std::optional<Reduction> find(OpId op) const {
    if (fn_.opcode(op) != Opcode::AtomicRmw || !context_.copiesBoxes || !context_.target.boxCopy || !isSum(op) || !isInLoops(op)) {
      return std::nullopt;
    }
    const OpId dot = dotOf(op);
    auto box = dot.valid() ? planReduction(fn_, op, facts_, context_) : std::nullopt;
    const bool hasMap = box && (fn_.maps.size() < ir::TensorMap::kMost || std::ranges::find(fn_.maps, box->map) != fn_.maps.end());
    if (!hasMap || !isAlone(op, fn_.arg(fn_.body(), box->map.param))) {
      return std::nullopt;
    }
    return Reduction{op, dot, std::move(*box)};
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

  // No other op touches the array, or orders what it does.
  [[nodiscard]] bool isAlone(OpId atomic, ValueId array) const {
    return std::ranges::none_of(fn_.walk(), [&](OpId op) {
      const Effects effects = fn_.ownEffects(op);
      if (op == atomic) {
        return false;
      }
      if (fn_.opcode(op) == Opcode::CopyBox || fn_.opcode(op) == Opcode::ReduceBox) {
        const ir::TensorMap &map = fn_.maps[static_cast<size_t>(fn_.getInt(op, Attr::map))];
        return mayOverlap(fn_, fn_.arg(fn_.body(), map.param), array);
      }
      if (effects.has(Effects::ReadsGlobal) || effects.has(Effects::WritesGlobal)) {
        const auto bases = basePointers(fn_, fn_.operand(op, 0), facts_);
        return bases.empty() || acquires(fn_, op) || releases(fn_, op) ||
               std::ranges::any_of(bases, [&](ValueId base) { return mayOverlap(fn_, base, array); });
      }
      return fn_.opcode(op) == Opcode::Assembly && fn_.getBool(op, Attr::is_volatile);
    });
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

void rewrite(ir::Function &fn, const Reduction &reduction) {
  const OpId atomic = reduction.atomic;
  OpId outermost = atomic;
  while (fn.block(outermost) != fn.body()) {
    outermost = fn.parentOp(fn.block(outermost));
  }
  const Type tile = fn.type(fn.operand(atomic, 1));
  Builder top(fn, outermost), wait(fn, frontOf(fn, reduction.dot)), at(fn, atomic), end(fn, fn.last(fn.body()));
  top.loc = wait.loc = end.loc = at.loc;
  const ValueId buffer = top.make(Opcode::Alloc, {}, Type::buffer(tile.shape(), tile.elem(), fn.internLayout(reduction.box.slot)));
  fn.setAttr(fn.def(buffer), Attr::align, ir::AttrValue(int64_t{kMatrixAlignment}));
  wait.op(Opcode::ReduceWait, std::array{buffer});
  at.op(Opcode::BufferWrite, std::array{buffer, fn.operand(atomic, 1)});
  std::vector<ValueId> operands = {buffer};
  for (const Polynomial &coordinate : reduction.box.coordinates) {
    operands.push_back(makeCoordinate(at, coordinate, [](ValueId value) { return value; }));
  }
  fn.setAttr(at.op(Opcode::ReduceBox, operands), Attr::map, ir::AttrValue(addMap(fn, reduction.box)));
  fn.setAttr(end.op(Opcode::ReduceWait, std::array{buffer}), Attr::whole, ir::AttrValue(true));
  fn.erase(atomic);
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
  bool changed = false;
  std::optional<Facts> facts; // of the function as it is
  for (const OpId op : fn.walk()) {
    if (fn.opcode(op) != Opcode::AtomicRmw) {
      continue;
    }
    if (!facts) {
      facts = computeFacts(fn);
    }
    const auto reduction = Finder(fn, *facts, context).find(op);
    if (!reduction) {
      continue;
    }
    ir::Function made = fn.clone();
    rewrite(made, *reduction);
    if (keepsNeighbour(fn, sharedBytes(fn), sharedBytes(made), context.target)) {
      fn = std::move(made);
      facts.reset();
      changed = true;
    }
  }
  if (changed) {
    eliminateDeadCode(fn, context); // addresses
  }
  return changed;
}

} // namespace libtile::passes
