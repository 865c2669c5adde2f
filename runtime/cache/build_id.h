// SPDX-License-Identifier: Apache-2.0
// Which build of the library this is.
#pragma once

#include <string_view>

namespace libtile::runtime {

// The bytes by which the linker tells the file that this code is in from all others (the note NT_GNU_BUILD_ID): a hash
// of what is in it, of LLVM and the prelude too, which are linked in. Empty: it was linked without.
[[nodiscard]] std::string_view buildId();

} // namespace libtile::runtime
