// SPDX-License-Identifier: Apache-2.0
// The CPU targets, and which of them this machine is.
//
// Names stand for instruction sets, not for models: any machine with the features runs the code.
// The tuning of the newer sets is that of the CPUs that have them, with 512-bit registers in full
// use.
#include "codegen/backends.h"
#include "codegen/cpu/tile_permission.h"
#include "ir/ops.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <algorithm>
#include <cstdlib>

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace libtile::codegen::cpu {

namespace {

using ir::ContractUnit;
using ir::Elem;
using ir::MultiplyAdd;

// Processors whose own prefetching begins anew at each page begin the next one in time with that.
constexpr int32_t kHalfAPage = 2048;

// Two multiply-adds begin in a cycle and take four or five, and some are late.
constexpr int32_t kSumsInFlight = 12;

// The fields that every unit has; `bytes` of a vector register or of a row of a tile.
ContractUnit unitOf(const char *name, Elem operand, Elem packed, Elem accumulator, int32_t group, int32_t bytes,
                    MultiplyAdd instruction) {
  ContractUnit unit;
  unit.name = name;
  unit.operand = operand;
  unit.packed = packed;
  unit.accumulator = accumulator;
  unit.group = group;
  unit.lanes = bytes / int32_t(ir::byteSize(accumulator));
  unit.inFlight = kSumsInFlight;
  unit.instruction = instruction;
  return unit;
}

ContractUnit multiplyAdds(const char *name, Elem operand, Elem packed, int32_t bytes) {
  return unitOf(name, operand, packed, packed, 1, bytes, MultiplyAdd::Lanes);
}

// Floats in the accumulator's type; `bytes` of a vector register.
std::vector<ContractUnit> fusedMultiplyAdds(int32_t bytes) {
  return {
      multiplyAdds("fma_f32", Elem::F32, Elem::F32, bytes),
      multiplyAdds("fma_f16", Elem::F16, Elem::F32, bytes),
      multiplyAdds("fma_bf16", Elem::BF16, Elem::F32, bytes),
      multiplyAdds("fma_f64", Elem::F64, Elem::F64, bytes),
  };
}

// Groups of i16, which hold i8 as they are.
ContractUnit pairsOfI16(const char *name, MultiplyAdd instruction, int32_t bytes) {
  ContractUnit unit = unitOf(name, Elem::I8, Elem::I16, Elem::I32, 2, bytes, instruction);
  unit.temporaries = instruction == MultiplyAdd::Vpdpwssd512 ? 0 : 1; // the product
  return unit;
}

// a's bytes are unsigned to the instruction, so they get a bias. What it adds is taken off by one row more of the same
// instructions: with one row pairs are as fast. Zen has units free for an instruction more beside each word of a; Intel's
// vpdpbusd have both, so there the bias is packed.
ContractUnit groupsOfI8(bool packsBias) {
  ContractUnit unit = unitOf("vpdpbusd", Elem::I8, Elem::I8, Elem::I32, 4, 64, MultiplyAdd::Vpdpbusd512);
  unit.bias = 128;
  unit.packsBias = packsBias;
  unit.temporaries = packsBias ? 0 : 1; // the bias
  unit.leastM = 2;
  return unit;
}

ContractUnit pairsOfBf16(const char *name, MultiplyAdd instruction, int32_t bytes) {
  ContractUnit unit = unitOf(name, Elem::BF16, Elem::BF16, Elem::F32, 2, bytes, instruction);
  unit.flushes = true;
  return unit;
}

// Those of AArch64, which takes all bytes signed.
ContractUnit signedGroupsOfI8() {
  return unitOf("sdot", Elem::I8, Elem::I8, Elem::I32, 4, 16, MultiplyAdd::Sdot128);
}

// Instructions of tiles (AMX), each register of 16 rows of 64 bytes. They have a latency of 52 cycles and start
// every 16th (Intel, Optimization Reference Manual, section 20.5).
ContractUnit tiles(const char *name, Elem operand, Elem accumulator, int32_t group, MultiplyAdd instruction) {
  ContractUnit unit = unitOf(name, operand, operand, accumulator, group, 64, instruction);
  unit.rows = 16;
  unit.words = 16;
  unit.registers = 8;
  unit.inFlight = 4;
  return unit;
}

ContractUnit tilesOfBf16() {
  ContractUnit unit = tiles("tdpbf16ps", Elem::BF16, Elem::F32, 2, MultiplyAdd::Tdpbf16ps);
  unit.flushes = true;
  unit.leastM = 4;
  return unit;
}

ContractUnit tilesOfI8() {
  ContractUnit unit = tiles("tdpbssd", Elem::I8, Elem::I32, 4, MultiplyAdd::Tdpbssd);
  unit.leastM = 8;
  return unit;
}

// `units`: those it has beside multiply-adds of floats, which they are preferred to.
ir::Target x86(const char *name, const char *cpu, const char *features, int32_t bytes,
               std::vector<ContractUnit> units) {
  ir::Target target;
  target.name = name;
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = cpu;
  target.features = features;
  if (bytes == 64) {
    using enum ir::Float8;
    target.functions = {{ir::Opcode::Scalb, Elem::F32}, {ir::Opcode::Scalb, Elem::F64}, {ir::Opcode::Erf, Elem::F32}};
    for (const ir::Float8 format : {e5, e4nv, e4b15, e4b8, e5b16}) {
      target.functions.push_back({ir::Opcode::Float8Decode, Elem::BF16, format});
    }
  }
  target.vectorBytes = bytes;
  target.vectorRegisters = bytes == 64 ? 32 : 16;
  target.maskedAccess = bytes == 64;
  target.roundsToBf16 = llvm::StringRef(features).contains("+avx512bf16");
  target.widestAtomic = 16;
  target.l1Bytes = 32 << 10;
  target.askAhead = kHalfAPage;
  target.l2Bytes = bytes == 64 ? 1 << 20 : 512 << 10;
  target.contractUnits = std::move(units);
  for (ContractUnit &unit : fusedMultiplyAdds(bytes)) {
    target.contractUnits.push_back(std::move(unit));
  }
  return target;
}

// `units`: as of x86.
ir::Target aarch64(const char *name, const char *features, std::vector<ContractUnit> units) {
  ir::Target target;
  target.name = name;
  target.triple = "aarch64-unknown-linux-gnu";
  target.cpu = "generic";
  target.features = features;
  target.vectorBytes = 16;
  target.vectorRegisters = 32;
  target.l1Bytes = 32 << 10;
  target.askAhead = kHalfAPage;
  target.l2Bytes = 512 << 10;
  target.contractUnits = std::move(units);
  for (ContractUnit &unit : fusedMultiplyAdds(16)) {
    target.contractUnits.push_back(std::move(unit));
  }
  target.contractUnits.push_back(multiplyAdds("mla_i8", Elem::I8, Elem::I32, 16));
  return target;
}

// Of those with vdpbf16ps at its full rate, whose own prefetching is slowed down by what it is told.
ir::Target asksNothing(ir::Target target) {
  target.askAhead = 0;
  return target;
}

// Of the same architecture each includes those before it.
const std::vector<ir::Target> &rows() {
  static const std::vector<ir::Target> all = {
      x86("x86-64-v3", "x86-64-v3", "", 32, {pairsOfI16("vpmaddwd", MultiplyAdd::Vpmaddwd256, 32)}),
      x86("avx512", "x86-64-v4", "-prefer-256-bit", 64,
          {pairsOfI16("vpmaddwd", MultiplyAdd::Vpmaddwd512, 64)}),
      x86("avx512vnni", "x86-64-v4", "-prefer-256-bit,+avx512vnni", 64,
          {groupsOfI8(/*packsBias=*/true), pairsOfI16("vpdpwssd", MultiplyAdd::Vpdpwssd512, 64)}),
      asksNothing(x86("avx512bf16", "x86-64-v4", "-prefer-256-bit,+avx512vnni,+avx512bf16", 64,
                      {pairsOfBf16("vdpbf16ps", MultiplyAdd::Vdpbf16ps512, 64), groupsOfI8(/*packsBias=*/false),
                       pairsOfI16("vpdpwssd", MultiplyAdd::Vpdpwssd512, 64)})),
      // Of CPUs on which vdpbf16ps is slow (multipliesPairsSlowly).
      x86("amx", "x86-64-v4",
          "-prefer-256-bit,+avx512vnni,+avx512bf16,+amx-tile,+amx-bf16,+amx-int8", 64,
          {tilesOfBf16(), tilesOfI8(), groupsOfI8(/*packsBias=*/true), pairsOfI16("vpdpwssd", MultiplyAdd::Vpdpwssd512, 64)}),
      aarch64("aarch64", "+neon,+fp-armv8", {}),
      aarch64("aarch64-dotprod", "+neon,+fp-armv8,+lse,+dotprod", {signedGroupsOfI8()}),
      aarch64("aarch64-bf16", "+neon,+fp-armv8,+lse,+dotprod,+bf16",
              {pairsOfBf16("bfdot", MultiplyAdd::Bfdot128, 16), signedGroupsOfI8()}),
  };
  return all;
}

const ir::Target *row(std::string_view name) {
  for (const ir::Target &target : rows()) {
    if (target.name == name) {
      return &target;
    }
  }
  return nullptr;
}

constexpr const char *kNotPermitted = "the operating system does not permit the registers of AMX";

bool usesTiles(const ir::Target &target) {
  return std::ranges::any_of(target.contractUnits, &ContractUnit::ofTiles);
}

// Whether multiply-adds of f32 are faster than vdpbf16ps: 139 GFLOP/s of a core of Sapphire Rapids at 2.1 GHz
// against 71, where Zen 5 has twice the rate with pairs.
bool multipliesPairsSlowly() {
  const llvm::StringRef cpu = llvm::sys::getHostCPUName();
  return cpu == "sapphirerapids" || cpu == "emeraldrapids";
}

#if defined(__aarch64__) && defined(__linux__)
const ir::Target *detectHost() {
  const auto has = [](unsigned long capabilities, unsigned long wanted) { return (capabilities & wanted) == wanted; };
  if (!has(getauxval(AT_HWCAP), HWCAP_ATOMICS | HWCAP_ASIMDDP)) {
    return row("aarch64");
  }
  return row(has(getauxval(AT_HWCAP2), HWCAP2_BF16) ? "aarch64-bf16" : "aarch64-dotprod");
}
#else
bool has(std::initializer_list<const char *> names) {
  static const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  return std::ranges::all_of(names, [&](const char *name) { return features.lookup(name); });
}

const ir::Target *detectHost() {
  if (!has({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt"})) {
    return nullptr;
  }
  if (!has({"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"})) {
    return row("x86-64-v3");
  }
  if (!has({"avx512vnni"})) {
    return row("avx512");
  }
  if (!has({"avx512bf16"})) {
    return row("avx512vnni");
  }
  return row(has({"amx-tile", "amx-bf16", "amx-int8"}) ? "amx" : "avx512bf16");
}
#endif

// All that the instruction set has; tiles may lack the leave of the operating system.
const ir::Target *machine() {
  static const ir::Target *const best = detectHost();
  return best;
}

// The fastest that it runs. Units of tiles that it has and may not use are among its units, withheld.
ir::Target fastest() {
  const ir::Target *best = machine();
  std::vector<ContractUnit> withheld;
  if (usesTiles(*best) && !tilesPermitted()) {
    std::ranges::copy_if(best->contractUnits, std::back_inserter(withheld), &ContractUnit::ofTiles);
    for (ContractUnit &unit : withheld) {
      unit.withheld = kNotPermitted;
    }
    best = row("avx512bf16");
  }
  if (best->name == "avx512bf16" && multipliesPairsSlowly()) {
    best = row("avx512vnni");
  }
  ir::Target target = *best;
  target.contractUnits.insert(target.contractUnits.begin(), withheld.begin(), withheld.end());
  return target;
}

// LIBTILE_CPU_TARGET asks for less than the machine has.
ir::Target chooseHost() {
  if (machine() == nullptr) {
    throw ir::Unsupported("this CPU has neither AVX2 with FMA and F16C, nor is it an AArch64");
  }
  const char *wanted = std::getenv("LIBTILE_CPU_TARGET");
  if (wanted == nullptr || *wanted == 0) {
    return fastest();
  }
  const ir::Target *target = row(wanted);
  if (target == nullptr || !runsHere(*target)) {
    throw ir::Unsupported("LIBTILE_CPU_TARGET is '" + std::string(wanted) + "'; this machine runs " +
                          machine()->name + " and what that includes" +
                          (usesTiles(*machine()) && !tilesPermitted() ? std::string("; ") + kNotPermitted : ""));
  }
  return *target;
}

} // namespace

std::span<const ir::Target> targets() { return rows(); }

const ir::Target &host() {
  static const ir::Target chosen = chooseHost();
  return chosen;
}

bool runsHere(const ir::Target &target) {
  const ir::Target *best = machine();
  const ir::Target *known = row(target.name);
  return best != nullptr && known != nullptr && known->triple == best->triple && known <= best &&
         (!usesTiles(*known) || tilesPermitted());
}

} // namespace libtile::codegen::cpu
