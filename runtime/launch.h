// SPDX-License-Identifier: Apache-2.0
// A compiled kernel on a device, and the steps of one launch: encode the arguments into slots by the
// recipe, evaluate the guards, pick the variant, call the driver. None of them allocates once the
// variant is loaded.
#pragma once

#include "runtime/cache/compile.h"
#include "runtime/drivers/driver.h"

#include <span>

namespace libtile::runtime {

// One argument of a launch as the caller has it. Int: the bits of an int64; UInt: those of a uint64
// beyond it; Float: those of a double; Pointer: an address.
struct ArgumentValue {
  enum class Kind : uint8_t { None, Bool, Int, UInt, Float, Pointer } kind = Kind::None;
  uint64_t bits = 0;
};

// The bytes of an array: begin <= address < end. Empty: unknown, and then never disjoint. Without
// initial values: the launch has a table of them on its stack.
struct Extent {
  uintptr_t begin, end;
};

// The slot for a value: integers sign-extended to 64 bits, floats in the low bytes in their own
// format, to which numbers are rounded once. Returns false if a value of that kind does not go with the
// type, or an integer is not one of the type's.
[[nodiscard]] bool encodeSlot(const frontend::DType &dtype, const ArgumentValue &value,
                              uint64_t &slot) noexcept;
// What encodeSlot refused, in words: "the integer 300 does not fit uint8".
[[nodiscard]] std::string describeMisfit(const frontend::DType &dtype, const ArgumentValue &value);

// Bits of the nearest f16 or bf16 (ties to even).
[[nodiscard]] uint16_t roundToHalf(double value) noexcept;
[[nodiscard]] uint16_t roundToBfloat(double value) noexcept;

// The extents of a grid as the user gives them. False: one is 0, there is nothing to run. Throws
// UserError for negative and too large ones.
[[nodiscard]] bool checkGrid(const int64_t grid[3], LaunchShape &shape);

class Executable {
public:
  // Throws UserError if the device does not run the kernel's target.
  Executable(std::shared_ptr<const Compiled> kernel, std::shared_ptr<Driver> driver);

  [[nodiscard]] const Compiled &kernel() const { return *kernel_; }
  [[nodiscard]] Driver &driver() const { return *driver_; }
  // Whether a guard asks for extents.
  [[nodiscard]] bool needsExtents() const { return needsExtents_; }

  // The code for these slots; nullptr if it is not loaded yet: then prepare() first. `extents` is one
  // a slot, or empty: nothing known.
  [[nodiscard]] LoadedCode *select(std::span<const uint64_t> slots,
                               std::span<const Extent> extents) const noexcept;
  // Compiles, if need be, and loads what select() asks for. Throws.
  void prepare(std::span<const uint64_t> slots, std::span<const Extent> extents);

  // What loading found out about the preferred variant; empty before.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const;

private:
  [[nodiscard]] bool guardsHold(std::span<const uint64_t> slots,
                                std::span<const Extent> extents) const noexcept;

  std::shared_ptr<const Compiled> kernel_;
  std::shared_ptr<Driver> driver_;
  bool needsExtents_ = false;
  std::mutex mutex_;
  std::shared_ptr<LoadedCode> owned_[2];
  // [0] preferred, [1] general.
  std::atomic<LoadedCode *> modules_[2] = {nullptr, nullptr};
};

} // namespace libtile::runtime
