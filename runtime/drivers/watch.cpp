// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/watch.h"

#include "codegen/cpu/frame.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <new>
#include <thread>

namespace libtile::runtime {

struct alignas(64) WatchedLaunch::Cell {
  uint32_t status = LIBTILE_RUN; // by atomic_ref
  // Odd while a launch is under way.
  std::atomic<uint32_t> launches{0};
  // The watcher's: `launches` at its last look, and for how many looks it has been that.
  uint32_t seen = 0, age = 0;
  Cell *nextOfAll = nullptr; // never changes once the cell is listed
  Cell *nextFree = nullptr;
};

namespace {

using Cell = WatchedLaunch::Cell;
using Status = std::atomic_ref<uint32_t>;

constexpr std::chrono::milliseconds kTick{5};
// A launch that lasts is called again after so many ticks.
constexpr uint32_t kTicksBetweenCalls = 10;
// Ticks without a launch before the watcher sleeps.
constexpr int kTicksUntilSleep = 200;

enum WatcherState : int { None, Awake, Asleep };

// Constant initialisation and no destructors: threads of a dying process still look at these.
constinit std::atomic<int> watcherState{None};
constinit std::atomic<uint32_t> interrupts{0};
constinit std::atomic<Cell *> allCells{nullptr};
constinit std::mutex freeMutex;
constinit Cell *freeCells = nullptr; // of ended threads; guarded by freeMutex

// Of this thread and in no use. No destructor, so that access needs no check; giveBack has one.
constinit thread_local Cell *ownCells = nullptr;

struct GiveBack {
  ~GiveBack() {
    const std::lock_guard lock(freeMutex);
    while (Cell *cell = ownCells) {
      ownCells = cell->nextFree;
      cell->nextFree = freeCells;
      freeCells = cell;
    }
  }
};

[[gnu::noinline]] Cell *makeCell() noexcept {
  static thread_local GiveBack giveBack; // at the thread's end
  {
    const std::lock_guard lock(freeMutex);
    if (Cell *cell = freeCells) {
      freeCells = cell->nextFree;
      return cell;
    }
  }
  auto *cell = new (std::nothrow) Cell;
  if (cell != nullptr) {
    cell->nextOfAll = allCells.load(std::memory_order_relaxed);
    while (!allCells.compare_exchange_weak(cell->nextOfAll, cell, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    }
  }
  return cell;
}

// Whether a launch has begun since the last look, or is under way and not called.
bool look(Cell &cell) noexcept {
  const uint32_t launches = cell.launches.load(std::memory_order_relaxed);
  if (launches != cell.seen) {
    cell.seen = launches;
    cell.age = 0;
    return true;
  }
  if (launches % 2 == 0) {
    return false;
  }
  uint32_t status = Status(cell.status).load(std::memory_order_relaxed);
  if (status < LIBTILE_ATTEND && cell.age++ % kTicksBetweenCalls == 0) {
    Status(cell.status).compare_exchange_strong(status, LIBTILE_ATTEND);
  }
  return status < LIBTILE_ATTEND;
}

bool lookAtAll() noexcept {
  bool any = false;
  Cell *cell = allCells.load(std::memory_order_acquire);
  for (; cell != nullptr; cell = cell->nextOfAll) {
    any = look(*cell) || any;
  }
  return any;
}

void watch() noexcept {
  for (int quiet = 0;;) {
    std::this_thread::sleep_for(kTick);
    quiet = lookAtAll() ? 0 : quiet + 1;
    if (quiet < kTicksUntilSleep) {
      continue;
    }
    watcherState.store(Asleep);
    // A launch that began without seeing this is seen one tick later.
    std::this_thread::sleep_for(kTick);
    if (lookAtAll()) {
      watcherState.store(Awake);
    } else {
      watcherState.wait(Asleep);
    }
    quiet = 0;
  }
}

[[gnu::noinline]] void wakeWatcher() noexcept {
  const int before = watcherState.exchange(Awake);
  if (before == Asleep) {
    watcherState.notify_one();
  } else if (before == None) {
    try {
      std::thread(watch).detach();
    } catch (const std::exception &) {
      // No more threads here: launches run as they are.
    }
  }
}

void needWatcher() noexcept {
  if (watcherState.load(std::memory_order_relaxed) != Awake) [[unlikely]] {
    wakeWatcher();
  }
}

} // namespace

WatchedLaunch::WatchedLaunch() noexcept
    : cell_(ownCells), interruptsBefore_(interrupts.load(std::memory_order_relaxed)) {
  if (cell_ != nullptr) [[likely]] {
    ownCells = cell_->nextFree;
  } else if ((cell_ = makeCell()) == nullptr) {
    return;
  }
  Status(cell_->status).store(LIBTILE_RUN, std::memory_order_relaxed);
  cell_->launches.store(cell_->launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  needWatcher();
}

void WatchedLaunch::end() noexcept {
  // To the next even number.
  const uint32_t launches = cell_->launches.load(std::memory_order_relaxed);
  cell_->launches.store((launches | 1) + 1, std::memory_order_relaxed);
  goOn(LIBTILE_RUN);
}

WatchedLaunch::~WatchedLaunch() {
  if (cell_ != nullptr) {
    const uint32_t launches = cell_->launches.load(std::memory_order_relaxed);
    cell_->launches.store(launches + launches % 2, std::memory_order_relaxed);
    cell_->nextFree = ownCells;
    ownCells = cell_;
  }
}

uint32_t *WatchedLaunch::status() const noexcept { return cell_ != nullptr ? &cell_->status : nullptr; }

void WatchedLaunch::goOn(uint32_t status) noexcept {
  uint32_t now = Status(cell_->status).load(std::memory_order_relaxed);
  while (now < LIBTILE_STOP && !Status(cell_->status).compare_exchange_weak(now, status)) {
  }
  needWatcher();
}

bool WatchedLaunch::isInterrupted() const noexcept {
  return interrupts.load(std::memory_order_relaxed) != interruptsBefore_;
}

void interruptLaunches() noexcept { interrupts.fetch_add(1); }

void forgetWatcherAfterFork() noexcept {
  new (&freeMutex) std::mutex;
  watcherState.store(None);
}

} // namespace libtile::runtime
