// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace emulator {

namespace {

std::string hex(uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

} // namespace

uint8_t *Memory::at(uint64_t address, uint64_t bytes) const {
  if (!holds(address, bytes)) {
    const auto after = ends_.upper_bound(address);
    std::string where = "of no array";
    if (after != ends_.begin()) {
      const auto &[base, end] = *std::prev(after);
      where = std::to_string(address - base) + " bytes behind the begin of an array of " + std::to_string(end - base);
    }
    throw Fault("memory access out of bounds: " + std::to_string(bytes) + " bytes at " + hex(address) + ", " + where);
  }
  return reinterpret_cast<uint8_t *>(address);
}

SharedMemory::SharedMemory(size_t bytes) : bytes_(bytes, kUnwritten) {
  const char *strict = std::getenv("LIBTILE_EMULATED_STRICT");
  if (strict != nullptr && strict[0] == '1') {
    written_.resize(bytes);
  }
}

void SharedMemory::check(uint64_t address, size_t bytes) const {
  if (address + bytes > bytes_.size()) {
    throw Fault("LDS access out of bounds: " + std::to_string(bytes) + " bytes at " + std::to_string(address) + " of " +
                std::to_string(bytes_.size()));
  }
}

const uint8_t *SharedMemory::read(uint64_t address, size_t bytes) const {
  check(address, bytes);
  for (size_t i = 0; !written_.empty() && i < bytes; ++i) {
    if (written_[address + i] == 0) {
      throw Fault("LDS is read where nobody wrote: byte " + std::to_string(address + i));
    }
  }
  for (const Copy &copy : copies_) {
    if (address < copy.end && copy.begin < address + bytes) {
      throw Fault("LDS is read where a copy has not landed: byte " + std::to_string(std::max(address, copy.begin)));
    }
  }
  return &bytes_[address];
}

void SharedMemory::beginCopy(const void *wave, uint64_t begin, uint64_t end) {
  copies_.push_back({.wave = wave, .number = begun_[wave]++, .begin = begin, .end = end});
}

uint8_t *SharedMemory::write(uint64_t address, size_t bytes) {
  check(address, bytes);
  if (!written_.empty()) {
    std::memset(&written_[address], 1, bytes);
  }
  return &bytes_[address];
}

} // namespace emulator
