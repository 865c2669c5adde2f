// SPDX-License-Identifier: Apache-2.0
// Vector instructions that touch memory, as steps.
#pragma once

#include "tests/amd/vector_step.h"

namespace emulator {

// What of a register an access moves.
struct DataFormat {
  unsigned bytes = 0; // of memory; 0: no such format
  bool isSigned = false;
  bool keepsOther = false; // D16: half of a register, the other half stays
  bool isHigh = false;
};
// "dwordx2", "b64", "ubyte_d16_hi", "d16_hi_u8"
[[nodiscard]] DataFormat parseFormat(std::string_view name);

// A lane's data in registers, from one on.
class Data {
public:
  Data(std::string_view registers, DataFormat format);
  void load(Wave &wave, unsigned lane, const uint8_t *bytes) const;
  void store(const Wave &wave, unsigned lane, uint8_t *bytes) const;
  [[nodiscard]] unsigned bytes() const { return format_.bytes; }

private:
  unsigned index_;
  DataFormat format_;
};

// What an atomic instruction makes of the old number and its own.
struct AtomicKind {
  unsigned bytes = 0; // 0: no such kind
  bool compares = false;
  std::function<uint64_t(uint64_t old, uint64_t data)> f;
};
// "add_u32", "umax_x2", "pk_add_f16", "cmpswap_b64", "add_rtn_f32"
[[nodiscard]] AtomicKind parseAtomic(std::string name);

// Each is empty for what it does not know.
[[nodiscard]] Step makeMemoryStep(const Instruction &instruction, const Machine &machine); // global, flat, scratch, buffer
[[nodiscard]] Step makeSharedStep(const Instruction &instruction, const Machine &machine); // LDS

} // namespace emulator
