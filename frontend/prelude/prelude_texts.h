// SPDX-License-Identifier: Apache-2.0
// The functions of frontend/prelude/ as the build puts them into the program (prelude/embed.py).
#pragma once

#include <cstdint>
#include <span>

namespace libtile::frontend {

struct PreludeText {
  const char *folder, *function; // "libdevice", "erf"; the folder may be ""
  const char *file;              // "prelude/libdevice/special.py"
  uint32_t firstLine;            // of the text in the file
  const char *text;              // the function with its decorators
};
// Ascending by folder and function.
[[nodiscard]] std::span<const PreludeText> preludeTexts();

} // namespace libtile::frontend
