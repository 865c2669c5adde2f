// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/reclaim.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <new>
#include <vector>

namespace libtile::runtime {

namespace {

constexpr size_t kEpochs = 3; // that readers may be counted in at a time
constexpr size_t kLines = 16;

struct alignas(64) Line {
  std::atomic<uint32_t> readers[kEpochs];
};
Line lines[kLines];
std::atomic<uint64_t> epoch{kEpochs};

struct Reader {
  uint32_t depth = 0;
  uint32_t place = 0; // among a line's counts
  Line *line = nullptr;
};
thread_local Reader reader;

Line &nextLine() noexcept {
  static std::atomic<size_t> next{0};
  return lines[next.fetch_add(1, std::memory_order_relaxed) % kLines];
}

struct Retired {
  uint64_t epoch;
  std::shared_ptr<void> object;
};
// Never destroyed: threads may retire until the process is gone.
struct Limbo {
  std::mutex mutex;
  std::deque<Retired> objects;
};
Limbo &limbo() {
  static auto *made = new Limbo;
  return *made;
}

bool isEmpty(size_t place) {
  for (const Line &line : lines) {
    if (line.readers[place].load(std::memory_order_seq_cst) != 0) {
      return false;
    }
  }
  return true;
}

// With the mutex held. The count that the new epoch takes over is empty: nobody was left in it when the
// epoch before this one began.
uint64_t advance() {
  uint64_t current = epoch.load(std::memory_order_seq_cst);
  for (size_t i = 0; i + 1 < kEpochs && isEmpty((current - 1) % kEpochs); ++i) {
    epoch.store(++current, std::memory_order_seq_cst);
  }
  return current;
}

void collect(std::shared_ptr<void> added) {
  std::vector<std::shared_ptr<void>> garbage; // destroyed without the mutex
  const std::lock_guard lock(limbo().mutex);
  std::deque<Retired> &objects = limbo().objects;
  if (added != nullptr) {
    objects.push_back({epoch.load(std::memory_order_seq_cst), std::move(added)});
  }
  const uint64_t current = advance();
  while (!objects.empty() && objects.front().epoch + 2 <= current) {
    garbage.push_back(std::move(objects.front().object));
    objects.pop_front();
  }
}

} // namespace

void beginReading() noexcept {
  if (reader.depth++ != 0) {
    return;
  }
  if (reader.line == nullptr) {
    reader.line = &nextLine();
  }
  while (true) {
    const uint64_t seen = epoch.load(std::memory_order_seq_cst);
    reader.place = static_cast<uint32_t>(seen % kEpochs);
    reader.line->readers[reader.place].fetch_add(1, std::memory_order_seq_cst);
    if (epoch.load(std::memory_order_seq_cst) == seen) {
      return;
    }
    reader.line->readers[reader.place].fetch_sub(1, std::memory_order_release);
  }
}

void endReading() noexcept {
  if (--reader.depth == 0) {
    reader.line->readers[reader.place].fetch_sub(1, std::memory_order_release);
  }
}

void retire(std::shared_ptr<void> object) { collect(std::move(object)); }
void collectRetired() { collect(nullptr); }

size_t numRetired() {
  const std::lock_guard lock(limbo().mutex);
  return limbo().objects.size();
}

void forgetReadersAfterFork() noexcept {
  new (&limbo().mutex) std::mutex;
  for (Line &line : lines) {
    for (std::atomic<uint32_t> &count : line.readers) {
      count.store(0);
    }
  }
  if (reader.depth != 0) {
    reader.line->readers[reader.place].store(1);
  }
}

} // namespace libtile::runtime
