// SPDX-License-Identifier: Apache-2.0
// What the walk that places barriers (place_barriers.cpp) remembers: accesses since the last barrier.
#pragma once

#include "passes/gpu/shared_accesses.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace libtile::passes {

struct Bytes {
  int64_t begin = 0, end = 0;
  [[nodiscard]] bool overlaps(const Bytes &other) const {
    return begin < other.end && other.begin < end;
  }
};

// An access to shared memory that other threads may not have seen.
struct SharedPending {
  enum class Kind : uint8_t { Read, Write, Arrived } kind; // Arrived: an asynchronous write
  ir::OpId owner;
  RingPhase phase;
  ir::LayoutId own; // ownersOf
  friend bool operator==(const SharedPending &, const SharedPending &) = default;
};

// An access to global memory; `loop` is the body whose back edge it has crossed, if any.
struct GlobalPending {
  ir::OpId op;
  ir::BlockId loop;
  friend bool operator==(const GlobalPending &, const GlobalPending &) = default;
};

// A buffer with asynchronous copies not waited for, of the threads that own its elements.
struct Flying {
  ir::OpId buffer;
  ir::LayoutId own;
  friend bool operator==(const Flying &, const Flying &) = default;
};

// A dot into a place, and the buffers that it reads.
struct Reading {
  ir::OpId dot;
  std::vector<SharedAccess> buffers;
  friend bool operator==(const Reading &, const Reading &) = default;
};

template <class T> void addOnce(std::vector<T> &list, const T &item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) {
    list.push_back(item);
  }
}

template <class T> void dropRepeats(std::vector<T> &list) {
  std::vector<T> once;
  std::ranges::for_each(list, [&](const T &item) { addOnce(once, item); });
  list = std::move(once);
}

inline bool endsWith(const std::vector<Reading> &list, const std::vector<Reading> &end) {
  return end.size() <= list.size() && std::equal(end.rbegin(), end.rend(), list.rbegin());
}

struct PendingAccesses {
  std::vector<SharedPending> shared;
  std::vector<GlobalPending> global;
  std::vector<Flying> flying;
  std::vector<Reading> reading; // of dots not waited for
  bool inOrder = true;          // they stand there as they have started; some ways that lead here lack the first ones
  std::vector<ir::OpId> storing; // buffers of boxes that are being stored
  bool acquired = false;    // an acquire whose order not all threads have

  void merge(const PendingAccesses &other) {
    for (const SharedPending &pending : other.shared) {
      addOnce(shared, pending);
    }
    for (const GlobalPending &pending : other.global) {
      addOnce(global, pending);
    }
    for (const Flying &copies : other.flying) {
      addOnce(flying, copies);
    }
    inOrder = inOrder && other.inOrder && (endsWith(reading, other.reading) || endsWith(other.reading, reading));
    if (inOrder) {
      reading = reading.size() < other.reading.size() ? other.reading : std::move(reading);
    } else {
      std::ranges::for_each(other.reading, [&](const Reading &each) { addOnce(reading, each); });
    }
    for (const ir::OpId buffer : other.storing) {
      addOnce(storing, buffer);
    }
    acquired |= other.acquired;
  }
  [[nodiscard]] bool includes(const PendingAccesses &other) const {
    PendingAccesses both = *this;
    both.merge(other);
    return both.shared.size() == shared.size() && both.global.size() == global.size() &&
           both.flying.size() == flying.size() && both.reading.size() == reading.size() &&
           both.storing.size() == storing.size() && both.inOrder == inOrder && both.acquired == acquired;
  }
  void synchronise() {
    shared.clear();
    global.clear();
    acquired = false;
  }
};

} // namespace libtile::passes
