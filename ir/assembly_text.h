// SPDX-License-Identifier: Apache-2.0
// The texts of an assembly op: constraints in LLVM's form, "=r,=&f,r,0,~{memory}", and instructions
// that name registers as $0, $1, ...: those of the results first, then those of the inputs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::ir {

struct AssemblyConstraints {
  // One a register, without "=" and "&": "r", or "0" for an input in the register of a result.
  std::vector<std::string> results, inputs;
};
// nullopt: not of that form.
[[nodiscard]] std::optional<AssemblyConstraints> parseConstraints(std::string_view text);

// What is wrong with a `$` in the instructions, which have so many registers; empty: nothing.
[[nodiscard]] std::string wrongRegister(std::string_view text, size_t registers);

// Of elements of so many bits that go together: how many fill a register, and the bits that they take
// of it. Elements of 32 bits and more have registers of their own.
struct AssemblyWord {
  unsigned elements, bits;
};
[[nodiscard]] AssemblyWord assemblyWord(unsigned elementBits, unsigned pack);

} // namespace libtile::ir
