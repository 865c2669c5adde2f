// SPDX-License-Identifier: Apache-2.0
// Values of literals: strings with their prefixes and escapes, numbers.
#include "frontend/syntax/lexer.h"
#include "frontend/syntax/parser.h"

#include <algorithm>
#include <charconv>

namespace libtile::frontend {

namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isQuote(char c) { return c == '"' || c == '\''; }

void appendUtf8(std::string &out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | ((code >> 18) & 0x07));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

int hexDigit(char c) {
  if (isDigit(c)) {
    return c - '0';
  }
  const char low = static_cast<char>(c | 0x20);
  return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

// Reads `most` hexadecimal digits at body[i]; false, and nothing read, if there are fewer.
bool hexEscape(std::string_view body, size_t &i, size_t most, std::string &out) {
  uint32_t code = 0;
  if (i + most > body.size()) {
    return false;
  }
  for (size_t k = 0; k < most; ++k) {
    const int digit = hexDigit(body[i + k]);
    if (digit < 0) {
      return false;
    }
    code = code * 16 + static_cast<uint32_t>(digit);
  }
  i += most;
  appendUtf8(out, code);
  return true;
}

void octalEscape(std::string_view body, size_t &i, std::string &out) {
  uint32_t code = 0;
  for (int k = 0; k < 3 && i < body.size() && body[i] >= '0' && body[i] <= '7'; ++k, ++i) {
    code = code * 8 + static_cast<uint32_t>(body[i] - '0');
  }
  appendUtf8(out, code);
}

// Digits of the base as an integer; nullopt beyond 127 bits.
std::optional<BigInt> integer(std::string_view digits, unsigned base) {
  unsigned __int128 value = 0;
  constexpr unsigned __int128 kMost = (static_cast<unsigned __int128>(1) << 127) - 1;
  for (const char c : digits) {
    const auto digit = static_cast<unsigned>(hexDigit(c));
    if (value > (kMost - digit) / base) {
      return std::nullopt;
    }
    value = value * base + digit;
  }
  return static_cast<BigInt>(value);
}

} // namespace

std::variant<Constant, std::string> numberLiteral(std::string_view token) {
  std::string text(token);
  std::erase(text, '_');
  const char last = text.back();
  const char base = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const bool prefixed = base == 'x' || base == 'o' || base == 'b';
  if (!prefixed && (last == 'j' || last == 'J')) {
    return std::string("a complex number");
  }
  const bool isFloat = !prefixed && text.find_first_of(".eE") != std::string::npos;
  if (isFloat) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      // Python rounds to infinity or zero.
      value = std::strtod(text.c_str(), nullptr);
    }
    return Constant(value);
  }
  const std::string_view digits = std::string_view(text).substr(prefixed ? 2 : 0);
  const auto value = integer(digits, base == 'x' ? 16 : base == 'o' ? 8 : base == 'b' ? 2 : 10);
  if (!value) {
    return std::string("an integer of more than 127 bits");
  }
  return Constant(*value);
}

StringParts splitString(std::string_view token) {
  StringParts parts;
  size_t i = 0;
  while (i < token.size() && !isQuote(token[i])) {
    parts.prefix += static_cast<char>(token[i++] | 0x20);
  }
  std::sort(parts.prefix.begin(), parts.prefix.end());
  const size_t quotes =
      token.size() >= i + 6 && token[i + 1] == token[i] && token[i + 2] == token[i] ? 3 : 1;
  parts.body = token.substr(i + quotes, token.size() - i - 2 * quotes);
  return parts;
}

std::string decodeEscapes(std::string_view body) {
  constexpr std::string_view kFrom = "\\'\"abfnrtv";
  constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
  std::string out;
  for (size_t i = 0; i < body.size();) {
    const char c = body[i++];
    if (c != '\\' || i == body.size()) {
      out += c;
      continue;
    }
    const char e = body[i];
    const size_t known = kFrom.find(e);
    if (known != std::string_view::npos) {
      out += kTo[known];
      ++i;
    } else if (e == '\n') {
      ++i;
    } else if (e == '\r') {
      i += i + 1 < body.size() && body[i + 1] == '\n' ? 2 : 1;
    } else if (e >= '0' && e <= '7') {
      octalEscape(body, i, out);
    } else {
      const size_t most = e == 'x' ? 2 : e == 'u' ? 4 : e == 'U' ? 8 : 0;
      ++i;
      if (most == 0 || !hexEscape(body, i, most, out)) {
        out += '\\';
        out += e;
      }
    }
  }
  return out;
}

} // namespace libtile::frontend
