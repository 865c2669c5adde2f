// SPDX-License-Identifier: Apache-2.0
// Jobs of C++ functions for the tests of who runs them.
#pragma once

#include "runtime/drivers/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace libtile::runtime {

// Launches are to use so many threads, OpenMP's in the tests of those.
void useThreads(int threads);

using codegen::cpu::Frame;

// A job of C++ functions: `Programs` has program(index, arena), which runs on any thread.
template <class Programs> class TestJob {
public:
  TestJob(Programs &programs, uint64_t count, size_t arenaBytes = 0, bool inOrder = false)
      : frame_(codegen::cpu::makeFrame(reinterpret_cast<const uint64_t *>(&programs), kOne, nullptr)),
        job_{run, &frame_, count, arenaBytes, inOrder} {}
  JobEnd run(JobCost &cost, const Caller &caller = {}) { return runJob(job_, cost, caller); }

private:
  static constexpr int32_t kOne[3] = {1, 1, 1};
  // As compiled kernels do: back between programs if the status word says so.
  static uint64_t run(const Frame *frame, uint64_t first, uint64_t count, uint8_t *arena) {
    auto *programs = reinterpret_cast<Programs *>(const_cast<uint64_t *>(frame->arguments));
    uint64_t done = 0;
    while (done < count) {
      if (!programs->program(first + done, arena, *frame)) {
        return done;
      }
      ++done;
      if (std::atomic_ref(*frame->status).load() != LIBTILE_RUN) {
        break;
      }
    }
    return done;
  }
  Frame frame_;
  Job job_;
};

// Turns of a loop, asking as compiled loops do. False: the launch ends.
inline bool waitUntil(const Frame &frame, const std::function<bool()> &done) {
  while (!done()) {
    if (std::atomic_ref(*frame.status).load() >= LIBTILE_ATTEND && frame.poll(&frame) != 0) {
      return false;
    }
  }
  return true;
}

// Counts how often each program ran.
struct Counts {
  explicit Counts(size_t programs) : times(programs) {}
  std::vector<std::atomic<int>> times;
  bool program(uint64_t index, uint8_t *arena, const Frame &) {
    times[index].fetch_add(1);
    arena[0] = static_cast<uint8_t>(index);
    return true;
  }
  [[nodiscard]] bool allOnce() const {
    return std::ranges::all_of(times, [](const auto &time) { return time.load() == 1; });
  }
};

inline bool runOnce(size_t programs, JobCost &cost, bool inOrder = false) {
  Counts counts(programs);
  return TestJob(counts, programs, 64, inOrder).run(cost) == JobEnd::Done && counts.allOnce();
}

// Which thread ran each program; each lasts until all threads are inside of one.
struct Owners {
  Owners(size_t programs, unsigned threads) : owner(programs), threads(threads) {}
  std::vector<std::thread::id> owner;
  unsigned threads;
  std::atomic<unsigned> inside{0};
  bool program(uint64_t index, uint8_t *, const Frame &) {
    owner[index] = std::this_thread::get_id();
    inside.fetch_add(1);
    while (inside.load() < threads) {
      std::this_thread::yield();
    }
    return true;
  }
};

} // namespace libtile::runtime
