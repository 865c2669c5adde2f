// SPDX-License-Identifier: Apache-2.0
// Tokens of Python source text. Any bytes are accepted: what is not Python is a UserError with its
// place. Bytes from 0x80 on count as letters of a name.
#pragma once

#include "ir/diagnostic.h"

#include <string>
#include <string_view>
#include <vector>

namespace libtile::frontend {

enum class TokenKind : uint8_t {
  End,
  Newline,
  Indent,
  Dedent,
  Name,
  Keyword,
  Number,
  String,
  Operator
};

struct Token {
  TokenKind kind = TokenKind::End;
  uint32_t line = 0;   // 1-based
  uint32_t column = 0; // 1-based, bytes
  // Of the text; for strings with prefix and quotes. Empty for Newline, Indent, Dedent, End.
  std::string_view text;
};

// Ends with End. The first line's indentation counts as none, so the source of a nested function
// needs no dedenting. Views point into file->text.
[[nodiscard]] std::vector<Token> lex(const std::shared_ptr<const ir::SourceFile> &file);

// How many lines the text's first statement has, with decorators, its block, and comments in that: a function, at the
// first line of its source. All, if no tokens can be made of it.
[[nodiscard]] size_t countBlockLines(std::string_view text);

// Pieces of a String token.
struct StringParts {
  std::string prefix; // lower case, sorted: "", "b", "br", "f", "fr", "r", "u"
  std::string_view body;
  [[nodiscard]] bool has(char letter) const { return prefix.find(letter) != std::string::npos; }
};
[[nodiscard]] StringParts splitString(std::string_view token);
// The tokens of an expression in an f-string: from `begin` in the file's text, behind its `{`, to the `!`,
// `:` or `}` that ends it. `string`: the f-string's token, or what is left of it behind the last expression;
// it becomes what is left from that end on.
[[nodiscard]] std::vector<Token> lexReplacement(const std::shared_ptr<const ir::SourceFile> &file,
                                                Token &string, size_t begin);
// What a string literal without prefix stands for. Unknown escapes stay as they are.
[[nodiscard]] std::string decodeEscapes(std::string_view body);

} // namespace libtile::frontend
