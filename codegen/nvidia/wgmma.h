// SPDX-License-Identifier: Apache-2.0
// A dot by wgmma, as data: the instructions of four warps over their rows of the accumulator, all columns and
// all of k, and the descriptors that say where the operands lie in shared memory.
#pragma once

#include "ir/function.h"
#include "ir/target.h"

#include <string>
#include <vector>

namespace libtile::codegen::nvidia {

struct WgmmaCode {
  // One after the other, which nobody waits for; $0, $1, ... are accumulators, then come these again as
  // they were (not if the dot starts from zero), the words of a if registers hold it, and the descriptors of what lies in
  // shared memory. Into a place the words of a come first.
  std::string text;
  std::vector<int32_t> registers; // the accumulator's, in the order of $0, $1, ...; of a place none
  std::vector<int32_t> fragments; // a's registers, in the order of the words, as many neighbours each as have room
  int64_t descriptors[2] = {};    // of a and of b but for the address: bits 0..13 are it, in units of 16 bytes
  std::vector<int32_t> warps[2];  // bytes by which the bits of the warp's number move a's address, and b's
};

// The dot adds to zeros, which need not be written: a constant, or a place that holds one.
[[nodiscard]] bool startsFromZero(const ir::Function &fn, ir::OpId dot);

// `place`: what the registers of the place are called but for their number; empty: the accumulator is a tile.
// Requires: operands where the unit takes them. UserError: no descriptor tells where they lie.
[[nodiscard]] WgmmaCode wgmmaCode(const ir::Function &fn, ir::OpId dot, const ir::DotUnit &unit,
                                  const std::string &place);

} // namespace libtile::codegen::nvidia
