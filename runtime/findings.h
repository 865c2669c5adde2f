// SPDX-License-Identifier: Apache-2.0
// What ends a launch because the kernel is wrong, as data, and in words: one form for all that look for faults,
// checked code on a CPU (`check`, assertions with `debug`) and the interpreter.
//
//   x[1000] is out of bounds: x holds 0 .. 999; read by program (7, 0, 0), element (104)
//
// A message names the array by its parameter, the index in the array, the program, and the element of the tile
// where that is known. It stands at the place of the access.
#pragma once

#include "ir/diagnostic.h"
#include "ir/opcode.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libtile::runtime {

class Compiled;

// The bytes of an array: begin <= address < end. Both 0: not known. Without initial values: the launch has a
// table of them on its stack.
struct Extent {
  uintptr_t begin, end;
  // `bytes` from the address on; 0: not known.
  [[nodiscard]] static Extent of(uint64_t address, uint64_t bytes) {
    return bytes != 0 ? Extent{address, address + bytes} : Extent{0, 0};
  }
};

struct Finding {
  enum class Kind : uint8_t {
    Assertion,     // of the kernel does not hold
    OutOfBounds,   // an access lies in none of its arrays
    Misaligned,    // its address is no multiple of the element's size
    Unwritten,     // it reads memory that nobody has written
    Overflow,      // its offset comes from an int32 sum or product that overflowed, at `cause`
    Undefined,     // a value that only libtile defines is used; `cause`: where it is made
    Race,          // another program touches the same bytes, at `cause`, in no order with this one
    Conflict,      // two elements of one store write the same bytes, and not the same there
    BrokenPromise, // what the kernel promises of a value is false
  } kind;
  ir::Location place;
  int32_t program[3] = {};
  std::vector<int32_t> element = {}; // of the access's tile; {}: a scalar, or not known
  std::string text = {};             // Assertion: what it says; Undefined, BrokenPromise: of what, in words

  // The access.
  std::vector<uint32_t> arrays = {}; // parameters, by index: it may lie in each of these; {}: there is no access
  uint64_t address = 0;
  uint32_t bytes = 0; // of an element
  ir::Effects effects = {};

  // What it goes together with.
  ir::Location cause = {};
  int32_t otherProgram[3] = {};
  ir::Effects otherEffects = {};
  std::vector<int32_t> otherElement = {};
};

// For a launch that looks for faults: the extents that it compares accesses with, and what ended it.
struct Findings {
  const Extent *extents = nullptr; // one a run-time parameter; null: none is known
  std::optional<Finding> found = {};
};

// An access out of its array's bounds.
class OutOfBounds : public ir::UserError {
public:
  using UserError::UserError;
};
// An assertion of a kernel that does not hold.
class AssertionFailed : public ir::UserError {
public:
  using UserError::UserError;
};
// Any other fault.
class KernelFault : public ir::UserError {
public:
  using UserError::UserError;
};

// The message alone. `slots`: the arguments, one a run-time parameter.
[[nodiscard]] std::string describeFinding(const Compiled &kernel, std::span<const uint64_t> slots,
                                          const Extent *extents, const Finding &finding);
// Throws what a launch with these slots found, if it found something.
void throwFindings(const Compiled &kernel, std::span<const uint64_t> slots, const Findings &findings);

} // namespace libtile::runtime
