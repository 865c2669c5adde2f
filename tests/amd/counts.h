// SPDX-License-Identifier: Apache-2.0
// What a launch executed, where LIBTILE_EMULATED_COUNTS=1 asks for it: instructions of waves by their kinds, cycles of LDS, and the
// instructions with bank conflicts.
#pragma once

#include "tests/amd/instruction.h"

namespace emulator {

class Counts {
public:
  explicit Counts(size_t instructions) : executed_(instructions), conflicts_(instructions) {}
  // Whether it is asked for.
  [[nodiscard]] static bool areWanted();
  void execute(size_t instruction) {
    current_ = instruction;
    ++executed_[instruction];
  }
  // The instruction reads or writes LDS, in so many cycles, some of them for bank conflicts.
  void access(unsigned cycles, unsigned conflicts) {
    cycles_ += cycles;
    conflicts_[current_] += conflicts;
  }
  // A line, "LDS 24, matrix 16, scalar 40, vector 120; LDS takes 96 cycles, 32 of them for bank conflicts", and behind it one for each
  // instruction that has them, the worst first.
  [[nodiscard]] std::string text(const std::vector<Instruction> &instructions) const;

private:
  size_t current_ = 0;
  std::vector<uint64_t> executed_, conflicts_; // by number of the instruction
  uint64_t cycles_ = 0;
};

} // namespace emulator
