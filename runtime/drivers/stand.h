// SPDX-License-Identifier: Apache-2.0
// Where a launch stands while it is handed out.
//
// Its job lies on the caller's stack, and the stand points at it. A thread that helps raises the stand's users before
// it reads the pointer; the caller takes the pointer away once nothing is left to hand out, then waits until there are
// no users. Nobody waits for a mutex on the way: sixteen threads that do spend longer on it than on a short job.
#pragma once

#include "runtime/drivers/shared_job.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>

namespace libtile::runtime {

// How long a thread looks for work (or the end of it) before it sleeps; and how often in between it asks for the time. A
// pause is 35 ns to 70 ns.
inline constexpr std::chrono::microseconds kSpin{25};
inline constexpr int kPauses = 16;
// How often a thread that only waits asks whether the launch is interrupted.
inline constexpr std::chrono::milliseconds kAskEvery{50};

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Whether it came true before it is time to sleep.
template <class Condition> bool spinUntil(Condition isSo) {
  const auto end = Clock::now() + kSpin;
  do {
    for (int i = 0; i < kPauses; ++i) {
      if (isSo()) {
        return true;
      }
      pause();
    }
  } while (Clock::now() < end);
  return false;
}

class alignas(64) Stand {
public:
  // For launches of so many threads. Throws std::bad_alloc; then it serves none.
  void serve(int threads) {
    ranges_.reset();
    threads_ = 0;
    ranges_ = std::make_unique<Range[]>(static_cast<size_t>(threads));
    threads_ = threads;
  }
  [[nodiscard]] std::span<Range> ranges() const { return {ranges_.get(), static_cast<size_t>(threads_)}; }

  // By a launch, from `take` to `finish`, or `leave`. False: another one has it.
  [[nodiscard]] bool take() noexcept { return !taken_.load(std::memory_order_relaxed) && !taken_.exchange(true); }
  void leave() noexcept { taken_.store(false, std::memory_order_release); }
  void publish(SharedJob &job) { job_.store(&job); }
  // Nothing is left to hand out: waits for those that help. The stand is free then.
  void finish(RunningJob &running) {
    job_.store(nullptr);
    awaitUsers(running);
    leave();
  }

  // In any other thread: works on the job that stands here, if it has programs left. False: it did not.
  // `begins` is called first: there is work.
  template <class Begins> bool help(size_t thread, Begins begins) {
    if (job_.load() == nullptr) {
      return false;
    }
    bool helped = false;
    users_.fetch_add(1);
    if (SharedJob *job = job_.load(); job != nullptr && job->hasMore()) {
      begins();
      // Without memory the job is left to the others; its caller has an arena.
      if (uint8_t *memory = threadArena(job->running().job().arenaBytes)) {
        job->work(thread, memory);
        helped = true;
      }
    }
    detach();
    return helped;
  }

private:
  void awaitUsers(RunningJob &running) {
    const auto isLeft = [&] { return users_.load() == 0; };
    (void)spinUntil(isLeft);
    running.endWatch();
    if (isLeft()) {
      return;
    }
    std::unique_lock lock(mutex_);
    waits_.store(true);
    while (!detached_.wait_for(lock, kAskEvery, isLeft)) {
      lock.unlock();
      running.ask();
      lock.lock();
    }
    waits_.store(false);
  }

  void detach() {
    if (users_.fetch_sub(1) == 1 && waits_.load()) {
      const std::lock_guard lock(mutex_);
      detached_.notify_all();
    }
  }

  std::atomic<SharedJob *> job_{nullptr};
  std::atomic<bool> taken_{false};
  std::atomic<bool> waits_{false}; // the launching thread sleeps until there are no users
  int threads_ = 0;
  std::unique_ptr<Range[]> ranges_;      // one a thread
  std::mutex mutex_;                     // of the launching thread's sleep
  std::condition_variable detached_;
  alignas(64) std::atomic<int> users_{0}; // threads that may look at the job
};

} // namespace libtile::runtime
