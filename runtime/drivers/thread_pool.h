// SPDX-License-Identifier: Apache-2.0
// The threads that run the programs of CPU kernels.
//
// A launch is a Job: programs 0 .. count-1, handed out in ascending chunks from one counter to the
// calling thread and to the workers. Each chunk runs in ascending order, so the lowest unfinished
// program is always running, and a kernel that spins on a lower program finishes. The calling thread
// takes part, so a launch finishes even if every worker is busy with other launches: several user
// threads may launch at once.
//
// Waking a worker costs microseconds. A job whose estimated time is below that stays on the calling
// thread; the estimate is the caller's (see JobCost).
//
// At fork the child forgets the parent's pool and builds its own on its first launch.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace libtile::runtime {

// Scratch memory of one thread: grown on demand, 64-byte aligned, freed with the thread.
// nullptr if there is no memory.
[[nodiscard]] uint8_t *threadArena(size_t bytes) noexcept;

// Running estimate of what one program of a kernel costs; shared by all launches of it.
class JobCost {
public:
  // 0: not known yet.
  [[nodiscard]] float nanosecondsPerProgram() const { return estimate_.load(std::memory_order_relaxed); }
  void record(float nanosecondsPerProgram) noexcept;

private:
  std::atomic<float> estimate_{0};
};

// Runs the programs first .. first+count-1 in this order.
struct Job {
  void (*run)(const void *context, uint64_t first, uint64_t count, uint8_t *arena) = nullptr;
  const void *context = nullptr;
  uint64_t programs = 0;
  size_t arenaBytes = 0;
};

// Runs the job to its end. Returns false if the calling thread's arena could not be had (nothing ran).
[[nodiscard]] bool runJob(const Job &job, JobCost &cost) noexcept;

// Whether a job of so many programs would stay on the calling thread.
[[nodiscard]] bool isShortJob(const JobCost &cost, uint64_t programs) noexcept;

// Threads that a launch uses, the calling one included. 0: all cores. The first value comes from
// LIBTILE_NUM_THREADS. A change waits for nothing: launches under way keep their workers.
void setPoolThreads(int threads);
[[nodiscard]] int poolThreads();

// To be called in the child of a fork before any launch.
void forgetPoolAfterFork() noexcept;

} // namespace libtile::runtime
