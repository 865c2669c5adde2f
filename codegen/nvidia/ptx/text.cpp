// SPDX-License-Identifier: Apache-2.0
#include "codegen/nvidia/ptx/text.h"

#include <array>
#include <charconv>

namespace libtile::codegen::nvidia::ptx {

namespace {

struct RegisterFile {
  const char *name, *type;
};
constexpr std::array<RegisterFile, 4> kFiles = {{{"%p", ".pred"}, {"%rs", ".b16"}, {"%r", ".b32"}, {"%rd", ".b64"}}};

void appendHex(std::string &to, uint64_t bits, unsigned digits) {
  constexpr const char *kDigits = "0123456789ABCDEF";
  for (unsigned i = digits; i-- > 0;) {
    to += kDigits[(bits >> (4 * i)) & 15];
  }
}

template <class Number> void appendNumber(std::string &to, Number number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.begin(), digits.end(), number).ptr;
  to.append(digits.data(), static_cast<size_t>(end - digits.data()));
}

} // namespace

void Text::append(std::string &to, const Operand &operand) {
  switch (operand.kind) {
  case Operand::Kind::None:
    return;
  case Operand::Kind::Register:
    to += kFiles[static_cast<size_t>(operand.size)].name;
    return appendNumber(to, operand.bits);
  case Operand::Kind::Integer:
    return appendNumber(to, static_cast<int64_t>(operand.bits));
  case Operand::Kind::Float:
    to += "0f";
    return appendHex(to, operand.bits, 8);
  case Operand::Kind::Double:
    to += "0d";
    return appendHex(to, operand.bits, 16);
  }
}

std::string Text::declarations() const {
  std::string out;
  for (size_t size = 0; size < kFiles.size(); ++size) {
    if (counts_[size] > 0) {
      out += std::string("\t.reg ") + kFiles[size].type + " " + kFiles[size].name + "<" + std::to_string(counts_[size] + 1) + ">;\n";
    }
  }
  return out;
}

} // namespace libtile::codegen::nvidia::ptx
