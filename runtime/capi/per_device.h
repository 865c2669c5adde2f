// SPDX-License-Identifier: Apache-2.0
// Something for each device, made on first use and kept: found without a lock.
#pragma once

#include "runtime/fork.h"
#include "runtime/launcher.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace libtile::capi {

template <class T> class PerDevice {
public:
  PerDevice() = default;
  ~PerDevice() {
    while (Entry *first = entries_.load(std::memory_order_relaxed)) {
      entries_.store(first->next, std::memory_order_relaxed);
      delete first;
    }
  }
  PerDevice(const PerDevice &) = delete;
  PerDevice &operator=(const PerDevice &) = delete;

  // `make()` gives a unique_ptr.
  template <class F> [[nodiscard]] T &on(const runtime::LaunchDevice &device, F &&make) {
    if (T *found = find(device)) {
      return *found;
    }
    const runtime::CompileScope scope; // a fork waits
    const std::lock_guard lock(mutex_);
    if (T *found = find(device)) {
      return *found;
    }
    auto *made = new Entry{device.index, make(), entries_.load(std::memory_order_relaxed)};
    entries_.store(made, std::memory_order_release);
    return *made->content;
  }

private:
  struct Entry {
    uint32_t device;
    std::unique_ptr<T> content;
    Entry *next;
  };
  [[nodiscard]] T *find(const runtime::LaunchDevice &device) const noexcept {
    Entry *entry = entries_.load(std::memory_order_acquire);
    while (entry != nullptr && entry->device != device.index) {
      entry = entry->next;
    }
    return entry != nullptr ? entry->content.get() : nullptr;
  }

  std::atomic<Entry *> entries_{nullptr};
  std::mutex mutex_;
};

} // namespace libtile::capi
