// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/cache_settings.h"
#include "runtime/drivers/machine_code.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>

namespace libtile::test {
namespace {

using runtime::AssemblySource;
using runtime::findOrAssemble;

constexpr AssemblySource kSource{.text = "mov", .architecture = "sm_90a", .assembler = "13000"};

// A folder of its own, which counts here alone.
class MachineCode : public testing::Test {
protected:
  MachineCode() { runtime::chooseCache({.isOn = true, .folder = folder_, .maxBytes = {}}); }
  ~MachineCode() override {
    runtime::chooseCache({});
    std::filesystem::remove_all(folder_);
  }
  std::string assembled(const AssemblySource &source, const std::string &result = "code") {
    return findOrAssemble(source, [&] {
      ++count;
      return result;
    });
  }
  const std::string folder_ = testing::TempDir() + "machine_code." + std::to_string(getpid());
  int count = 0;
};

TEST_F(MachineCode, IsMadeOnce) {
  EXPECT_EQ(assembled(kSource, std::string("a\0b", 3)), std::string("a\0b", 3));
  EXPECT_EQ(assembled(kSource, "other"), std::string("a\0b", 3));
  EXPECT_EQ(count, 1);
}

TEST_F(MachineCode, DependsOnAllThatIsGiven) {
  std::vector<AssemblySource> sources(5, kSource);
  sources[1].text = "mov ";
  sources[2].architecture = "sm_90";
  sources[3].assembler = "13010";
  sources[4].lines = true;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < sources.size(); ++i) {
      EXPECT_EQ(assembled(sources[i], "code " + std::to_string(i)), "code " + std::to_string(i));
    }
  }
  EXPECT_EQ(count, 5);
}

TEST_F(MachineCode, ThatThereIsNotIsNotKept) {
  EXPECT_EQ(assembled(kSource, ""), "");
  EXPECT_THROW(static_cast<void>(findOrAssemble(kSource, []() -> std::string { throw std::runtime_error("refused"); })),
               std::runtime_error);
  EXPECT_EQ(assembled(kSource), "code");
  EXPECT_EQ(count, 2);
}

TEST_F(MachineCode, IsMadeEachTimeWithoutACache) {
  runtime::chooseCache({.isOn = false, .folder = folder_, .maxBytes = {}});
  EXPECT_EQ(assembled(kSource, "1"), "1");
  EXPECT_EQ(assembled(kSource, "2"), "2");
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

} // namespace
} // namespace libtile::test
