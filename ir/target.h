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
  Layout::Bases warps = {};  // the same of warps that issue it together; empty: each has its rows behind those of the last
  bool alongK = false;       // in shared memory neighbours along k lie side by side: it is read in no other order
  std::optional<Float8> format = {}; // elem is I8, which holds the codes of these
};

// What the sums have in common that a lane has of one instruction.
enum class SumsOf : uint8_t { Either, Row, Column };

// What executes a dot on a GPU: instructions that compute acc (m x n) += a (m x k) * b (k x n) each,
// by as many warps as its m rows need, where one holds those of acc's registers and lanes: mostly by one. A dot
// names its unit (attribute `unit`), which passes/gpu/plan_dots.h chooses.
struct DotUnit {
  std::string name;
  int32_t m, n, k;
  DotPart a, b, acc;
  // The lanes of a warp work together: what a lane has no use for is computed all the same. Else each
  // thread computes its elements alone, and a small tile takes a part of acc's lanes and registers.
  bool together = true;
  Precision precision{};          // if not ieee, operands are rounded: a dot must ask for that
  bool imprecise = false;         // sums have fewer bits than acc: a dot must allow that
  int32_t leastM = 1, leastN = 1; // below, other units are faster
  SumsOf sumsOf{};                // that a lane has: not for a dot whose sums are wanted otherwise
  int32_t groups = 1;             // instructions along k, whose operands a lane has side by side
};

// The instruction of a CPU that multiplies and adds, with its width in bits. Each has an emitter
// (codegen/cpu/multiply_add.cpp).
enum class MultiplyAdd : uint8_t {
  Lanes, // number by number, vectors of any width: floats fused, integers in two steps
  Vdpbf16ps512,
  Vpmaddwd256, // the sum of a group; a second instruction adds it
  Vpmaddwd512,
  Vpdpwssd512,
  Vpdpbusd512, // a's bytes are unsigned
  Tdpbf16ps,   // of tiles, as is the next; both numbers of it are signed
  Tdpbssd,
  Sdot128,
  Bfdot128,
};

// What executes a dot on a CPU. Operands are packed in words of `group` elements that lie side by side
// along k; an instruction takes one word of a for all lanes and one of b for each:
//   acc[lane] += sum over g < group of (a[g] - bias) * b[lane][g], exact in acc's type but for its roundings.
// A contract names its unit (attribute `unit`), which passes/cpu/contract_blocks.h chooses.
//
// A unit of tiles (AMX) does that for `rows` rows of a and `words` words along k at once: of a it takes a
// tile of rows x words, of b one of words x lanes, and its sums are one of rows x lanes. Each is a register,
// of which it has eight of its own, and is filled from rows of memory at any distance from each other: what is
// packed lies as it does for other units. Blocks are multiples of `rows`, and k is of `words` words.
struct ContractUnit {
  std::string name;
  Elem operand;            // as the kernel's dot has it
  Elem packed;             // as the scratch copies of a and b hold it; group * packed is 32 bits, or group 1
  Elem accumulator;
  int32_t group = 1;
  int32_t lanes;           // accumulator elements in a vector register
  MultiplyAdd instruction = MultiplyAdd::Lanes;
  int32_t temporaries = 0; // vector registers that a multiply-add needs beside its operands and its sum
  int32_t bias = 0;        // is added to a's numbers, for an instruction that takes them unsigned; the contract takes
                           // bias * (column sums of b) off the sums. A power of two
  bool packsBias = false;  // where a is packed; else where its words are read, an instruction for each
  bool flushes = false;    // subnormal numbers are 0 to it: taken where there are none (f32 from bf16)
  int32_t leastM = 1;      // below, other units are faster
  int32_t rows = 1, words = 1; // of a and along k that an instruction takes
  int32_t registers = 0;   // for sums, rows of b and numbers of a; 0: the target's vector registers
  int32_t inFlight = 8;    // with fewer sums they wait for each other: latency times instructions in a cycle
  std::string withheld;    // why this machine may not use it though it has it; empty: it may
  [[nodiscard]] bool ofTiles() const { return rows > 1; }
  // What the packed numbers of a are larger by.
  [[nodiscard]] int32_t packedBias() const { return packsBias ? bias : 0; }
  // What numbers of k are padded to.
  [[nodiscard]] int32_t stepK() const { return group * words; }
};

// A FUNCTION or CAST_FUNCTION of ops.def on operands of one type.
struct FunctionKey {
  Opcode opcode;
  Elem elem; // of the operands, or the result if they are no floats. Never f16, which goes through f32, and bf16
             // only of casts (passes/expand_functions.h)
  std::optional<Float8> format = {}; // where the op has that attribute
  // Of the library alone: a body for operands of which that is known, and of these one for targets that have scalb.
  bool nonpositive = false, scales = false;
  friend auto operator<=>(const FunctionKey &, const FunctionKey &) = default;
};

// How shared memory serves what a warp reads: a word of each bank at once, of words that lie `banks` words apart one. Lanes that read
// 16 bytes are served as many at once as the banks hold, in this order: the lane of number i is the exclusive or of the entries that i's
// bits choose. What is written, and what is read in smaller pieces, is served in the order of lanes; writes have 32 banks.
//
// Lanes may read for each other, so that each gets elements that lie far apart (passes/gpu/shared_layouts.h: AccessKind).
enum class MatrixReads : uint8_t {
  None,
  EightRows,    // eight lanes name the rows of a matrix of 8 x 8, as it lies or transposed (ldmatrix)
  SixteenLanes, // of 8 bytes each of sixteen lanes gets one element of 1 or 2 bytes for each that it has (ds_read_b64_tr)
};
struct SharedReads {
  int32_t banks = 32;
  std::array<int32_t, 6> order = {1, 2, 4, 8, 16, 32};
  MatrixReads matrices{};
  bool writesMatrices = false; // are they written so, too (stmatrix)
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

  std::string assembly = "asm"; // what its last stage is called
  bool runsPtx = false;         // the user's; on others it is expanded (passes/expand_assembly.h)

  // The functions that its emitter has instructions for; others become code of the function library
  // (passes/expand_functions.h).
  std::vector<FunctionKey> functions;

  // ---- GPU
  int32_t warpSize = 0;
  int32_t maxWarps = 0;           // per program
  int32_t sharedMemory = 0;       // bytes a program may have
  SharedReads sharedReads;
  int32_t registersPerThread = 0; // 32-bit
  int32_t registers = 0;          // of a multiprocessor, shared by the programs that it holds
  int32_t maxVectorBytes = 16;    // widest access of one thread
  bool asyncCopy = false;         // cp.async and commit/wait groups; without, copies ahead are loads to registers, but for
  int32_t rowCopy = 0;            // copies of so many bytes a lane that land side by side, in the order of a warp's lanes; 0: none
  bool boxCopy = false;           // cp.async.bulk.tensor and mbarriers
  bool gridDependencies = false;  // a launch may start before the one that it follows has ended, and wait for it (passes/gpu/overlap_launches.h)
  int32_t mostCluster = 0;        // programs that may run side by side and copy boxes for each other (passes/gpu/plan_cluster.h); 0: none
  int32_t leastBoxRow = 0;        // bytes: threads copy rows faster that are shorter, on average (passes/gpu/narrow_boxes.h)
  int32_t registerTeam = 0;       // warps that take registers from others together (setmaxnreg); 0: none can
  bool atomicAddBf16 = false;     // an instruction; else by compare and swap
  std::vector<DotUnit> units;     // a dot takes the first that fits; the last fits every dot

  // ---- CPU
  int32_t vectorBytes = 0;     // of one vector register
  int32_t vectorRegisters = 0; // architectural
  bool maskedAccess = false;   // masked loads and stores of any element size
  bool roundsToBf16 = false;   // vectors of f32 in one instruction, which flushes subnormal numbers
  int32_t widestAtomic = 8;    // bytes of the widest compare and swap
  int32_t l1Bytes = 0, l2Bytes = 0;
  int32_t askAhead = 0;        // bytes that runs through memory are asked for ahead; 0: the CPU does so itself
  std::vector<ContractUnit> contractUnits; // a dot takes the first that fits and is not withheld; with none it is plain folds
};

} // namespace libtile::ir
