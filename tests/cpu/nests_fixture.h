// SPDX-License-Identifier: Apache-2.0
// One run of each test for each target that this machine has.
#pragma once

#include "tests/cpu/run_tiles.h"

namespace libtile::test {

class NestTest : public testing::TestWithParam<std::string> {};

inline std::string targetTestName(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

} // namespace libtile::test

#define LIBTILE_NEST_TESTS(Suite)                                                                  \
  class Suite : public NestTest {};                                                                \
  INSTANTIATE_TEST_SUITE_P(Targets, Suite, testing::ValuesIn(runnableTargets()), targetTestName)
