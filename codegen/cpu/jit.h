// SPDX-License-Identifier: Apache-2.0
// Loads a CPU object (Code::object) into this process.
#pragma once

#include "codegen/codegen.h"
#include "codegen/cpu/frame.h"

#include <memory>
#include <span>
#include <string>

namespace libtile::codegen::cpu {

using Frame = libtile_frame;
using Kernel = libtile_entry;

// A frame without poll, message sink and extents: the status word stays 0, or the caller adds them.
[[nodiscard]] inline Frame makeFrame(const uint64_t *arguments, const int32_t grid[3],
                                     uint32_t *status) {
  Frame frame{};
  frame.version = LIBTILE_FRAME_VERSION;
  frame.bytes = sizeof(Frame);
  frame.arguments = arguments;
  frame.status = status;
  for (int axis = 0; axis < 3; ++axis) {
    frame.grid[axis] = grid[axis];
  }
  return frame;
}

// What code calls to read the clock: nanoseconds, an int64, of a clock that never goes back.
constexpr const char *kClock = "libtile_clock";

// Owns the code: `entry` is valid as long as the module lives. Loading and destroying are
// thread-safe, calls of `entry` are the caller's affair. Throws InternalError where the object is
// not for this machine or names a symbol that it may not call (jit.cpp has the list).
class CpuModule {
public:
  CpuModule(std::span<const char> object, const std::string &symbol);
  // Also where the code was made for another version of the frame.
  explicit CpuModule(const Code &code);
  ~CpuModule();
  CpuModule(CpuModule &&) noexcept;
  CpuModule &operator=(CpuModule &&) noexcept;

  [[nodiscard]] Kernel entry() const { return entry_; }
  [[nodiscard]] size_t bytes() const;

private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
  Kernel entry_ = nullptr;
};

} // namespace libtile::codegen::cpu
