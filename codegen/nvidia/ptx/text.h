// SPDX-License-Identifier: Apache-2.0
// PTX as text: registers by number, statements line by line (PTX ISA, "Syntax").
#pragma once

#include <llvm/ADT/StringRef.h>

#include <array>
#include <cstdint>
#include <string>

namespace libtile::codegen::nvidia::ptx {

// What a register holds. Bytes are held in 16 bits, of which the upper 8 are anything.
enum class Size : uint8_t { Predicate, B16, B32, B64 };

// What a statement names: a register, or a number in its place.
struct Operand {
  enum class Kind : uint8_t { None, Register, Integer, Float, Double };

  static Operand integer(Size size, int64_t value) { return {Kind::Integer, size, static_cast<uint64_t>(value)}; }
  [[nodiscard]] bool isRegister() const { return kind == Kind::Register; }
  explicit operator bool() const { return kind != Kind::None; }
  friend bool operator==(const Operand &, const Operand &) = default;

  Kind kind = Kind::None;
  Size size = Size::B32;
  uint64_t bits = 0; // the register's number, or the number's bits
};

// The statements of one function, and the registers that they name.
class Text {
public:
  [[nodiscard]] Operand fresh(Size size) { return {Operand::Kind::Register, size, ++counts_[static_cast<size_t>(size)]}; }
  // A statement: the parts one behind the other, and a semicolon.
  template <class... Parts> void line(const Parts &...parts) {
    text_ += '\t';
    (add(parts), ...);
    text_ += ";\n";
  }
  // A line as it is.
  template <class... Parts> void raw(const Parts &...parts) {
    (add(parts), ...);
    text_ += '\n';
  }
  [[nodiscard]] const std::string &str() const { return text_; }
  // The directives that declare the registers.
  [[nodiscard]] std::string declarations() const;

  static void append(std::string &to, const Operand &operand);

private:
  void add(llvm::StringRef part) { text_.append(part.data(), part.size()); }
  void add(char part) { text_ += part; }
  void add(const Operand &operand) { append(text_, operand); }
  void add(int64_t number) { text_ += std::to_string(number); }
  void add(unsigned number) { text_ += std::to_string(number); }

  std::string text_;
  std::array<uint64_t, 4> counts_ = {};
};

} // namespace libtile::codegen::nvidia::ptx
