// SPDX-License-Identifier: Apache-2.0
#include "passes/gpu/plan_pipeline.h"

namespace libtile::passes {

std::string Plan::str(const ir::Function &fn) const {
  std::string out;
  for (const LoopPlan &loop : loops) {
    const ir::Location &location = fn.locationOf(loop.loop);
    out += "for" + (location.known() ? " at " + location.str() : "") + ": " +
           std::to_string(loop.stages) + " stages" +
           (loop.underWay.empty() ? "" : " in " + std::to_string(loop.slots()) + " slots") + ", " + std::to_string(loop.ahead.size()) +
           " ops and " + std::to_string(loop.carriedAhead.size()) + " carried values run ahead" +
           (loop.underWay.empty() ? ""
                                  : ", " + std::to_string(loop.underWay.size()) + " dots end one iteration later") +
           (loop.oneSlot ? ", in one slot" : "") + (loop.byProducer ? ", a producer warp copies" : "") +
           (loop.noProducer.empty() ? "" : ", no producer warp (" + loop.noProducer + ")") + "\n";
    for (const PlannedLoad &load : loop.loads) {
      if (load.carried) {
        out += "  " + fn.type(fn.result(load.load)).str() + ": carried\n";
        continue;
      }
      const std::string way = load.box ? "boxes" : (load.byRegisters ? "by registers, " : "copies of ") + std::to_string(load.vectorBytes) + " bytes" + (load.noBox.empty() ? "" : " (no box: " + load.noBox + ")");
      out += "  " + fn.type(fn.result(load.load)).withLayout({}).str() + ": " + way + ", slots of " +
             std::to_string(load.slotBytes) + ", " + load.slot.str() + "\n";
    }
  }
  for (const std::string &refusal : refusals) {
    out += refusal + "\n";
  }
  return out;
}

} // namespace libtile::passes
