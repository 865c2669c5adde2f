// SPDX-License-Identifier: Apache-2.0
// Objects that the back end made not long ago. A kernel that is specialised anew, since a length is divisible by 8 and not by 16
// or an option differs that a CPU has no use for, often comes to the same LLVM IR, whose object is known then: the back
// end takes most of the time of a compilation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace libtile::codegen::cpu {

// Thread-safe.
class RecentObjects {
public:
  static constexpr size_t kMost = 32;
  static constexpr size_t kLargest = size_t{128} << 10; // bytes; a larger one is not kept
  // Of all that the object follows from: the module's text, and the machine.
  using Key = std::array<uint8_t, 20>;
  [[nodiscard]] static Key keyOf(const llvm::Module &module, const llvm::TargetMachine &machine);

  // Empty: it is not there.
  [[nodiscard]] std::optional<std::vector<char>> find(const Key &key);
  // In place of the one that nobody has asked for the longest, where there are kMost.
  void keep(const Key &key, const std::vector<char> &object);
  void clear();

private:
  struct Row {
    Key key;
    std::vector<char> object;
  };
  std::mutex mutex_;
  std::list<Row> rows_; // that which was asked for last comes first
};

} // namespace libtile::codegen::cpu
