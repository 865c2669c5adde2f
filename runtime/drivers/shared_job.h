// SPDX-License-Identifier: Apache-2.0
// A launch under way in the pool, and how its programs are handed out.
#pragma once

#include "runtime/drivers/thread_pool.h"
#include "runtime/drivers/watch.h"
#include "runtime/float_environment.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>

namespace libtile::runtime {

// Whether this is a thread of a pool; else, in a job, the one that launches it.
inline constinit thread_local bool isPoolThread = false;

using Clock = std::chrono::steady_clock;
inline float nanosecondsSince(Clock::time_point start) {
  return std::chrono::duration<float, std::nano>(Clock::now() - start).count();
}

// A launch under way, on the stack of the thread that launches.
class RunningJob {
public:
  RunningJob(const Job &job, const Caller &caller) noexcept : job_(job), caller_(caller) {
    job.frame->status = watch_.status();
    job.frame->poll = poll;
    job.frame->launcher = this;
  }
  [[nodiscard]] bool isWatched() const { return job_.frame->status != nullptr; }
  [[nodiscard]] const Job &job() const { return job_; }

  // Runs programs first .. end-1 in this thread, or fewer if the status word changes. Returns the
  // first that has not run to its end.
  [[nodiscard]] uint64_t run(uint64_t first, uint64_t end, uint8_t *memory) {
    FloatEnvironment standard;
    if (isPoolThread) {
      return first + job_.kernel(job_.frame, first, end - first, memory);
    }
    floats_ = &standard;
    const uint64_t done = first + job_.kernel(job_.frame, first, end - first, memory);
    floats_ = nullptr;
    return done;
  }
  [[nodiscard]] bool stops() const { return status().load(std::memory_order_relaxed) >= LIBTILE_STOP; }

  // In the launching thread, here and below: the launch is not a short one.
  void last() noexcept {
    if (!lasts_ && caller_.lasts != nullptr) {
      caller_.lasts(caller_.context);
    }
    lasts_ = true;
  }
  void ask() noexcept {
    const auto start = Clock::now();
    last();
    if (floats_ != nullptr) {
      floats_->leave();
    }
    if (watch_.isInterrupted() ||
        (caller_.isInterrupted != nullptr && caller_.isInterrupted(caller_.context) != 0)) {
      status().store(LIBTILE_STOP, std::memory_order_relaxed);
    }
    if (floats_ != nullptr) {
      floats_->enter();
    }
    answered_ += nanosecondsSince(start);
  }
  // Nanoseconds that the caller took for its answers.
  [[nodiscard]] float answered() const { return answered_; }
  // From here on other threads may take programs: nothing is to come back for them.
  void share() noexcept {
    last();
    isShared_ = true;
    watch_.goOn(LIBTILE_RUN);
  }
  // Nobody calls this thread any more: it waits for the others, and asks by itself.
  void endWatch() noexcept { watch_.end(); }
  // In any thread: what it is called for, if it is. Programs that were to run on this thread alone take
  // too long for that.
  void answer() noexcept {
    if (status().load(std::memory_order_relaxed) == LIBTILE_ATTEND && !isPoolThread) {
      watch_.goOn(isShared_ ? LIBTILE_RUN : LIBTILE_RETURN);
      ask();
    }
  }

private:
  [[nodiscard]] std::atomic_ref<uint32_t> status() const {
    return std::atomic_ref(*job_.frame->status);
  }
  static uint32_t poll(const codegen::cpu::Frame *frame) {
    auto &self = *static_cast<RunningJob *>(frame->launcher);
    self.answer();
    return self.stops() ? 1 : 0;
  }

  const Job &job_;
  const Caller &caller_;
  bool lasts_ = false, isShared_ = false;
  float answered_ = 0;
  FloatEnvironment *floats_ = nullptr; // while the launching thread is in the kernel
  WatchedLaunch watch_;
};

// Programs next .. end-1 are left. A line of its own: mostly one thread takes from it.
struct alignas(64) Range {
  std::atomic<uint64_t> next{0};
  uint64_t end = 0;
};

// Its programs are handed out from ranges, to each thread from its own one first: the launches of a kernel
// that follow each other find what they share in the same core's cache. Where programs may wait for lower ones
// there is one range for all.
class SharedJob {
public:
  SharedJob(RunningJob &running, uint64_t first, uint64_t chunk, std::span<Range> ranges)
      : running_(running), chunk_(chunk), ranges_(ranges) {
    const uint64_t programs = running.job().programs - first;
    const uint64_t even = programs / ranges.size(), longer = programs % ranges.size();
    for (size_t i = 0; i < ranges.size(); ++i) {
      ranges[i].next.store(first, std::memory_order_relaxed);
      first += even + (i < longer ? 1 : 0);
      ranges[i].end = first;
    }
    left_.store(even > 0 ? ranges.size() : longer, std::memory_order_relaxed);
  }
  [[nodiscard]] RunningJob &running() const { return running_; }
  [[nodiscard]] bool hasMore() const {
    return left_.load(std::memory_order_relaxed) != 0 && !running_.stops();
  }
  [[nodiscard]] uint64_t busy() const { return busy_.load(); }

  // Takes chunks until none is left.
  void work(size_t thread, uint8_t *memory) {
    const auto start = Clock::now();
    for (size_t i = 0; i < ranges_.size() && hasMore(); ++i) {
      drain(ranges_[(thread + i) % ranges_.size()], memory);
    }
    busy_.fetch_add(static_cast<uint64_t>(nanosecondsSince(start)), std::memory_order_relaxed);
  }

private:
  void drain(Range &range, uint8_t *memory) {
    while (!running_.stops() && range.next.load(std::memory_order_relaxed) < range.end) {
      uint64_t at = range.next.fetch_add(chunk_, std::memory_order_relaxed);
      if (at >= range.end) {
        return;
      }
      const uint64_t end = std::min(at + chunk_, range.end);
      if (end == range.end) {
        left_.fetch_sub(1, std::memory_order_relaxed);
      }
      while (at < end && !running_.stops()) {
        at = running_.run(at, end, memory);
        running_.answer();
      }
    }
  }

  RunningJob &running_;
  uint64_t chunk_;
  std::span<Range> ranges_;
  alignas(64) std::atomic<size_t> left_{0}; // ranges with programs that nobody has taken
  std::atomic<uint64_t> busy_{0};           // nanoseconds, of all threads
};

} // namespace libtile::runtime
