// SPDX-License-Identifier: Apache-2.0
// What instructions read and write, decoded once: registers, constants, and what is done with a number on its way.
#pragma once

#include "tests/amd/instruction.h"
#include "tests/amd/numbers.h"
#include "tests/amd/wave.h"

#include <optional>
#include <string_view>

namespace emulator {

struct Register {
  bool isVector;
  unsigned index;
  unsigned count;    // of 32 bits
  bool isHigh;       // ".h"
  bool hasHalf;      // ".l" or ".h"
};
// Nothing: it is no register.
[[nodiscard]] std::optional<Register> parseRegister(std::string_view text);
// Throws Fault if it is none.
[[nodiscard]] Register registerOf(std::string_view text);
// The bits of a constant, as a number of a type reads it.
[[nodiscard]] uint64_t constantBits(std::string_view text, Type type);

// The part of a source or destination of 32 bits that is meant (SDWA); `bits` 32: all of it.
struct Part {
  unsigned shift = 0, bits = 32;
};
[[nodiscard]] Part parsePart(std::string_view name); // "BYTE_1", "WORD_0", "DWORD"

// A source of a vector instruction: one number a lane.
class Source {
public:
  // `isHigh`: the upper half of a register is the number of 16 bits.
  Source(std::string_view text, Type type, bool isHigh = false, Part part = {});
  void read(const Wave &wave, Lanes &out) const;
  [[nodiscard]] bool isVector() const { return register_ && register_->isVector; }
  // Modifiers that stand elsewhere in the text (neg_lo).
  void negate() { isNegative_ = !isNegative_; }

private:
  void readVector(const Wave &wave, Lanes &out) const;
  [[nodiscard]] uint64_t readScalar(const Wave &wave) const;
  void modify(const Wave &wave, Lanes &out) const;

  Type type_;
  bool isHigh_;
  Part part_;
  bool isNegative_ = false, isAbsolute_ = false, isExtended_ = false, isScc_ = false;
  std::optional<Register> register_;
  uint64_t constant_ = 0;
};

// A vector register that lanes write.
class Destination {
public:
  // `clearsRest`: 16 bits written to a register's lower half clear the upper one (CDNA).
  Destination(std::string_view text, Type type, bool isHigh = false, bool clearsRest = false);
  void write(Wave &wave, const Lanes &values, Mask mask) const;

private:
  unsigned index_;
  Type type_;
  bool isHigh_, clearsRest_;
};

// A source of a scalar instruction, 32 or 64 bits of it.
class ScalarSource {
public:
  ScalarSource(std::string_view text, unsigned bits);
  [[nodiscard]] uint64_t read(const Wave &wave) const {
    return index_ < 0 ? (isScc_ ? uint64_t{wave.scc} : constant_)
                      : bits_ == 64 ? wave.scalarPair(static_cast<unsigned>(index_)) : wave.scalar(static_cast<unsigned>(index_));
  }

private:
  int index_ = -1;
  unsigned bits_;
  bool isScc_ = false;
  uint64_t constant_ = 0;
};

// A scalar register, or two.
class ScalarDestination {
public:
  ScalarDestination(std::string_view text, unsigned bits) : index_(registerOf(text).index), bits_(bits) {}
  void write(Wave &wave, uint64_t value) const {
    bits_ == 64 ? wave.setScalarPair(index_, value) : wave.setScalar(index_, static_cast<uint32_t>(value));
  }

private:
  unsigned index_, bits_;
};

// A mask of lanes in scalar registers, as many of them as the wave needs.
class MaskOperand {
public:
  explicit MaskOperand(std::string_view text) : index_(registerOf(text).index) {}
  [[nodiscard]] Mask read(const Wave &wave) const { return wave.mask(index_); }
  void write(Wave &wave, Mask mask) const { wave.setMask(index_, mask); }

private:
  unsigned index_;
};

} // namespace emulator
