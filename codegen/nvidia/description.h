// SPDX-License-Identifier: Apache-2.0
// Facts of a GPU that only its own code generation asks for; all others are in ir/target.h.
#pragma once

#include "ir/target.h"

namespace libtile::codegen::nvidia {

// red.add of two or four neighbouring f32 is one instruction.
[[nodiscard]] bool addsVectors(const ir::Target &target);

} // namespace libtile::codegen::nvidia
