// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/amd/vector_step.h"

namespace emulator {

// MFMA and WMMA; empty for anything else. EXEC does not matter to them.
[[nodiscard]] Step makeMatrixStep(const Instruction &instruction, const Machine &machine);

} // namespace emulator
