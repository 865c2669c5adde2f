// SPDX-License-Identifier: Apache-2.0
// Launches on OpenMP's threads, GNU's own, which comes with the C++ library's development files. The pool's tests are
// in this program, too (useThreads); here is when which threads are used,
// if they are used wherever that may be.
#include "runtime/drivers/openmp.h"
#include "runtime/drivers/team_choice.h"
#include "runtime/fork.h"
#include "tests/runtime/pool_jobs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace libtile::runtime {

namespace {

const int isAsked = setenv("LIBTILE_OPENMP", "1", 1);

// Opened as torch opens it: for all libraries of the process.
void *library() {
  static void *opened = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL);
  return opened;
}

template <class Function> Function *named(const char *name) {
  return reinterpret_cast<Function *>(dlsym(library(), name));
}

void setTeam(int threads) { named<void(int)>("omp_set_num_threads")(threads); }

void inRegion(void (*body)(void *), void *data) {
  named<void(void (*)(void *), void *, unsigned, unsigned)>("GOMP_parallel")(body, data, 0, 0);
}

using Threads = std::set<std::thread::id>;

Threads teamsThreads() {
  struct Seen {
    std::mutex mutex;
    Threads threads;
  } seen;
  inRegion(
      [](void *data) {
        auto &seen = *static_cast<Seen *>(data);
        const std::lock_guard lock(seen.mutex);
        seen.threads.insert(std::this_thread::get_id());
      },
      &seen);
  return seen.threads;
}

// Of a launch that lasts until so many threads are inside of a program at once.
Threads launchsThreads(unsigned threads) {
  Owners programs(1000, threads);
  JobCost cost;
  cost.record(1e5);
  EXPECT_EQ(TestJob(programs, 1000).run(cost), JobEnd::Done);
  return {programs.owner.begin(), programs.owner.end()};
}

class OpenMpLaunches : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_NE(library(), nullptr) << dlerror(); }
};

} // namespace

void useThreads(int threads) {
  setTeam(threads);
  setPoolThreads(threads);
}

TEST_F(OpenMpLaunches, RunOnTheTeam) {
  for (const int threads : {3, 2, 5, 5}) {
    useThreads(threads);
    const Threads team = teamsThreads();
    EXPECT_EQ(team.size(), static_cast<size_t>(threads));
    EXPECT_EQ(launchsThreads(static_cast<unsigned>(threads)), team);
  }
}

TEST_F(OpenMpLaunches, FollowItsNumberWhereNobodyAsked) {
  setPoolThreads(0);
  for (const int threads : {4, 2, 3}) {
    setTeam(threads);
    EXPECT_EQ(launchsThreads(static_cast<unsigned>(threads)), teamsThreads());
  }
}

TEST_F(OpenMpLaunches, OfAnotherNumberUseThePool) {
  setTeam(2);
  setPoolThreads(3);
  EXPECT_EQ(poolThreads(), 3);
  const Threads launchs = launchsThreads(3);
  EXPECT_EQ(launchs.size(), 3U);
  for (const std::thread::id thread : teamsThreads()) {
    EXPECT_EQ(launchs.contains(thread), thread == std::this_thread::get_id());
  }
}

TEST_F(OpenMpLaunches, OfOtherThreadsUseThePool) {
  useThreads(3);
  const Threads team = teamsThreads();
  Threads launchs;
  std::thread([&] {
    EXPECT_EQ(OpenMp::here(0), nullptr);
    launchs = launchsThreads(3);
  }).join();
  EXPECT_EQ(launchs.size(), 3U);
  for (const std::thread::id thread : team) {
    EXPECT_FALSE(launchs.contains(thread));
  }
}

TEST_F(OpenMpLaunches, InARegionUseThePool) {
  useThreads(3);
  const Threads team = teamsThreads();
  std::atomic<int> right{0};
  inRegion(
      [](void *right) {
        EXPECT_EQ(OpenMp::here(0), nullptr);
        JobCost cost;
        cost.record(1e5);
        *static_cast<std::atomic<int> *>(right) += runOnce(1000, cost) ? 1 : 0;
      },
      &right);
  EXPECT_EQ(right.load(), 3);
  EXPECT_EQ(launchsThreads(3), team);
}

// A team may have fewer threads than it could.
TEST_F(OpenMpLaunches, RunOnAsManyAsThereAre) {
  useThreads(4);
  named<void(int)>("omp_set_dynamic")(1);
  JobCost cost;
  cost.record(1e5);
  EXPECT_TRUE(runOnce(1000, cost));
  EXPECT_TRUE(runOnce(1000, cost, true));
  named<void(int)>("omp_set_dynamic")(0);
}

// A handler of signals that launches, and that says how many threads there are to be from then on.
TEST_F(OpenMpLaunches, NestInHandlers) {
  for (const int threads : {1, 3}) {
    setPoolThreads(0);
    setTeam(threads);
    JobCost cost;
    bool isRight = false;
    const Caller caller = {nullptr,
                           [](void *isRight) {
                             setTeam(5);
                             JobCost own;
                             own.record(1e6);
                             *static_cast<bool *>(isRight) = runOnce(1000, own) && runOnce(100, own, true);
                             return 0;
                           },
                           &isRight};
    cost.record(1e6);
    struct Waiting {
      bool *until;
      bool program(uint64_t, uint8_t *, const Frame &frame) {
        return waitUntil(frame, [&] { return std::atomic_ref(*until).load(); });
      }
    } waiting{&isRight};
    EXPECT_EQ(TestJob(waiting, 64).run(cost, caller), JobEnd::Done);
    EXPECT_TRUE(isRight);
    EXPECT_EQ(teamsThreads().size(), 5U);
  }
}

TEST_F(OpenMpLaunches, OfAForkedChildUseThePool) {
  installForkHandlers();
  useThreads(3);
  (void)launchsThreads(3);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(OpenMp::here(0) == nullptr && launchsThreads(3).size() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// How long a launch of 200 us of work for each of two threads takes on the pool and on the team.
struct Turns {
  std::chrono::microseconds pool, team;
};

// The number of launches in so much time, and the part of them that ran on the team.
struct Ran {
  double launches = 0, onTeam = 0;
};

Ran run(TeamChoice &choice, TeamChoice::Time &now, Turns turns, std::chrono::milliseconds time) {
  Ran ran;
  for (const TeamChoice::Time end = now + time; now < end; ++ran.launches) {
    const bool isTeam = choice.usesTeam();
    const std::chrono::nanoseconds took = isTeam ? turns.team : turns.pool;
    ran.onTeam += isTeam ? 1 : 0;
    now += took;
    choice.record(static_cast<float>(took.count()), 200e3F, now);
  }
  ran.onTeam /= ran.launches;
  return ran;
}

TEST(TeamChoices, FollowWhatLaunchesTake) {
  using namespace std::chrono_literals;
  TeamChoice choice;
  TeamChoice::Time now{1h};
  // Nobody else is there: the pool.
  EXPECT_EQ(run(choice, now, {210us, 205us}, 100ms).onTeam, 0);
  // Behind operators of torch the pool has one thread.
  EXPECT_GT(run(choice, now, {400us, 210us}, 100ms).onTeam, 0.99);
  // Another process has one of the cores.
  EXPECT_LT(run(choice, now, {310us, 9000us}, 5s).onTeam, 0.01);
  EXPECT_GT(run(choice, now, {310us, 9000us}, 5s).launches, 0.95 * 5e6 / 310);
  // It has ended, and torch goes on.
  (void)run(choice, now, {400us, 210us}, 1s);
  EXPECT_GT(run(choice, now, {400us, 210us}, 100ms).onTeam, 0.99);
  // The team is late once.
  (void)run(choice, now, {400us, 5000us}, 5ms);
  EXPECT_FALSE(choice.usesTeam());
  (void)run(choice, now, {400us, 210us}, 400ms);
  EXPECT_TRUE(choice.usesTeam());
}

} // namespace libtile::runtime
