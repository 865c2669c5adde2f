// SPDX-License-Identifier: Apache-2.0
// The memory of the interpreter's own device, and which of its bytes somebody has written. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace libtile::runtime::interpreter {

// [address, address + bytes) is new and holds nothing yet; or it is no more (0 bytes).
void noteAllocation(uint64_t address, size_t bytes);
void noteWritten(uint64_t address, size_t bytes);
// False: it lies in the device's memory, and part of it was never written.
[[nodiscard]] bool isWritten(uint64_t address, size_t bytes);

} // namespace libtile::runtime::interpreter
