// SPDX-License-Identifier: Apache-2.0
#include "ir/source_text.h"

#include <algorithm>

namespace libtile::ir {

std::string_view lineOf(std::string_view text, uint32_t line) {
  size_t start = 0;
  for (uint32_t i = 1; i < line; ++i) {
    const size_t end = text.find('\n', start);
    if (end == std::string_view::npos) {
      return {};
    }
    start = end + 1;
  }
  std::string_view out = text.substr(start, text.find('\n', start) - start);
  if (!out.empty() && out.back() == '\r') {
    out.remove_suffix(1);
  }
  return out;
}

std::string_view textAt(const Location &location) {
  if (!location.known()) {
    return {};
  }
  const std::string_view line = lineOf(location.file->text, location.line);
  const size_t begin = std::min<size_t>(std::max(location.column, 1U) - 1, line.size());
  return line.substr(begin, std::max(location.endColumn, location.column) - location.column);
}

Location locationAt(std::shared_ptr<const SourceFile> file, size_t offset) {
  const std::string_view text = file->text;
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const size_t lineStart = before.rfind('\n') + 1; // npos + 1 is 0
  Location location;
  location.line = 1 + std::count(before.begin(), before.end(), '\n');
  location.column = before.size() - lineStart + 1;
  location.endColumn = location.column + 1;
  location.file = std::move(file);
  return location;
}

} // namespace libtile::ir
