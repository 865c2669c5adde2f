// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/form_nests.h"

#include "passes/cpu/make_nests.h"
#include "passes/cpu/plan_pins.h"

namespace libtile::passes {

bool formNests(ir::Function &fn, const PassContext &context) {
  const Facts facts = computeFacts(fn);
  CpuPlan plan = planNests(fn, facts, context.target);
  dropPins(fn);
  NestState state{fn, context.target, facts, plan};
  makeNests(state);
  return true;
}

} // namespace libtile::passes
