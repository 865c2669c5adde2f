// SPDX-License-Identifier: Apache-2.0
// From the key of a call's arguments to what was compiled for it: the hot path's lookup.
//
// A key is a header word (device, options) and two words a parameter: what the specialisation depends
// on of its argument (type, divisibility, or the constant's value). find() takes no lock: slots are
// atomic pointers, entries are immutable but for their `retired` flag, and neither is freed before the
// table, so a reader never meets a dangling one. insert() and growth take a mutex.
#pragma once

#include "runtime/bindings/bindings.h"
#include "runtime/launch.h"

#include <span>

struct lt_entry {
  std::vector<uint64_t> key;
  uint64_t hash = 0;
  std::shared_ptr<libtile::runtime::Executable> executable;
  void *user = nullptr;
  // A host answer changed: the entry serves no more.
  std::atomic<bool> retired{false};
};

namespace libtile::runtime {

class SpecialisationTable {
public:
  SpecialisationTable();
  [[nodiscard]] static uint64_t hash(std::span<const uint64_t> key) noexcept;
  [[nodiscard]] lt_entry *find(std::span<const uint64_t> key) const noexcept;
  void insert(std::unique_ptr<lt_entry> entry);
  template <class F> void forEach(F &&visit) const {
    for (const auto &entry : entries_) {
      visit(*entry);
    }
  }

private:
  // A power of two of slots, at most half of them used.
  struct Slots {
    explicit Slots(size_t size) : slots(size) {}
    std::vector<std::atomic<lt_entry *>> slots;
    void put(lt_entry *entry);
  };

  std::atomic<const Slots *> current_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Slots>> generations_;
  std::vector<std::unique_ptr<lt_entry>> entries_;
};

// What a specialisation depends on of one argument, as two words. Tags:
//   bits 0-7   kTypeTag, or kConstantTag + lt_arg_kind of the constant
//   bits 8-23  type code, 32-63 what the value is a multiple of (kTypeTag)
struct ArgumentKey {
  uint64_t tag = 0, bits = 0;
};
enum : uint64_t { kTypeTag = 1, kConstantTag = 16 };

} // namespace libtile::runtime
