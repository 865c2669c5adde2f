// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/thread_pool.h"

#include "ir/diagnostic.h"
#include "runtime/drivers/openmp.h"
#include "runtime/drivers/shared_job.h"
#include "runtime/drivers/stand.h"
#include "runtime/drivers/team_choice.h"
#include "runtime/drivers/watch.h"
#include "runtime/environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <sched.h>
#include <span>
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

struct Arena {
  uint8_t *memory = nullptr;
  size_t bytes = 0;
};
// No destructor, so that access needs no check; FreeArena has one.
constinit thread_local Arena arena;
struct FreeArena {
  ~FreeArena() { std::free(std::exchange(arena, {}).memory); }
};

// Of a launching thread, while its job runs: should its caller launch another one meanwhile (a handler of signals that
// it is asked for does), that one gets an arena of its own.
class LaunchArena {
public:
  explicit LaunchArena(size_t bytes) : memory_(threadArena(bytes)), taken_(std::exchange(arena, {})) {}
  ~LaunchArena() { std::free(std::exchange(arena, taken_).memory); }
  LaunchArena(const LaunchArena &) = delete;
  LaunchArena &operator=(const LaunchArena &) = delete;
  [[nodiscard]] uint8_t *memory() const { return memory_; }

private:
  uint8_t *memory_;
  Arena taken_;
};

class Pool {
public:
  // A machine that gives no more threads still runs kernels on those it gave.
  void start(int threads) noexcept {
    try {
      for (Stand &stand : stands_) {
        stand.serve(threads);
      }
      for (; threads_ < threads; ++threads_) {
        std::thread([this, index = static_cast<size_t>(threads_)] { workerLoop(index); }).detach();
      }
    } catch (const std::exception &) {
    }
  }
  // The calling thread included.
  [[nodiscard]] int threads() const { return threads_; }

  // For a launch: one that is free, or nullptr: then there are more launches than the workers would help.
  [[nodiscard]] Stand *takeStand() noexcept {
    for (Stand &stand : stands_) {
      if (stand.take()) {
        return &stand;
      }
    }
    return nullptr;
  }

  void run(Stand &stand, SharedJob &job, uint8_t *memory) {
    stand.publish(job);
    published_.fetch_add(1);
    wake();
    job.work(0, memory);
    stand.finish(job.running());
  }
  // The workers leave when they are done; the pool itself stays, since they still look at it.
  void close() {
    closed_.store(true);
    published_.fetch_add(1);
    published_.notify_all();
  }

private:
  static constexpr size_t kStands = 16;

  // Two sleepers; each of them wakes two more if there is work.
  void wake() {
    for (int i = 0; i < 2 && sleepers_.load() != 0; ++i) {
      published_.notify_one();
    }
  }

  // Works where a job has programs left. False: nowhere, or there is no memory for it.
  bool help(size_t thread) {
    bool helped = false;
    for (Stand &stand : stands_) {
      helped |= stand.help(thread, [this] { wake(); });
    }
    return helped;
  }

  void workerLoop(size_t thread) {
    isPoolThread = true;
    while (!closed_.load(std::memory_order_relaxed)) {
      const uint32_t seen = published_.load();
      if (!help(thread)) {
        waitForJob(seen);
      }
    }
  }

  void waitForJob(uint32_t seen) {
    if (spinUntil([&] { return published_.load(std::memory_order_acquire) != seen; })) {
      return;
    }
    sleepers_.fetch_add(1);
    published_.wait(seen);
    sleepers_.fetch_sub(1);
  }

  int threads_ = 1;
  std::array<Stand, kStands> stands_;
  alignas(64) std::atomic<uint32_t> published_{0};
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
// 0: nobody asked for a number. As the environment says until setPoolThreads.
std::atomic<int> &askedThreads() {
  static std::atomic<int> asked = environmentNumber("LIBTILE_NUM_THREADS", kMostThreads);
  return asked;
}

// That the process may use when it is first asked, of those that the machine has: what else threads would take turns on.
int ownCores() {
  static const int cores = [] {
    cpu_set_t allowed;
    const bool isKnown = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    return isKnown ? CPU_COUNT(&allowed) : static_cast<int>(std::thread::hardware_concurrency());
  }();
  return std::clamp(cores, 1, kMostThreads);
}

int ownThreads() {
  const int asked = askedThreads().load();
  return asked > 0 ? asked : ownCores();
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
    current = makePool(ownThreads());
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

enum class TeamUse { Never, WhereItMay, WhereItIsFaster };

TeamUse teamUse() {
  static const auto asked =
      static_cast<TeamUse>(environmentNumber("LIBTILE_OPENMP", 1, static_cast<int>(TeamUse::WhereItIsFaster)));
  return asked;
}

// Of the first thread alone.
TeamChoice teamChoice;

// That a launch of this thread may run on; nullptr: none. As many as OpenMP has are as good as any where nobody asked.
const OpenMp *teamForLaunch() noexcept {
  return teamUse() != TeamUse::Never ? OpenMp::here(askedThreads().load(std::memory_order_relaxed)) : nullptr;
}

// Of a team's launches. It belongs to the process's first thread. nullptr: a launch has it that a handler of signals
// launches beside, where a region of one thread does not count as one; or there is no memory.
Stand *takeTeamStand(int threads) noexcept {
  static auto *stand = new (std::nothrow) Stand;
  if (stand == nullptr || !stand->take()) {
    return nullptr;
  }
  try {
    if (stand->ranges().size() != static_cast<size_t>(threads)) {
      stand->serve(threads);
    }
    return stand;
  } catch (const std::exception &) {
    stand->leave();
    return nullptr;
  }
}

void runOnTeam(const OpenMp &team, Stand &stand, SharedJob &job, uint8_t *memory) noexcept {
  struct Region {
    const OpenMp &team;
    Stand &stand;
    SharedJob &job;
    uint8_t *memory;
    int handlers; // the number of threads that a handler of signals has set, which would end with the region; or 0
  } region = {team, stand, job, memory, 0};
  stand.publish(job);
  team.parallel(
      [](void *data) {
        auto &[team, stand, job, memory, handlers] = *static_cast<Region *>(data);
        if (team.thread() == 0) {
          const int before = team.threads();
          // Until nobody works on it, asking meanwhile: at the region's end OpenMP waits without.
          job.work(0, memory);
          stand.finish(job.running());
          handlers = team.threads() != before ? team.threads() : 0;
        } else {
          isPoolThread = true;
          (void)stand.help(static_cast<size_t>(team.thread()), [] {});
          isPoolThread = false;
        }
      },
      &region);
  if (region.handlers != 0) {
    team.setThreads(region.handlers);
  }
}

// How long so many programs take at least that keep threads busy for so many nanoseconds in all.
float leastTime(float busy, uint64_t programs, int threads) {
  const auto each = static_cast<uint64_t>(threads);
  return busy * static_cast<float>((programs + each - 1) / each) / static_cast<float>(programs);
}

// Runs the programs from `first` on, which cost about so much each, in all threads. Returns the
// nanoseconds that these were busy.
float runOnAll(RunningJob &running, uint64_t first, float perProgram, uint8_t *memory) noexcept {
  const uint64_t programs = running.job().programs - first;
  const OpenMp *offered = teamForLaunch();
  const bool isChosen = offered != nullptr && teamUse() == TeamUse::WhereItIsFaster;
  const OpenMp *team = isChosen && !teamChoice.usesTeam() ? nullptr : offered;
  Pool *workers = team == nullptr ? pool() : nullptr;
  const int threads = team != nullptr ? team->threads() : workers != nullptr ? workers->threads() : 1;
  Stand *stand = nullptr;
  if (threads > 1) {
    stand = team != nullptr ? takeTeamStand(threads) : workers->takeStand();
  }
  Range own;
  std::span<Range> ranges(&own, 1);
  if (stand != nullptr && !running.job().inOrder) {
    ranges = stand->ranges();
  }
  SharedJob job(running, first, chunkFor(programs, perProgram, threads), ranges);
  const auto start = Clock::now(); // the pool's threads have begun
  const float answered = running.answered();
  if (stand == nullptr) {
    job.work(0, memory);
  } else if (team != nullptr) {
    runOnTeam(*team, *stand, job, memory);
  } else {
    workers->run(*stand, job, memory);
  }
  const auto busy = static_cast<float>(job.busy());
  if (isChosen && stand != nullptr && !running.stops()) {
    const float taken = nanosecondsSince(start) - (running.answered() - answered);
    teamChoice.record(taken, leastTime(busy, programs, threads), Clock::now());
  }
  return busy;
}

uint8_t *opened(uint8_t *memory) {
  std::memset(memory, 0, sizeof(uint64_t));
  return memory;
}

} // namespace

uint8_t *threadArena(size_t bytes) noexcept {
  // A kernel without scratch gets a valid address all the same.
  bytes = std::max<size_t>(bytes, 64);
  if (arena.bytes >= bytes) {
    return opened(arena.memory);
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
  return opened(memory);
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
  const LaunchArena taken(job.arenaBytes);
  uint8_t *memory = taken.memory();
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

void preparePool() {
  (void)askedThreads();
  (void)teamUse();
}

void setPoolThreads(int64_t threads) {
  if (threads < 0 || threads > kMostThreads) {
    throw ir::UserError(std::to_string(threads) + " is no number of threads: give 0, for all cores, to " +
                        std::to_string(kMostThreads));
  }
  const std::lock_guard lock(poolMutex());
  askedThreads().store(static_cast<int>(threads));
  Pool *old = thePool.exchange(makePool(ownThreads()));
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
