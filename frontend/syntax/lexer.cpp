// SPDX-License-Identifier: Apache-2.0
#include "frontend/syntax/lexer.h"

#include <algorithm>
#include <optional>

namespace libtile::frontend {

namespace {

constexpr std::string_view kKeywords[] = {
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

// Longest first, so that the first match is the token.
constexpr std::string_view kOperators[] = {
    "**=", "//=", ">>=", "<<=", "...", "!=", "->", ":=", "+=", "-=", "*=", "/=",
    "%=",  "&=",  "|=",  "^=",  "@=",  "==", "<=", ">=", "<<", ">>", "**", "//",
    "+",   "-",   "*",   "/",   "%",   "&",  "|",  "^",  "~",  "@",  "<",  ">",
    "(",   ")",   "[",   "]",   "{",   "}",  ",",  ":",  ".",  ";",  "="};

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}
bool isNamePart(char c) { return isNameStart(c) || isDigit(c); }
bool isQuote(char c) { return c == '"' || c == '\''; }

class Lexer {
public:
  explicit Lexer(const std::shared_ptr<const ir::SourceFile> &file)
      : file_(file), text_(file->text) {}
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    if (text_.size() > kLongestText) {
      throw ir::UserError("source text of more than 16 MiB");
    }
    if (text_.starts_with("\xEF\xBB\xBF")) {
      at_ = lineStart_ = 3;
    }
    tokens_.reserve(text_.size() / 4 + 8);
    while (at_ < text_.size()) {
      if (atLineStart_ && brackets_.empty()) {
        const std::optional<Indent> indent = indentation();
        if (!indent) {
          continue;
        }
        changeIndent(*indent);
      }
      token();
    }
    finish();
    return std::move(tokens_);
  }

  // The number of the last line of the first statement (countBlockLines).
  uint32_t blockLines() {
    uint32_t last = 0;
    bool isDecorator = true;
    while (at_ < text_.size()) {
      if (atLineStart_ && brackets_.empty()) {
        const size_t begin = at_;
        const uint32_t line = line_;
        const std::optional<Indent> indent = indentation();
        if (!indent) {
          last = isCommentInBlock(begin) ? line : last;
          continue;
        }
        const bool isTop = indents_.empty() || indent->column <= indents_[0].column;
        if (isTop && !isDecorator) {
          break;
        }
        isDecorator = isTop && peek() == '@';
        changeIndent(*indent);
      }
      token();
      last = atLineStart_ ? line_ - 1 : line_;
    }
    return last;
  }

  std::vector<Token> replacement(Token &string, size_t begin) {
    const auto start = static_cast<size_t>(string.text.data() - text_.data());
    text_ = text_.substr(0, start + string.text.size());
    line_ = string.line;
    lineStart_ = start + 1 - string.column;
    for (at_ = start; at_ < begin;) {
      const size_t length = lineEnd(at_);
      length != 0 ? newLine(length) : void(++at_);
    }
    // Inside of a bracket lines do not end.
    brackets_.push_back({'{', line_, columnOf(at_)});
    const auto ends = [this] {
      const char c = peek();
      return brackets_.size() == 1 && (c == '}' || c == ':' || (c == '!' && peek(1) != '='));
    };
    while (at_ < text_.size() && !ends()) {
      token();
    }
    push(TokenKind::End, at_, at_);
    string = {TokenKind::String, line_, columnOf(at_), text_.substr(at_)};
    return std::move(tokens_);
  }

private:
  static constexpr size_t kLongestText = size_t{1} << 24;
  static constexpr size_t kDeepestIndent = 100;
  static constexpr size_t kDeepestBrackets = 200;

  struct Indent {
    uint32_t column;    // tabs go to the next multiple of 8
    uint32_t tabsAsOne; // tabs count as one
  };
  struct Bracket {
    char open;
    uint32_t line, column;
  };

  [[noreturn]] void fail(const std::string &message, uint32_t line, uint32_t column,
                         uint32_t length) {
    throw ir::UserError(message, {file_, line, column, column + std::max(length, 1U), nullptr});
  }
  [[noreturn]] void failHere(const std::string &message, uint32_t length = 1) {
    fail(message, line_, columnOf(at_), length);
  }
  [[nodiscard]] uint32_t columnOf(size_t position) const {
    return static_cast<uint32_t>(position - lineStart_) + 1;
  }
  [[nodiscard]] char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void push(TokenKind kind, size_t begin, size_t end) {
    tokens_.push_back({kind, line_, columnOf(begin), text_.substr(begin, end - begin)});
  }
  // Length of the line end at the position: 0, 1 or 2 (CR LF).
  [[nodiscard]] size_t lineEnd(size_t position) const {
    if (position >= text_.size()) {
      return 0;
    }
    if (text_[position] == '\r') {
      return position + 1 < text_.size() && text_[position + 1] == '\n' ? 2 : 1;
    }
    return text_[position] == '\n' ? 1 : 0;
  }
  void newLine(size_t length) {
    at_ += length;
    ++line_;
    lineStart_ = at_;
  }

  // Indentation of a logical line. Nothing: the line is blank or a comment and is skipped.
  std::optional<Indent> indentation() {
    Indent indent{0, 0};
    for (;; ++at_) {
      const char c = peek();
      if (c == ' ') {
        ++indent.column, ++indent.tabsAsOne;
      } else if (c == '\t') {
        indent.column = (indent.column / 8 + 1) * 8;
        ++indent.tabsAsOne;
      } else if (c == '\f' && at_ < text_.size()) {
        indent = {0, 0};
      } else {
        break;
      }
    }
    skipComment();
    if (const size_t length = lineEnd(at_); length != 0) {
      newLine(length);
      return std::nullopt;
    }
    return at_ < text_.size() ? std::optional(indent) : std::nullopt;
  }

  void changeIndent(Indent indent) {
    atLineStart_ = false;
    if (indents_.empty()) {
      indents_.push_back(indent);
      return;
    }
    const Indent top = indents_.back();
    const std::string mixed = "indentation mixes tabs and spaces";
    if (indent.column == top.column) {
      if (indent.tabsAsOne != top.tabsAsOne) {
        failHere(mixed);
      }
      return;
    }
    if (indent.column > top.column) {
      if (indent.tabsAsOne <= top.tabsAsOne) {
        failHere(mixed);
      }
      if (indents_.size() >= kDeepestIndent) {
        failHere("more than 100 levels of indentation");
      }
      indents_.push_back(indent);
      push(TokenKind::Indent, at_, at_);
      return;
    }
    while (!indents_.empty() && indents_.back().column > indent.column) {
      indents_.pop_back();
      if (indents_.empty()) {
        break;
      }
      push(TokenKind::Dedent, at_, at_);
    }
    if (indents_.empty() || indents_.back().column != indent.column) {
      failHere("indentation matches no outer level");
    }
    if (indents_.back().tabsAsOne != indent.tabsAsOne) {
      failHere(mixed);
    }
  }

  // Of a line without tokens.
  [[nodiscard]] bool isCommentInBlock(size_t lineBegin) const {
    const size_t first = text_.find_first_not_of(" \t\f", lineBegin);
    return first != std::string_view::npos && text_[first] == '#' && indents_.size() > 1 &&
           first - lineBegin >= indents_[1].tabsAsOne;
  }

  void skipComment() {
    if (peek() == '#') {
      while (at_ < text_.size() && lineEnd(at_) == 0) {
        ++at_;
      }
    }
  }

  void token() {
    const char c = peek();
    if (c == ' ' || c == '\t' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      skipComment();
    } else if (const size_t length = lineEnd(at_); length != 0) {
      if (brackets_.empty()) {
        push(TokenKind::Newline, at_, at_);
        atLineStart_ = true;
      }
      newLine(length);
    } else if (c == '\\') {
      const size_t end = lineEnd(at_ + 1);
      if (end == 0) {
        failHere("unexpected character after a line continuation");
      }
      newLine(end + 1);
    } else if (isNameStart(c)) {
      nameOrString();
    } else if (isDigit(c) || (c == '.' && isDigit(peek(1)))) {
      number();
    } else if (isQuote(c)) {
      string(at_, false);
    } else {
      operatorToken();
    }
  }

  void nameOrString() {
    const size_t begin = at_;
    while (at_ < text_.size() && isNamePart(text_[at_])) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (isQuote(peek()) && word.size() <= 2) {
      std::string prefix(word);
      std::transform(prefix.begin(), prefix.end(), prefix.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      });
      std::sort(prefix.begin(), prefix.end());
      for (const char *known : {"b", "f", "r", "u", "t", "br", "fr", "rt"}) {
        if (prefix == known) {
          string(begin, prefix.find_first_of("ft") != std::string::npos);
          return;
        }
      }
    }
    const bool keyword = std::ranges::binary_search(kKeywords, word);
    push(keyword ? TokenKind::Keyword : TokenKind::Name, begin, at_);
  }

  template <class Accept> void digits(Accept accept) {
    while (at_ < text_.size() && (accept(text_[at_]) || (text_[at_] == '_' && accept(peek(1))))) {
      ++at_;
    }
  }

  void number() {
    const size_t begin = at_;
    const char base = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (base == 'x' || base == 'o' || base == 'b')) {
      at_ += 2;
      digits([base](char c) {
        const char low = static_cast<char>(c | 0x20);
        return base == 'x'   ? isDigit(c) || (low >= 'a' && low <= 'f')
               : base == 'o' ? c >= '0' && c <= '7'
                             : c == '0' || c == '1';
      });
      if (at_ == begin + 2) {
        failHere("a number needs digits behind its base");
      }
    } else {
      digits(isDigit);
      if (peek() == '.') {
        ++at_;
        digits(isDigit);
      }
      const bool sign = peek(1) == '+' || peek(1) == '-';
      if ((peek() | 0x20) == 'e' && isDigit(peek(sign ? 2 : 1))) {
        at_ += sign ? 2 : 1;
        digits(isDigit);
      }
      if ((peek() | 0x20) == 'j') {
        ++at_;
      }
    }
    if (isDigit(peek()) || peek() == '_') {
      failHere("malformed number");
    }
    push(TokenKind::Number, begin, at_);
  }

  // At the opening quote; `begin` is where the prefix starts. The token is placed at its start.
  void string(size_t begin, bool formatted) {
    const uint32_t startLine = line_;
    const uint32_t startColumn = columnOf(begin);
    skipString(formatted, 0, startLine, startColumn);
    tokens_.push_back(
        {TokenKind::String, startLine, startColumn, text_.substr(begin, at_ - begin)});
  }

  // From the opening quote to behind the closing one.
  void skipString(bool formatted, int nesting, uint32_t startLine, uint32_t startColumn) {
    constexpr int kDeepestFormat = 20;
    if (nesting > kDeepestFormat) {
      failHere("f-strings nested too deeply");
    }
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        return;
      }
      const size_t end = lineEnd(at_ + (c == '\\' ? 1 : 0));
      if (c == '\\') {
        if (end != 0) {
          newLine(end + 1);
        } else {
          at_ = std::min(at_ + 2, text_.size());
        }
      } else if (end != 0) {
        if (!triple) {
          break;
        }
        newLine(end);
      } else if (formatted && c == '{') {
        if (peek(1) == '{') {
          at_ += 2;
        } else {
          replacement(nesting, quote, triple);
        }
      } else {
        ++at_;
      }
    }
    fail("string is not closed", startLine, startColumn, 1);
  }

  // `{expression!r:spec}` inside an f-string, from the brace to behind its end.
  void replacement(int nesting, char quote, bool triple) {
    const uint32_t startLine = line_;
    const uint32_t startColumn = columnOf(at_);
    ++at_;
    int depth = 0;
    bool spec = false;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == '}' && depth == 0) {
        ++at_;
        return;
      }
      if (spec && c == '{') {
        if (nesting > 4) {
          break;
        }
        replacement(nesting + 1, quote, triple);
      } else if (!spec && isQuote(c)) {
        skipString(at_ > 0 && (text_[at_ - 1] | 0x20) == 'f', nesting + 1, line_, columnOf(at_));
      } else if (spec && c == quote && !triple) {
        break;
      } else if (const size_t end = lineEnd(at_); end != 0) {
        newLine(end);
      } else {
        if (!spec) {
          depth += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
          spec = c == ':' && depth == 0;
        }
        ++at_;
      }
    }
    fail("`{` of an f-string is not closed", startLine, startColumn, 1);
  }

  void operatorToken() {
    for (const std::string_view op : kOperators) {
      if (op[0] == text_[at_] && text_.substr(at_, op.size()) == op) {
        if (op.size() == 1) {
          bracket(op[0]);
        }
        push(TokenKind::Operator, at_, at_ + op.size());
        at_ += op.size();
        return;
      }
    }
    const unsigned char c = static_cast<unsigned char>(peek());
    if (c < 0x20 || c == 0x7F) {
      failHere("control character in the source text");
    }
    failHere("unexpected character `" + std::string(1, peek()) + "`");
  }

  void bracket(char c) {
    if (c == '(' || c == '[' || c == '{') {
      if (brackets_.size() >= kDeepestBrackets) {
        failHere("more than 200 nested brackets");
      }
      brackets_.push_back({c, line_, columnOf(at_)});
    } else if (c == ')' || c == ']' || c == '}') {
      const char open = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (brackets_.empty()) {
        failHere(std::string("`") + c + "` without `" + open + "`");
      }
      if (brackets_.back().open != open) {
        failHere(std::string("`") + c + "` does not match `" + brackets_.back().open + "`");
      }
      brackets_.pop_back();
    }
  }

  void finish() {
    if (!brackets_.empty()) {
      const Bracket &open = brackets_.back();
      fail(std::string("`") + open.open + "` is not closed", open.line, open.column, 1);
    }
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::Newline) {
      push(TokenKind::Newline, at_, at_);
    }
    for (size_t i = 1; i < indents_.size(); ++i) {
      push(TokenKind::Dedent, at_, at_);
    }
    push(TokenKind::End, at_, at_);
  }

  std::shared_ptr<const ir::SourceFile> file_;
  std::string_view text_;
  size_t at_ = 0;
  size_t lineStart_ = 0;
  uint32_t line_ = 1;
  bool atLineStart_ = true;
  std::vector<Indent> indents_;
  std::vector<Bracket> brackets_;
  std::vector<Token> tokens_;
};

} // namespace

std::vector<Token> lex(const std::shared_ptr<const ir::SourceFile> &file) {
  return Lexer(file).run();
}

size_t countBlockLines(std::string_view text) {
  try {
    return Lexer(text).blockLines();
  } catch (const ir::UserError &) {
    return static_cast<size_t>(std::ranges::count(text, '\n')) + 1;
  }
}

std::vector<Token> lexReplacement(const std::shared_ptr<const ir::SourceFile> &file, Token &string,
                                  size_t begin) {
  return Lexer(file).replacement(string, begin);
}

} // namespace libtile::frontend
