// SPDX-License-Identifier: Apache-2.0
// The characters of a text form: words, numbers, strings, errors with their place. The parser is
// built on it.
#pragma once

#include "ir/diagnostic.h"

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::ir {

class TextReader {
public:
  TextReader(std::string_view text, const std::string &name)
      : file_(std::make_shared<SourceFile>(SourceFile{name, std::string(text), 1})),
        text_(file_->text) {}

  // Throws UserError at the offset, or where the reader stands.
  [[noreturn]] void fail(const std::string &message, size_t at) const;
  [[noreturn]] void fail(const std::string &message) const { fail(message, pos_); }

protected:
  // '\0' at the end.
  [[nodiscard]] char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }
  // Spaces, line ends and comments to the line's end.
  void skipSpace();
  // Takes the token, after space, if it is next.
  bool accept(std::string_view token);
  void expect(std::string_view token);
  // Letters, digits, underscores and bytes of UTF-8; may be empty.
  std::string_view word();
  bool acceptWord(std::string_view wanted);
  std::string_view expectWord(const char *what);
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max());
  int32_t smallInteger(int32_t low, int32_t high = std::numeric_limits<int32_t>::max()) {
    return static_cast<int32_t>(integer(low, high));
  }
  // [1, 2, 3]
  std::vector<int64_t> integers();
  // A decimal number with point or exponent, or the 16 hexadecimal digits of a double after 0x.
  // False, and nothing taken, if what follows has none of these.
  bool acceptFloat(double &value);
  // In double quotes, with the escapes of quote().
  std::string string();

  std::shared_ptr<const SourceFile> file_;
  std::string_view text_;
  size_t pos_ = 0;
  size_t lineStart_ = 0; // of the line where pos_ is

private:
  char escape();
};

} // namespace libtile::ir
