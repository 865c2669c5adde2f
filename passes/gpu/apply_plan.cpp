// SPDX-License-Identifier: Apache-2.0
// Rewrites loops as their plans say (plan_pipeline.h). The loop keeps its trip count; it carries
// three things more: the values that the addresses take, as they are stages - 1 iterations later,
// and the numbers of the slots to read and to fill; accumulators of dots that end one iteration later
// become places. Copies past the last iteration are masked off:
// they put zeros into a slot that nobody reads.
//
// Where boxes are copied, each slot has a counter of arrivals, and the loop carries the parity of its phase as
// well. Boxes past the last iteration are not copied, so that none is under way when the loop ends.
//
// What goes by registers is loaded where it would be copied, and written at the end of the body. Of a number the loop carries what it
// is in this iteration and in those that have been loaded ahead.
#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/gpu/loop_rings.h"
#include "passes/gpu/lower_conversions.h"
#include "passes/gpu/plan_boxes.h"
#include "passes/gpu/plan_producer.h"
#include "passes/gpu/share_blocks.h"

#include <algorithm>
#include <array>
#include <utility>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Builder;
using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

class LoopRewriter {
public:
  LoopRewriter(ir::Function &fn, const LoopPlan &plan)
      : fn_(fn), plan_(plan), loop_(plan.loop), body_(fn.region(plan.loop)), rings_(fn, plan) {}

  void run() {
    Builder before(fn_, loop_);
    rings_.make(before);
    for (const unsigned position : plan_.carriedAhead) {
      ahead_.push_back(fn_.operand(loop_, 3 + position));
    }
    if (numBoxes() > 0) {
      arrivals_ = rings_.makeCounters(before, numBoxes());
    }
    for (int32_t stage = 0; stage + 1 < plan_.stages; ++stage) {
      const ValueId slot = before.i32(stage);
      const Loaded loaded = copyAhead(before, fn_.operand(loop_, 0), stage, slot);
      writeSlots(before, slot, loaded.tiles);
      queued_.insert(queued_.end(), loaded.numbers.begin(), loaded.numbers.end());
    }
    carry(before);
    Builder inside(fn_, fn_.first(body_));
    wait(inside, plan_.stages - 2);
    if (arrivals_.valid()) {
      inside.op(Opcode::ArrivalsWait, std::array{rings_.counterOf(inside, arrivals_, readSlot_), parity_});
    }
    const Loaded loaded = plan_.oneSlot ? readThenCopy(inside) : copyThenRead(inside);
    finish(inside);
    writeSlots(inside, fillSlot_, loaded.tiles);
    goRound(inside, loaded.numbers);
    // What is still under way are zeros, but they must not land in another buffer's bytes.
    Builder after(fn_, fn_.next(loop_));
    after.loc = fn_.loc(loop_);
    wait(after, 0);
    if (arrivals_.valid()) {
      after.op(Opcode::ArrivalsEnd, std::array{arrivals_});
    }
    if (!plan_.underWay.empty()) {
      (void)rings_.makePlaces(before, after);
    }
  }

private:
  // For one iteration: tiles that registers hold, and numbers, in the order of their loads.
  struct Loaded {
    std::vector<ValueId> tiles, numbers;
  };

  Loaded copyThenRead(Builder &inside) {
    Loaded loaded = copyAhead(inside, fn_.arg(body_, 0), plan_.stages - 1, fillSlot_);
    readSlots(inside);
    return loaded;
  }
  // Loads behind the first read, which may have a barrier in front.
  Loaded readThenCopy(Builder &inside) {
    readSlots(inside);
    const auto ops = fn_.opsIn(body_);
    inside.setBefore(fn_.next(*std::ranges::find(ops, Opcode::BufferRead, [&](OpId op) { return fn_.opcode(op); })));
    return copyAhead(inside, fn_.arg(body_, 0), plan_.stages - 1, fillSlot_);
  }
  void readSlots(Builder &inside) {
    for (size_t i = 0, number = 0; i < plan_.loads.size(); ++i) {
      if (plan_.loads[i].carried) {
        fn_.replaceAllUses(fn_.result(plan_.loads[i].load), takenNumber(plan_.loads[i].load, queued_[number++]));
      } else {
        rings_.readSlot(inside, i, readSlot_);
      }
    }
  }

  // What was loaded ahead, or in place of it what the load gives outside of its mask: that may be known in this iteration alone.
  ValueId takenNumber(OpId load, ValueId loaded) {
    Builder here(fn_, load);
    here.loc = fn_.loc(load);
    return isZeroOutside(fn_, load) ? loaded : here.make(Opcode::Select, {fn_.operand(load, 1), loaded, fn_.operand(load, 2)});
  }

  [[nodiscard]] int64_t numBoxes() const {
    return std::ranges::count_if(plan_.loads, [](const PlannedLoad &load) { return load.box.has_value(); });
  }

  // The loads are gone, and the body ends with what was carried ahead. The builder stands there.
  void finish(Builder &inside) {
    const OpId end = fn_.last(body_);
    // The first of them may be where `inside` stands.
    inside.setBefore(end);
    for (const PlannedLoad &planned : plan_.loads) {
      fn_.erase(planned.load);
    }
    for (const ValueId value : ahead_) {
      fn_.addOperand(end, value);
    }
  }

  // A new argument of the loop, after those it has.
  ValueId add(ValueId init) {
    fn_.addOperand(loop_, init);
    fn_.addResult(loop_, fn_.type(init));
    return fn_.addArg(body_, fn_.type(init));
  }
  void carry(Builder &before) {
    for (ValueId &value : ahead_) {
      value = add(value);
    }
    for (ValueId &number : queued_) {
      number = add(number);
    }
    if (plan_.oneSlot) {
      readSlot_ = fillSlot_ = before.i32(0);
      return;
    }
    readSlot_ = add(before.i32(0));
    fillSlot_ = add(before.i32(plan_.stages - 1));
    parity_ = arrivals_.valid() ? add(before.i32(0)) : ValueId{};
  }

  // The numbers of the next iteration, its slots' and those that it takes from the queue.
  void goRound(Builder &inside, const std::vector<ValueId> &loaded) {
    const OpId end = fn_.last(body_);
    for (size_t i = loaded.size(); i < queued_.size() + loaded.size(); ++i) {
      fn_.addOperand(end, i < queued_.size() ? queued_[i] : loaded[i - queued_.size()]);
    }
    if (plan_.oneSlot) {
      return;
    }
    const auto [nextRead, wraps] = rings_.nextSlot(inside, readSlot_);
    fn_.addOperand(end, nextRead);
    fn_.addOperand(end, rings_.nextSlot(inside, fillSlot_).first);
    if (arrivals_.valid()) {
      fn_.addOperand(end, LoopRings::nextParity(inside, parity_, wraps));
    }
  }

  [[nodiscard]] bool threadsCopy() const {
    return std::ranges::any_of(plan_.loads, [](const PlannedLoad &load) { return !load.box && !load.byRegisters && !load.carried; });
  }

  void wait(Builder &builder, int32_t count) {
    if (threadsCopy()) {
      fn_.setAttr(builder.op(Opcode::AsyncWait, {}), Attr::count, ir::AttrValue(int64_t{count}));
    }
  }

  // Copies what iteration `iteration + distance` loads.
  Loaded copyAhead(Builder &builder, ValueId iteration, int32_t distance, ValueId slot) {
    Loaded loaded;
    runAhead(builder, iteration, distance, [&](size_t load, ValueId valid, Mapped mapped) {
      if (plan_.loads[load].box) {
        rings_.copyBox(builder, load, slot, arrivals_, valid, mapped);
      } else if (plan_.loads[load].byRegisters) {
        loaded.tiles.push_back(loadAhead(builder, load, valid, mapped));
      } else if (plan_.loads[load].carried) {
        loaded.numbers.push_back(loadAhead(builder, load, valid, mapped));
      } else {
        copyLoad(builder, load, slot, valid, mapped);
      }
    });
    if (threadsCopy()) {
      builder.op(Opcode::AsyncCommit, {});
    }
    return loaded;
  }
  void writeSlots(Builder &builder, ValueId slot, std::span<const ValueId> loaded) {
    for (size_t i = 0, next = 0; next < loaded.size(); ++i) {
      if (plan_.loads[i].byRegisters) {
        builder.loc = fn_.loc(plan_.loads[i].load);
        builder.op(Opcode::BufferWrite, std::array{rings_.slotOf(builder, i, slot), loaded[next++]});
      }
    }
  }

  // Makes each load's copy for iteration `iteration + distance`, given whether there is one, and advances ahead_ by one iteration.
  void runAhead(Builder &builder, ValueId iteration, int32_t distance,
                llvm::function_ref<void(size_t load, ValueId valid, Mapped mapped)> copy) {
    const Type type = fn_.type(iteration);
    const Type wide = Type::scalar(Elem::I64);
    const bool isUnsigned = fn_.getBool(loop_, Attr::is_unsigned);
    const auto widen = [&](ValueId value) {
      return type.elementBits() == 64
                 ? value
                 : builder.make(isUnsigned ? Opcode::ZExt : Opcode::SExt, {value}, wide);
    };
    const ValueId index = builder.make(Opcode::Add, {widen(iteration), stepsOf(builder, distance, widen)});
    const ValueId valid = isByWord(iteration, distance) ? isLeft(builder, iteration, distance)
                                                        : builder.cmp(CmpPred::slt, index, widen(fn_.operand(loop_, 1)));
    ir::IndexMap<ValueId, ValueId> map;
    map.set(fn_.arg(body_, 0),
            type.elementBits() == 64 ? index : builder.make(Opcode::Trunc, {index}, type));
    for (size_t i = 0; i < ahead_.size(); ++i) {
      map.set(fn_.arg(body_, 1 + plan_.carriedAhead[i]), ahead_[i]);
    }
    for (const OpId op : plan_.ahead) {
      builder.insert(fn_.copyOp(op, map));
    }
    const auto mapped = [&](ValueId value) { return map[value].valid() ? map[value] : value; };
    for (size_t i = 0; i < plan_.loads.size(); ++i) {
      copy(i, valid, mapped);
    }
    const OpId end = fn_.last(body_);
    for (size_t i = 0; i < ahead_.size(); ++i) {
      ahead_[i] = mapped(fn_.operand(end, plan_.carriedAhead[i]));
    }
  }

  // What `distance` iterations add to the loop's number, in 64 bits.
  ValueId stepsOf(Builder &builder, int32_t distance, llvm::function_ref<ValueId(ValueId)> widen) {
    const Type wide = Type::scalar(Elem::I64);
    const ValueId step = fn_.operand(loop_, 2);
    const auto constant = fn_.constantInt(step);
    if (constant || distance == 0) {
      return builder.constInt(wide, distance * constant.value_or(0));
    }
    return distance == 1 ? widen(step) : builder.make(Opcode::Mul, {widen(step), builder.constInt(wide, distance)});
  }

  // In the body, whose iterations lie below the end, what is left of them is a number without sign: it is compared in the loop's own
  // type. A comparison of 64 bits is two instructions, and ptxas repeats them for each mask that it joins.
  [[nodiscard]] bool isByWord(ValueId iteration, int32_t distance) const {
    const auto bits = static_cast<uint32_t>(fn_.type(iteration).elementBits());
    const auto step = fn_.constantInt(fn_.operand(loop_, 2));
    return step && iteration == fn_.arg(body_, 0) && distance * *step >> (bits - 1) == 0;
  }
  ValueId isLeft(Builder &builder, ValueId iteration, int32_t distance) {
    const ValueId left = builder.make(Opcode::Sub, {fn_.operand(loop_, 1), iteration});
    return builder.cmp(CmpPred::ugt, left, builder.constInt(fn_.type(iteration), distance * *fn_.constantInt(fn_.operand(loop_, 2))));
  }

  // The load's, in an iteration that there is.
  ValueId maskOf(Builder &builder, OpId load, ValueId valid, Mapped mapped) {
    const Type type = fn_.type(mapped(fn_.operand(load, 0)));
    if (fn_.numOperands(load) > 1) {
      return andValid(builder, mapped(fn_.operand(load, 1)), valid);
    }
    return type.isScalar() ? valid : builder.make(Opcode::Splat, {valid}, type.withElement(Elem::I1));
  }

  // mask & valid. Of a mask that is made of one along each axis, `valid` joins the one with fewer answers a thread, before that is
  // repeated along the other axis:  (rows < m) & (columns < n) & valid  is  (rows < m) & (columns < n & valid).
  ValueId andValid(Builder &builder, ValueId mask, ValueId valid) {
    const OpId op = fn_.def(mask);
    const Type type = fn_.type(mask);
    if (op.valid() && fn_.opcode(op) == Opcode::Broadcast) {
      return builder.make(Opcode::Broadcast, {andValid(builder, fn_.operand(op, 0), valid)}, type);
    }
    if (op.valid() && fn_.opcode(op) == Opcode::And && type.isTile()) {
      const ValueId left = fn_.operand(op, 0), right = fn_.operand(op, 1);
      const bool joinsLeft = answersOf(left) < answersOf(right);
      return builder.make(Opcode::And, {joinsLeft ? right : left, andValid(builder, joinsLeft ? left : right, valid)});
    }
    return builder.make(Opcode::And, {mask, type.isScalar() ? valid : builder.make(Opcode::Splat, {valid}, type)});
  }

  // Elements before they are repeated; those that lie side by side in a thread have one answer.
  [[nodiscard]] int64_t answersOf(ValueId mask) const {
    const OpId op = fn_.def(mask);
    if (op.valid() && fn_.opcode(op) == Opcode::Broadcast) {
      return answersOf(fn_.operand(op, 0));
    }
    const Type type = fn_.type(mask);
    const auto &registers = fn_.layout(type.layout()).bases(ir::HwDim::Reg);
    int64_t answers = type.numElements();
    for (unsigned axis = 0; !registers.empty() && axis < type.rank(); ++axis) {
      answers /= registers[0][axis] != 0 ? type.dim(axis) : 1;
    }
    return answers;
  }

  ValueId loadAhead(Builder &builder, size_t index, ValueId valid, Mapped mapped) {
    const OpId load = plan_.loads[index].load;
    builder.loc = fn_.loc(load);
    const ValueId pointers = mapped(fn_.operand(load, 0));
    const ValueId loaded = builder.make(Opcode::Load, {pointers, maskOf(builder, load, valid, mapped)}, fn_.type(fn_.result(load)));
    fn_.copyAttrs(load, fn_.def(loaded));
    return loaded;
  }

  void copyLoad(Builder &builder, size_t index, ValueId slot, ValueId valid, Mapped mapped) {
    const OpId load = plan_.loads[index].load;
    builder.loc = fn_.loc(load);
    const ValueId pointers = mapped(fn_.operand(load, 0)), mask = maskOf(builder, load, valid, mapped);
    const ValueId operands[] = {pointers, rings_.slotOf(builder, index, slot), mask};
    const OpId copy = builder.op(Opcode::AsyncCopy, operands);
    if (const ir::AttrValue *cache = fn_.findAttr(load, Attr::cache)) {
      fn_.setAttr(copy, Attr::cache, *cache);
    }
  }

  ir::Function &fn_;
  const LoopPlan &plan_;
  const OpId loop_;
  const BlockId body_;
  LoopRings rings_;
  std::vector<ValueId> queued_; // numbers that have been loaded, of this iteration first
  std::vector<ValueId> ahead_; // carried values as they are for the next copy, as in carriedAhead
  ValueId readSlot_, fillSlot_;
  ValueId arrivals_, parity_; // of boxes: a counter a slot, and the parity of the slot to read
};

// What threads read of a slot stands where they first compute with it, and holds no registers before.
void readLate(ir::Function &fn, OpId convert) {
  std::vector<OpId> moved = {convert};
  const auto usesMoved = [&](OpId op) {
    return std::ranges::any_of(moved, [&](OpId each) {
      return std::ranges::any_of(fn.uses(fn.result(each)), [&](ir::Use use) {
        return use.op == op || std::ranges::any_of(fn.regions(op), [&](BlockId region) { return fn.isInside(fn.block(use.op), region); });
      });
    });
  };
  OpId place = fn.next(convert);
  for (; fn.next(place).valid(); place = fn.next(place)) {
    if (usesMoved(place)) {
      const bool repeats = fn.opcode(place) == Opcode::ExpandDims || fn.opcode(place) == Opcode::Broadcast;
      if (!repeats) {
        break;
      }
      moved.push_back(place);
    }
  }
  for (const OpId op : moved) {
    fn.unlink(op);
    fn.insertBefore(place, op);
  }
}

} // namespace

void applyPlan(ir::Function &fn, const Plan &plan) {
  for (const LoopPlan &loop : plan.loops) {
    for (const PlannedLoad &planned : loop.loads) {
      const std::vector<ir::Use> uses(fn.uses(fn.result(planned.load)).begin(), fn.uses(fn.result(planned.load)).end());
      for (const ir::Use use : uses) {
        if (fn.opcode(use.op) == Opcode::ConvertLayout && fn.type(fn.result(use.op)).rank() == 1) {
          readLate(fn, use.op);
        }
      }
    }
  }
  applyProducer(fn, plan);
  for (const LoopPlan &loop : plan.loops) {
    if (!loop.byProducer) {
      LoopRewriter(fn, loop).run();
    }
  }
}

ir::Function withPlan(const ir::Function &fn, const Plan &plan, const PassContext &context) {
  ir::Function trial = fn.clone();
  applyPlan(trial, plan);
  lowerConversions(trial, context);
  return trial;
}

// Blocks are shared where that costs no ring: what threads bring for each program would be waited for by all of them.
Plan planPrograms(ir::Function &fn, const PassContext &context) {
  Plan plan;
  std::optional<ProgramLoop> programs;
  if (mayShareBlocks(fn, context)) {
    programs = loopOverPrograms(fn, context);
    plan = planPipeline(fn, computeFacts(fn), context);
  }
  const bool copies = std::ranges::any_of(plan.loops, [](const LoopPlan &loop) { return loop.byProducer; });
  if (programs && (!copies || plan.lacksRoom)) {
    leaveLoopOverPrograms(fn, *programs);
    programs.reset();
  }
  return programs ? std::move(plan) : planPipeline(fn, computeFacts(fn), context);
}

bool pipelineLoops(ir::Function &fn, const PassContext &context) {
  const Plan plan = planPrograms(fn, context);
  applyPlan(fn, plan);
  fn.fallbacks.insert(fn.fallbacks.end(), plan.refusals.begin(), plan.refusals.end());
  return !plan.loops.empty() || !plan.refusals.empty();
}

} // namespace libtile::passes
