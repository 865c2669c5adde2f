// SPDX-License-Identifier: Apache-2.0
// Source locations and the three classes of error, which are never mixed:
//   UserError    something in the user's kernel or call is wrong: file, line, column, caret
//   Unsupported  a correct program asks for what is not there (yet, or on this target): says so
//   InternalError  an invariant of ours is broken: carries a reproducer (IR text and command)
// All are exceptions derived from Error; nothing in libtile calls abort, exit or assert.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace libtile::ir {

// A source text: `name` as the user knows it; `firstLine` is the number of the text's first line in
// that file. Line and column of locations count within `text` from 1.
struct SourceFile {
  std::string name;
  std::string text;
  uint32_t firstLine = 1;
  bool isLibrary = false; // ours: users see their call of it first
};

// A range of columns on one line, and the call through which it was inlined.
struct Location {
  std::shared_ptr<const SourceFile> file;
  uint32_t line = 0;      // 1-based within file->text; 0: unknown
  uint32_t column = 0;    // 1-based, in bytes
  uint32_t endColumn = 0; // one past the last column on that line
  std::shared_ptr<const Location> caller;

  [[nodiscard]] bool known() const { return file != nullptr && line != 0; }
  // "file.py:12:7", with the file's own line number.
  [[nodiscard]] std::string str() const;
  // The innermost place that is the user's: of code within functions of the library, the call of them.
  [[nodiscard]] const Location &place() const;
  // place().str() + ": error: message", the source line, a caret line, a "called from" block for each of
  // its callers, and where in the library this is.
  [[nodiscard]] std::string render(const std::string &message) const;
};

class Error : public std::runtime_error {
public:
  Error(std::string message, Location location);
  // The message alone: lower case, no final stop.
  [[nodiscard]] const std::string &message() const { return message_; }
  [[nodiscard]] const Location &location() const { return location_; }

private:
  std::string message_;
  Location location_;
};

class UserError : public Error {
public:
  explicit UserError(std::string message, Location location = {})
      : Error(std::move(message), std::move(location)) {}
};

class Unsupported : public Error {
public:
  explicit Unsupported(std::string message, Location location = {})
      : Error(std::move(message), std::move(location)) {}
};

class InternalError : public Error {
public:
  explicit InternalError(std::string message, Location location = {}, std::string reproducer = {})
      : Error(std::move(message), std::move(location)), reproducer_(std::move(reproducer)) {}
  // IR text and the tile-opt command that shows the failure; may be empty.
  [[nodiscard]] const std::string &reproducer() const { return reproducer_; }

private:
  std::string reproducer_;
};

// Throws InternalError("check failed: <what>") when `ok` is false.
inline void check(bool ok, const char *what) {
  if (!ok) [[unlikely]] {
    throw InternalError(std::string("check failed: ") + what);
  }
}

} // namespace libtile::ir
