// SPDX-License-Identifier: Apache-2.0
// One run of each test for each target that this machine has, through the CPU's own passes and through
// the whole pipeline.
#pragma once

#include "tests/cpu/run_tiles.h"

namespace libtile::test {

class NestTest : public testing::TestWithParam<std::string> {};

inline std::string targetTestName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '-' || c == '+'; }, '_');
  return name;
}

inline std::vector<std::string> waysToRun() {
  std::vector<std::string> ways = runnableTargets();
  ways.push_back(ways.back() + kWhole);
  return ways;
}

} // namespace libtile::test

#define LIBTILE_NEST_TESTS(Suite)                                                                  \
  class Suite : public NestTest {};                                                                \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, testing::ValuesIn(waysToRun()), targetTestName)
