// SPDX-License-Identifier: Apache-2.0
// PTX as a list of instructions: what an assembly op's text says, before anybody knows what it means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::passes {

struct PtxOperand {
  // "$0", "r1", "0x1F", "0f3F800000"; of a vector operand {a, b} each.
  std::vector<std::string> names;
  bool isVector = false;
};

struct PtxInstruction {
  std::string text;               // as the user wrote it
  std::vector<std::string> parts; // of the mnemonic: {"shf", "l", "wrap", "b32"}
  std::vector<PtxOperand> operands;
  std::string predicate; // the register behind @; empty: always
  bool negated = false;  // @!p
};

// Declarations of registers and braces around a scope say nothing and are left out. nullopt: something
// else than instructions; `wrong` says what.
[[nodiscard]] std::optional<std::vector<PtxInstruction>> readPtx(std::string_view text,
                                                                 std::string &wrong);

} // namespace libtile::passes
