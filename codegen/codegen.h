// SPDX-License-Identifier: Apache-2.0
// From a Staged or Nested function to machine code, and the table of targets.
#pragma once

#include "ir/function.h"
#include "ir/print_text.h"
#include "ir/target.h"

#include <string>
#include <string_view>
#include <vector>

namespace libtile::codegen {

struct CodeOptions {
  // Keep the texts; each costs time, so they are made when somebody asks.
  bool keepLlvm = false;
  bool keepAssembly = false;
  // NVIDIA: a product may be fused with the sum that it goes into; on CPUs nothing is.
  bool contracts = true;
  bool flushes = true;      // GPUs: exp2 of f32 gives 0 in place of numbers below the least normal one
  int32_t maxRegisters = 0; // NVIDIA: that a thread may have; 0: the assembler's choice
  int32_t waves = 0;        // AMD: that a SIMD unit shall hold; 0: the backend's choice
  bool lines = false;       // NVIDIA: the code names lines of the kernel's source
  bool cooperative = false; // NVIDIA: all programs of a launch run at once
  bool overlaps = false;    // NVIDIA: a launch may start before the one that it follows has ended
  bool reuse = false;       // CPU: the object of equal LLVM IR that was made not long ago is as good (codegen/cpu/recent_objects.h)
};

// An access that the code compares with the extents of arrays (passes/cpu/mark_accesses.h).
struct CheckedAccess {
  ir::Location place;
  ir::Effects effects;          // it reads, writes, or both
  uint32_t bytes = 0;           // of an element
  std::vector<uint32_t> arrays; // parameters, by index: it lies in one of them
};

// A print or assert of the code: what is known of it before it runs.
struct Message {
  bool isAssert = false;
  ir::Location place;
  std::string text; // as the op has it
  struct Operand {
    std::vector<int32_t> shape; // {}: a scalar
    ir::Type element;
    ir::PrintFormat format;
  };
  std::vector<Operand> operands;
};

// AMD: what records of the code say (codegen/amd/records.h), as printf takes it.
struct DeviceLine {
  bool isAssert = false; // `format` is the whole message
  std::string format;
};

// What a kernel needs of its launcher, beside its arguments.
struct KernelInfo {
  std::string symbol;
  int32_t threads = 0;       // GPU: threads of a program
  int64_t sharedBytes = 0;   // GPU: dynamic shared memory of a program
  int64_t scratchBytes = 0;  // CPU: the program's arena, 64-byte aligned
  uint32_t frameVersion = 0; // CPU: of the frame that the code reads (codegen/cpu/frame.h)
  bool inOrder = false;      // CPU: programs start in ascending order, since one may wait for a lower one
  std::vector<CheckedAccess> accesses; // CPU: those that are checked
  std::vector<Message> messages;       // CPU: its prints and asserts, as records number them
  bool asserts = false;                // NVIDIA: an assertion may end it
  bool lines = false;                  // NVIDIA: its code names lines of the kernel's source
  bool cooperative = false;            // NVIDIA: a launch is refused unless all programs run at once
  bool overlaps = false;               // NVIDIA: a launch may start before the one that it follows has ended: its code waits for that
  int32_t cluster = 1;                 // NVIDIA: programs of a cluster, where the grid is a multiple of it
  std::vector<DeviceLine> records;     // AMD: what it may say, by number
  std::vector<ir::TensorMap> maps;     // NVIDIA: descriptors that it takes behind its arguments
  bool sharesBlocks = false;           // NVIDIA: blocks run programs in turn; it takes the grid's extents behind them, i32
};

struct Code {
  KernelInfo info;
  std::string llvm;     // with keepLlvm
  std::string assembly; // CPU: with keepAssembly; NVIDIA: the PTX, always
  std::vector<char> object; // CPU: a relocatable object; NVIDIA: empty (the driver takes the PTX)
  std::shared_ptr<const ir::Function> function; // the interpreter: what it runs; else null
};

// Targets by name: "interpreter", "x86-64-v3", "avx512", "avx512vnni", "avx512bf16", "amx", "aarch64", "aarch64-dotprod",
// "aarch64-bf16", "sm_80" ... "sm_120"; also "cpu": hostTarget(). Throws UserError for an unknown name, Unsupported where this
// LLVM lacks the target, and says which version has it.
[[nodiscard]] const ir::Target &findTarget(std::string_view name);
// The best CPU target that this machine runs, or the lesser one that the environment variable
// LIBTILE_CPU_TARGET names. Throws Unsupported if it runs neither.
[[nodiscard]] const ir::Target &hostTarget();
// Whether this machine's CPU runs the target's code.
[[nodiscard]] bool runsHere(const ir::Target &target);
[[nodiscard]] std::vector<std::string> targetNames(); // the interpreter's, which makes no code, is not among them

// "interpreter": its programs are not compiled but run as they are, after expand_assembly and expand_functions,
// by runtime/interpreter. It is a CPU to all who ask.
[[nodiscard]] const ir::Target &interpreterTarget();
[[nodiscard]] inline bool isInterpreted(const ir::Target &target) { return &target == &interpreterTarget(); }

// `fn` has passed the pipeline for `target`. Thread-safe. LLVM's fatal errors come as InternalError.
//
// The function made:
//   CPU     a libtile_entry (codegen/cpu/frame.h): it runs a range of programs of a launch, whose frame
//           has the arguments and the grid.
//   NVIDIA  a kernel with one parameter an argument (i1 as i8), one a tensor map, maybe the grid, dynamic shared memory.
//           Others launch it too, so there is no frame: docs/abi.md.
[[nodiscard]] Code generate(const ir::Function &fn, const ir::Target &target,
                            const CodeOptions &options = {});
// What `reuse` would find is made anew.
void forgetRecentCode();

} // namespace libtile::codegen
