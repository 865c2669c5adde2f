// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_pipeline.h"

#include "ir/ops.h"
#include "passes/gpu/allocate_shared.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/layout_maps.h"
#include "passes/gpu/matrix_buffers.h"
#include "passes/gpu/narrow_boxes.h"
#include "passes/gpu/plan_cluster.h"
#include "passes/gpu/plan_copies.h"
#include "passes/gpu/plan_producer.h"
#include "passes/gpu/plan_registers.h"
#include "passes/gpu/plan_residency.h"
#include "passes/gpu/plan_streams.h"
#include "passes/gpu/plan_under_way.h"
#include "passes/gpu/refuse_loops.h"
#include "passes/gpu/row_copies.h"
#include "passes/gpu/shared_accesses.h"

#include <algorithm>
#include <map>
#include <optional>

namespace libtile::passes {
namespace {

using ir::Attr;
using ir::BlockId;
using ir::Layout;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

constexpr int32_t kDefaultStages = 3;

class Planner {
public:
  Planner(const ir::Function &fn, const Facts &facts, const PassContext &context)
      : fn_(fn), facts_(facts), context_(context) {}

  Plan run() {
    for (const OpId op : fn_.walk()) {
      if (fn_.opcode(op) == Opcode::For && !isOverPrograms(fn_, op)) {
        planLoop(op);
      }
    }
    for (const OpId load : keepRegisters(fn_, plan_, context_)) {
      // Without asynchronous copies loads at their place are what there is.
      if (context_.target.asyncCopy) {
        refuse(load, "no copy ahead: neighbours of fewer than 4 bytes, or not aligned, and no registers to hold them");
      }
    }
    std::erase_if(plan_.loops, [&](LoopPlan &loop) { return !setDepth(loop); });
    chooseProducer();
    makeRoom();
    for (LoopPlan &loop : plan_.loops) {
      keepNeighbours(fn_, loop, context_);
    }
    leaveRoomToReduce(fn_, plan_, facts_, context_);
    planCluster(fn_, context_, plan_);
    return std::move(plan_);
  }

private:
  // Rings that a producer fills are all there at once: where that costs stages, threads copy.
  void chooseProducer() {
    planProducer(fn_, facts_, context_, plan_);
    restBytes_ = restBytes();
    if (!fits() && std::erase_if(plan_.loops, [](const LoopPlan &loop) { return loop.stages == 1; }) > 0) {
      plan_.lacksRoom = true;
      restBytes_ = restBytes();
    }
    const auto several = std::ranges::count_if(plan_.loops, [](const LoopPlan &loop) { return loop.byProducer; }) > 1;
    if (several && !fits()) {
      for (LoopPlan &loop : plan_.loops) {
        loop.byProducer = false;
        loop.noProducer = "no room for the rings of all loops at once";
      }
    }
  }

  void planLoop(OpId loop) {
    const BlockId body = fn_.region(loop);
    std::vector<OpId> loads;
    for (const OpId op : fn_.opsIn(body)) {
      if (fn_.opcode(op) == Opcode::Load && fn_.type(fn_.result(op)).isTile() &&
          feedsDotsOnly(op)) {
        loads.push_back(op);
      }
    }
    if (loads.empty()) {
      return isStream(fn_, loop) ? planAsStream(loop) : void();
    }
    if (const char *why = loopRefusal(fn_, facts_, loop)) {
      return refuse(loop, why);
    }
    LoopPlan plan = planLoads(loop, loads, context_.copiesBoxes && context_.target.boxCopy);
    planRows(plan, body);
    if (setDepth(plan)) {
      plan_.loops.push_back(std::move(plan));
    }
  }

  void planAsStream(OpId loop) {
    std::vector<std::pair<OpId, std::string>> refusals;
    if (std::optional<LoopPlan> plan = planStream(fn_, facts_, loop, context_, refusals); plan && setDepth(*plan)) {
      plan_.loops.push_back(std::move(*plan));
    }
    for (const auto &[op, why] : refusals) {
      refuse(op, why);
    }
  }

  LoopPlan planLoads(OpId loop, std::span<const OpId> loads, bool byBoxes) {
    const bool isTwoStages = !context_.target.asyncCopy;
    LoopPlan plan{.loop = loop, .isTwoStages = isTwoStages};
    const size_t numBoxes = numBoxes_, numRefusals = plan_.refusals.size();
    byBoxes_ = byBoxes;
    // All in rows, which takes two slots, or none.
    for (byRows_ = context_.target.rowCopy > 0;; byRows_ = false) {
      for (const OpId load : loads) {
        planLoad(plan, fn_.region(loop), load);
      }
      if (!byRows_ || (!goesByRegisters(plan) && rowsHaveRoom(plan.slotBytes(), context_.target))) {
        break;
      }
      plan = {.loop = loop, .isTwoStages = isTwoStages};
      plan_.refusals.resize(numRefusals);
    }
    plan.oneSlot = isTwoStages && !byRows_;
    if (byBoxes && plan.loads.size() == loads.size() && areNarrow(fn_, plan, context_)) {
      const size_t made = std::exchange(numBoxes_, numBoxes);
      const size_t refusals = plan_.refusals.size();
      if (LoopPlan copied = planLoads(loop, loads, false); areCopied(copied, loads.size())) {
        return copied;
      }
      numBoxes_ = made;
      plan_.refusals.resize(refusals);
      byBoxes_ = true;
    }
    return plan;
  }

  // Stages, and dots that end one iteration later. False: nothing is copied ahead.
  bool setDepth(LoopPlan &plan) {
    plan.stages = wantedStages(plan);
    planUnderWay(fn_, plan, context_.target);
    if (plan.loads.empty() || plan.stages < 2) {
      endAtOnce(fn_, plan);
      return false;
    }
    return true;
  }

  void refuse(OpId op, const std::string &why) {
    const ir::Location &location = fn_.locationOf(op);
    plan_.refusals.push_back((location.known() ? location.place().str() + ": " : "") + why);
  }

  // Each use makes the tile go through shared memory, and a dot of the loop is the reason.
  [[nodiscard]] bool feedsDotsOnly(OpId load) const {
    const ValueId value = fn_.result(load);
    return !fn_.unused(value) &&
           std::all_of(fn_.uses(value).begin(), fn_.uses(value).end(), [&](ir::Use use) {
             if (fn_.block(use.op) != fn_.block(load)) {
               return false;
             }
             if (fn_.opcode(use.op) == Opcode::Dot || isReadInPlace(fn_, use, context_.target)) {
               return true;
             }
             const ValueId converted =
                 fn_.opcode(use.op) == Opcode::ConvertLayout ? fn_.result(use.op) : ValueId{};
             return converted.valid() &&
                    !registerMap(layoutOf(converted), layoutOf(value)).has_value() &&
                    reachesDot(converted);
           });
  }
  // Loads of one axis that go through shared memory in any case, for what the loop's dots are combined with: where boxes
  // bring all of the loop's tiles and them, nobody waits for others to write them there.
  void planRows(LoopPlan &plan, BlockId body) {
    if (plan.loads.empty() || !std::ranges::all_of(plan.loads, [](const PlannedLoad &load) { return load.box.has_value(); })) {
      return;
    }
    for (const OpId op : fn_.opsIn(body)) {
      if (fn_.opcode(op) == Opcode::Load && isRow(op) && isZeroOutside(fn_, op) && loadRefusal(fn_, facts_, op) == nullptr) {
        std::string why;
        planBoxed(plan, body, op, why);
      }
    }
  }
  [[nodiscard]] bool isRow(OpId load) const {
    const ValueId value = fn_.result(load);
    const Type type = fn_.type(value);
    const auto isShared = [&](ir::Use use) {
      return fn_.opcode(use.op) == Opcode::ConvertLayout && fn_.block(use.op) == fn_.block(load) &&
             planConversion(layoutOf(value), layoutOf(fn_.result(use.op)), type.shape(), static_cast<int32_t>(type.elementBytes()),
                            context_.target.sharedReads)
                     .kind == Conversion::Kind::Shared;
    };
    return type.isTile() && type.rank() == 1 && !fn_.unused(value) && std::ranges::all_of(fn_.uses(value), isShared);
  }

  [[nodiscard]] bool reachesDot(ValueId value) const {
    return std::any_of(fn_.uses(value).begin(), fn_.uses(value).end(), [&](ir::Use use) {
      return fn_.opcode(use.op) == Opcode::Dot ||
             (fn_.opcode(use.op) == Opcode::Trans && reachesDot(fn_.result(use.op)));
    });
  }
  [[nodiscard]] const Layout &layoutOf(ValueId value) const {
    return fn_.layout(fn_.type(value).layout());
  }

  void planLoad(LoopPlan &plan, BlockId body, OpId load) {
    if (const char *why = loadRefusal(fn_, facts_, load)) {
      return refuse(load, why);
    }
    if (!isZeroOutside(fn_, load)) {
      return refuse(load, "no copy ahead: masked-off elements are not 0");
    }
    std::string noBox;
    if (planBoxed(plan, body, load, noBox)) {
      return;
    }
    auto planned = planCopy(fn_, facts_, load, context_.target, byRows_);
    if (!planned) {
      return refuse(load, "no copy ahead: the unit reads it along the axis that memory has far apart");
    }
    const std::span<const ValueId> operands = fn_.operands(load);
    if (!addAhead(fn_, plan, {operands.begin(), operands.end()})) {
      return refuse(load, "no copy ahead: the addresses depend on what the loop computes");
    }
    planned->noBox = std::move(noBox);
    plan.loads.push_back(std::move(*planned));
  }

  // As a box, if it can be one and its coordinates are known ahead.
  bool planBoxed(LoopPlan &plan, BlockId body, OpId load, std::string &why) {
    if (!byBoxes_) {
      why = context_.copiesBoxes && context_.target.boxCopy ? "rows so short that threads copy them faster" : "";
      return false;
    }
    auto box = planBox(fn_, load, facts_, context_, why);
    if (box && (fn_.getBool(fn_.parentOp(body), Attr::is_unsigned) || numBoxes_ == ir::TensorMap::kMost)) {
      why = numBoxes_ == ir::TensorMap::kMost ? "the kernel has as many as there may be" : "the loop counts without sign";
      return false;
    }
    if (!box) {
      return false;
    }
    std::vector<ValueId> needed;
    for (const Polynomial &coordinate : box->coordinates) {
      for (const Monomial &monomial : coordinate.monomials()) {
        needed.insert(needed.end(), monomial.factors.begin(), monomial.factors.end());
      }
    }
    if (!addAhead(fn_, plan, std::move(needed))) {
      why = "where it lies depends on what the loop computes";
      return false;
    }
    plan.loads.push_back(boxedLoad(fn_, load, std::move(*box)));
    ++numBoxes_;
    return true;
  }

  // Registers hold one iteration, and what is copied beside it need not be further ahead. A target whose waits are for all copies has two.
  [[nodiscard]] int32_t wantedStages(const LoopPlan &plan) const {
    int64_t wanted = fn_.getInt(plan.loop, Attr::num_stages);
    wanted = wanted > 0 ? wanted : context_.numStages > 0 ? context_.numStages : kDefaultStages;
    return static_cast<int32_t>(std::min<int64_t>(wanted, goesByRegisters(plan) || plan.isTwoStages ? 2 : kMostStages));
  }

  // The rings and the rest, were it all alive at once; else what a trial finds.
  [[nodiscard]] bool fits() const {
    int64_t rings = 0;
    for (const LoopPlan &loop : plan_.loops) {
      rings += loop.slots() * loop.slotBytes();
      // Counters of arrivals, and what they shift rings by.
      rings += std::ranges::any_of(loop.loads, [](const PlannedLoad &load) { return load.box.has_value(); }) ? kMatrixAlignment : 0;
    }
    if (rings + restBytes_ <= context_.target.sharedMemory) {
      return true;
    }
    return sharedBytes(withPlan(fn_, plan_, context_)) <= context_.target.sharedMemory;
  }

  // Tiles that may lie in shared memory beside the rings, as large as their layouts.
  [[nodiscard]] int64_t restBytes() const {
    int64_t bytes = 0;
    const auto add = [&](ValueId value) {
      const Type type = fn_.type(value);
      int64_t tile = type.isTile() && !isPlanned(fn_.def(value)) ? type.elementBytes() : 0;
      for (unsigned axis = 0; axis < type.rank(); ++axis) {
        tile *= int64_t{layoutOf(value).subtile()[axis]} * layoutOf(value).repeats()[axis];
      }
      bytes += tile;
    };
    for (const OpId op : fn_.walk()) {
      const Opcode opcode = fn_.opcode(op);
      if (opcode == Opcode::ConvertLayout || opcode == Opcode::Reshape || opcode == Opcode::Reduce ||
          opcode == Opcode::Slice || opcode == Opcode::Gather) {
        std::ranges::for_each(fn_.operands(op), add);
      } else if (opcode == Opcode::Dot) {
        for (const unsigned operand : {0U, 1U}) {
          if (isInShared(fn_, {op, operand}, context_.target)) {
            add(untransposed(fn_, fn_.operand(op, operand)));
          }
        }
      } else if (opcode == Opcode::Histogram) {
        add(fn_.result(op));
      }
    }
    return bytes;
  }
  [[nodiscard]] bool isPlanned(OpId op) const {
    return std::ranges::any_of(plan_.loops, [&](const LoopPlan &loop) {
      return std::ranges::any_of(loop.loads,
                                 [&](const PlannedLoad &load) { return load.load == op; });
    });
  }

  // Takes stages from the largest ring until all fits.
  void makeRoom() {
    std::map<OpId, int32_t> wanted;
    for (const LoopPlan &loop : plan_.loops) {
      wanted[loop.loop] = loop.stages;
    }
    while (!plan_.loops.empty() && !fits()) {
      const auto largest = std::ranges::max_element(plan_.loops, {}, [](const LoopPlan &loop) {
        return loop.slots() * loop.slotBytes();
      });
      if (--largest->stages < 2 && !largest->underWay.empty()) {
        largest->stages = 2;
        endAtOnce(fn_, *largest);
      }
      if (largest->stages < 2) {
        plan_.lacksRoom = true;
        refuse(largest->loop, "no copies ahead: no room for them in shared memory");
        plan_.loops.erase(largest);
      }
    }
    for (const LoopPlan &loop : plan_.loops) {
      if (std::max(loop.slots(), loop.stages) < wanted[loop.loop]) {
        plan_.lacksRoom = true;
        refuse(loop.loop, std::to_string(loop.stages) + " stages instead of " +
                              std::to_string(wanted[loop.loop]) + ": no room in shared memory");
      }
    }
  }

  const ir::Function &fn_;
  const Facts &facts_;
  const PassContext &context_;
  Plan plan_;
  int64_t restBytes_ = 0;
  size_t numBoxes_ = 0;  // planned, of all loops
  bool byBoxes_ = false, byRows_ = false; // the loop that is being planned
};

} // namespace

int64_t LoopPlan::slotBytes() const {
  int64_t bytes = 0;
  for (const PlannedLoad &load : loads) {
    bytes += load.slotBytes;
  }
  return bytes;
}

PlannedLoad boxedLoad(const ir::Function &fn, OpId load, PlannedBox box) {
  PlannedLoad planned{.load = load, .slot = box.slot, .align = box.slot.rank() == 1 ? kRowAlignment : kMatrixAlignment};
  planned.slotBytes = int64_t{planned.slot.size(ir::HwDim::Offset)} * fn.type(fn.result(load)).elementBytes();
  planned.box = std::move(box);
  return planned;
}

Plan planPipeline(const ir::Function &fn, const Facts &facts, const PassContext &context) {
  return Planner(fn, facts, context).run();
}

} // namespace libtile::passes
