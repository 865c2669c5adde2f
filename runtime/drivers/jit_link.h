// SPDX-License-Identifier: Apache-2.0
// Machine code from the assembler inside NVIDIA's driver (cuLink*: "Module Management" in the manual of the driver's interface).
#pragma once

#include <string>

namespace libtile::runtime {

// The machine code for the GPU whose context is current; with `lines` it keeps those that the text names. "": the driver gives
// none; loading the text says why.
[[nodiscard]] std::string linkPtx(const std::string &ptx, bool lines);

} // namespace libtile::runtime
