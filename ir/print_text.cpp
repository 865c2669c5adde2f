// SPDX-License-Identifier: Apache-2.0
#include "ir/print_text.h"

#include <charconv>

namespace libtile::ir {

namespace {

std::optional<PrintFormat> readFormat(std::string_view word) {
  if (word == "d" || word == "u" || word == "f") {
    return PrintFormat{word[0]};
  }
  if (!word.starts_with('x')) {
    return std::nullopt;
  }
  PrintFormat format{'x'};
  const char *last = word.data() + word.size();
  const auto [end, error] = std::from_chars(word.data() + 1, last, format.digits);
  const bool isNumber = error == std::errc() && end == last;
  return isNumber && format.digits >= 1 && format.digits <= 16 ? std::optional(format) : std::nullopt;
}

} // namespace

std::optional<std::vector<PrintFormat>> readPrintFormats(std::string_view text) {
  std::vector<PrintFormat> formats;
  while (!text.empty()) {
    const size_t length = text.find(' ');
    const auto format = readFormat(text.substr(0, length));
    if (!format) {
      return std::nullopt;
    }
    formats.push_back(*format);
    text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  }
  return formats;
}

bool writes(const PrintFormat &format, const Type &element) {
  const bool isWhole = element.isInteger() && element.elementBits() >= 32;
  const bool isReal = element.isFloating() && element.elementBits() >= 32;
  return element.isScalar() && !element.isPointer() && (format.letter == 'f' ? isReal : isWhole);
}

std::string valueFormat(const PrintFormat &format, const Type &element) {
  if (format.letter == 'f') {
    return "%f";
  }
  const std::string digits = format.letter == 'x' ? "0" + std::to_string(format.digits) : "";
  return (format.letter == 'x' ? "0x%" : "%") + digits + (element.elementBits() > 32 ? "ll" : "") +
         format.letter;
}

std::string indexFormat(int32_t extent) {
  return "%" + std::to_string(std::to_string(extent - 1).size()) + "d";
}

std::string textBeforeValue(std::string_view text, unsigned operand, unsigned numOperands) {
  return std::string(text) +
         (numOperands > 1 ? "(operand " + std::to_string(operand) + ") " : std::string());
}

std::string escapePercents(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    escaped += c == '%' ? "%%" : std::string(1, c);
  }
  return escaped;
}

} // namespace libtile::ir
