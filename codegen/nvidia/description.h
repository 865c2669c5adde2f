// SPDX-License-Identifier: Apache-2.0
// Facts of a GPU that only its own code generation asks for; all others are in ir/target.h.
#pragma once

#include "ir/target.h"

namespace libtile::codegen::nvidia {

// Its compute capability, 90 for 9.0: the manual of PTX says of each instruction from which one on there is one.
[[nodiscard]] int32_t capabilityOf(const ir::Target &target);

} // namespace libtile::codegen::nvidia
