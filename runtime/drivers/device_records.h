// SPDX-License-Identifier: Apache-2.0
// What kernels on a GPU have said in records (codegen/amd/records.h), as text.
#pragma once

#include "codegen/codegen.h"

#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace libtile::runtime {

// A line as printf would write it. `arguments`: 8 bytes each, integers in the low bits, floats as doubles.
[[nodiscard]] std::string formatLine(const std::string &format, std::span<const uint64_t> arguments);

// The lines that all code of a device may say, by number. Any number of threads may be here.
class DeviceLines {
public:
  // The number of the first of them; they stay known.
  uint32_t add(const std::vector<codegen::DeviceLine> &lines);
  // Writes out what records say, to stdout; returns what the first assertion says that did not hold, "" if all did.
  // `records`: without the buffer's head; `asked`: bytes that were asked for, more if there was no room.
  std::string tell(std::span<const uint8_t> records, uint32_t asked) const;

private:
  mutable std::mutex mutex_;
  std::vector<codegen::DeviceLine> lines_;
};

} // namespace libtile::runtime
