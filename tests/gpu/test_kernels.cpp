// SPDX-License-Identifier: Apache-2.0
// Whole kernels (tests/gpu/kernels/*.txt, tile stage) through the pipeline: what the staged form
// promises, and that NVIDIA's assembler takes the PTX. The assembler is `ptxas` on the PATH, or
// what LIBTILE_PTXAS names.
#include "codegen/codegen.h"
#include "ir/ops.h"
#include "ir/parser.h"
#include "passes/analysis/facts.h"
#include "passes/gpu/plan_pipeline.h"
#include "passes/gpu/plan_text.h"
#include "passes/gpu/shared_layouts.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

using namespace libtile;
using ir::Opcode;

namespace {

std::string readFile(const std::filesystem::path &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::filesystem::path> kernels() {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(LIBTILE_GPU_KERNELS)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

ir::Function staged(const std::filesystem::path &path, const ir::Target &target,
                    int32_t warps = 0) {
  ir::Function fn = ir::parse(readFile(path), path.filename().string());
  passes::PipelineOptions options;
  options.verifyEach = true;
  passes::runPipeline(fn, {target, warps, 0}, options);
  return fn;
}

TEST(Kernels, StagedFormHasNoBankConflicts) {
  const ir::Target &target = codegen::findTarget("sm_80");
  int seen = 0;
  for (const auto &path : kernels()) {
    const ir::Function fn = staged(path, target);
    for (const ir::OpId op : fn.walk()) {
      const Opcode opcode = fn.opcode(op);
      const bool read = opcode == Opcode::BufferRead;
      if (!read && opcode != Opcode::BufferWrite && opcode != Opcode::AsyncCopy) {
        continue;
      }
      const ir::ValueId tile = read                            ? fn.result(op)
                               : opcode == Opcode::BufferWrite ? fn.operand(op, 1)
                                                               : fn.operand(op, 0);
      const ir::ValueId buffer = fn.operand(op, opcode == Opcode::AsyncCopy ? 1 : 0);
      const ir::Layout &registers = fn.layout(fn.type(tile).layout());
      const ir::Layout &shared = fn.layout(fn.type(buffer).layout());
      const auto bytes = static_cast<int32_t>(fn.type(buffer).elementBytes());
      const passes::BufferAccess access = read ? passes::readAccess(registers, shared, bytes, target.sharedReads)
                                               : passes::writeAccess(registers, shared, bytes);
      EXPECT_EQ(passes::bankConflicts(registers, shared, bytes, access), 0)
          << path.filename() << " " << fn.opInfo(op).mnemonic << "\n"
          << registers.str() << "\n"
          << shared.str();
      ++seen;
    }
  }
  EXPECT_GT(seen, 15);
}

TEST(Kernels, SameTextEveryTime) {
  const ir::Target &target = codegen::findTarget("sm_90a");
  for (const auto &path : kernels()) {
    EXPECT_EQ(codegen::generate(staged(path, target), target).assembly,
              codegen::generate(staged(path, target), target).assembly);
  }
}

size_t countOf(const std::string &text, std::string_view word) {
  size_t count = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

// Two times 64 rows, two times 16 of k: four instructions of four warps; what copies have brought is published.
TEST(Kernels, MatmulByAUnitOfFourWarps) {
  const ir::Target &target = codegen::findTarget("sm_90a");
  const auto path = std::filesystem::path(LIBTILE_GPU_KERNELS) / "matmul_128_128_32_f16.txt";
  ir::Function fn = ir::parse(readFile(path), path.filename().string());
  for (const ir::OpId op : fn.walk()) {
    if (fn.opcode(op) == Opcode::Dot) {
      fn.setAttr(op, ir::Attr::unit, ir::AttrValue(std::string("wgmma_m64k16_f16")));
    }
  }
  passes::PipelineOptions options;
  options.verifyEach = true;
  passes::runPipeline(fn, {target, 4, 0}, options);
  const std::string text = codegen::generate(fn, target).assembly;
  EXPECT_EQ(countOf(text, "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16"), 4U);
  EXPECT_EQ(countOf(text, "wgmma.fence.sync.aligned"), 1U);
  EXPECT_EQ(countOf(text, "wgmma.wait_group.sync.aligned 0"), 1U);
  EXPECT_EQ(countOf(text, "mma.sync"), 0U);
  EXPECT_EQ(countOf(text, "ldmatrix"), 0U);
  EXPECT_EQ(countOf(text, "fence.proxy.async.shared::cta"), countOf(text, "cp.async.wait_group"));
  EXPECT_EQ(countOf(text, ".align 1024 .b8 libtile_shared[]"), 1U);
}

TEST(Kernels, MatmulRunsAhead) {
  const ir::Target &target = codegen::findTarget("sm_80");
  ir::Function fn =
      ir::parse(readFile(std::filesystem::path(LIBTILE_GPU_KERNELS) / "matmul_128_128_32_f16.txt"));
  const passes::PassContext context{target, 4, 3};
  passes::PipelineOptions options;
  options.stopAfter = "assign_layouts";
  passes::runPipeline(fn, context, options);
  const passes::Plan plan = passes::planPipeline(fn, passes::computeFacts(fn), context);
  ASSERT_EQ(plan.loops.size(), 1U);
  EXPECT_EQ(plan.loops[0].stages, 3);
  ASSERT_EQ(plan.loops[0].loads.size(), 2U);
  for (const passes::PlannedLoad &load : plan.loops[0].loads) {
    EXPECT_EQ(load.vectorBytes, 16);
    EXPECT_EQ(load.slotBytes, 128 * 32 * 2);
  }
  EXPECT_NE(passes::gpuPlanText(fn, context, {}).find("// 3 stages in 3 slots"), std::string::npos);
}

TEST(Kernels, RowsOfOneWarpNeedNoSharedMemory) {
  const ir::Target &target = codegen::findTarget("sm_90a");
  const std::filesystem::path folder = LIBTILE_GPU_KERNELS;
  const ir::Function row = staged(folder / "softmax_1024_f16.txt", target);
  EXPECT_EQ(row.numWarps, 1);
  EXPECT_EQ(row.arenaBytes, 0);
  const ir::Function wide = staged(folder / "softmax_16384_f16.txt", target);
  EXPECT_GT(wide.numWarps, 1);
  EXPECT_GT(wide.arenaBytes, 0);
  EXPECT_EQ(staged(folder / "softmax_1024_f16.txt", target, 4).numWarps, 4);
}

TEST(Kernels, AssembleWithoutSpills) {
  const char *named = std::getenv("LIBTILE_PTXAS");
  const std::string assembler = named != nullptr ? named : "ptxas";
  ASSERT_EQ(std::system((assembler + " --version > /dev/null 2>&1").c_str()), 0)
      << "no ptxas: ./dev installs nvidia-cuda-nvcc and names it in LIBTILE_PTXAS";
  const auto folder = std::filesystem::temp_directory_path() /
                      ("libtile-ptx-" + std::to_string(std::random_device()()));
  std::filesystem::create_directory(folder);
  for (const char *name : {"sm_80", "sm_90a"}) {
    const ir::Target &target = codegen::findTarget(name);
    for (const auto &path : kernels()) {
      const codegen::Code code = codegen::generate(staged(path, target), target);
      const auto ptx = folder / "kernel.ptx", log = folder / "log";
      std::ofstream(ptx) << code.assembly;
      const std::string command = assembler + " -v -arch " + name + " " + ptx.string() + " -o " +
                                  (folder / "cubin").string() + " > " + log.string() + " 2>&1";
      const int status = std::system(command.c_str());
      const std::string said = readFile(log);
      EXPECT_EQ(status, 0) << path.filename() << "\n" << said;
      EXPECT_NE(said.find(" 0 bytes spill stores"), std::string::npos) << path.filename() << said;
    }
  }
  std::filesystem::remove_all(folder);
}

} // namespace
