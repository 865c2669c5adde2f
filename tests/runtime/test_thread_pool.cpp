// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/thread_pool.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace libtile::runtime;

namespace {

// Counts how often each program ran.
struct Counts {
  explicit Counts(size_t programs) : times(programs) {}
  std::vector<std::atomic<int>> times;
  static void run(const void *context, uint64_t first, uint64_t count, uint8_t *arena) {
    auto &self = *const_cast<Counts *>(static_cast<const Counts *>(context));
    for (uint64_t i = first; i < first + count; ++i) {
      self.times[i].fetch_add(1);
      arena[0] = static_cast<uint8_t>(i);
    }
  }
  [[nodiscard]] bool allOnce() const {
    for (const auto &time : times) {
      if (time.load() != 1) {
        return false;
      }
    }
    return true;
  }
};

bool runOnce(size_t programs, JobCost &cost) {
  Counts counts(programs);
  return runJob({Counts::run, &counts, programs, 64}, cost) && counts.allOnce();
}

// Program p waits for p - 1.
struct Chain {
  std::vector<std::atomic<int>> done;
  explicit Chain(size_t programs) : done(programs) {}
  static void run(const void *context, uint64_t first, uint64_t count, uint8_t *) {
    auto &self = *const_cast<Chain *>(static_cast<const Chain *>(context));
    for (uint64_t i = first; i < first + count; ++i) {
      while (i > 0 && self.done[i - 1].load() == 0) {
      }
      self.done[i].store(1);
    }
  }
};

class ThreadPool : public ::testing::TestWithParam<int> {
protected:
  void SetUp() override { setPoolThreads(GetParam()); }
};

} // namespace

TEST_P(ThreadPool, EveryProgramRunsOnce) {
  for (const size_t programs : {1U, 2U, 3U, 7U, 64U, 1000U, 100'003U}) {
    JobCost cost;
    for (int round = 0; round < 5; ++round) {
      EXPECT_TRUE(runOnce(programs, cost)) << programs;
    }
  }
}

TEST_P(ThreadPool, WaitingForALowerProgramEnds) {
  JobCost cost;
  for (int round = 0; round < 20; ++round) {
    Chain chain(500);
    ASSERT_TRUE(runJob({Chain::run, &chain, chain.done.size(), 0}, cost));
    // Pretend that programs are long, so that the next round uses every thread.
    cost.record(1e6);
  }
}

TEST_P(ThreadPool, ManyThreadsLaunch) {
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (int user = 0; user < 6; ++user) {
    users.emplace_back([&] {
      JobCost cost;
      cost.record(1e5);
      for (int round = 0; round < 100; ++round) {
        wrong += runOnce(257, cost) ? 0 : 1;
        cost.record(1e5);
      }
    });
  }
  for (std::thread &user : users) {
    user.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ThreadPool, AForkedChildHasItsOwnPool) {
  JobCost cost;
  cost.record(1e5);
  ASSERT_TRUE(runOnce(1000, cost));
  const pid_t child = fork();
  if (child == 0) {
    forgetPoolAfterFork();
    alarm(20);
    JobCost own;
    own.record(1e5);
    _exit(runOnce(1000, own) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPool, ::testing::Values(1, 2, 3, 8));

TEST(ThreadArena, GrowsAndIsAligned) {
  for (const size_t bytes : {0UL, 1UL, 100UL, 5UL << 20, 64UL}) {
    uint8_t *memory = threadArena(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0U);
    memory[0] = 1;
    memory[bytes > 0 ? bytes - 1 : 0] = 1;
  }
}

TEST(ThreadArena, TooMuchIsNoCrash) {
  EXPECT_EQ(threadArena(SIZE_MAX - 1), nullptr);
  EXPECT_EQ(threadArena(size_t{1} << 60), nullptr);
  EXPECT_NE(threadArena(64), nullptr);
}

TEST(JobCost, ShortJobsAreKnownAfterTheFirst) {
  JobCost cost;
  EXPECT_FALSE(isShortJob(cost, 1));
  cost.record(100);
  EXPECT_TRUE(isShortJob(cost, 10));
  EXPECT_FALSE(isShortJob(cost, 100'000));
}
