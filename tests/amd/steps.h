// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/amd/instruction.h"
#include "tests/amd/vector_step.h"

#include <unordered_map>

namespace emulator {

// The number of an instruction, by its address in the image.
using Places = std::unordered_map<uint64_t, size_t>;

// The step of any instruction. `base`: the address of the image. Throws Fault for what is not emulated.
[[nodiscard]] Step makeStep(const Instruction &instruction, const Machine &machine, const Places &places, uint64_t base);

} // namespace emulator
