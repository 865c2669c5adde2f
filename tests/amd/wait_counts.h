// SPDX-License-Identifier: Apache-2.0
// Waits: a register that a load writes holds its number once a wait covers the load, and before that nobody may read or write it.
// Hardware counts what a wave has under way by kinds; a wait names a kind and how many may remain. Memory, and LDS, return in the
// order of issue. Scalar loads, messages, and flat accesses, which may be of memory or of LDS, return in any order, so that they
// are known to have returned where none remains. (ISA documents of CDNA and RDNA, "Data dependency resolution".)
#pragma once

#include "tests/amd/vector_step.h"

namespace emulator {

// The kinds of gfx12. Older GPUs count LDS and Scalar by one (lgkmcnt), and gfx9 Stores and Loads (vmcnt).
enum class Counter : uint8_t { Loads, Stores, Shared, Scalar };
constexpr unsigned kCounters = 4;

// What an instruction has to do with waits, decoded once.
struct WaitUse {
  struct Range {
    unsigned first, count; // of places: those of scalar registers, then those of vector registers
  };
  struct Wait {
    Counter counter;
    unsigned remaining;
  };
  std::vector<Range> touched;  // what it reads, and what it writes at once
  std::vector<Range> arriving; // what it writes later
  std::vector<Counter> counted;
  std::vector<Wait> waits;
  bool isUnordered = false;    // it returns in any order
  bool isVectorMemory = false; // among such, a later load's number comes later: it may write the same register
  bool writesShared = false;   // LDS
  bool copiesToShared = false; // from memory to LDS
  bool isBarrier = false;
  std::string text;
};
[[nodiscard]] WaitUse waitUseOf(const Instruction &instruction, const Machine &machine);

// What a wave has under way.
class UnderWay {
public:
  // An instruction begins. Throws Fault if a register of its has not arrived, or if waves meet while LDS is being written.
  void begin(const WaitUse &use) {
    if (registers_ != 0) {
      check(use);
    }
    if (!use.waits.empty() || !use.counted.empty() || use.isBarrier) {
      count(use);
    }
  }
  // How many copies to LDS have landed, of all that the wave began: they do so in order.
  [[nodiscard]] uint64_t copiesLanded() const { return copiesLanded_; }

private:
  static constexpr unsigned kPlaces = kScalars + kVectors;
  struct Queue {
    std::vector<const WaitUse *> uses; // in order of issue
    unsigned unordered = 0;
  };

  void check(const WaitUse &use) const;
  void count(const WaitUse &use);
  void wait(Queue &queue, unsigned remaining);
  void land(const WaitUse &use);
  [[noreturn]] void refuse(unsigned place) const;

  std::array<Queue, kCounters> queues_;
  std::array<uint8_t, kPlaces> arriving_ = {};  // how often a register is that of something under way
  std::array<uint8_t, kPlaces> elsewhere_ = {}; // of that, by what is no vector memory
  unsigned registers_ = 0;                      // things under way that write registers
  uint64_t copiesLanded_ = 0;
};

} // namespace emulator
