// SPDX-License-Identifier: Apache-2.0
// NVIDIA's assembler as a program, for kernels that are compiled side by side: the one inside the driver takes one
// at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace libtile::runtime {

// Where one may lie. It is taken if LIBTILE_PTXAS is not set and PATH has none.
void offerPtxas(std::string path);

// The path of the assembler: LIBTILE_PTXAS (a path, or a name on PATH; "" is none), `ptxas` on PATH, or what was offered.
// "": there is none. Throws UserError if LIBTILE_PTXAS names no program.
[[nodiscard]] std::string findPtxas();

// The machine code for an architecture, "sm_90a"; with `lines` it keeps those that the text names. Nothing if the
// assembler does not give it, for whatever reason: the driver's may, or says why not. Any number of threads may be here.
[[nodiscard]] std::optional<std::string> assemble(const std::string &ptxas, const std::string &ptx,
                                                  const std::string &architecture, bool lines = false);

// Registers of a thread that a kernel needs at least, of which it may have `limit`.
struct RegisterNeed {
  int64_t needed, limit;
};
// What the assembler's words say where it has too few registers for a kernel; nothing: they say something else.
[[nodiscard]] std::optional<RegisterNeed> registerNeed(std::string_view words);

} // namespace libtile::runtime
