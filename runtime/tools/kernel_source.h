// SPDX-License-Identifier: Apache-2.0
// Kernel source on the command line of tile-opt: which function, with which types and constants.
#pragma once

#include "ir/function.h"
#include "runtime/tools/options.h"

namespace libtile {

// The kernel of the text that the options name, specialised as they say. Throws UserError with the
// kernels that there are, UsageError for --sig and --const.
[[nodiscard]] ir::Function readKernel(const ToolOptions &options, const std::string &text);

} // namespace libtile
