// SPDX-License-Identifier: Apache-2.0
// What a launch moves and computes, counted while it is interpreted (libtile.profile).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace libtile::runtime::interpreter {

// Of the programs that ran.
struct Work {
  struct Bytes {
    uint64_t loaded = 0, stored = 0; // by elements that are not masked off; an atomic does both
    uint64_t extent = 0;             // of the array; 0: unknown
  };
  std::vector<Bytes> arrays; // through pointers of no parameter, then one a parameter
  // By type: 1 for each element of a floating-point operation, 2 of an fma; 2 for each product of a dot, by the
  // type of its operands.
  std::map<std::string, uint64_t> operations;
  uint64_t programs = 0;
};

// From here on launches of this thread that are interpreted are counted, and not looked at for races and what only
// libtile defines. At most so many of their programs run, evenly spread over the grid, but of kernels with atomics all.
void beginCounting(uint64_t mostPrograms);
[[nodiscard]] bool isCounting();
// What was counted since.
[[nodiscard]] Work endCounting();

} // namespace libtile::runtime::interpreter
