// SPDX-License-Identifier: Apache-2.0
// How this thread computes with floats: rounded to nearest, tiny numbers kept, nothing traps.
//
// Compiled code is made for that, and so is what the compiler itself computes. A caller may have changed it for its
// thread (torch.set_flush_denormal, fesetround, feenableexcept), and threads begin as the one that starts them is.
// Sources: Intel's manual, volume 1, 10.2.3; Arm's, FPCR.
#pragma once

#include <cstdint>

namespace libtile::runtime {

// For a scope; the caller's comes back behind it. Costs some nanoseconds where there is nothing to change.
class FloatEnvironment {
public:
  FloatEnvironment() noexcept { enter(); }
  ~FloatEnvironment() { leave(); }
  FloatEnvironment(const FloatEnvironment &) = delete;
  FloatEnvironment &operator=(const FloatEnvironment &) = delete;

  // Around what the caller does within the scope, which may change it.
  void leave() const {
    if (callers_.isOther()) {
      callers_.set();
    }
  }
  void enter() {
    callers_ = Control::get();
    if (callers_.isOther()) {
      Control().set();
    }
  }

private:
#if defined(__x86_64__)
  // Of vectors, and of the x87, which long double and strtod use. All exceptions are masked.
  struct Control {
    uint32_t vectors = 0x1f80;
    uint16_t x87 = 0x37f;
    static Control get() {
      Control now{__builtin_ia32_stmxcsr()};
      asm volatile("fnstcw %0" : "=m"(now.x87));
      return now;
    }
    void set() const {
      __builtin_ia32_ldmxcsr(vectors);
      asm volatile("fnclex; fldcw %0" : : "m"(x87));
    }
    [[nodiscard]] bool isOther() const {
      constexpr uint32_t kStatus = 0x3f; // what has happened so far
      return (vectors & ~kStatus) != Control().vectors || x87 != Control().x87;
    }
  };
#elif defined(__aarch64__)
  struct Control {
    uint64_t word = 0;
    static Control get() {
      Control now;
      asm volatile("mrs %0, fpcr" : "=r"(now.word));
      return now;
    }
    void set() const { asm volatile("msr fpcr, %0" : : "r"(word)); }
    [[nodiscard]] bool isOther() const { return word != 0; }
  };
#else
#error "a processor whose control word of floats is not known"
#endif

  Control callers_;
};

} // namespace libtile::runtime
