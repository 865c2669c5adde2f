// SPDX-License-Identifier: Apache-2.0
// The assembler as a program, played by scripts: tests/python/test_ptx.py runs the real one.
#include "ir/diagnostic.h"
#include "runtime/drivers/ptxas.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <unistd.h>

namespace libtile::test {
namespace {

using runtime::assemble;
using runtime::findPtxas;

// Environment and scripts of one test.
class Ptxas : public ::testing::Test {
protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_);
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("TMPDIR", folder_.c_str(), 1);
    unsetenv("LIBTILE_PTXAS");
    runtime::offerPtxas("");
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("TMPDIR");
    unsetenv("LIBTILE_PTXAS");
    runtime::offerPtxas("");
    std::filesystem::remove_all(folder_);
  }

  std::string script(const std::string &name, const std::string &body) {
    const std::filesystem::path file = folder_ / name;
    std::ofstream(file) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    return file;
  }
  [[nodiscard]] size_t files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  const std::string path_ = getenv("PATH");
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("libtile_ptxas_" + std::to_string(getpid()));
};

TEST_F(Ptxas, IsFoundByNameThenOnThePathThenWhereOffered) {
  EXPECT_EQ(findPtxas(), "");
  runtime::offerPtxas("/offered/ptxas");
  EXPECT_EQ(findPtxas(), "/offered/ptxas");
  const std::string onPath = script("ptxas", "");
  setenv("PATH", folder_.c_str(), 1);
  EXPECT_EQ(findPtxas(), onPath);
  const std::string named = script("other", "");
  setenv("LIBTILE_PTXAS", named.c_str(), 1);
  EXPECT_EQ(findPtxas(), named);
  setenv("LIBTILE_PTXAS", "other", 1);
  EXPECT_EQ(findPtxas(), named);
  setenv("LIBTILE_PTXAS", "nowhere", 1);
  EXPECT_THROW(findPtxas(), ir::UserError);
  setenv("LIBTILE_PTXAS", "", 1);
  EXPECT_EQ(findPtxas(), "");
  setenv("LIBTILE_PTXAS", "/nowhere/ptxas", 1);
  EXPECT_THROW(findPtxas(), ir::UserError);
}

// Its arguments: -arch=sm_90a SOURCE -o RESULT.
TEST_F(Ptxas, TakesTextsOfManyThreads) {
  const std::string copies = script("copies", "[ $3 = -o ] && { echo $1; cat $2; } > $4");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string text = ".version " + std::to_string(i);
      EXPECT_EQ(assemble(copies, text, "sm_90a"), "-arch=sm_90a\n" + text);
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(files(), 1U) << "files are left behind";
}

TEST_F(Ptxas, KeepsLinesIfAsked) {
  const std::string says = script("says", "echo $* > $4");
  EXPECT_EQ(assemble(says, "", "sm_80")->find("-lineinfo"), std::string::npos);
  EXPECT_NE(assemble(says, "", "sm_80", /*lines=*/true)->find("-lineinfo"), std::string::npos);
}

TEST_F(Ptxas, WithoutAResultThereIsNone) {
  EXPECT_EQ(assemble("/nowhere/ptxas", ".version 8.0", "sm_90a"), std::nullopt);
  EXPECT_EQ(assemble(script("fails", "echo half > $4; exit 1"), "", "sm_90a"), std::nullopt);
  EXPECT_EQ(assemble(script("dies", "echo half > $4; kill -9 $$"), "", "sm_90a"), std::nullopt);
  EXPECT_EQ(assemble(script("says_nothing", "exit 0"), "", "sm_90a"), std::nullopt);
  setenv("TMPDIR", "/nowhere", 1);
  EXPECT_EQ(assemble(script("copies", "cp $2 $4"), "x", "sm_90a"), std::nullopt);
}

TEST(RegisterNeed, IsReadFromTheAssemblersWords) {
  using Pair = std::pair<int64_t, int64_t>;
  const auto of = [](std::string_view words) {
    const auto need = runtime::registerNeed(words);
    return need ? Pair(need->needed, need->limit) : Pair();
  };
  EXPECT_EQ(of("ptxas fatal   : (C7602) Insufficient registers (80) to compile instruction at line 737 in function kernel. "
               "Try to compile with register target of 90 or higher."),
            Pair(90, 80));
  EXPECT_EQ(of("info: words\nptxas fatal   : (C7600) Register allocation failed with register count of '128'. Compile the "
               "program with a higher register target"),
            Pair(129, 128));
  EXPECT_FALSE(runtime::registerNeed("ptxas fatal   : Ptx assembly aborted due to errors"));
  EXPECT_FALSE(runtime::registerNeed("Register allocation failed with register count of '99999999999999999999'"));
}

} // namespace
} // namespace libtile::test
