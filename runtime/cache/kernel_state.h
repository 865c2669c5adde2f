// SPDX-License-Identifier: Apache-2.0
// A compiled kernel as text and back: its tile IR, which everything after it is a pure function of, and
// what the runtime knows beside it. Not for other versions of libtile.
#pragma once

#include "runtime/cache/compile.h"

namespace libtile::runtime {

[[nodiscard]] std::string saveKernel(const Compiled &kernel);
// Compiles it for the same target. Throws UserError if the text is no kernel of this version.
[[nodiscard]] std::shared_ptr<const Compiled> restoreKernel(std::string_view text);

} // namespace libtile::runtime
