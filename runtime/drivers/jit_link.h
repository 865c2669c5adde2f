// SPDX-License-Identifier: Apache-2.0
// Machine code from the assembler inside NVIDIA's driver (cuLink*: "Module Management" in the manual of the driver's interface).
#pragma once

#include <string>
#include <string_view>

namespace libtile::runtime {

// A linked text is one unit of several to the assembler, and roles get no registers of their own: it ignores setmaxnreg (ptxas
// says so of `-c`: C7504), threads spill, and wgmma waits for each instruction.
[[nodiscard]] bool canLink(std::string_view ptx);

// The machine code for the GPU whose context is current; with `lines` it keeps those that the text names. "": the driver gives
// none; loading the text says why.
[[nodiscard]] std::string linkPtx(const std::string &ptx, bool lines);

} // namespace libtile::runtime
