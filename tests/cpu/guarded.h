// SPDX-License-Identifier: Apache-2.0
// Memory that ends, and begins, at a page that must not be touched.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace libtile::test {

class Guarded {
public:
  // `bytes` just below a forbidden page, or just above one.
  Guarded(size_t bytes, bool atEnd) {
    const size_t page = sysconf(_SC_PAGESIZE);
    inner_ = (bytes + page - 1) / page * page;
    total_ = inner_ + 2 * page;
    void *mapped =
        mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      throw std::runtime_error("no memory");
    }
    base_ = static_cast<uint8_t *>(mapped);
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner_, page, PROT_NONE);
    data_ = base_ + page + (atEnd ? inner_ - bytes : 0);
  }
  ~Guarded() { munmap(base_, total_); }
  Guarded(const Guarded &) = delete;
  Guarded &operator=(const Guarded &) = delete;

  [[nodiscard]] uint8_t *data() const { return data_; }
  template <class T> [[nodiscard]] T *as() const { return reinterpret_cast<T *>(data_); }

private:
  uint8_t *base_, *data_;
  size_t inner_, total_;
};

} // namespace libtile::test
