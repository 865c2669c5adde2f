// SPDX-License-Identifier: Apache-2.0
// An instruction, as LLVM's disassembler writes it: its syntax ("Syntax of AMDGPU Instruction Operands" and "Modifiers" in LLVM's
// documentation) is the same for all targets, where encodings differ, and stays as it is.
#pragma once

#include "tests/amd/code_object.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace emulator {

struct Instruction {
  std::string name;                  // without the suffix of an encoding: "v_add_f32"
  std::vector<std::string> operands; // "v[0:1]", "-|s2|", "0x7f", "off"
  std::string modifiers;             // "offset:16 offen", "" where there are none
  std::string text;                  // all of it, for messages
  uint64_t address = 0;              // in the image
  uint32_t bytes = 0;
  // The other half of what does two things at a time (VOPD).
  std::optional<size_t> second;      // where its text begins in `text`
  bool hasSdwa = false, hasDpp = false;

  // Whether there is such a word among the modifiers: "offen".
  [[nodiscard]] bool has(std::string_view word) const;
  // The number behind "word:"; nothing: it is not there.
  [[nodiscard]] std::optional<int64_t> number(std::string_view word) const;
  // What follows "word:", without spaces: "[0,1]", "BYTE_0".
  [[nodiscard]] std::string_view value(std::string_view word) const;
  // The numbers of "word:[0,1]", `count` of them, all `otherwise` if it is not there.
  [[nodiscard]] std::vector<int> list(std::string_view word, size_t count, int otherwise) const;
};

// One instruction's text in its parts.
[[nodiscard]] Instruction parseInstruction(std::string text);
// All instructions of a code object, in order of their addresses; words that are none, too: padding, or newer than LLVM.
[[nodiscard]] std::vector<Instruction> disassemble(const CodeObject &object, bool isWave32);

} // namespace emulator
