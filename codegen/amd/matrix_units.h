// SPDX-License-Identifier: Apache-2.0
// AMD's matrix instructions as data: MFMA of CDNA, WMMA of RDNA. Which lane has what is of the ISA documents of CDNA 2 to 4 and
// RDNA 3 and 4 (chapters "Matrix Arithmetic Instructions" and "Wave Matrix Multiply Accumulate"), and AMD's matrix instruction
// calculator.
#pragma once

#include "ir/target.h"

#include <vector>

namespace libtile::codegen::amd {

enum class MatrixSet : uint8_t { Cdna2, Cdna3, Cdna4, Rdna3, Rdna4 };

struct MatrixUnit {
  ir::DotUnit unit;
  const char *intrinsic; // LLVM's name of it, with the types that it is overloaded by
  // How the intrinsic takes a lane's elements of an operand: one of these, or a vector.
  enum Word : uint8_t { Half, Short, Bfloat, Int32, Int64, Float, Double } word;
  // What comes beside a, b and the sums: nothing, three zeros of MFMA, the signs of integers, or the numbers of formats and no scales.
  enum Extra : uint8_t { None, Modes, Signs, Formats } extra;
  int32_t formatA = 0, formatB = 0; // of the first operand that the instruction is given, and of the second
  bool turned = false; // it is given b for a and a for b, and its sums are transposed
};

// Those that a dot may take, best first.
[[nodiscard]] const std::vector<MatrixUnit> &matrixUnits(MatrixSet set);
// The one of that name, of any set.
[[nodiscard]] const MatrixUnit &matrixUnit(const std::string &name);

} // namespace libtile::codegen::amd
