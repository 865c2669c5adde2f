// SPDX-License-Identifier: Apache-2.0
// From the key of a call's arguments to what was compiled for it: the hot path's lookup.
//
// A key is a header word (device, options) and two words an argument: what the specialisation depends
// on of it (type, divisibility, or the constant's value). find() takes no lock and allocates nothing:
// slots are atomic pointers, and what they pointed to is retired (reclaim.h), not freed. Everything else
// takes a mutex. The table holds a bounded number; the oldest make room.
#pragma once

#include "runtime/launch.h"

#include <deque>
#include <span>

namespace libtile::runtime {

struct Specialisation {
  std::vector<uint64_t> key;
  uint64_t hash = 0;
  std::shared_ptr<Executable> executable;
  // Of the table's owner, let go with the entry.
  std::shared_ptr<void> user;
};

class SpecialisationTable {
public:
  static constexpr size_t kCapacity = 1024;

  SpecialisationTable();
  ~SpecialisationTable();
  SpecialisationTable(const SpecialisationTable &) = delete;
  SpecialisationTable &operator=(const SpecialisationTable &) = delete;

  [[nodiscard]] static uint64_t hash(std::span<const uint64_t> key) noexcept;
  // Valid while the caller reads (reclaim.h).
  [[nodiscard]] Specialisation *find(std::span<const uint64_t> key) const noexcept;
  // An entry that is there already under the key stays, and the new one is dropped.
  void insert(std::shared_ptr<Specialisation> entry);
  // The entry is found no more. It may be gone already.
  void remove(const Specialisation *entry);
  void clear();
  // With the mutex held: `visit` calls nothing of the table.
  template <class F> void forEach(F &&visit) const {
    const std::lock_guard lock(mutex_);
    for (const auto &entry : entries_) {
      visit(*entry);
    }
  }

private:
  // A power of two of slots, at most half of them ever used. A removed entry leaves a mark.
  struct Slots {
    explicit Slots(size_t size) : slots(size) {}
    std::vector<std::atomic<Specialisation *>> slots;
    size_t used = 0; // marks included
    [[nodiscard]] size_t find(const Specialisation *entry) const;
    void put(Specialisation *entry);
  };
  using Gone = std::vector<std::shared_ptr<void>>; // to be retired once the mutex is let go

  void makeRoom(Gone &gone);
  void unlink(std::deque<std::shared_ptr<Specialisation>>::iterator at, Gone &gone);

  std::atomic<const Slots *> current_;
  mutable std::mutex mutex_;
  std::shared_ptr<Slots> slots_;
  std::deque<std::shared_ptr<Specialisation>> entries_; // oldest first
};

} // namespace libtile::runtime
