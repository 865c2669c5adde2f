// SPDX-License-Identifier: Apache-2.0
// The threads that run the programs of CPU kernels.
//
// A launch is a Job: programs 0 .. count-1, handed out in chunks to the calling thread and to the workers.
// Each thread has a range of them, the same one at each launch of the job, so that its core finds in its
// cache what it left there; what others have not begun it takes when its own is done. Programs of a job
// that is `inOrder` start in ascending order, from one range: the lowest unfinished program is always
// running, and one that waits for a lower one goes on. The calling thread takes part, so a launch finishes
// even if every worker is busy with other launches: several user threads may launch at once.
//
// Waking a worker costs microseconds. A job whose estimated time is below that stays on the calling
// thread; the estimate is the caller's (see JobCost), learnt from whole jobs. Where it is wrong the
// watcher (watch.h) calls the thread back, and the rest of the job is shared after all.
//
// A launch of the process's first thread runs on OpenMP's threads in place of the workers where the process has them,
// nobody asked for another number (openmp.h), and it takes less time there (team_choice.h).
//
// At fork the child forgets the parent's pool and builds its own on its first launch.
#pragma once

#include "codegen/cpu/jit.h"
#include "runtime/drivers/caller.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace libtile::runtime {

// Scratch memory of one thread: grown on demand, 64-byte aligned, freed with the thread. It begins with zeros, where a kernel
// notes that something in it is of this launch (codegen/cpu/frame.h). nullptr if there is no memory.
[[nodiscard]] uint8_t *threadArena(size_t bytes) noexcept;

// Running estimate of what one program of a kernel costs; shared by all launches of it.
class JobCost {
public:
  // 0: not known yet.
  [[nodiscard]] float nanosecondsPerProgram() const { return estimate_.load(std::memory_order_relaxed); }
  void record(float nanosecondsPerProgram) noexcept;
  // Whether this launch, of those that seem short, is timed as a whole: every eighth is.
  [[nodiscard]] bool isDue() noexcept;

private:
  std::atomic<float> estimate_{0};
  std::atomic<uint32_t> launches_{0};
};

struct Job {
  codegen::cpu::Kernel kernel = nullptr;
  codegen::cpu::Frame *frame = nullptr; // status, poll and launcher are the pool's to set
  uint64_t programs = 0;
  size_t arenaBytes = 0;
  bool inOrder = false; // a program may wait for a lower one
};

enum class JobEnd {
  Done,
  NoMemory, // for the calling thread's arena: nothing ran
  Stopped   // by the caller, by interruptLaunches(), or by a program; some programs did not run
};

// Throws UserError if LIBTILE_NUM_THREADS says no number of threads, or LIBTILE_OPENMP neither 0 nor 1. To be called
// before the first job.
void preparePool();

// Runs the job to its end.
[[nodiscard]] JobEnd runJob(const Job &job, JobCost &cost, const Caller &caller = {}) noexcept;

// Whether a job of so many programs would stay on the calling thread.
[[nodiscard]] bool isShortJob(const JobCost &cost, uint64_t programs) noexcept;

// Threads that a launch uses, the calling one included. 0: all cores, or as many as OpenMP has where a launch runs on
// its threads. The first value comes from LIBTILE_NUM_THREADS. A change waits for nothing: launches under way keep
// their workers. Both throw as preparePool, and the first for a number that is not in 0 .. kMostThreads.
constexpr int kMostThreads = 1024;
void setPoolThreads(int64_t threads);
[[nodiscard]] int poolThreads();

// To be called in the child of a fork before any launch.
void forgetPoolAfterFork() noexcept;

} // namespace libtile::runtime
