// SPDX-License-Identifier: Apache-2.0
// Loads a CPU object (Code::object) into this process.
#pragma once

#include "codegen/codegen.h"

#include <memory>
#include <span>
#include <string>

namespace libtile::codegen::cpu {

// The function of codegen.h's ABI.
using Kernel = void (*)(const uint64_t *args, const int32_t *grid, uint64_t first, uint64_t count,
                        uint8_t *arena);

// Owns the code: `entry` is valid as long as the module lives. Loading and destroying are
// thread-safe, calls of `entry` are the caller's affair. Throws InternalError where the object is
// not for this machine or names a symbol that is not C's math or memory function (jit.cpp has the
// list).
class CpuModule {
public:
  CpuModule(std::span<const char> object, const std::string &symbol);
  explicit CpuModule(const Code &code) : CpuModule(code.object, code.info.symbol) {}
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
