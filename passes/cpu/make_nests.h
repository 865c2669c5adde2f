// SPDX-License-Identifier: Apache-2.0
// The rewrite that makes what is planned (plan_nests.h).
#pragma once

#include "passes/cpu/nest_state.h"

namespace libtile::passes {

// Requires: the tile stage; the plan is of this function, or of a copy of it; no op has a pin (plan_pins.h). Ensures: what
// form_nests.h says. While the shapes of nests are being planned (NestState::follows) they are added to the plan.
void makeNests(NestState &state);

} // namespace libtile::passes
