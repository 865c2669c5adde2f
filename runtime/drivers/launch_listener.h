// SPDX-License-Identifier: Apache-2.0
// What the programs of one launch on a CPU tell: accesses out of bounds and assertions that do not hold, of which
// the first is kept; and what they print, which goes to the printer, the lines of a record at once.
#pragma once

#include "codegen/cpu/jit.h"
#include "runtime/drivers/driver.h"

#include <atomic>
#include <string_view>

struct libtile_printer; // of libtile_c.h

namespace libtile::runtime {

class LaunchListener {
public:
  // All live as long as the launch.
  LaunchListener(const codegen::KernelInfo &info, const LaunchShape &shape, Findings &findings)
      : info_(info), shape_(shape), findings_(findings) {}
  void listen(codegen::cpu::Frame &frame);

private:
  struct Program {
    int32_t index[3];
  };
  static void hearOutOfBounds(void *self, uint32_t access, uint32_t elements, uint64_t address,
                              uint64_t program) noexcept;
  static void hearMessage(void *self, const void *record, uint64_t bytes) noexcept;
  // Of consecutive elements the first that is out of bounds.
  [[nodiscard]] uint64_t firstOutside(const codegen::CheckedAccess &access, uint32_t elements,
                                      uint64_t address) const noexcept;
  [[nodiscard]] Program programAt(uint64_t number) const noexcept;
  // Keeps the first finding of all programs.
  void keep(uint64_t program, Finding finding) noexcept;

  const codegen::KernelInfo &info_;
  const LaunchShape &shape_;
  Findings &findings_;
  std::atomic<bool> hasHeard_{false};
};

// Who gets what is printed, as libtile_set_printer() says; nullptr: C's standard output.
void setPrinter(const libtile_printer *printer) noexcept;

// Writes the lines of a print to whoever gets them.
void printMessage(const codegen::Message &message, const int32_t program[3], const void *const *operands) noexcept;

// The lines of a print by a program; `operands`: the elements of each operand, in row-major order.
[[nodiscard]] std::string printedLines(const codegen::Message &message, const int32_t program[3],
                                       const void *const *operands);

} // namespace libtile::runtime
