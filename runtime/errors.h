// SPDX-License-Identifier: Apache-2.0
// Exceptions of the inside as plain data, for the two interfaces that lead outside.
#pragma once

#include <exception>
#include <string>

namespace libtile::runtime {

enum class ErrorKind { User, Unsupported, Internal, Device };

struct ErrorRecord {
  ErrorKind kind = ErrorKind::Internal;
  std::string text;       // with file, line, source line and caret where there is a location
  std::string message;    // alone
  std::string file;       // "" if not in a kernel
  int line = 0;           // in that file
  int column = 0;
  std::string reproducer; // internal errors: IR text and command
};

[[nodiscard]] ErrorRecord describeError(const std::exception &error);

} // namespace libtile::runtime
