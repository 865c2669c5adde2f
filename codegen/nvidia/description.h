// SPDX-License-Identifier: Apache-2.0
// Facts of a GPU that only its own code generation asks for; all others are in ir/target.h.
#pragma once

#include "ir/target.h"

namespace libtile::codegen::nvidia {

// Its compute capability, 90 for 9.0: the manual of PTX says of each instruction from which one on there is one.
[[nodiscard]] int32_t capabilityOf(const ir::Target &target);

// What a multiprocessor holds at once, whatever they need (CUDA C++ Programming Guide, technical specifications by compute capability).
struct Residents {
  int32_t warps, programs;
};
[[nodiscard]] Residents mostResident(const ir::Target &target);

} // namespace libtile::codegen::nvidia
