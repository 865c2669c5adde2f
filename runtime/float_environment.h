// SPDX-License-Identifier: Apache-2.0
// How this thread computes with floats: rounded to nearest, tiny numbers kept, nothing traps.
//
// Compiled code is made for that, and so is what the compiler itself computes. A caller may have changed it for its
// thread (torch.set_flush_denormal, fesetround, feenableexcept), and threads begin as the one that starts them is.
// Sources: Intel's manual, volume 1, 10.2.3; Arm's, FPCR.
#pragma once

#include <cstdint>

namespace libtile::runtime {

// For a scope; the caller's comes back behind it. Costs a nanosecond or two where there is nothing to change.
class FloatEnvironment {
public:
  FloatEnvironment() noexcept : callers_(control()) {
    if (isOther()) {
      setControl(kStandard);
    }
  }
  ~FloatEnvironment() {
    if (isOther()) {
      setControl(callers_);
    }
  }
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;

private:
  [[nodiscard]] bool isOther() const { return (callers_ & ~kStatus) != kStandard; }

#if defined(__x86_64__)
  static constexpr uint64_t kStandard = 0x1f80; // all exceptions masked
  static constexpr uint64_t kStatus = 0x3f;     // what has happened so far
  static uint64_t control() { return __builtin_ia32_stmxcsr(); }
  static void setControl(uint64_t word) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(word)); }
#elif defined(__aarch64__)
  static constexpr uint64_t kStandard = 0;
  static constexpr uint64_t kStatus = 0;
  static uint64_t control() {
    uint64_t word = 0;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void setControl(uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word)); }
#else
#error "a processor whose control word of floats is not known"
#endif

  uint64_t callers_;
};

} // namespace libtile::runtime
