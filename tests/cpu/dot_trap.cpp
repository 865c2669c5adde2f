// SPDX-License-Identifier: Apache-2.0
#include "tests/cpu/dot_trap.h"

#include "tests/cpu/run_nested.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <csignal>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <ucontext.h>
#endif

namespace libtile::test {

namespace {

// Every x86 that has the targets of tests has the instruction.
#if defined(__x86_64__)
#define LIBTILE_WITH_FMA __attribute__((target("fma")))
#else
#define LIBTILE_WITH_FMA
#endif

float flushed(float value) { return std::fabs(value) < 0x1p-126F ? std::copysign(0.0F, value) : value; }

LIBTILE_WITH_FMA float multiplyAddFlushing(float sum, uint32_t a, uint32_t b) {
  const auto operand = [](uint32_t bits) { return flushed(std::bit_cast<float>(bits)); };
  return flushed(std::fma(operand(a), operand(b), flushed(sum)));
}

std::atomic<uint64_t> traps = 0;

} // namespace

float dotBf16(float sum, uint32_t a, uint32_t b) {
  sum = multiplyAddFlushing(sum, a & 0xffff0000, b & 0xffff0000);
  return multiplyAddFlushing(sum, a << 16, b << 16);
}

float dotTileBf16(float sum, std::span<const uint32_t> a, std::span<const uint32_t> b) {
  float lower = 0, upper = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    lower = multiplyAddFlushing(lower, a[i] << 16, b[i] << 16);
    upper = multiplyAddFlushing(upper, a[i] & 0xffff0000, b[i] & 0xffff0000);
  }
  return flushed(flushed(sum) + flushed(lower + upper));
}

uint64_t DotTrap::count() { return traps; }

std::vector<std::string> dotTargets() {
  std::vector<std::string> targets = runnableTargets();
  for (const char *target : {"avx512bf16", "amx"}) {
    if (DotTrap::serves(target)) {
      targets.emplace_back(target);
    }
  }
  return targets;
}

#if defined(__x86_64__) && defined(__linux__)

namespace {

// Where the kernel keeps a part of the registers in a signal's frame, which is laid out as by xsave.
unsigned componentOffset(unsigned component) {
  unsigned size = 0, offset = 0, c = 0, d = 0;
  __cpuid_count(0xd, component, size, offset, c, d);
  return offset;
}

constexpr unsigned kUpperHalfOfXmm = 2, kUpperHalfOfZmm = 6, kUpperZmm = 7;

class Registers {
public:
  explicit Registers(ucontext_t *context)
      : general_(context->uc_mcontext.gregs),
        state_(reinterpret_cast<uint8_t *>(context->uc_mcontext.fpregs)) {}

  int64_t &general(unsigned number) {
    static constexpr int kOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                     REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                     REG_R12, REG_R13, REG_R14, REG_R15};
    return reinterpret_cast<int64_t &>(general_[kOrder[number]]);
  }
  int64_t &next() { return reinterpret_cast<int64_t &>(general_[REG_RIP]); }

  // The address of 32 bits of a zmm register.
  uint8_t *lane(unsigned zmm, unsigned index) {
    static const unsigned ymm = componentOffset(kUpperHalfOfXmm),
                          zmmHalf = componentOffset(kUpperHalfOfZmm), upper = componentOffset(kUpperZmm);
    const unsigned byte = 4 * index;
    if (zmm >= 16) {
      return state_ + upper + 64 * (zmm - 16) + byte;
    }
    if (byte >= 32) {
      return state_ + zmmHalf + 32 * zmm + byte - 32;
    }
    return byte >= 16 ? state_ + ymm + 16 * zmm + byte - 16 : state_ + 160 + 16 * zmm + byte;
  }
  // All parts count as in use from here on.
  void changed() {
    uint64_t used = 0;
    std::memcpy(&used, state_ + 512, sizeof(used));
    used |= 2 | 1 << kUpperHalfOfXmm | 1 << kUpperHalfOfZmm | 1 << kUpperZmm;
    std::memcpy(state_ + 512, &used, sizeof(used));
  }

private:
  greg_t *general_;
  uint8_t *state_;
};

// Where an instruction finds its operand in memory.
struct Memory {
  uint8_t *place = nullptr;
  int64_t stride = 0; // of its index register: between a tile's rows
};

// Reads what follows the modrm byte at code[at]. `baseHigh`, `indexHigh`: the upper bits of the registers'
// numbers; `scale`: of an offset of 8 bits. Moves `at` behind.
Memory decodeMemory(const uint8_t *code, unsigned &at, Registers &registers, unsigned baseHigh,
                    unsigned indexHigh, int32_t scale) {
  const uint8_t modrm = code[at++];
  const unsigned mod = modrm >> 6, rm = modrm & 7;
  Memory memory;
  unsigned base = rm;
  if (rm == 4) {
    const uint8_t sib = code[at++];
    const unsigned index = (sib >> 3 & 7) | indexHigh;
    base = sib & 7;
    memory.stride = index == 4 ? 0 : registers.general(index) * (int64_t{1} << (sib >> 6));
  }
  int32_t offset = 0;
  const bool noBase = mod == 0 && base == 5;
  if (mod == 1) {
    offset = static_cast<int8_t>(code[at++]) * scale;
  } else if (mod == 2 || noBase) {
    std::memcpy(&offset, code + at, 4);
    at += 4;
  }
  int64_t address = offset;
  if (!noBase) {
    address += registers.general(base | baseHigh);
  } else if (rm == 5) {
    address += reinterpret_cast<int64_t>(code) + at;
  }
  memory.place = reinterpret_cast<uint8_t *>(address);
  return memory;
}

enum class Dot : uint8_t { Bf16, Words, Bytes };

// dest += left . right for 16 words each; the right ones may lie in memory, or be one there for all.
struct Instruction {
  Dot dot{};
  unsigned dest = 0, left = 0, right = 0;
  const uint8_t *memory = nullptr;
  bool one = false;
  unsigned length = 0;
};

// EVEX.512.{66,F3}.0F38.W0 52 /r without a mask: vpdpwssd, vdpbf16ps; with 66 and 50: vpdpbusd.
bool decode(const uint8_t *code, Registers &registers, Instruction &found) {
  const uint8_t p0 = code[1], p1 = code[2], p2 = code[3], modrm = code[5];
  const unsigned prefix = p1 & 3;
  const bool bytes = code[4] == 0x50 && prefix == 1;
  const bool words = code[4] == 0x52 && prefix == 1;
  const bool bf16 = code[4] == 0x52 && prefix == 2;
  if (code[0] != 0x62 || (p0 & 7) != 2 || (p1 & 0x80) != 0 || (p2 & 0x67) != 0x40 ||
      !(bytes || words || bf16)) {
    return false;
  }
  const auto high = [](uint8_t byte, unsigned bit, unsigned place) {
    return ((byte >> bit & 1) ^ 1U) << place;
  };
  const unsigned mod = modrm >> 6, rm = modrm & 7;
  found.dot = bytes ? Dot::Bytes : words ? Dot::Words : Dot::Bf16;
  found.dest = (modrm >> 3 & 7) | high(p0, 7, 3) | high(p0, 4, 4);
  found.left = (~p1 >> 3 & 15) | high(p2, 3, 4);
  found.one = (p2 & 0x10) != 0;
  found.length = 6;
  if (mod == 3) {
    found.right = rm | high(p0, 5, 3) | high(p0, 6, 4);
    return !found.one;
  }
  found.length = 5;
  const Memory memory = decodeMemory(code, found.length, registers, high(p0, 5, 3), high(p0, 6, 3),
                                     found.one ? 4 : 64);
  found.memory = memory.place + memory.stride;
  return true;
}

uint32_t dotOfWords(uint32_t sum, uint32_t a, uint32_t b) {
  const auto half = [](uint32_t word, unsigned shift) { return int64_t{static_cast<int16_t>(word >> shift)}; };
  return sum + static_cast<uint32_t>(half(a, 0) * half(b, 0)) + static_cast<uint32_t>(half(a, 16) * half(b, 16));
}

uint32_t dotOfBytes(uint32_t sum, uint32_t a, uint32_t b) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    sum += static_cast<uint32_t>(int32_t{static_cast<uint8_t>(a >> shift)} * static_cast<int8_t>(b >> shift));
  }
  return sum;
}

uint32_t dotOf(Dot dot, uint32_t sum, uint32_t a, uint32_t b) {
  switch (dot) {
  case Dot::Bf16: return std::bit_cast<uint32_t>(dotBf16(std::bit_cast<float>(sum), a, b));
  case Dot::Words: return dotOfWords(sum, a, b);
  case Dot::Bytes: return dotOfBytes(sum, a, b);
  }
  return 0;
}

void execute(const Instruction &instruction, Registers &registers) {
  const auto read = [](const uint8_t *place) {
    uint32_t word = 0;
    std::memcpy(&word, place, 4);
    return word;
  };
  for (unsigned i = 0; i < 16; ++i) {
    uint8_t *dest = registers.lane(instruction.dest, i);
    const uint32_t a = read(registers.lane(instruction.left, i));
    const uint32_t b = read(instruction.memory == nullptr ? registers.lane(instruction.right, i)
                                                          : instruction.memory + (instruction.one ? 0 : 4 * i));
    const uint32_t sum = dotOf(instruction.dot, read(dest), a, b);
    std::memcpy(dest, &sum, 4);
  }
  registers.changed();
  traps += instruction.dot == Dot::Bf16 ? 1 : 0;
}

// AMX: eight tiles of 16 rows of 64 bytes, the configuration that contracts load.
struct Tiles {
  bool configured = false;
  uint32_t words[8][16][16];
};
thread_local Tiles tiles;

// sum += a x b; of bytes both signed.
void multiplyTiles(bool bf16, unsigned sum, unsigned a, unsigned b) {
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 16; ++column) {
      uint32_t &element = tiles.words[sum][row][column];
      uint32_t words[16];
      for (unsigned i = 0; i < 16; ++i) {
        words[i] = tiles.words[b][i][column];
      }
      const std::span<const uint32_t> left = tiles.words[a][row];
      if (bf16) {
        element = std::bit_cast<uint32_t>(dotTileBf16(std::bit_cast<float>(element), left, words));
        continue;
      }
      for (unsigned i = 0; i < 16; ++i) {
        for (unsigned shift = 0; shift < 32; shift += 8) {
          element += static_cast<uint32_t>(int32_t{static_cast<int8_t>(left[i] >> shift)} *
                                           static_cast<int8_t>(words[i] >> shift));
        }
      }
    }
  }
}

void moveTile(unsigned tile, const Memory &memory, bool load) {
  for (unsigned row = 0; row < 16; ++row) {
    uint8_t *place = memory.place + row * memory.stride;
    load ? std::memcpy(tiles.words[tile][row], place, 64) : std::memcpy(place, tiles.words[tile][row], 64);
  }
}

bool isConfiguration(const uint8_t *bytes) {
  bool expected = bytes[0] == 1 && bytes[1] == 0;
  for (unsigned tile = 0; tile < 8; ++tile) {
    expected = expected && bytes[16 + 2 * tile] == 64 && bytes[17 + 2 * tile] == 0 && bytes[48 + tile] == 16;
  }
  return expected;
}

// VEX.128.0F38.W0: without a prefix 49, ldtilecfg and tilerelease; F2 49, tilezero; F2 4B, tileloadd; F3 4B, tilestored;
// F3 5C, tdpbf16ps; F2 5E, tdpbssd. Executes it; returns its length, or 0: it is none of these, or there are no
// tiles.
unsigned executeTiles(const uint8_t *code, Registers &registers) {
  const uint8_t p0 = code[1], p1 = code[2], opcode = code[3], modrm = code[4];
  if (code[0] != 0xc4 || (p0 & 31) != 2 || (p1 & 0x84) != 0) {
    return 0;
  }
  const unsigned prefix = p1 & 3, first = modrm >> 3 & 7;
  unsigned length = 4;
  const auto memory = [&] {
    return decodeMemory(code, length, registers, (p0 & 0x20) != 0 ? 0 : 8, (p0 & 0x40) != 0 ? 0 : 8, 1);
  };
  if (opcode == 0x49 && prefix == 0) {
    tiles = {};
    if (modrm == 0xc0) {
      return 5;
    }
    const Memory place = memory();
    tiles.configured = isConfiguration(place.place + place.stride);
    return tiles.configured ? length : 0;
  }
  const bool moves = opcode == 0x4b && prefix >= 2 && modrm >> 6 != 3;
  const bool zeroes = opcode == 0x49 && prefix == 3 && modrm >> 6 == 3;
  const bool bf16 = opcode == 0x5c && prefix == 2;
  if (!tiles.configured || !(moves || zeroes || bf16 || (opcode == 0x5e && prefix == 3))) {
    return 0;
  }
  if (zeroes) {
    std::memset(tiles.words[first], 0, sizeof tiles.words[first]);
    return 5;
  }
  if (moves) {
    moveTile(first, memory(), prefix == 3);
    return length;
  }
  multiplyTiles(bf16, first, modrm & 7, ~p1 >> 3 & 7);
  traps += bf16 ? 1 : 0;
  return 5;
}

struct sigaction before = {};

// A signal takes long, so the dots that follow at once are done with the first. What is no dot goes to the
// handler of before, when it is executed again.
void onIllegalInstruction(int, siginfo_t *, void *context) {
  Registers registers(static_cast<ucontext_t *>(context));
  const auto executeNext = [&]() -> unsigned {
    const auto *code = reinterpret_cast<const uint8_t *>(registers.next());
    Instruction instruction;
    if (!decode(code, registers, instruction)) {
      return executeTiles(code, registers);
    }
    execute(instruction, registers);
    return instruction.length;
  };
  bool any = false;
  while (const unsigned length = executeNext()) {
    registers.next() += length;
    any = true;
  }
  if (!any) {
    sigaction(SIGILL, &before, nullptr);
  }
}

} // namespace

bool DotTrap::serves(const std::string &target) {
  return (target == "avx512bf16" || target == "amx") && codegen::runsHere(codegen::findTarget("avx512")) &&
         !codegen::runsHere(codegen::findTarget(target));
}

DotTrap::DotTrap() {
  if (serves("amx")) {
    struct sigaction action = {};
    action.sa_sigaction = onIllegalInstruction;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGILL, &action, &before);
  }
}

DotTrap::~DotTrap() {
  if (serves("amx")) {
    sigaction(SIGILL, &before, nullptr);
  }
}

#else

bool DotTrap::serves(const std::string &) { return false; }
DotTrap::DotTrap() = default;
DotTrap::~DotTrap() = default;

#endif

} // namespace libtile::test
