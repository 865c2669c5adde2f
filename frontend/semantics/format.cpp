// SPDX-License-Identifier: Apache-2.0
// f"{value:specification}" of constants: Python's format specification mini-language,
//   [[fill]align][sign][#][0][width][grouping][.precision][type]
#include "frontend/semantics/operations.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

namespace libtile::frontend {

namespace {

struct Specification {
  std::string fill = " "; // one character, which may have several bytes
  char align = 0;         // < > ^ =
  char sign = '-';        // + - space
  bool alternate = false;
  size_t width = 0;
  char grouping = 0; // , _
  std::optional<size_t> precision;
  char type = 0;
};

constexpr size_t kWidest = 4096;

bool isAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// Bytes of the first character of the text, in UTF-8.
size_t firstCharacter(std::string_view text) {
  size_t length = 1;
  while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) {
    ++length;
  }
  return length;
}

// nullopt: the text is no specification.
std::optional<Specification> read(std::string_view text) {
  Specification spec;
  const auto take = [&text](std::string_view any) {
    char found = 0;
    if (!text.empty() && any.find(text[0]) != std::string_view::npos) {
      found = text[0];
      text.remove_prefix(1);
    }
    return found;
  };
  const auto number = [&] {
    size_t value = 0;
    while (const char digit = take("0123456789")) {
      value = std::min(value * 10 + static_cast<size_t>(digit - '0'), kWidest + 1);
    }
    return value;
  };
  const size_t first = text.empty() ? 0 : firstCharacter(text);
  if (first < text.size() && isAlign(text[first])) {
    spec.fill = text.substr(0, first);
    text.remove_prefix(first);
  }
  spec.align = take("<>^=");
  if (const char sign = take("+- ")) {
    spec.sign = sign;
  }
  spec.alternate = take("#") != 0;
  if (take("0") != 0 && spec.align == 0) {
    spec.fill = "0";
    spec.align = '=';
  }
  spec.width = number();
  spec.grouping = take(",_");
  if (take(".") != 0) {
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0) {
      return std::nullopt;
    }
    spec.precision = number();
  }
  spec.type = take("bcdeEfFgGnosxX%");
  const bool fits = spec.width <= kWidest && spec.precision.value_or(0) <= kWidest;
  return text.empty() && fits ? std::optional(spec) : std::nullopt;
}

std::string grouped(const std::string &digits, char separator, size_t every) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % every == 0) {
      out += separator;
    }
    out += digits[i];
  }
  return out;
}

// Sign and digits, with what fills the width between them or around them.
std::string padded(const Specification &spec, const std::string &head, const std::string &body,
                   char align) {
  const std::string plain = head + body;
  const auto size = static_cast<size_t>(std::ranges::count_if(
      plain, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
  const size_t missing = spec.width > size ? spec.width - size : 0;
  const auto fill = [&](size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      text += spec.fill;
    }
    return text;
  };
  switch (spec.align != 0 ? spec.align : align) {
  case '<':
    return plain + fill(missing);
  case '^':
    return fill(missing / 2) + plain + fill(missing - missing / 2);
  case '=':
    return head + fill(missing) + body;
  }
  return fill(missing) + plain;
}

std::string signOf(const Specification &spec, bool isNegative) {
  return isNegative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

std::string integerText(const Specification &spec, BigInt value) {
  const unsigned base = spec.type == 'b'                       ? 2
                        : spec.type == 'o'                     ? 8
                        : spec.type == 'x' || spec.type == 'X' ? 16
                                                               : 10;
  auto rest = static_cast<unsigned __int128>(value < 0 ? -value : value);
  std::string digits;
  do {
    digits.insert(digits.begin(), "0123456789abcdef"[static_cast<unsigned>(rest % base)]);
    rest /= base;
  } while (rest != 0);
  if (spec.grouping != 0) {
    digits = grouped(digits, spec.grouping, base == 10 ? 3 : 4);
  }
  std::string head = base == 10 || !spec.alternate ? "" : std::string("0") + spec.type;
  if (spec.type == 'X') {
    std::ranges::transform(digits, digits.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  }
  return padded(spec, signOf(spec, value < 0) + head, digits, '>');
}

std::string floatText(const Specification &spec, double value) {
  const bool isShortest = spec.type == 0 && !spec.precision;
  const char type = spec.type == '%' ? 'f' : spec.type == 0 || spec.type == 'n' ? 'g' : spec.type;
  const double magnitude = std::fabs(spec.type == '%' ? value * 100 : value);
  std::string digits;
  if (isShortest || !std::isfinite(value)) {
    digits = constantText(Constant(magnitude));
  } else {
    const std::string pattern =
        std::string("%") + (spec.alternate ? "#" : "") + ".*" + std::string(1, type);
    const auto precision = static_cast<int>(spec.precision.value_or(6));
    std::vector<char> buffer(kWidest + 400);
    const int length = std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), precision,
                                     magnitude);
    digits.assign(buffer.data(), static_cast<size_t>(length));
    const bool isWhole = digits.find_first_of(".e") == std::string::npos;
    digits += spec.type == 0 && isWhole ? ".0" : "";
  }
  if (spec.grouping != 0 && std::isfinite(value)) {
    const size_t whole = std::min(digits.find_first_of(".eE"), digits.size());
    digits = grouped(digits.substr(0, whole), spec.grouping, 3) + digits.substr(whole);
  }
  return padded(spec, signOf(spec, std::signbit(value) && !std::isnan(value)),
                digits + (spec.type == '%' ? "%" : ""), '>');
}

bool isOneOf(char type, std::string_view any) {
  return type == 0 || any.find(type) != std::string_view::npos;
}

} // namespace

std::string Semantics::format(const Value &value, const std::string &specification) const {
  if (specification.empty()) {
    return value.text();
  }
  const std::optional<Specification> spec = read(specification);
  const Constant *constant = value.constant();
  const std::string *text = constant != nullptr ? std::get_if<std::string>(constant) : nullptr;
  if (spec && text != nullptr && isOneOf(spec->type, "s") && spec->align != '=') {
    size_t end = 0;
    for (size_t i = 0; end < text->size() && i < spec->precision.value_or(text->size()); ++i) {
      end += firstCharacter(std::string_view(*text).substr(end));
    }
    return padded(*spec, "", text->substr(0, end), '<');
  }
  const std::optional<BigInt> integer =
      constant != nullptr ? constantBigInt(*constant) : std::nullopt;
  if (spec && integer && isOneOf(spec->type, "bdnoxX") && !spec->precision) {
    return integerText(*spec, *integer);
  }
  const bool isNumber = integer || (constant != nullptr && std::holds_alternative<double>(*constant));
  if (spec && isNumber && isOneOf(spec->type, "eEfFgGn%")) {
    return floatText(*spec, constantDouble(*this, *constant));
  }
  fail(value.describe() + " does not take the format '" + specification + "'");
}

} // namespace libtile::frontend
