// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_text.h"

#include "ir/ops.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/plan_pipeline.h"

#include <algorithm>

namespace libtile::passes {

using namespace ir;

namespace {

std::string count(int64_t number, const std::string &what) { return std::to_string(number) + " " + what + (number == 1 ? "" : "s"); }

std::string text(const LoopPlan &loop) {
  std::string out = loop.stages > 1 ? count(loop.stages, "stage") + " in " + count(loop.slots(), "slot") : "copies for the loops in it";
  out += ", " + count(int64_t(loop.ahead.size()), "op") + " and " + count(int64_t(loop.carriedAhead.size()), "carried value") + " ahead";
  out += loop.underWay.empty() ? "" : ", " + count(int64_t(loop.underWay.size()), "dot") + " one iteration behind";
  out += loop.byProducer ? ", a producer copies" : "";
  return out + (loop.noProducer.empty() ? "" : ", no producer: " + loop.noProducer);
}

std::string text(const PlannedLoad &load) {
  if (load.carried) {
    return "loaded ahead, and carried from iteration to iteration";
  }
  const std::string bytes = count(load.vectorBytes, "byte");
  const std::string way = load.box ? "in boxes" : load.byRegisters ? "by registers, " + bytes + " at once" : "in copies of " + bytes;
  return "copied ahead " + way + ", slots of " + count(load.slotBytes, "byte") +
         (load.shared ? ", for all programs of the cluster that want the same" : "") + (load.noBox.empty() ? "" : "; no boxes: " + load.noBox);
}

// Neighbours that a thread holds side by side, along the axis where they are most.
std::string accessText(const Layout &layout) {
  const Layout::Bases &registers = layout.bases(HwDim::Reg);
  int32_t most = 1;
  unsigned along = layout.rank() - 1;
  for (unsigned axis = 0; axis < layout.rank(); ++axis) {
    int32_t run = 1;
    for (Coords next(layout.rank(), 0); next[axis] = run, std::ranges::find(registers, next) != registers.end();) {
      run *= 2;
    }
    if (run > most) {
      most = run;
      along = axis;
    }
  }
  return "a thread has " + (most == 1 ? std::string("single elements") : std::to_string(most) + " side by side along axis " + std::to_string(along));
}

class PlanText {
public:
  PlanText(const Function &fn, const Plan &plan, const PassContext &context) : fn_(fn), plan_(plan), context_(context) {}

  std::string of(OpId op) const {
    for (const LoopPlan &loop : plan_.loops) {
      if (loop.loop == op) {
        return text(loop);
      }
      const auto load = std::ranges::find(loop.loads, op, &PlannedLoad::load);
      if (load != loop.loads.end()) {
        return text(*load);
      }
    }
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::Dot) {
      return ofDot(op);
    }
    if (opcode == Opcode::ConvertLayout) {
      return ofConversion(op);
    }
    const bool accesses = opcode == Opcode::Load || opcode == Opcode::Store || opcode == Opcode::AtomicRmw || opcode == Opcode::AtomicCas;
    return accesses && fn_.type(fn_.operand(op, 0)).isTile() ? accessText(fn_.layout(fn_.type(fn_.operand(op, 0)).layout())) : "";
  }

  // Of the whole program, a line each.
  std::string ofProgram() const {
    std::string out = "// " + count(fn_.numWarps, "warp") + "\n";
    if (plan_.team.warps > 0) {
      out += "// a producer of " + count(plan_.team.warps, "warp") + " more: " + std::to_string(plan_.team.own) +
             " registers a thread, the others' have " + std::to_string(plan_.team.others) + "\n";
    }
    if (plan_.cluster > 1) {
      out += "// clusters of " + count(plan_.cluster, "program") + "\n";
    }
    for (const std::vector<std::string> *reasons : {&fn_.fallbacks, &plan_.refusals}) {
      for (const std::string &reason : *reasons) {
        out += "// fallback: " + reason + "\n";
      }
    }
    return out;
  }

private:
  bool isCopiedAhead(OpId load) const {
    return std::ranges::any_of(plan_.loops, [&](const LoopPlan &loop) {
      return std::ranges::find(loop.loads, load, &PlannedLoad::load) != loop.loads.end();
    });
  }

  std::string ofDot(OpId dot) const {
    std::string grid;
    for (const int64_t along : fn_.getInts(dot, Attr::warps)) {
      grid += (grid.empty() ? "" : "x") + std::to_string(along);
    }
    const bool later = std::ranges::any_of(plan_.loops, [&](const LoopPlan &loop) {
      return std::ranges::find(loop.underWay, dot) != loop.underWay.end();
    });
    return std::string(fn_.getText(dot, Attr::unit)) + ", warps in a grid of " + grid + (later ? ", one iteration behind" : "");
  }

  std::string ofConversion(OpId op) const {
    const OpId source = fn_.def(fn_.operand(op, 0));
    if (source.valid() && isCopiedAhead(source)) {
      return "read from its slot";
    }
    const Type &from = fn_.type(fn_.operand(op, 0)), &to = fn_.type(fn_.result(op));
    const auto bytes = int32_t(from.elementBytes());
    switch (planConversion(fn_.layout(from.layout()), fn_.layout(to.layout()), from.shape(), bytes, context_.target.sharedReads).kind) {
    case Conversion::Kind::Registers:
      return "registers are renamed";
    case Conversion::Kind::Shuffles:
      return "by shuffles within warps";
    case Conversion::Kind::Exchanges:
      return "by exchanges within warps";
    case Conversion::Kind::Shared:
      return "through shared memory";
    }
    return "";
  }

  const Function &fn_;
  const Plan &plan_;
  const PassContext &context_;
};

} // namespace

std::string gpuPlanText(const Function &fn, const PassContext &context, const PrintOptions &options) {
  Function copy = fn.clone();
  const Plan plan = planPrograms(copy, context);
  const PlanText text(copy, plan, context);
  PrintOptions print = options;
  print.note = [&](OpId op) { return text.of(op); };
  return ir::print(copy, print) + text.ofProgram();
}

} // namespace libtile::passes
