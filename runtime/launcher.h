// SPDX-License-Identifier: Apache-2.0
// The one way from the arguments of a call to a launch: Python takes it through bindings.h, C and C++
// through libtile_c.h. In the order of the hot path:
//
//   makeKey   what the arguments specialise on
//   find      key -> specialisation; a miss is compiled and inserted
//   fillSlots (launch.h) the values for the code
//   select    (launch.h) guards -> the variant's loaded code; a miss is prepared
//   Driver::launch
//
// None of these takes a lock or allocates, but for the misses.
//
// What arguments specialise on, for parameters that are not constexpr:
//   None, strings, functions, types   the constant itself
//   bool      int1
//   int       1 is the constant 1; else int32, int64 or uint64 by size, and whether 16 divides it
//   float     fp32
//   array     the element type, and whether 16 divides the address
//   tuple     its class, and each item by these rules
// kNoSpecialise drops the special values of integers, kNoAlignment the 16. A type annotation on the
// parameter replaces a number's own type, and an array must have it.
#pragma once

#include "runtime/cache/specialisation_table.h"

namespace libtile::runtime {

// A device as launches name it; never freed.
struct LaunchDevice {
  std::shared_ptr<Driver> driver;
  std::string name;
  const ir::Target &target; // the best that it runs
  uint32_t index;           // in the order of opening, from 0
};
// "cpu", "cuda", "cuda:1". Throws DeviceError.
[[nodiscard]] LaunchDevice &openLaunchDevice(const std::string &name);

// The value of an argument that is a constant; unbound for others.
[[nodiscard]] frontend::Value constantOf(const CallArgument &argument);

class Launcher {
public:
  enum Flags : uint8_t { kNoSpecialise = 1, kNoAlignment = 2 };
  struct Key {
    uint64_t words[1 + 2 * kMaxArguments];
    size_t size;
    [[nodiscard]] std::span<const uint64_t> span() const { return {words, size}; }
  };

  explicit Launcher(std::shared_ptr<const frontend::FunctionSource> source);
  [[nodiscard]] const frontend::FunctionSource &source() const { return kernels_.source(); }
  [[nodiscard]] KernelFunction &kernels() { return kernels_; }
  // One a parameter; before the first use.
  void setFlags(std::span<const uint8_t> flags);

  // False: not one argument a parameter, or too many with the items of tuples. `device` and `options` are
  // the index and the id of the options that the target has normalised.
  [[nodiscard]] bool makeKey(std::span<const CallArgument> arguments, uint32_t device, uint32_t options,
                             Key &key) const noexcept;
  // Valid while the caller reads (cache/reclaim.h); nullptr: compile and insert.
  [[nodiscard]] Specialisation *find(const Key &key) const noexcept { return table_.find(key.span()); }
  // Throws. The options need not be normalised.
  [[nodiscard]] KernelFunction::Result compile(std::span<const CallArgument> arguments,
                                               const ir::Target &target, const Options &options,
                                               frontend::Host &host);
  void insert(const Key &key, std::shared_ptr<Executable> executable, std::shared_ptr<void> user);
  // It serves no more: it is freed when nobody reads it.
  void remove(const Specialisation *entry);
  // Forgets everything compiled.
  void clear();
  template <class F> void forEach(F &&visit) const { table_.forEach(visit); }

  // "x", or "x[2]" for an item of a tuple.
  [[nodiscard]] std::string nameOf(std::span<const CallArgument> arguments, size_t index) const;
  // Why fillSlots refused that argument.
  [[nodiscard]] ir::UserError refusal(std::span<const CallArgument> arguments,
                                      const RuntimeParameter &parameter) const;

  // The whole way, for callers that have nothing to do in between. `extents`: one an argument, or null;
  // `optionsId`: of the options that the target has normalised. Throws.
  void launch(const LaunchDevice &device, std::span<const CallArgument> arguments, const Extent *extents,
              const Options &options, uint32_t optionsId, const int64_t grid[3], void *stream,
              frontend::Host &host);

private:
  // Throws UserError for an argument that is not of the sort its parameter is annotated with.
  void checkAnnotations(std::span<const CallArgument> arguments) const;
  [[nodiscard]] frontend::Argument argumentFor(std::span<const CallArgument> arguments, const Key &key,
                                               size_t &at) const;

  KernelFunction kernels_;
  std::vector<uint8_t> flags_;   // one a parameter
  std::vector<uint16_t> forced_; // type codes; 0: none
  std::vector<bool> isConstexpr_;
  SpecialisationTable table_;
};

} // namespace libtile::runtime
