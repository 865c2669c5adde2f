// SPDX-License-Identifier: Apache-2.0
// What the driver is told of a launch that may overlap with the one before, or has clusters: by a driver that only writes it down.
#include "runtime/drivers/extended_launch.h"

#include "ir/parser.h"
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include <vector>

using namespace libtile;
namespace cuda = runtime::cuda;

namespace {

struct Told {
  cuda::LaunchConfig config = {};
  std::vector<std::pair<int, int>> attributes, behind; // number and value; the next two
  cuda::Function function = nullptr;
  void **slots = nullptr, **extra = nullptr;
};
thread_local Told told;

int write(const cuda::LaunchConfig *config, cuda::Function function, void **slots, void **extra) {
  told = {*config, {}, {}, function, slots, extra};
  for (unsigned i = 0; i < config->count; ++i) {
    told.attributes.emplace_back(config->attributes[i].id, config->attributes[i].value);
    told.behind.emplace_back(config->attributes[i].room[0], config->attributes[i].room[1]);
  }
  return 7;
}

TEST(ExtendedLaunch, SaysItsShapeAndThatItMayStartEarly) {
  codegen::KernelInfo info;
  info.threads = 128;
  info.sharedBytes = 70000;
  info.overlaps = true;
  int number = 0;
  void *slots[] = {&number};
  auto *function = reinterpret_cast<cuda::Function>(&number);
  auto *stream = reinterpret_cast<cuda::Stream>(&info);
  const int32_t grid[] = {5, 6, 7};
  EXPECT_EQ(runtime::launchExtended(write, function, info, grid, stream, slots), 7);
  for (unsigned axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(told.config.grid[axis], 5 + axis);
    EXPECT_EQ(told.config.block[axis], axis == 0 ? 128U : 1U);
  }
  EXPECT_EQ(told.config.sharedBytes, 70000U);
  EXPECT_EQ(told.config.stream, stream);
  EXPECT_EQ(told.function, function);
  EXPECT_EQ(told.slots, slots);
  EXPECT_EQ(told.extra, nullptr);
  EXPECT_EQ(told.attributes, (std::vector<std::pair<int, int>>{{cuda::kLaunchProgrammaticSerialization, 1}}));
}

TEST(ExtendedLaunch, OfProgramsThatRunAtOnceSaysThatToo) {
  codegen::KernelInfo info;
  info.threads = 32;
  info.cooperative = info.overlaps = true;
  const int32_t grid[] = {1, 1, 1};
  EXPECT_EQ(runtime::launchExtended(write, nullptr, info, grid, nullptr, nullptr), 7);
  EXPECT_EQ(told.attributes,
            (std::vector<std::pair<int, int>>{{cuda::kLaunchProgrammaticSerialization, 1}, {cuda::kLaunchCooperative, 1}}));
}

TEST(ExtendedLaunch, SaysItsClustersWhereTheGridHasThem) {
  codegen::KernelInfo info;
  info.threads = 384;
  info.cluster = 4;
  EXPECT_TRUE(runtime::isExtended(info));
  EXPECT_FALSE(runtime::isExtended({}));
  const int32_t whole[] = {12, 5, 3}, ragged[] = {14, 4, 4};
  EXPECT_EQ(runtime::launchExtended(write, nullptr, info, whole, nullptr, nullptr), 7);
  EXPECT_EQ(told.attributes, (std::vector<std::pair<int, int>>{{cuda::kLaunchCluster, 4}}));
  EXPECT_EQ(told.behind, (std::vector<std::pair<int, int>>{{1, 1}}));
  EXPECT_EQ(runtime::launchExtended(write, nullptr, info, ragged, nullptr, nullptr), 7);
  EXPECT_TRUE(told.attributes.empty());
  info.cooperative = true;
  EXPECT_EQ(runtime::launchExtended(write, nullptr, info, whole, nullptr, nullptr), 7);
  EXPECT_EQ(told.attributes, (std::vector<std::pair<int, int>>{{cuda::kLaunchCooperative, 1}}));
}

// What a launch is told follows from the code, not from what was asked for.
TEST(ExtendedLaunch, IsOneOfCodeThatWaits) {
  constexpr const char *kStore = "func @store stage=tile warps=4 stages=3 (%x: ptr<i32>, %n: i32) {\n  store %x, %n\n  return\n}\n";
  for (const char *name : {"sm_80", "sm_90"}) {
    for (const bool places : {true, false}) {
      for (const bool asks : {true, false}) {
        ir::Function fn = ir::parse(kStore, "<test>");
        passes::PassContext context{codegen::findTarget(name)};
        context.overlapsLaunches = asks;
        passes::PipelineOptions options;
        options.disabled = places ? std::vector<std::string>{} : std::vector<std::string>{"overlap_launches"};
        passes::runPipeline(fn, context, options);
        codegen::CodeOptions code;
        code.overlaps = asks;
        const bool waits = asks && places && name == std::string("sm_90");
        EXPECT_EQ(codegen::generate(fn, context.target, code).info.overlaps, waits) << name << places << asks;
      }
    }
  }
}

} // namespace
