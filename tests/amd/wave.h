// SPDX-License-Identifier: Apache-2.0
// The state of one wave, and of the workgroup that it is in.
#pragma once

#include "tests/amd/memory.h"

#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

namespace emulator {

constexpr unsigned kMostLanes = 64;
// One number a lane, its bits in the low ones.
using Lanes = std::array<uint64_t, kMostLanes>;
using Mask = uint64_t; // a bit a lane

// Numbers of scalar registers: s0 to s105, then these, as instructions encode most of them.
enum ScalarRegister : unsigned {
  kFlatScratch = 102,
  kVcc = 106,
  kTrap = 108, // ttmp0 to ttmp15
  kM0 = 124,
  kNull = 125,
  kExec = 126,
  kScalars = 128,
};
// The address in the buffer resource of private memory, which hardware spreads over the lanes.
constexpr uint64_t kPrivateBuffer = uint64_t{1} << 47;
constexpr unsigned kVectors = 512; // v0 to v255, then a0 to a255
constexpr unsigned kFirstAcc = 256;

// MODE's fields (ISA documents, "MODE register").
struct Mode {
  uint32_t bits = 0;
  // As std::fesetround() takes them.
  [[nodiscard]] int round32() const { return roundingOf(bits & 3); }
  [[nodiscard]] int round1664() const { return roundingOf(bits >> 2 & 3); }
  [[nodiscard]] bool flushes32() const { return (bits >> 4 & 3) == 0; }
  [[nodiscard]] bool flushes1664() const { return (bits >> 6 & 3) == 0; }
  static int roundingOf(uint32_t field);
};

class Counts;

struct Group {
  Memory &memory;
  SharedMemory shared;
  Counts *counts; // nullptr: nobody asks
};

class Wave {
public:
  Wave(unsigned lanes, Group &group, size_t scratchBytes)
      : lanes(lanes), group(group), vectors_(size_t{kVectors} * kMostLanes), scratch(scratchBytes * lanes), scratchBytes(scratchBytes) {}

  [[nodiscard]] uint32_t scalar(unsigned index) const {
    return index < kM0     ? scalars_[index]
           : index == kExec ? static_cast<uint32_t>(exec)
           : index > kExec  ? static_cast<uint32_t>(exec >> 32)
                            : index == kNull ? 0 : scalars_[index];
  }
  [[nodiscard]] uint64_t scalarPair(unsigned index) const {
    return index == kNull ? 0 : scalar(index) | uint64_t{scalar(index + 1)} << 32;
  }
  void setScalar(unsigned index, uint32_t value) {
    if (index == kExec) {
      setExec((exec & ~uint64_t{0xffffffff}) | value);
    } else if (index == kExec + 1) {
      setExec((exec & 0xffffffff) | uint64_t{value} << 32);
    } else if (index != kNull) {
      scalars_[index] = value;
    }
  }
  void setScalarPair(unsigned index, uint64_t value) {
    if (index == kExec) {
      setExec(value);
    } else if (index != kNull) {
      setScalar(index, static_cast<uint32_t>(value));
      setScalar(index + 1, static_cast<uint32_t>(value >> 32));
    }
  }
  void setExec(Mask mask) { exec = mask & allLanes(); }
  [[nodiscard]] Mask allLanes() const { return lanes == 64 ? ~Mask{0} : (Mask{1} << lanes) - 1; }
  // A mask of lanes in scalar registers, one or two of them.
  [[nodiscard]] Mask mask(unsigned index) const { return lanes == 64 ? scalarPair(index) : scalar(index); }
  void setMask(unsigned index, Mask value) {
    lanes == 64 ? setScalarPair(index, value) : setScalar(index, static_cast<uint32_t>(value));
  }
  [[nodiscard]] uint32_t *vector(unsigned index) { return &vectors_[size_t{index} * kMostLanes]; }
  [[nodiscard]] const uint32_t *vector(unsigned index) const { return &vectors_[size_t{index} * kMostLanes]; }

  const unsigned lanes; // 32 or 64
  Group &group;
  Mask exec = 0;
  bool scc = false;
  Mode mode;
  size_t next = 0; // instruction
  bool isDone = false, isAtBarrier = false;

private:
  std::array<uint32_t, kScalars> scalars_ = {};
  std::vector<uint32_t> vectors_;

public:
  std::vector<uint8_t> scratch; // scratchBytes a lane, lane by lane
  const size_t scratchBytes;
};

// An instruction, decoded.
using Step = std::function<void(Wave &)>;

// Calls it with the number of each lane in the mask.
template <class F> void eachLane(Mask mask, F &&f) {
  for (; mask != 0; mask &= mask - 1) {
    f(static_cast<unsigned>(std::countr_zero(mask)));
  }
}

} // namespace emulator
