// SPDX-License-Identifier: Apache-2.0
// Reads the text form (printer.h). Any text gives a function or a UserError with line and column in
// `name`; it never crashes, recurses without bound or takes more than linear memory. The result
// obeys the arity and attribute kinds of ops.def and is well-formed enough for verify(); nothing
// more is promised until verify() has passed.
#pragma once

#include "ir/function.h"

#include <string>
#include <string_view>
#include <vector>

namespace libtile::ir {

[[nodiscard]] Function parse(std::string_view text, const std::string &name = "<text>");
// Several functions in one text.
[[nodiscard]] std::vector<Function> parseAll(std::string_view text, const std::string &name);

} // namespace libtile::ir
