// SPDX-License-Identifier: Apache-2.0
// How a job's memory stays valid: it lies on the caller's stack in a list guarded by a mutex. A worker
// attaches (users + 1) under the mutex while the job is listed; the caller takes it off the list under
// the same mutex once nothing is left to hand out, then waits until the last user has detached.
#include "runtime/drivers/thread_pool.h"

#include "ir/diagnostic.h"
#include "runtime/drivers/watch.h"
#include "runtime/environment.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <utility>

namespace libtile::runtime {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
// Below this estimated time a job is not worth waking a worker for.
constexpr float kShortJobNanoseconds = 12000;
// A chunk should last at least this long: the counter is no bottleneck then, and runs of memory stay
// with one core (docs/decisions.md 28).
constexpr float kChunkNanoseconds = 30000;
// How often a thread looks for work (or the end of it) before it sleeps: some 20 microseconds.
constexpr int kSpins = 400;
// How often a thread that only waits asks whether the launch is interrupted.
constexpr std::chrono::milliseconds kAskEvery{50};

struct Arena {
  uint8_t *memory = nullptr;
  size_t bytes = 0;
};
// No destructor, so that access needs no check; FreeArena has one.
constinit thread_local Arena arena;
struct FreeArena {
  ~FreeArena() { std::free(std::exchange(arena, {}).memory); }
};

// Whether this is a thread of a pool; else, in a job, the one that launches it.
constinit thread_local bool isWorker = false;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

using Clock = std::chrono::steady_clock;
float nanosecondsSince(Clock::time_point start) {
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
  [[nodiscard]] uint64_t run(uint64_t first, uint64_t end, uint8_t *memory) const {
    return first + job_.kernel(job_.frame, first, end - first, memory);
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
    last();
    if (watch_.isInterrupted() ||
        (caller_.isInterrupted != nullptr && caller_.isInterrupted(caller_.context) != 0)) {
      status().store(LIBTILE_STOP, std::memory_order_relaxed);
    }
  }
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
    if (status().load(std::memory_order_relaxed) == LIBTILE_ATTEND && !isWorker) {
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
  WatchedLaunch watch_;
};

struct ListedJob {
  RunningJob &running;
  uint64_t chunk;
  alignas(64) std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> busy{0};  // nanoseconds, of all threads
  std::atomic<int> users{0};      // workers inside; raised under the pool's mutex only
  ListedJob *later = nullptr;     // in the pool's list
  [[nodiscard]] bool hasMore() const {
    return next.load(std::memory_order_relaxed) < running.job().programs && !running.stops();
  }
};

// Takes chunks until none is left.
void work(ListedJob &listed, uint8_t *memory) {
  const auto start = Clock::now();
  RunningJob &running = listed.running;
  const uint64_t programs = running.job().programs;
  while (!running.stops()) {
    uint64_t at = listed.next.fetch_add(listed.chunk, std::memory_order_relaxed);
    if (at >= programs) {
      break;
    }
    const uint64_t end = std::min(at + listed.chunk, programs);
    while (at < end && !running.stops()) {
      at = running.run(at, end, memory);
      running.answer();
    }
  }
  listed.busy.fetch_add(static_cast<uint64_t>(nanosecondsSince(start)), std::memory_order_relaxed);
}

class Pool {
public:
  // A machine that gives no more threads still runs kernels on those it gave.
  void start(int threads) noexcept {
    try {
      for (; threads_ < threads; ++threads_) {
        std::thread([this] { workerLoop(); }).detach();
      }
    } catch (const std::exception &) {
    }
  }
  // The calling thread included.
  [[nodiscard]] int threads() const { return threads_; }

  void run(ListedJob &listed, uint8_t *memory) {
    publish(listed);
    work(listed, memory);
    retire(listed);
  }
  // The workers leave when they are done; the pool itself stays, since they still look at it.
  void close() {
    closed_.store(true);
    published_.fetch_add(1);
    published_.notify_all();
  }

private:
  void publish(ListedJob &listed) {
    {
      const std::lock_guard lock(mutex_);
      ListedJob **end = &jobs_;
      while (*end != nullptr) {
        end = &(*end)->later;
      }
      *end = &listed;
    }
    published_.fetch_add(1, std::memory_order_release);
    if (sleepers_.load() != 0) {
      published_.notify_all();
    }
  }

  void retire(ListedJob &listed) {
    {
      const std::lock_guard lock(mutex_);
      ListedJob **link = &jobs_;
      while (*link != &listed) {
        link = &(*link)->later;
      }
      *link = listed.later;
    }
    for (int spin = 0; listed.users.load() != 0 && spin < kSpins; ++spin) {
      pause();
    }
    listed.running.endWatch();
    // The mutex is taken in any case: the last user may still hold it to wake us.
    std::unique_lock lock(mutex_);
    while (!detached_.wait_for(lock, kAskEvery, [&] { return listed.users.load() == 0; })) {
      lock.unlock();
      listed.running.ask();
      lock.lock();
    }
  }

  // A listed job with programs left, attached; nullptr if there is none.
  ListedJob *attach() {
    const std::lock_guard lock(mutex_);
    for (ListedJob *job = jobs_; job != nullptr; job = job->later) {
      if (job->hasMore()) {
        ++job->users;
        return job;
      }
    }
    return nullptr;
  }

  void detach(ListedJob &listed) {
    const std::lock_guard lock(mutex_);
    --listed.users;
    // Under the mutex: the job is gone as soon as its caller sees no users.
    detached_.notify_all();
  }

  void workerLoop() {
    isWorker = true;
    while (!closed_.load(std::memory_order_relaxed)) {
      const uint32_t seen = published_.load(std::memory_order_acquire);
      if (ListedJob *listed = attach()) {
        // Without memory the job is left to the others; its caller has an arena.
        uint8_t *memory = threadArena(listed->running.job().arenaBytes);
        if (memory != nullptr) {
          work(*listed, memory);
        }
        detach(*listed);
        if (memory != nullptr) {
          continue;
        }
      }
      waitForJob(seen);
    }
  }

  void waitForJob(uint32_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (published_.load(std::memory_order_acquire) != seen) {
        return;
      }
      pause();
    }
    sleepers_.fetch_add(1);
    published_.wait(seen);
    sleepers_.fetch_sub(1);
  }

  int threads_ = 1;
  std::mutex mutex_;
  std::condition_variable detached_;
  ListedJob *jobs_ = nullptr;
  std::atomic<uint32_t> published_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> closed_{false};
};

// The pool lives for ever: threads of a dying process may still look at it. A replaced one leaks, a
// few hundred bytes for each call of setPoolThreads or fork.
std::atomic<Pool *> thePool{nullptr};
std::mutex &poolMutex() {
  static auto *mutex = new std::mutex;
  return *mutex;
}
int wantedThreads = 0; // guarded by poolMutex; 0: not asked for

// As the environment says at the first use, or all cores.
int defaultThreads() {
  static const int wanted = environmentNumber("LIBTILE_NUM_THREADS", kMostThreads);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  return wanted > 0 ? wanted : std::clamp(cores, 1, kMostThreads);
}

Pool *makePool(int threads) noexcept {
  auto *made = new (std::nothrow) Pool;
  if (made != nullptr) {
    made->start(threads);
  }
  return made;
}

Pool *pool() noexcept {
  Pool *current = thePool.load(std::memory_order_acquire);
  if (current != nullptr) [[likely]] {
    return current;
  }
  const std::lock_guard lock(poolMutex());
  current = thePool.load(std::memory_order_acquire);
  if (current == nullptr) {
    current = makePool(wantedThreads > 0 ? wantedThreads : defaultThreads());
    thePool.store(current, std::memory_order_release);
  }
  return current;
}

uint64_t chunkFor(uint64_t programs, float perProgram, int threads) {
  const uint64_t fair = std::max<uint64_t>(1, programs / (uint64_t{8} * threads));
  if (perProgram <= 0) {
    return fair;
  }
  const auto worthwhile = static_cast<uint64_t>(kChunkNanoseconds / perProgram);
  return std::clamp<uint64_t>(worthwhile, 1, fair);
}

bool isShort(float perProgram, uint64_t programs) {
  return perProgram > 0 && perProgram * static_cast<float>(programs) < kShortJobNanoseconds;
}

// Runs the programs from `first` on, which cost about so much each, in all threads. Returns the
// nanoseconds that these were busy.
float runOnAll(RunningJob &running, uint64_t first, float perProgram, uint8_t *memory) noexcept {
  Pool *workers = pool();
  const int threads = workers != nullptr ? workers->threads() : 1;
  ListedJob listed{running, chunkFor(running.job().programs - first, perProgram, threads), first};
  if (threads == 1) {
    work(listed, memory);
  } else {
    workers->run(listed, memory);
  }
  return static_cast<float>(listed.busy.load());
}

} // namespace

uint8_t *threadArena(size_t bytes) noexcept {
  // A kernel without scratch gets a valid address all the same.
  bytes = std::max<size_t>(bytes, 64);
  if (arena.bytes >= bytes) {
    return arena.memory;
  }
  static thread_local FreeArena atTheEnd;
  std::free(std::exchange(arena, {}).memory);
  const bool huge = bytes >= kHugePage / 2;
  const size_t alignment = huge ? kHugePage : 64;
  if (bytes > SIZE_MAX - alignment) {
    return nullptr;
  }
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  auto *memory = static_cast<uint8_t *>(std::aligned_alloc(alignment, rounded));
  if (memory == nullptr) {
    return nullptr;
  }
  if (huge) {
    madvise(memory, rounded, MADV_HUGEPAGE);
  }
  arena.memory = memory;
  arena.bytes = rounded;
  return memory;
}

bool JobCost::isDue() noexcept {
  // Threads that count at once may lose a launch.
  const uint32_t launches = launches_.load(std::memory_order_relaxed);
  launches_.store(launches + 1, std::memory_order_relaxed);
  return launches % 8 == 0;
}

void JobCost::record(float nanosecondsPerProgram) noexcept {
  const float old = estimate_.load(std::memory_order_relaxed);
  const float measured = std::max(nanosecondsPerProgram, 0.01F);
  estimate_.store(old == 0 ? measured : 0.75F * old + 0.25F * measured, std::memory_order_relaxed);
}

bool isShortJob(const JobCost &cost, uint64_t programs) noexcept {
  return isShort(cost.nanosecondsPerProgram(), programs);
}

JobEnd runJob(const Job &job, JobCost &cost, const Caller &caller) noexcept {
  uint8_t *memory = threadArena(job.arenaBytes);
  RunningJob running(job, caller);
  if (memory == nullptr || !running.isWatched()) {
    return JobEnd::NoMemory;
  }
  const float known = cost.nanosecondsPerProgram();
  const bool seemsShort = isShort(known, job.programs);
  if (seemsShort && job.programs == 1) {
    // It cannot be shared, so its time decides nothing.
    (void)running.run(0, 1, memory);
    return running.stops() ? JobEnd::Stopped : JobEnd::Done;
  }
  const auto start = Clock::now();
  const bool learns = !seemsShort || cost.isDue();
  uint64_t done = 0;
  if (!seemsShort) {
    running.last();
  }
  if (known == 0 || job.programs == 1) {
    done = running.run(0, 1, memory);
  } else if (seemsShort) {
    done = running.run(0, learns ? job.programs : (job.programs + 3) / 4, memory);
  }
  // The same kernel may have longer rows than at the last launch.
  if (done > 0 && done < job.programs &&
      isShort(nanosecondsSince(start) / static_cast<float>(done), job.programs - done)) {
    done = running.run(done, job.programs, memory);
  }
  running.answer();
  const bool shares = done < job.programs && !running.stops();
  float busy = learns || shares ? nanosecondsSince(start) : 0;
  if (shares) {
    running.share();
    busy += runOnAll(running, done, done > 0 ? busy / static_cast<float>(done) : known, memory);
  }
  if (running.stops()) {
    return JobEnd::Stopped;
  }
  if (learns || shares) {
    cost.record(busy / static_cast<float>(job.programs));
  }
  return JobEnd::Done;
}

void preparePool() { (void)defaultThreads(); }

void setPoolThreads(int64_t threads) {
  if (threads < 0 || threads > kMostThreads) {
    throw ir::UserError(std::to_string(threads) + " is no number of threads: give 0, for all cores, to " +
                        std::to_string(kMostThreads));
  }
  const std::lock_guard lock(poolMutex());
  wantedThreads = threads > 0 ? static_cast<int>(threads) : defaultThreads();
  Pool *old = thePool.exchange(makePool(wantedThreads));
  if (old != nullptr) {
    old->close();
  }
}

int poolThreads() {
  preparePool();
  const Pool *current = pool();
  return current != nullptr ? current->threads() : 1;
}

void forgetPoolAfterFork() noexcept {
  // The parent's workers do not exist here; a mutex held by one of its threads would stay held.
  new (&poolMutex()) std::mutex;
  thePool.store(nullptr);
  forgetWatcherAfterFork();
}

} // namespace libtile::runtime
