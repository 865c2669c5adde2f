// SPDX-License-Identifier: Apache-2.0
// Arrays as a GPU copies boxes of them by itself (ops copy_box, store_box): one descriptor an array, which the launcher
// makes from the arguments (NVIDIA: a CUtensorMap) and gives the kernel behind its other parameters.
#pragma once

#include "ir/type.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace libtile::ir {

// What the launcher computes: factor times the value of an integer parameter, or the factor itself.
struct LaunchNumber {
  int64_t factor = 0;
  int32_t param = -1; // by index; -1: none
  friend bool operator==(const LaunchNumber &, const LaunchNumber &) = default;
};

struct TensorMap {
  static constexpr size_t kBytes = 128, kAlign = 64; // of the descriptor
  static constexpr size_t kMostDims = 5;
  static constexpr size_t kMost = 16; // that a kernel has
  static constexpr int32_t kWidestBox = 256; // elements along one dimension

  struct Dim {
    LaunchNumber extent; // elements, at least 1; what lies outside is 0 in a box
    LaunchNumber stride; // bytes, a multiple of 16; of the last dimension an element
    int32_t box = 1;     // elements that an instruction copies
    friend bool operator==(const Dim &, const Dim &) = default;
  };
  uint32_t param = 0; // a pointer: the array's first element, at a multiple of 16 bytes
  Elem elem = Elem::Void;
  std::vector<Dim> dims; // slowest first

  // Of a row of the box: 32, 64 or 128. Its units of 16 bytes are swizzled in shared memory, as
  // passes/gpu/matrix_buffers.h says. A box of one row has any multiple of 16, and lies as it is.
  [[nodiscard]] int64_t rowBytes() const { return int64_t{dims.back().box} * byteSize(elem); }
  [[nodiscard]] bool isRow() const {
    return std::all_of(dims.begin(), dims.end() - 1, [](const Dim &dim) { return dim.box == 1; });
  }
  friend bool operator==(const TensorMap &, const TensorMap &) = default;
};

} // namespace libtile::ir
