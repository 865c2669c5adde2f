// SPDX-License-Identifier: Apache-2.0
// The texts of an assembly op: constraints in LLVM's form, "=r,=&f,r,0,~{memory}", and instructions
// that name registers as $0, $1, ...: those of the results first, then those of the inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

// Of elements of so many bits that go together: how many fill a register, and the bits that they take
// of it. Elements of 32 bits and more have registers of their own.
struct AssemblyWord {
  unsigned elements, bits;
};
[[nodiscard]] AssemblyWord assemblyWord(unsigned elementBits, unsigned pack);

// What is wrong with an assembly op whose results and inputs have elements of so many bits.
struct AssemblyFault {
  enum Part : uint8_t { None, Text, Constraints, Pack } part = None;
  std::string message;
};
[[nodiscard]] AssemblyFault findFault(std::string_view text, std::string_view constraints,
                                      int64_t pack, std::span<const unsigned> results,
                                      std::span<const unsigned> inputs);

} // namespace libtile::ir
