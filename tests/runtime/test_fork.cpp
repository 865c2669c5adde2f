// SPDX-License-Identifier: Apache-2.0
// The gate that compiling goes through (fork.h).
#include "runtime/fork.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace libtile::runtime;

namespace {

void sleepFor(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// Threads that compile without end; there is hardly a moment at which none does.
class Compilers {
public:
  explicit Compilers(bool callHost = false) {
    for (int i = 0; i < 4; ++i) {
      threads_.emplace_back([this, callHost] { work(callHost); });
    }
    while (turns.load() < 8) {
      std::this_thread::yield();
    }
  }
  ~Compilers() {
    ends_.store(true);
    for (std::thread &thread : threads_) {
      thread.join();
    }
  }
  std::atomic<int> inside{0}, turns{0};

private:
  void work(bool callHost) {
    while (!ends_.load()) {
      const CompileScope scope;
      const CompileScope nested;
      ++inside;
      sleepFor(1);
      --inside;
      if (callHost) {
        const HostScope host;
        sleepFor(1);
        // Python code that a kernel calls while it is specialised may launch other kernels.
        const CompileScope ofTheHost;
        ++inside;
        sleepFor(1);
        --inside;
      }
      ++turns;
    }
  }
  std::atomic<bool> ends_{false};
  std::vector<std::thread> threads_;
};

} // namespace

TEST(Fork, WaitsForThoseThatRunAndKeepsOthersOut) {
  for (const bool callHost : {false, true}) {
    Compilers compilers(callHost);
    for (int round = 0; round < 5; ++round) {
      const int before = compilers.turns.load();
      beforeFork();
      EXPECT_EQ(compilers.inside.load(), 0);
      EXPECT_LE(compilers.turns.load() - before, 8);
      sleepFor(5);
      EXPECT_EQ(compilers.inside.load(), 0);
      { const CompileScope own; }
      afterFork(false);
      while (compilers.turns.load() < before + 8) {
        std::this_thread::yield();
      }
    }
  }
}

TEST(Fork, ChildrenCompile) {
  Compilers compilers(true);
  for (int round = 0; round < 5; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      {
        const CompileScope scope;
        const HostScope host;
        const CompileScope nested;
      }
      beforeFork();
      afterFork(false);
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

// Two host functions that fork at once wait for neither's compile.
TEST(Fork, FromHostFunctions) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      const CompileScope scope;
      const HostScope host;
      const pid_t child = fork();
      if (child == 0) {
        alarm(20);
        { const CompileScope own; }
        _exit(0);
      }
      int status = 1;
      good += waitpid(child, &status, 0) == child && status == 0 ? 1 : 0;
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  EXPECT_EQ(good.load(), 4);
}
