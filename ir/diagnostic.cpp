// SPDX-License-Identifier: Apache-2.0
#include "ir/diagnostic.h"

#include "ir/source_text.h"

#include <algorithm>

namespace libtile::ir {

namespace {

// "   12 | source" and "      |   ^~~~" under it. Bytes of a UTF-8 sequence after the first take no
// column; tabs are kept so that the caret stands right.
std::string excerpt(const Location &location) {
  constexpr size_t kLongest = 400;
  std::string_view line = lineOf(location.file->text, location.line);
  if (line.empty() || line.size() > kLongest) {
    return {};
  }
  const std::string number = std::to_string(location.file->firstLine + location.line - 1);
  std::string out =
      "  " + number + " | " + std::string(line) + "\n  " + std::string(number.size(), ' ') + " | ";
  const size_t column = std::max<uint32_t>(location.column, 1) - 1;
  for (size_t i = 0; i < std::min(column, line.size()); ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80) {
      out += line[i] == '\t' ? '\t' : ' ';
    }
  }
  out += '^';
  const size_t end = std::min<size_t>(location.endColumn, line.size() + 1);
  for (size_t i = column + 1; i + 1 < end; ++i) {
    if ((static_cast<unsigned char>(line[i]) & 0xC0) != 0x80) {
      out += '~';
    }
  }
  return out + "\n";
}

} // namespace

std::string Location::str() const {
  if (!known()) {
    return "<unknown>";
  }
  return file->name + ":" + std::to_string(file->firstLine + line - 1) + ":" +
         std::to_string(column);
}

const Location &Location::place() const {
  const Location *at = this;
  while (at != nullptr && at->known() && at->file->isLibrary) {
    at = at->caller.get();
  }
  return at != nullptr && at->known() ? *at : *this;
}

std::string Location::render(const std::string &message) const {
  if (!known()) {
    return "error: " + message;
  }
  const Location &user = place();
  std::string out = user.str() + ": error: " + message + "\n" + excerpt(user);
  constexpr int kMostCallers = 20;
  int depth = 0;
  for (const Location *at = user.caller.get(); at != nullptr; at = at->caller.get()) {
    if (++depth > kMostCallers) {
      out += "called from further places\n";
      break;
    }
    out += "called from " + at->str() + "\n";
    if (at->known()) {
      out += excerpt(*at);
    }
  }
  if (&user != this) {
    out += "within the library, " + str() + "\n" + excerpt(*this);
  }
  while (!out.empty() && out.back() == '\n') {
    out.pop_back();
  }
  return out;
}

Error::Error(std::string message, Location location)
    : std::runtime_error(location.known() ? location.render(message) : message),
      message_(std::move(message)), location_(std::move(location)) {}

} // namespace libtile::ir
