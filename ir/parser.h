// SPDX-License-Identifier: Apache-2.0
// Reads the text form (printer.h). Any text gives a function or a UserError with line and column in
// `name`; it never crashes, recurses without bound or takes more than linear memory. The result
// obeys the arity and attribute kinds of ops.def and is well-formed enough for verify(); nothing
// more is promised until verify() has passed.
#pragma once

#include "ir/names.h"

#include <string>
#include <string_view>
#include <vector>

namespace libtile::ir {

// A function that was read, and what only its text knows.
struct Reading {
  Function fn;
  Names names; // as in the text: printed with them, the function has the text that was read
  std::shared_ptr<const SourceFile> file;
  IndexMap<OpId, size_t> offsets; // of the ops in the file
  // Where the text has the op.
  [[nodiscard]] Location place(OpId op) const;
};

[[nodiscard]] Function parse(std::string_view text, const std::string &name = "<text>");
// Several functions in one text.
[[nodiscard]] std::vector<Reading> parseAll(std::string_view text, const std::string &name);

} // namespace libtile::ir
