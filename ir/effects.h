// SPDX-License-Identifier: Apache-2.0
// What an op does besides computing its results. DCE, CSE, LICM, barriers and the planner ask only
// this, never a list of opcodes.
#pragma once

#include <cstdint>

namespace libtile::ir {

class Effects {
public:
  enum Flag : uint16_t {
    None = 0,
    ReadsGlobal = 1 << 0,
    WritesGlobal = 1 << 1,
    // Shared memory on a GPU, scratch on a CPU.
    ReadsBuffer = 1 << 2,
    WritesBuffer = 1 << 3,
    // All threads of the program meet here, or each waits for other launches: no access passes it.
    Synchronises = 1 << 4,
    // Completes later; ordered by commit and wait.
    Async = 1 << 5,
    // Never moved, duplicated or dropped, and keeps its place among the other such ops: atomics,
    // volatile accesses, what programs print and assert.
    Ordered = 1 << 6,
    // Carries a promise of the user; may be dropped, may not be moved up.
    Assumes = 1 << 7,
    Terminator = 1 << 8,
    // Adds the effects of everything in its regions.
    Regions = 1 << 9,
  };

  constexpr Effects() = default;
  constexpr Effects(unsigned bits) : bits_(static_cast<uint16_t>(bits)) {}
  [[nodiscard]] constexpr bool has(Flag flag) const { return (bits_ & flag) != 0; }
  [[nodiscard]] constexpr bool reads() const { return (bits_ & (ReadsGlobal | ReadsBuffer)) != 0; }
  [[nodiscard]] constexpr bool writes() const {
    return (bits_ & (WritesGlobal | WritesBuffer)) != 0;
  }
  // No result used: the op can go.
  [[nodiscard]] constexpr bool removable() const {
    return (bits_ & (WritesGlobal | WritesBuffer | Synchronises | Async | Ordered | Assumes |
                     Terminator)) == 0;
  }
  // Two with the same operands and attributes are one; may be moved anywhere its operands are.
  [[nodiscard]] constexpr bool pure() const { return bits_ == 0; }
  // The two may not change places, as far as effects alone can tell (addresses may tell more).
  [[nodiscard]] constexpr bool conflicts(Effects other) const {
    constexpr unsigned kMeet = Synchronises | Terminator;
    const bool global = (has(WritesGlobal) && (other.bits_ & (ReadsGlobal | WritesGlobal)) != 0) ||
                        (other.has(WritesGlobal) && has(ReadsGlobal));
    const bool buffer = (has(WritesBuffer) && (other.bits_ & (ReadsBuffer | WritesBuffer)) != 0) ||
                        (other.has(WritesBuffer) && has(ReadsBuffer));
    const bool ordered = has(Ordered) && other.has(Ordered);
    const bool meet = (bits_ & kMeet) != 0 || (other.bits_ & kMeet) != 0;
    return global || buffer || ordered || meet;
  }
  friend constexpr Effects operator|(Effects a, Effects b) { return {unsigned{a.bits_} | b.bits_}; }
  friend constexpr bool operator==(Effects a, Effects b) { return a.bits_ == b.bits_; }

private:
  uint16_t bits_ = 0;
};

} // namespace libtile::ir
