// SPDX-License-Identifier: Apache-2.0
// What LLVM calls fatal: an exception, and the process compiles on, in that thread and in others.
#include "codegen/codegen.h"
#include "codegen/cpu/jit.h"
#include "ir/parser.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <thread>

using namespace libtile;

namespace {

const char *const kKernel = R"(
func @f stage=tile warps=4 stages=3 (%x: ptr<f32>) {
  %0 = arange {start=0} : tile<64xi32>
  %1 = splat %x : tile<64xptr<f32>>
  %2 = ptr_add %1, %0 : tile<64xptr<f32>>
  %3 = load %2 : tile<64xf32>
  %4 = add %3, %3 : tile<64xf32>
  store %2, %4
  return
}
)";

ir::Function prepared(const ir::Target &target) {
  ir::Function fn = ir::parse(kKernel);
  passes::PipelineOptions options;
  passes::runPipeline(fn, passes::PassContext{target}, options);
  return fn;
}

// A target that LLVM gives up on in the midst of its passes.
ir::Target without64Bits() {
  ir::Target target = codegen::findTarget("x86-64-v3");
  target.features = "-64bit"; // "64-bit code requested on a subtarget that doesn't support it"
  return target;
}

void failFatally(const ir::Target &target) {
  const ir::Function fn = prepared(target);
  try {
    (void)codegen::generate(fn, target);
    ADD_FAILURE() << "LLVM made code for " << target.name << " " << target.features;
  } catch (const ir::InternalError &error) {
    EXPECT_NE(error.message().find("LLVM failed on @f for " + target.name), std::string::npos);
    EXPECT_NE(error.message().find("64-bit code requested"), std::string::npos) << error.message();
    EXPECT_NE(error.reproducer().find("func @f"), std::string::npos);
  }
}

void compileAndRun() {
  const codegen::Code code = codegen::generate(prepared(codegen::hostTarget()), codegen::hostTarget());
  const codegen::cpu::CpuModule module(code);
  std::vector<float> x(64, 1.5F);
  const uint64_t slot = reinterpret_cast<uint64_t>(x.data());
  const int32_t grid[3] = {1, 1, 1};
  alignas(64) uint8_t arena[4096];
  ASSERT_LE(code.info.scratchBytes, static_cast<int64_t>(sizeof(arena)));
  uint32_t status = LIBTILE_RUN;
  const codegen::cpu::Frame frame = codegen::cpu::makeFrame(&slot, grid, &status);
  EXPECT_EQ(module.entry()(&frame, 0, 1, arena), 1U);
  EXPECT_EQ(x, std::vector<float>(64, 3.0F));
}

} // namespace

TEST(FatalErrors, BecomeExceptions) {
  for (int round = 0; round < 3; ++round) {
    failFatally(without64Bits());
    compileAndRun();
  }
}

TEST(FatalErrors, InSeveralThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int round = 0; round < 10; ++round) {
        (t + round) % 2 == 0 ? failFatally(without64Bits()) : compileAndRun();
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
}
