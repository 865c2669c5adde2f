// SPDX-License-Identifier: Apache-2.0
#include "runtime/options.h"

#include "codegen/codegen.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

using namespace libtile;
using runtime::Option;
using runtime::Options;

TEST(Options, RowsAreInOrder) {
  std::set<std::string> names;
  for (const runtime::OptionRow &row : runtime::optionRows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_LE(row.low, row.standard) << row.name;
    EXPECT_LE(row.standard, row.high) << row.name;
    EXPECT_EQ(runtime::row(*runtime::findOption(row.name)).name, row.name);
  }
  EXPECT_EQ(names.size(), runtime::kNumOptions);
  EXPECT_FALSE(runtime::findOption("num_warp"));
}

TEST(Options, Range) {
  Options options;
  options.set(Option::num_stages, 64);
  EXPECT_EQ(options[Option::num_stages], 64);
  EXPECT_THROW(options.set(Option::num_stages, 65), ir::UserError);
  EXPECT_THROW(options.set(Option::num_stages, -1), ir::UserError);
  EXPECT_EQ(options.text(), "num_stages=64");
}

TEST(Options, PowersOfTwo) {
  Options options;
  for (const int64_t warps : {0, 1, 2, 4, 8, 16, 32, 128, 1024}) {
    options.set(Option::num_warps, warps);
    EXPECT_EQ(options[Option::num_warps], warps);
  }
  for (const int64_t warps : {int64_t{-1}, int64_t{3}, int64_t{33}, int64_t{2048}, INT64_MIN, INT64_MAX}) {
    try {
      options.set(Option::num_warps, warps);
      ADD_FAILURE() << warps;
    } catch (const ir::UserError &error) {
      EXPECT_EQ(std::string(error.what()), "option num_warps=" + std::to_string(warps) +
                                               ": it takes 0 or a power of two up to 1024");
    }
  }
  EXPECT_EQ(options[Option::num_warps], 1024);
}

TEST(Options, Normalised) {
  Options options;
  options.set(Option::num_warps, 8);
  options.set(Option::num_ctas, 2);
  options.set(Option::waves_per_eu, 3);
  options.set(Option::extern_libs, 1);
  const ir::Target &cpu = codegen::findTarget("avx512"), &gpu = codegen::findTarget("sm_80");
  EXPECT_EQ(options.normalised(cpu).text(), "extern_libs=1");
  EXPECT_EQ(options.normalised(gpu).text(), "num_warps=8 num_ctas=2 extern_libs=1");
  EXPECT_EQ(options.unheeded(cpu).size(), 1U);
  EXPECT_EQ(options.unheeded(gpu).size(), 1U);
  EXPECT_TRUE(Options().unheeded(gpu).empty());
}

TEST(Options, HeededOnSomeTargets) {
  Options options = Options::ofTable();
  options.set(Option::check, 1);
  EXPECT_TRUE(options.unheeded(codegen::findTarget("avx512")).empty());
  EXPECT_EQ(options.unheeded(codegen::findTarget("sm_80")),
            std::vector<std::string>{"option check changes nothing on sm_80 yet"});
}

TEST(Options, OneIdASet) {
  EXPECT_EQ(Options().id(), 0U);
  constexpr int kSets = 50, kThreads = 8;
  std::vector<std::vector<uint32_t>> ids(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&ids, t] {
        for (int i = 1; i <= kSets; ++i) {
          Options options;
          options.set(Option::maxnreg, i);
          ids[static_cast<size_t>(t)].push_back(options.id());
        }
      });
    }
  }
  for (const auto &each : ids) {
    EXPECT_EQ(each, ids[0]);
  }
  EXPECT_EQ(std::set<uint32_t>(ids[0].begin(), ids[0].end()).size(), static_cast<size_t>(kSets));
}
