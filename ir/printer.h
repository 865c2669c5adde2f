// SPDX-License-Identifier: Apache-2.0
// Text form of a function; parse (parser.h) reads it back to an equal function, and printing that
// gives the same bytes.
//
//   #0 = layout regs=[[1],[2]] lanes=[...] ...
//   func @add stage=tile warps=4 stages=3 arena=64 (%x: ptr<f32> {divisible=16, readonly}, %n: i32)
//     guard below %n 2147483648
//     fallback "add.py:3: ..." {
//     %0 = program_id {axis=0} : i32
//     %5 = load %4, %3 : tile<1024xf32>
//     %9 = for %lo, %hi, %step, %init {num_stages=3} : tile<64xf32> {
//     ^(%10: i32, %11: tile<64xf32>):
//       yield %11
//     }
//     return
//   }
//
// Parameters keep their names, other values and layouts are numbered in text order, or called as a
// Names has it. Result types are printed
// always, operand types never (they are known from the definitions). Floats always have a point, an
// exponent or, when not finite, the 16 hex digits of their bits as f64 (0x7ff0000000000000). With
// locations, the text opens with tables that ops refer to as loc(N):
//
//   file 0 "add.py" line 10 "def add(...):\n  ..."
//   loc 0 0 2:9-14              file 0, line 2, columns 9 to 13
//   loc 1 0 7:5-6 from 0        inlined by the call at location 0
#pragma once

#include "ir/names.h"

#include <functional>
#include <string>
#include <string_view>

namespace libtile::ir {

struct PrintOptions {
  // Print loc(N) behind each op, and the source texts and locations they refer to at the top.
  bool locations = false;
  // Print the line of source text that ops come from, as a comment above the first of them.
  bool source = false;
  // Names that several texts share (names.h); null: numbers of this text alone.
  Names *names = nullptr;
  // Comments to print below the op's line, with a line break between; empty: none.
  std::function<std::string(OpId)> note;
};

[[nodiscard]] std::string print(const Function &fn, const PrintOptions &options = {});
// A number as the text form has it.
[[nodiscard]] std::string formatFloat(double value);
// A string in quotes, with escapes for quotes, backslashes and control characters.
[[nodiscard]] std::string quote(std::string_view text);

} // namespace libtile::ir
