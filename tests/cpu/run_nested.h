// SPDX-License-Identifier: Apache-2.0
// Runs text of the nested stage: parse, expand functions, generate, load, call. For tests of the CPU's code
// generation.
#pragma once

#include "codegen/codegen.h"
#include "codegen/cpu/jit.h"
#include "ir/parser.h"
#include "passes/expand_functions.h"
#include "runtime/cache/function_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace libtile::test {

// The targets that this machine runs.
inline std::vector<std::string> runnableTargets() {
  std::vector<std::string> names = {"x86-64-v3", "avx512", "avx512vnni", "avx512bf16", "amx",
                                    "aarch64", "aarch64-dotprod", "aarch64-bf16"};
  std::erase_if(names, [](const std::string &name) {
    return !codegen::runsHere(codegen::findTarget(name));
  });
  return names;
}

// How often the code asks for memory ahead.
inline size_t timesAsked(const codegen::Code &code) {
  size_t asked = 0;
  for (size_t at = 0; (at = code.llvm.find("call void @llvm.prefetch", at)) != std::string::npos; ++at) {
    ++asked;
  }
  return asked;
}

// What the passes know of that target.
inline passes::PassContext contextOf(const std::string &target) {
  passes::PassContext context{codegen::findTarget(target)};
  context.library = &runtime::functionLibrary();
  return context;
}

// The text, with code in place of the functions that the target lacks.
inline ir::Function expanded(const std::string &text, const std::string &target) {
  ir::Function fn = ir::parse(text);
  passes::expandFunctions(fn, contextOf(target));
  return fn;
}

template <class T> uint64_t slot(T value) {
  uint64_t bits = 0;
  static_assert(sizeof(T) <= sizeof(bits));
  std::memcpy(&bits, &value, sizeof(T));
  return bits;
}

struct Grid {
  int32_t x = 1, y = 1, z = 1;
};

// A loaded kernel with an arena of its own.
class NestedKernel {
public:
  NestedKernel(const std::string &text, const std::string &target,
               codegen::CodeOptions options = {})
      : code_(codegen::generate(expanded(text, target), codegen::findTarget(target), options)),
        module_(code_), arena_(static_cast<uint8_t *>(std::aligned_alloc(
                                   64, (code_.info.scratchBytes + 127) / 64 * 64)),
                               &std::free) {}

  [[nodiscard]] const codegen::Code &code() const { return code_; }
  [[nodiscard]] uint8_t *arena() { return arena_.get(); }

  void run(std::vector<uint64_t> args, Grid grid, uint64_t first, uint64_t count) {
    const int32_t extents[3] = {grid.x, grid.y, grid.z};
    uint32_t status = LIBTILE_RUN;
    codegen::cpu::Frame frame = codegen::cpu::makeFrame(args.data(), extents, &status);
    frame.uncached_bytes = 1; // any store may go past the caches
    EXPECT_EQ(module_.entry()(&frame, first, count, arena_.get()), count);
  }
  void run(std::vector<uint64_t> args, Grid grid = {}) {
    run(std::move(args), grid, 0, uint64_t(grid.x) * grid.y * grid.z);
  }

private:
  codegen::Code code_;
  codegen::cpu::CpuModule module_;
  std::unique_ptr<uint8_t, void (*)(void *)> arena_;
};

} // namespace libtile::test
