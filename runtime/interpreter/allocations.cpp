// SPDX-License-Identifier: Apache-2.0
#include "runtime/interpreter/allocations.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <vector>

namespace libtile::runtime::interpreter {

namespace {

struct Table {
  std::atomic<bool> isUsed{false}; // there was an allocation
  std::mutex mutex;
  std::map<uint64_t, std::vector<bool>> written; // by the first address, one bit a byte

  // The allocation that the address lies in; null: none.
  std::vector<bool> *find(uint64_t address, size_t &offset) {
    auto behind = written.upper_bound(address);
    if (behind == written.begin()) {
      return nullptr;
    }
    --behind;
    offset = address - behind->first;
    return offset < behind->second.size() ? &behind->second : nullptr;
  }
};

// Never destroyed: memory may outlive every other static object.
Table &table() {
  static Table &all = *new Table;
  return all;
}

} // namespace

void noteAllocation(uint64_t address, size_t bytes) {
  const std::lock_guard lock(table().mutex);
  if (bytes == 0) {
    table().written.erase(address);
  } else {
    table().written[address].assign(bytes, false);
    table().isUsed = true;
  }
}

void noteWritten(uint64_t address, size_t bytes) {
  if (!table().isUsed) {
    return;
  }
  const std::lock_guard lock(table().mutex);
  size_t offset = 0;
  if (std::vector<bool> *found = table().find(address, offset)) {
    const size_t end = std::min(found->size(), offset + bytes);
    std::fill(found->begin() + static_cast<ptrdiff_t>(offset), found->begin() + static_cast<ptrdiff_t>(end), true);
  }
}

bool isWritten(uint64_t address, size_t bytes) {
  if (!table().isUsed) {
    return true;
  }
  const std::lock_guard lock(table().mutex);
  size_t offset = 0;
  const std::vector<bool> *found = table().find(address, offset);
  for (size_t i = offset; found != nullptr && i < std::min(found->size(), offset + bytes); ++i) {
    if (!(*found)[i]) {
      return false;
    }
  }
  return true;
}

} // namespace libtile::runtime::interpreter
