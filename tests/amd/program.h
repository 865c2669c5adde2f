// SPDX-License-Identifier: Apache-2.0
// A kernel, ready to run, and its launch.
#pragma once

#include "tests/amd/memory.h"
#include "tests/amd/wave.h"

#include <memory>
#include <mutex>
#include <unordered_map>

namespace emulator {

struct Instruction;
struct Machine;

// A code object with its instructions as steps, each made when it is first met. One wave at a time may run.
class Program {
public:
  explicit Program(CodeObject object);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  struct Shape {
    uint32_t grid[3]; // workgroups
    uint32_t block[3];
    uint32_t sharedBytes = 0; // beside the kernel's own
    bool isCooperative = false; // all workgroups run at once
  };
  // Throws Fault, which names the instruction. `arguments`: the bytes of the kernel's own arguments, as it lays them out.
  // Returns how many instructions were executed.
  uint64_t run(const Kernel &kernel, const Shape &shape, const std::vector<uint8_t> &arguments, Memory &memory);
  [[nodiscard]] const CodeObject &object() const { return object_; }

private:
  struct Code;
  Code &codeFor(bool isWave32);

  CodeObject object_;
  std::unique_ptr<Code> code_[2]; // of waves of 32 and of 64 lanes
};

} // namespace emulator
