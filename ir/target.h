// SPDX-License-Identifier: Apache-2.0
// What passes may know of a target: plain data, filled by codegen/<target>/description.cpp. Passes ask
// these facts, never the target's name.
#pragma once

#include "ir/layout.h"
#include "ir/opcode.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace libtile::ir {

enum class Precision : uint8_t; // ops.def

// One of the three matrices of a dot, as a unit takes it.
struct DotPart {
  Elem elem;              // Void: any
  bool inShared = false;  // the whole operand lies in shared memory, else in registers:
  Layout::Bases regs, lanes; // of one instruction: where their bits move (row, column)
};

// What executes a dot on a GPU: instructions that compute acc (m x n) += a (m x k) * b (k x n) each,
// by one warp. A dot names its unit (attribute `unit`), which passes/gpu/plan_dots.h chooses.
struct DotUnit {
  std::string name;
  int32_t m, n, k;
  DotPart a, b, acc;
  // The lanes of a warp work together: what a lane has no use for is computed all the same. Else each
  // thread computes its elements alone, and a small tile takes a part of acc's lanes and registers.
  bool together = true;
  Precision precision{};          // if not ieee, operands are rounded: a dot must ask for that
  int32_t leastM = 1, leastN = 1; // below, other units are faster
};

// How the CPU's contraction takes its operands: a unit that multiplies and adds.
struct ContractRule {
  Elem operand;     // as the kernel's dot has it
  Elem packed;      // as the scratch copies hold it
  Elem accumulator;
  bool pairs;       // b is packed as <K/2 x N x 2>
  int32_t lanes;    // accumulator elements in a vector register
};

// A FUNCTION or CAST_FUNCTION of ops.def on operands of one type.
struct FunctionKey {
  Opcode opcode;
  Elem elem;                           // never f16 or bf16, which go through f32
  std::optional<Float8> format = {}; // where the op has that attribute
  friend auto operator<=>(const FunctionKey &, const FunctionKey &) = default;
};

struct Target {
  std::string name;     // "sm_90a", "avx512bf16", ...: for messages and cache keys
  std::string triple;   // LLVM's
  std::string cpu;      // LLVM's
  std::string features; // LLVM's
  int32_t llvmSince = 19;

  // Execution model: a GPU lays tiles out over threads (laid-out, staged); a CPU runs a program on
  // one core in nests.
  bool laysOut = false;

  // The functions that its emitter has instructions for; others become code of the function library
  // (passes/expand_functions.h).
  std::vector<FunctionKey> functions;

  // ---- GPU
  int32_t warpSize = 0;
  int32_t maxWarps = 0;           // per program
  int32_t sharedMemory = 0;       // bytes a program may have
  int32_t registersPerThread = 0; // 32-bit
  int32_t registers = 0;          // of a multiprocessor, shared by the programs that it holds
  int32_t maxVectorBytes = 16;    // widest access of one thread
  bool asyncCopy = false;         // cp.async and commit/wait groups
  bool atomicAddBf16 = false;     // an instruction; else by compare and swap
  std::vector<DotUnit> units;     // a dot takes the first that fits; the last fits every dot

  // ---- CPU
  int32_t vectorBytes = 0;     // of one vector register
  int32_t vectorRegisters = 0; // architectural
  bool maskedAccess = false;   // masked loads and stores of any element size
  int32_t l1Bytes = 0, l2Bytes = 0;
  std::vector<ContractRule> contract; // of several for the same types the first is taken
};

} // namespace libtile::ir
