// SPDX-License-Identifier: Apache-2.0
#include "ir/text_reader.h"

#include "ir/source_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace libtile::ir {

namespace {

bool isWordChar(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         byte >= 0x80;
}

} // namespace

void TextReader::fail(const std::string &message, size_t at) const {
  throw UserError(message, locationAt(file_, at));
}

void TextReader::skipSpace() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == '\n') {
      lineStart_ = ++pos_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++pos_;
    } else if (text_.substr(pos_, 2) == "//") {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else {
      return;
    }
  }
}

bool TextReader::accept(std::string_view token) {
  skipSpace();
  if (text_.substr(pos_, token.size()) != token) {
    return false;
  }
  pos_ += token.size();
  return true;
}

void TextReader::expect(std::string_view token) {
  if (!accept(token)) {
    fail("expected '" + std::string(token) + "'");
  }
}

std::string_view TextReader::word() {
  skipSpace();
  const size_t start = pos_;
  while (pos_ < text_.size() && isWordChar(text_[pos_])) {
    ++pos_;
  }
  return text_.substr(start, pos_ - start);
}

bool TextReader::acceptWord(std::string_view wanted) {
  skipSpace();
  const size_t start = pos_;
  if (word() == wanted) {
    return true;
  }
  pos_ = start;
  return false;
}

std::string_view TextReader::expectWord(const char *what) {
  const std::string_view out = word();
  if (out.empty()) {
    fail(std::string("expected ") + what);
  }
  return out;
}

int64_t TextReader::integer(int64_t low, int64_t high) {
  skipSpace();
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(text_.data() + pos_, text_.data() + text_.size(), value);
  if (error == std::errc::invalid_argument) {
    fail("expected an integer");
  }
  if (error != std::errc() || value < low || value > high) {
    fail("integer out of range");
  }
  pos_ = end - text_.data();
  return value;
}

std::vector<int64_t> TextReader::integers() {
  std::vector<int64_t> out;
  expect("[");
  while (!accept("]")) {
    if (!out.empty()) {
      expect(",");
    }
    out.push_back(integer());
  }
  return out;
}

bool TextReader::acceptFloat(double &value) {
  skipSpace();
  if (accept("0x")) {
    uint64_t bits = 0;
    const std::string_view digits = text_.substr(pos_, 16);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), bits, 16);
    if (error != std::errc() || end != digits.data() + 16) {
      fail("expected 16 hexadecimal digits");
    }
    pos_ += 16;
    std::memcpy(&value, &bits, sizeof value);
    return true;
  }
  const size_t stop = std::min(text_.find_first_not_of("+-.0123456789eE", pos_), text_.size());
  const std::string_view literal = text_.substr(pos_, stop - pos_);
  if (literal.find_first_of(".eE") == std::string_view::npos) {
    return false;
  }
  const auto [end, error] = std::from_chars(literal.data(), literal.data() + literal.size(), value);
  if (error != std::errc() || end != literal.data() + literal.size()) {
    fail("expected a number that a double can hold");
  }
  pos_ = stop;
  return true;
}

std::string TextReader::string() {
  expect("\"");
  std::string out;
  while (peek() != '"') {
    if (pos_ >= text_.size()) {
      fail("string without an end");
    }
    const char c = text_[pos_++];
    if (c == '\n') {
      lineStart_ = pos_;
    }
    out += c != '\\' ? c : escape();
  }
  ++pos_;
  return out;
}

char TextReader::escape() {
  const char c = peek();
  ++pos_;
  switch (c) {
  case 'n':
    return '\n';
  case 't':
    return '\t';
  case '"':
  case '\\':
    return c;
  case 'x':
    break;
  default:
    fail("unknown escape", pos_ - 1);
  }
  unsigned value = 0;
  const std::string_view digits = text_.substr(std::min(pos_, text_.size()), 2);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) {
    fail("expected two hexadecimal digits");
  }
  pos_ += 2;
  return static_cast<char>(value);
}

} // namespace libtile::ir
