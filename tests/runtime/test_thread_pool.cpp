// SPDX-License-Identifier: Apache-2.0
// Built twice: for the pool's own threads, and for OpenMP's (test_openmp.cpp).
#include "tests/runtime/pool_jobs.h"

#include "runtime/drivers/watch.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <chrono>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace libtile;
using namespace libtile::runtime;

namespace {

// Program p waits for p - 1.
struct Chain {
  std::vector<std::atomic<int>> done;
  explicit Chain(size_t programs) : done(programs) {}
  bool program(uint64_t index, uint8_t *, const Frame &) {
    while (index > 0 && done[index - 1].load() == 0) {
    }
    done[index].store(1);
    return true;
  }
};

// The first programs return at once; each of the others lasts until as many threads as there are to be
// are inside of one. Alone in the pool, it lasts 20 ms.
struct LateWork {
  explicit LateWork(unsigned threads) : threads(threads) {}
  static constexpr uint64_t kQuick = 16;
  unsigned threads;
  std::mutex mutex;
  std::set<std::thread::id> inside, ever;
  std::atomic<bool> met{false};
  bool program(uint64_t index, uint8_t *, const Frame &frame) {
    if (index < kQuick) {
      return true;
    }
    {
      const std::lock_guard lock(mutex);
      inside.insert(std::this_thread::get_id());
      ever.insert(std::this_thread::get_id());
      met.store(met.load() || inside.size() >= threads);
    }
    const auto start = std::chrono::steady_clock::now();
    const bool ended = waitUntil(frame, [&] {
      return met.load() || std::chrono::steady_clock::now() - start > std::chrono::milliseconds(20);
    });
    const std::lock_guard lock(mutex);
    inside.erase(std::this_thread::get_id());
    return ended;
  }
};

class ThreadPool : public ::testing::TestWithParam<int> {
protected:
  void SetUp() override { useThreads(GetParam()); }
};

} // namespace

TEST_P(ThreadPool, EveryProgramRunsOnce) {
  for (const size_t programs : {1U, 2U, 3U, 7U, 64U, 1000U, 100'003U}) {
    JobCost cost;
    for (int round = 0; round < 6; ++round) {
      EXPECT_TRUE(runOnce(programs, cost, round % 2 != 0)) << programs;
      cost.record(round < 3 ? 1 : 1e6F);
    }
  }
}

TEST_P(ThreadPool, WaitingForALowerProgramEnds) {
  JobCost cost;
  for (int round = 0; round < 20; ++round) {
    Chain chain(500);
    ASSERT_EQ(TestJob(chain, chain.done.size(), 0, true).run(cost), JobEnd::Done);
    // Pretend that programs are long, so that the next round uses every thread.
    cost.record(1e6);
  }
}

// As many programs as threads: at each launch a thread has the one that it had at the launch before.
TEST_P(ThreadPool, ThreadsKeepTheirPrograms) {
  const auto threads = static_cast<unsigned>(GetParam());
  std::vector<std::thread::id> before;
  for (int round = 0; round < 20; ++round) {
    JobCost cost;
    cost.record(1e6);
    Owners owners(threads, threads);
    ASSERT_EQ(TestJob(owners, threads).run(cost), JobEnd::Done);
    EXPECT_EQ(std::set(owners.owner.begin(), owners.owner.end()).size(), threads);
    EXPECT_EQ(owners.owner.front(), std::this_thread::get_id());
    if (round > 0) {
      EXPECT_EQ(owners.owner, before);
    }
    before = owners.owner;
  }
}

// More of them than the pool can help at once.
TEST_P(ThreadPool, ManyThreadsLaunch) {
  std::vector<std::thread> users;
  std::atomic<int> wrong{0};
  for (int user = 0; user < 24; ++user) {
    users.emplace_back([&] {
      JobCost cost;
      cost.record(1e5);
      for (int round = 0; round < 30; ++round) {
        wrong += runOnce(257, cost, round % 3 == 0) ? 0 : 1;
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

// Neither the launching thread's way to round nor that of threads which began with it reaches a program.
TEST_P(ThreadPool, FloatsAreRoundedToNearest) {
  struct Rounding {
    std::atomic<int> right{0};
    // fegetround() tells of the x87 alone.
    static bool isToNearest() {
      const volatile float one = 1, little = 0x1p-30F;
      return one + little == one;
    }
    bool program(uint64_t, uint8_t *, const Frame &) {
      right += isToNearest() ? 1 : 0;
      return true;
    }
  } programs;
  ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
  useThreads(GetParam() + 1);
  JobCost cost;
  cost.record(1e5);
  EXPECT_EQ(TestJob(programs, 1000).run(cost), JobEnd::Done);
  EXPECT_FALSE(Rounding::isToNearest());
  ASSERT_EQ(std::fesetround(FE_TONEAREST), 0);
  EXPECT_EQ(programs.right.load(), 1000);
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

TEST(ThreadArena, BeginsWithZeros) {
  uint64_t begin = 1;
  for (const size_t bytes : {64UL, 64UL, 5UL << 20, 64UL}) {
    uint8_t *memory = threadArena(bytes);
    std::memcpy(&begin, memory, sizeof begin);
    EXPECT_EQ(begin, 0U);
    std::memset(memory, 0xff, 64);
  }
}

// What a program has in its arena stays there, also where the caller launches another job in the same thread.
TEST(ThreadArena, AnotherLaunchHasAnother) {
  struct Writes {
    bool isSame = true;
    bool program(uint64_t, uint8_t *arena, const Frame &frame) {
      std::memset(arena, 0x11, 4096);
      std::atomic_ref(*frame.status).store(LIBTILE_ATTEND);
      (void)frame.poll(&frame);
      isSame = isSame && std::all_of(arena, arena + 4096, [](uint8_t byte) { return byte == 0x11; });
      return true;
    }
  };
  struct Inner {
    bool program(uint64_t, uint8_t *arena, const Frame &) {
      std::memset(arena, 0x22, 4096);
      return true;
    }
  };
  int launches = 0;
  const Caller caller{nullptr,
                      [](void *count) {
                        JobCost cost;
                        Inner inner;
                        EXPECT_EQ(TestJob(inner, 3, 4096).run(cost), JobEnd::Done);
                        ++*static_cast<int *>(count);
                        return 0;
                      },
                      &launches};
  JobCost cost;
  Writes writes;
  EXPECT_EQ(TestJob(writes, 4, 4096).run(cost, caller), JobEnd::Done);
  EXPECT_GE(launches, 1);
  EXPECT_TRUE(writes.isSame);
}

TEST(JobCost, ShortJobsAreKnownAfterTheFirst) {
  JobCost cost;
  EXPECT_FALSE(isShortJob(cost, 1));
  cost.record(100);
  EXPECT_TRUE(isShortJob(cost, 10));
  EXPECT_FALSE(isShortJob(cost, 100'000));
}

TEST(LongJobs, GetHelpWhateverTheFirstProgramsSay) {
  useThreads(3);
  for (const float estimate : {0.0F, 1.0F}) { // not known; known to be short
    JobCost cost;
    if (estimate > 0) {
      cost.record(estimate);
    }
    LateWork first(3);
    EXPECT_EQ(TestJob(first, 64).run(cost), JobEnd::Done);
    EXPECT_EQ(first.ever.size(), 3U);
    // The whole job is what the next one is judged by.
    EXPECT_FALSE(isShortJob(cost, 64));
    LateWork next(3);
    EXPECT_EQ(TestJob(next, 64).run(cost), JobEnd::Done);
    EXPECT_EQ(next.ever.size(), 3U);
  }
}

namespace {

// What a launch says to its caller, and an interruption at the given question.
struct Asked {
  int lasts = 0, questions = 0, interruptAt = 0;
  std::thread::id thread = std::this_thread::get_id();
  bool inThread = true, inOrder = true;
  [[nodiscard]] Caller caller() {
    return {[](void *self) {
              auto &asked = *static_cast<Asked *>(self);
              ++asked.lasts;
              asked.inThread = asked.inThread && asked.thread == std::this_thread::get_id();
            },
            [](void *self) {
              auto &asked = *static_cast<Asked *>(self);
              asked.inOrder = asked.inOrder && asked.lasts == 1;
              asked.inThread = asked.inThread && asked.thread == std::this_thread::get_id();
              return ++asked.questions == asked.interruptAt ? 1 : 0;
            },
            this};
  }
};

// Program `endless` never ends by itself.
struct OneEndless {
  uint64_t endless;
  std::atomic<uint64_t> ended{0};
  bool program(uint64_t index, uint8_t *, const Frame &frame) {
    if (index == endless) {
      return waitUntil(frame, [] { return false; });
    }
    ended.fetch_add(1);
    return true;
  }
};

} // namespace

// Too short for the watcher, too long for one thread: the first programs say nothing, whole jobs do.
TEST(LongJobs, AreLearntFromWholeJobs) {
  struct Late {
    bool program(uint64_t index, uint8_t *, const Frame &) {
      const auto start = std::chrono::steady_clock::now();
      while (index >= 16 && std::chrono::steady_clock::now() - start < std::chrono::microseconds(10)) {
      }
      return true;
    }
  };
  JobCost cost;
  cost.record(1);
  Late late;
  for (int launch = 0; launch < 8; ++launch) {
    EXPECT_EQ(TestJob(late, 64).run(cost), JobEnd::Done);
  }
  EXPECT_FALSE(isShortJob(cost, 64));
}

TEST(LongJobs, ShortOnesAskNothing) {
  JobCost cost;
  cost.record(1);
  Asked asked;
  Counts counts(64);
  EXPECT_EQ(TestJob(counts, 64).run(cost, asked.caller()), JobEnd::Done);
  EXPECT_EQ(asked.lasts + asked.questions, 0);
}

TEST(LongJobs, SayWhenTheyLast) {
  JobCost cost;
  cost.record(1);
  Asked asked;
  LateWork work(1);
  work.threads = 100; // each program lasts its 20 ms
  useThreads(1);
  EXPECT_EQ(TestJob(work, LateWork::kQuick + 6).run(cost, asked.caller()), JobEnd::Done);
  EXPECT_EQ(asked.lasts, 1);
  EXPECT_GE(asked.questions, 1);
  EXPECT_TRUE(asked.inThread && asked.inOrder);
}

TEST_P(ThreadPool, EndlessJobsAreInterrupted) {
  // The endless program is the calling thread's, or where there are several any thread's.
  for (const uint64_t endless : {0U, 40U}) {
    for (const float estimate : {0.0F, 1.0F, 1e6F}) {
      JobCost cost;
      if (estimate > 0) {
        cost.record(estimate);
      }
      const float before = cost.nanosecondsPerProgram();
      Asked asked;
      asked.interruptAt = 2;
      OneEndless programs{endless};
      EXPECT_EQ(TestJob(programs, 64).run(cost, asked.caller()), JobEnd::Stopped);
      EXPECT_EQ(asked.questions, 2);
      EXPECT_TRUE(asked.inThread && asked.inOrder);
      EXPECT_LT(programs.ended.load(), 64U);
      EXPECT_EQ(cost.nanosecondsPerProgram(), before) << "a part of a job says nothing";
      EXPECT_TRUE(runOnce(1000, cost));
    }
  }
}

TEST_P(ThreadPool, InterruptionsReachAllLaunches) {
  std::vector<std::thread> users;
  std::atomic<int> stopped{0};
  for (int user = 0; user < 3; ++user) {
    users.emplace_back([&] {
      JobCost cost;
      OneEndless programs{5};
      stopped += TestJob(programs, 64).run(cost) == JobEnd::Stopped ? 1 : 0;
    });
  }
  // Each of them is under way at one of these.
  while (stopped.load() < 3) {
    interruptLaunches();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (std::thread &user : users) {
    user.join();
  }
  JobCost cost;
  EXPECT_TRUE(runOnce(1000, cost));
}

// A signal's handler may launch, too.
TEST(LongJobs, LaunchesNest) {
  useThreads(2);
  JobCost cost;
  int inner = 0;
  const Caller caller = {nullptr,
                         [](void *inner) {
                           JobCost own;
                           own.record(1e6);
                           OneEndless endless{3};
                           Asked asked;
                           asked.interruptAt = 1;
                           const bool ended =
                               runOnce(100, own) &&
                               TestJob(endless, 64).run(own, asked.caller()) == JobEnd::Stopped;
                           *static_cast<int *>(inner) += ended ? 1 : 100;
                           return 0;
                         },
                         &inner};
  LateWork work(100);
  EXPECT_EQ(TestJob(work, LateWork::kQuick + 6).run(cost, caller), JobEnd::Done);
  EXPECT_GE(inner, 1);
  EXPECT_LT(inner, 100);
}

TEST(LongJobs, AProgramMayStopItsLaunch) {
  struct Stopping {
    std::atomic<int> ran{0};
    bool program(uint64_t index, uint8_t *, const Frame &frame) {
      if (index == 3) {
        std::atomic_ref(*frame.status).store(LIBTILE_STOP + 1);
        return false;
      }
      ran.fetch_add(1);
      return true;
    }
  };
  useThreads(1);
  JobCost cost;
  Stopping programs;
  EXPECT_EQ(TestJob(programs, 1000).run(cost), JobEnd::Stopped);
  EXPECT_EQ(programs.ran.load(), 3);
}
