// SPDX-License-Identifier: Apache-2.0
// Lines and places of a source text.
#pragma once

#include "ir/diagnostic.h"

#include <cstddef>
#include <string_view>

namespace libtile::ir {

// The 1-based line of the text, without its end; empty past the last one.
[[nodiscard]] std::string_view lineOf(std::string_view text, uint32_t line);
// What stands at a place of one line; empty where the place is not known.
[[nodiscard]] std::string_view textAt(const Location &location);
// The character at the offset, in bytes from the text's beginning.
[[nodiscard]] Location locationAt(std::shared_ptr<const SourceFile> file, size_t offset);

} // namespace libtile::ir
