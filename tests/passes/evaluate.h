// SPDX-License-Identifier: Apache-2.0
// A scalar interpreter of the tile stage, for tests: slow, plain, and written from ops.def alone,
// so that a pass can be checked by running the function before and after it.
#pragma once

#include "ir/function.h"

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace libtile::test {

// Elements in row-major order. Integers are held as their canonical int64_t (i1: 0 or 1), pointers
// as addresses, floats as the double of the same value.
struct Element {
  int64_t i = 0;
  double f = 0;
};
using Elements = std::vector<Element>;

struct Machine {
  int32_t program[3] = {0, 0, 0};
  int32_t grid[3] = {1, 1, 1};
  std::vector<uint8_t> memory; // addresses are indices into it
  uint64_t budget = 200000;    // ops; running out throws
  // Called with each value as it is computed.
  std::function<void(ir::ValueId, const Elements &)> observe;
};

// Runs the function with one scalar a parameter. Throws std::runtime_error for an access outside of
// the memory, or when the budget is spent.
void evaluate(const ir::Function &fn, const std::vector<Element> &arguments, Machine &machine);

// One element of an elementwise op's result, from the same element of its operands.
[[nodiscard]] Element evaluateElement(const ir::Function &fn, ir::OpId op,
                                      const std::vector<Element> &operands);

} // namespace libtile::test
