// SPDX-License-Identifier: Apache-2.0
// Scalar instructions as steps: arithmetic, masks of lanes, registers of the hardware, loads of constants.
#pragma once

#include "tests/amd/operand.h"
#include "tests/amd/vector_step.h"

namespace emulator {

// Each is empty for what it does not know; all may throw Fault.
[[nodiscard]] Step makeScalarStep(const Instruction &instruction);
[[nodiscard]] Step makeScalarLoad(const Instruction &instruction);
[[nodiscard]] Step makeHardwareRegister(const Instruction &instruction);

} // namespace emulator
