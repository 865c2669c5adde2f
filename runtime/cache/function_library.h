// SPDX-License-Identifier: Apache-2.0
// The prelude's elementary functions as passes take them.
#pragma once

#include "ir/function_library.h"

namespace libtile::runtime {

// One for the process. A body is made when it is first asked for, and kept. Asked inside a
// CompileScope (fork.h), so its lock is free in a forked child.
[[nodiscard]] ir::FunctionLibrary &functionLibrary();

} // namespace libtile::runtime
