// SPDX-License-Identifier: Apache-2.0
// Whether a number that nobody needs may be any number.
#pragma once

#include "ir/function.h"

#include <functional>

namespace libtile::passes {

// Whether what `read` gives, in the region op `around`, decides more than numbers: where or whether memory is
// accessed, or what runs and how often. `isOff`: a mask is false whatever this number is.
[[nodiscard]] bool steers(const ir::Function &fn, ir::ValueId read, ir::OpId around,
                          const std::function<bool(ir::ValueId mask)> &isOff);

} // namespace libtile::passes
