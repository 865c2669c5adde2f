// SPDX-License-Identifier: Apache-2.0
// Memory that kernels see. Global memory is this process's own: a pointer of the kernel is one of the host. Only what was made
// known may be touched, so that an access past an array's end is a Fault instead of another array's number.
#pragma once

#include "tests/amd/code_object.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

namespace emulator {

class Memory {
public:
  void add(uint64_t base, uint64_t bytes) { ends_[base] = base + bytes; }
  // Whether it was known.
  bool remove(uint64_t base) {
    first_ = last_ = 0;
    return ends_.erase(base) != 0;
  }
  // Whether [address, address + bytes) is inside of one array.
  [[nodiscard]] bool holds(uint64_t address, uint64_t bytes) const {
    if (address >= first_ && address + bytes <= last_) {
      return true;
    }
    const auto after = ends_.upper_bound(address);
    if (after == ends_.begin()) {
      return false;
    }
    const auto &[base, end] = *std::prev(after);
    if (address + bytes > end || address + bytes < address) {
      return false;
    }
    first_ = base, last_ = end;
    return true;
  }
  // The bytes in this process; throws Fault.
  [[nodiscard]] uint8_t *at(uint64_t address, uint64_t bytes) const;

private:
  std::map<uint64_t, uint64_t> ends_; // by first address
  mutable uint64_t first_ = 0, last_ = 0; // the last array found, which is looked at first
};

// LDS of one workgroup. What nobody wrote reads as kUnwritten, so that a result which depends on it is wrong; with
// LIBTILE_EMULATED_STRICT=1 such a read is a Fault, though lanes that use nothing of what they read may do it.
class SharedMemory {
public:
  static constexpr uint8_t kUnwritten = 0xa5;
  explicit SharedMemory(size_t bytes);
  // Both throw Fault for what lies outside.
  [[nodiscard]] const uint8_t *read(uint64_t address, size_t bytes) const;
  [[nodiscard]] uint8_t *write(uint64_t address, size_t bytes);

  // A wave copies something to [begin, end), where nobody may read until the copy has landed.
  void beginCopy(const void *wave, uint64_t begin, uint64_t end);
  // Of the copies that the wave ever began, the first `count` have landed.
  void landCopies(const void *wave, uint64_t count) {
    if (!copies_.empty()) {
      std::erase_if(copies_, [&](const Copy &copy) { return copy.wave == wave && copy.number < count; });
    }
  }

private:
  struct Copy {
    const void *wave;
    uint64_t number, begin, end;
  };
  void check(uint64_t address, size_t bytes) const;

  std::map<const void *, uint64_t> begun_; // copies of each wave
  std::vector<Copy> copies_;
  std::vector<uint8_t> bytes_;
  std::vector<uint8_t> written_; // empty: not strict
};

} // namespace emulator
