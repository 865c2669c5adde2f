// SPDX-License-Identifier: Apache-2.0
// The CPU targets, and which of them this machine is.
//
// Names stand for instruction sets, not for models: any machine with the features runs the code.
// The tuning of the newer sets is that of the CPUs that have them, with 512-bit registers in full
// use.
#include "codegen/backends.h"
#include "ir/ops.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/TargetParser/Host.h>

#include <cstdlib>

namespace libtile::codegen::cpu {

namespace {

using ir::ContractRule;
using ir::Elem;

// `bytes`: of a vector register. i8 always goes as pairs of i16: a multiply-add of pairs with or
// without accumulation in one instruction.
std::vector<ContractRule> contractRules(int32_t bytes, bool hasBf16Dot, bool hasPairs) {
  const int32_t lanes = bytes / 4;
  std::vector<ContractRule> rules = {
      {Elem::F32, Elem::F32, Elem::F32, false, lanes},
      {Elem::F16, Elem::F32, Elem::F32, false, lanes},
      {Elem::BF16, Elem::F32, Elem::F32, false, lanes},
      {Elem::F64, Elem::F64, Elem::F64, false, lanes / 2},
  };
  if (hasBf16Dot) {
    rules.insert(rules.begin(), {Elem::BF16, Elem::BF16, Elem::F32, true, lanes});
  }
  if (hasPairs) {
    rules.push_back({Elem::I8, Elem::I16, Elem::I32, true, lanes});
  }
  return rules;
}

ir::Target x86(const char *name, const char *cpu, const char *features, int32_t bytes) {
  ir::Target target;
  target.name = name;
  target.triple = "x86_64-unknown-linux-gnu";
  target.cpu = cpu;
  target.features = features;
  if (bytes == 64) {
    target.functions = {{ir::Opcode::Scalb, Elem::F32}, {ir::Opcode::Scalb, Elem::F64}};
  }
  target.vectorBytes = bytes;
  target.vectorRegisters = bytes == 64 ? 32 : 16;
  target.maskedAccess = bytes == 64;
  target.l1Bytes = 32 << 10;
  target.l2Bytes = bytes == 64 ? 1 << 20 : 512 << 10;
  const std::string_view all = features;
  target.contract = contractRules(bytes, all.find("avx512bf16") != all.npos, true);
  return target;
}

ir::Target aarch64() {
  ir::Target target;
  target.name = "aarch64";
  target.triple = "aarch64-unknown-linux-gnu";
  target.cpu = "generic";
  target.features = "+neon,+fp-armv8";
  target.vectorBytes = 16;
  target.vectorRegisters = 32;
  target.l1Bytes = 32 << 10;
  target.l2Bytes = 512 << 10;
  target.contract = contractRules(16, false, false);
  return target;
}

// Of the same architecture each includes those before it.
const std::vector<ir::Target> &rows() {
  static const std::vector<ir::Target> all = {
      x86("x86-64-v3", "x86-64-v3", "", 32),
      x86("avx512", "x86-64-v4", "-prefer-256-bit", 64),
      x86("avx512bf16", "x86-64-v4", "-prefer-256-bit,+avx512vnni,+avx512bf16", 64),
      aarch64(),
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

const ir::Target *detectHost() {
  const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  const auto has = [&](std::initializer_list<const char *> names) {
    for (const char *name : names) {
      if (!features.lookup(name)) {
        return false;
      }
    }
    return true;
  };
#if defined(__aarch64__)
  return row("aarch64");
#endif
  if (!has({"avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt"})) {
    return nullptr;
  }
  if (!has({"avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd"})) {
    return row("x86-64-v3");
  }
  return row(has({"avx512bf16", "avx512vnni"}) ? "avx512bf16" : "avx512");
}

const ir::Target *machine() {
  static const ir::Target *const best = detectHost();
  return best;
}

// LIBTILE_CPU_TARGET asks for less than the machine has.
const ir::Target &chooseHost() {
  if (machine() == nullptr) {
    throw ir::Unsupported("this CPU has neither AVX2 with FMA and F16C, nor is it an AArch64");
  }
  const char *wanted = std::getenv("LIBTILE_CPU_TARGET");
  if (wanted == nullptr || *wanted == 0) {
    return *machine();
  }
  const ir::Target *target = row(wanted);
  if (target == nullptr || !runsHere(*target)) {
    throw ir::Unsupported("LIBTILE_CPU_TARGET is '" + std::string(wanted) + "'; this machine runs " +
                          machine()->name + " and what that includes");
  }
  return *target;
}

} // namespace

std::span<const ir::Target> targets() { return rows(); }

const ir::Target &host() {
  static const ir::Target &chosen = chooseHost();
  return chosen;
}

bool runsHere(const ir::Target &target) {
  const ir::Target *best = machine();
  const ir::Target *known = row(target.name);
  return best != nullptr && known != nullptr && known->triple == best->triple && known <= best;
}

} // namespace libtile::codegen::cpu
