// SPDX-License-Identifier: Apache-2.0
// Text form of a function; parse (parser.h) reads it back to an equal function, and printing that
// gives the same bytes.
//
//   #0 = layout regs=[[1],[2]] lanes=[...] ...
//   func @add stage=tile warps=4 stages=3 (%x: ptr<f32> {divisible=16}, %n: i32) {
//     %0 = program_id {axis=0} : i32                      loc(2:9)
//     %5 = load %4, %3 : tile<1024xf32>
//     %9 = for %lo, %hi, %step, %init {num_stages=3} : tile<64xf32> {
//     ^(%iv: i32, %acc: tile<64xf32>):
//       yield %8
//     }
//     return
//   }
//
// Values are numbered in text order. Result types are printed always, operand types never (they are
// known from the definitions).
#pragma once

#include "ir/function.h"

#include <string>

namespace libtile::ir {

struct PrintOptions {
  // Print loc(line:column) behind each op, and the source texts they refer to by name at the top.
  bool locations = false;
};

[[nodiscard]] std::string print(const Function &fn, PrintOptions options = {});

} // namespace libtile::ir
