// SPDX-License-Identifier: Apache-2.0
// The files of frontend/prelude/ as the build puts them into the program (prelude/embed.py).
#pragma once

#include <span>

namespace libtile::frontend {

struct PreludeText {
  const char *name; // "prelude/math.py"
  const char *functions; // names of those in it, with a blank between them
  const char *text;
};
[[nodiscard]] std::span<const PreludeText> preludeTexts();

} // namespace libtile::frontend
