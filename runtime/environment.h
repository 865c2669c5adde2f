// SPDX-License-Identifier: Apache-2.0
// The numbers and flags among the LIBTILE_ variables of the environment. Names and lists of names are
// checked by who knows the names (codegen/cpu/description.cpp, runtime/cache/compile.cpp).
#pragma once

namespace libtile::runtime {

// 0 .. high, in decimal digits; `standard` if the variable is unset or empty. A flag has a high of 1. Throws
// UserError for any other text: it names the variable, the text and what the variable takes.
[[nodiscard]] int environmentNumber(const char *variable, int high, int standard = 0);

} // namespace libtile::runtime
