// SPDX-License-Identifier: Apache-2.0
// A compiled kernel on a device, and the steps of one launch: encode the arguments into slots by the
// recipe, evaluate the guards, pick the variant, call the driver. None of them allocates once the
// variant is loaded.
#pragma once

#include "runtime/cache/compile.h"
#include "runtime/drivers/driver.h"

#include <array>
#include <span>

namespace libtile::runtime {

constexpr size_t kMaxArguments = 256; // of a call, with the items of tuples

// One argument of a call as the caller has it. A call's arguments are a flat list in the order of the
// parameters: behind a Tuple stand its items, themselves tuples perhaps.
struct CallArgument {
  enum class Kind : uint8_t { None, Bool, Int, UInt, Float, Pointer, Constant, Type, Tuple };
  enum Flags : uint8_t { kReadOnly = 1 };
  Kind kind = Kind::None;
  uint8_t flags = 0;
  uint16_t dtype = 0; // Pointer: code of the pointee; Type: of the argument; Tuple: number of items
  // Int: of an int64; UInt: of a uint64 beyond it; Float: of a double; Pointer: the address; Type: what the
  // value is a multiple of; Constant and Tuple: a number that stands for one constant or class of named
  // tuples only, now and later (0: a plain tuple).
  uint64_t bits = 0;
  union {
    uint64_t bytes = 0; // Pointer: from the address to the array's end; 0: not known
    // Constant: itself; Tuple: one of its class and field names, or null. Lives as long as the call.
    const frontend::Value *value;
  };
};

// Element types as 16-bit codes: element, format of an 8-bit float, sign, const, depth.
[[nodiscard]] constexpr uint16_t encodeType(const frontend::DType &dtype) {
  const unsigned format = dtype.float8 ? static_cast<unsigned>(*dtype.float8) + 1 : 0;
  return static_cast<uint16_t>(static_cast<unsigned>(dtype.elem) | (format << 4) | (dtype.isSigned ? 0x100U : 0U) |
                               (dtype.isConst ? 0x200U : 0U) | (unsigned{dtype.pointerDepth} << 12));
}
[[nodiscard]] constexpr frontend::DType decodeType(uint16_t code) {
  frontend::DType dtype;
  dtype.elem = static_cast<ir::Elem>(code & 0xF);
  if (const unsigned format = (code >> 4) & 0xF; format != 0) {
    dtype.float8 = static_cast<ir::Float8>(format - 1);
  }
  dtype.isSigned = (code & 0x100) != 0;
  dtype.isConst = (code & 0x200) != 0;
  dtype.pointerDepth = static_cast<uint8_t>(code >> 12);
  return dtype;
}

// Makes a Type of a text: "*fp32", "i32:16". Returns "", or why not.
[[nodiscard]] std::string readTypeText(std::string_view text, CallArgument &made);

// The slot for a value: integers sign-extended to 64 bits, floats in the low bytes in their own
// format, to which numbers are rounded once. Returns false if a value of that kind does not go with the
// type, or an integer is not one of the type's.
[[nodiscard]] bool encodeSlot(const frontend::DType &dtype, const CallArgument &value,
                              uint64_t &slot) noexcept;
// What encodeSlot refused, in words: "the integer 300 does not fit uint8".
[[nodiscard]] std::string describeMisfit(const frontend::DType &dtype, const CallArgument &value);

// What fillSlots refused, in words that go behind the parameter's name: ": the integer 300 does not fit
// uint8", " is a read-only array, and the kernel stores to it".
[[nodiscard]] std::string describeRefusal(const RuntimeParameter &parameter, const CallArgument &value);

// The slots of a kernel's run-time parameters. Returns the parameter whose argument does not fit, or is
// a read-only array that the kernel stores to; nullptr: none.
[[nodiscard]] const RuntimeParameter *fillSlots(const Compiled &kernel, const CallArgument *arguments,
                                                uint64_t *slots) noexcept;

// Bits of the nearest f16 or bf16 (ties to even).
[[nodiscard]] uint16_t roundToHalf(double value) noexcept;
[[nodiscard]] uint16_t roundToBfloat(double value) noexcept;

// The extents of a grid as the user gives them. False: one is 0, there is nothing to run. Throws
// UserError for negative and too large ones.
[[nodiscard]] bool checkGrid(const int64_t grid[3], LaunchShape &shape);

class Executable {
public:
  // Throws UserError if the device does not run the kernel's target, Unsupported if a recipe asks for what
  // launches do not make.
  Executable(std::shared_ptr<const Compiled> kernel, std::shared_ptr<Driver> driver);

  [[nodiscard]] const Compiled &kernel() const { return *kernel_; }
  [[nodiscard]] Driver &driver() const { return *driver_; }
  // Whether launches ask for extents: a guard whether arrays are apart, or the code itself.
  [[nodiscard]] bool needsExtents() const { return needsExtents_; }

  // The code for these slots; nullptr if it is not loaded yet: then prepare() first. `extents` is one
  // a slot, or empty: nothing known.
  [[nodiscard]] LoadedCode *select(std::span<const uint64_t> slots,
                                   std::span<const Extent> extents) const noexcept;
  // Loads the preferred variant, for properties(), unless it is loaded. Throws.
  void load() { load(entries_[0]); }
  // Compiles, if need be, and loads what select() asks for. Throws.
  void prepare(std::span<const uint64_t> slots, std::span<const Extent> extents);

  // All of it for one launch. Throws.
  void run(std::span<const uint64_t> slots, std::span<const Extent> extents, const int64_t grid[3],
           void *stream);

  // What loading found out about the preferred variant; empty before.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const;

private:
  // A variant, from what is known of it: nothing, its guards, its code.
  struct Entry {
    std::atomic<const Variant *> variant = nullptr;
    std::shared_ptr<LoadedCode> owned;
    std::atomic<LoadedCode *> code = nullptr;
  };
  void load(Entry &entry);

  std::shared_ptr<const Compiled> kernel_;
  std::shared_ptr<Driver> driver_;
  bool needsExtents_ = false;
  std::mutex mutex_;
  // From the preferred one to the general one: a launch takes the first whose guards hold.
  std::array<Entry, 4> entries_;
};

// The executable of the kernel on the driver: the one that somebody holds already, or a new one. A kernel that is loaded by its
// handle and launched by its function is loaded once.
[[nodiscard]] std::shared_ptr<Executable> executableFor(std::shared_ptr<const Compiled> kernel, std::shared_ptr<Driver> driver);

// Extents by run-time parameter, in `storage`, from one an argument; empty where the executable asks for
// none or the caller has none.
[[nodiscard]] std::span<const Extent> gatherExtents(const Executable &executable, const Extent *byArgument,
                                                    Extent *storage) noexcept;

} // namespace libtile::runtime
