// SPDX-License-Identifier: Apache-2.0
// Runs the tile IR itself, element by element, in one thread, one program after the other in ascending order:
// slow, with every access looked at.
//
// The function is what the front end made, in the tile stage, with functions and inline assembly expanded
// (expand_assembly, expand_functions) and nothing else done to it: this is the earliest form in which each op
// is defined by ir/ops.def alone, and no pass has had a chance to move, merge or drop what the kernel says.
// Results are those of ops.def. Sums of dots are made in f64 and rounded once; other sums are made of
// neighbours, then of neighbours among those sums.
//
// What it looks for is listed by Finding::Kind. How:
//   bounds         a pointer keeps the parameter that it was made from, through all arithmetic: an access lies in
//                  the memory of that array, or is out of bounds, though another array may lie there. A pointer
//                  loaded from memory, or made from an integer that is no pointer's, is not compared.
//   overflow       an int32 `add`, `sub` or `mul` that wraps marks its element. The mark goes along through sums,
//                  products, sign extensions and what moves elements, and is dropped by all else (a hash wraps on
//                  purpose); a marked offset of an access is a finding.
//   undefined      with `portable`: what Triton leaves undefined and libtile defines marks its element too: x // 0,
//                  x % 0, shifts by the width or more, masked-off elements of a load without `other`. That mark
//                  goes along through everything that computes with the element; a store, an address, a mask or a
//                  branch that depends on it is a finding.
//   races          each byte remembers who read and wrote it last. Two programs that touch one byte, at least one
//                  of them by a plain store, race unless an atomic with release by the first and one with acquire
//                  by the second, on the same address, put them in order (vector clocks). Atomics and volatile
//                  accesses among themselves do not race.
//   uninitialised  memory of the interpreter's own device (allocations.h) that nobody has written.
#pragma once

#include "codegen/codegen.h"
#include "runtime/drivers/caller.h"
#include "runtime/findings.h"

#include <functional>
#include <optional>
#include <span>

namespace libtile::runtime::interpreter {

// Takes what a program prints: the elements of each operand, in row-major order.
using Printer = std::function<void(const codegen::Message &message, const int32_t program[3],
                                   const void *const *operands)>;

struct Launch {
  const ir::Function &fn;
  int32_t grid[3];                     // each >= 1
  std::span<const uint64_t> arguments; // one a parameter: its value in the low bytes
  const Extent *extents;               // one a parameter, or null: none is known
  bool portable = true;                // looks for what only libtile defines
  Printer print;
  Caller caller;
};

struct Outcome {
  std::optional<Finding> found; // ends the launch; what was written by then stays written
  bool isInterrupted = false;
};

// Throws Unsupported at an op that it does not run, std::bad_alloc without memory.
[[nodiscard]] Outcome run(const Launch &launch);

// Of this process: Launch::portable of launches on the device; LIBTILE_INTERPRETER_PORTABLE=0 says no.
[[nodiscard]] bool isPortabilityChecked();
void checkPortability(bool wanted);

} // namespace libtile::runtime::interpreter
