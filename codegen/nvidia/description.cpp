// SPDX-License-Identifier: Apache-2.0
// NVIDIA's targets as data. PTX 8.0 is the oldest that has all of what sm_90 code uses; a driver of
// CUDA 12.0 takes it. Conversions of 8-bit floats on sm_89 need PTX 8.1, of CUDA 12.1.
#include "codegen/backends.h"
#include "ir/ops.h"

#include <string_view>

namespace libtile::codegen::nvidia {

namespace {

struct Row {
  const char *name;
  const char *ptx;
  int32_t sharedKib;
  int32_t llvmSince;
  bool float8; // converts 8-bit floats
  bool atomicAddBf16;
};
constexpr Row kRows[] = {
    {"sm_80", "+ptx80", 163, 19, false, false}, {"sm_86", "+ptx80", 99, 19, false, false},
    {"sm_89", "+ptx81", 99, 19, true, false},   {"sm_90", "+ptx80", 227, 19, true, true},
    {"sm_90a", "+ptx80", 227, 19, true, true},  {"sm_100", "+ptx86", 227, 20, true, true},
    {"sm_120", "+ptx87", 99, 20, true, true},
};

// Widest k first: what a dot prefers among shapes of one operand type.
std::vector<ir::MmaShape> warpMatrixShapes() {
  using ir::Elem;
  return {
      {Elem::F16, Elem::F32, 16, 8, 16},  {Elem::F16, Elem::F16, 16, 8, 16},
      {Elem::BF16, Elem::F32, 16, 8, 16}, {Elem::I8, Elem::I32, 16, 8, 32},
      {Elem::F32, Elem::F32, 16, 8, 8}, // tf32
      {Elem::F64, Elem::F64, 8, 8, 4},
  };
}

ir::Target makeTarget(const Row &row) {
  ir::Target target;
  target.name = row.name;
  target.triple = "nvptx64-nvidia-cuda";
  target.cpu = row.name;
  target.features = row.ptx;
  target.llvmSince = row.llvmSince;
  target.laysOut = true;
  // lg2.approx is no logarithm: near 1, where the result is small, it is off by up to 2^-22.
  target.functions = {{ir::Opcode::Exp, ir::Elem::F32},
                      {ir::Opcode::Exp2, ir::Elem::F32},
                      {ir::Opcode::Rsqrt, ir::Elem::F32}};
  if (row.float8) {
    // An e5 is the upper half of an fp16, so it needs no instruction of its own.
    target.functions.push_back({ir::Opcode::Float8Decode, ir::Elem::I8, ir::Float8::e4nv});
    target.functions.push_back({ir::Opcode::Float8Encode, ir::Elem::F32, ir::Float8::e4nv});
    target.functions.push_back({ir::Opcode::Float8Encode, ir::Elem::F32, ir::Float8::e5});
  }
  target.warpSize = 32;
  target.maxWarps = 32;
  target.sharedMemory = row.sharedKib * 1024;
  target.registersPerThread = 255;
  // Code for sm_120 takes some more of them for the same work.
  target.registers = row.name == std::string_view("sm_120") ? 61440 : 65536;
  target.maxVectorBytes = 16;
  target.asyncCopy = true;
  target.atomicAddBf16 = row.atomicAddBf16;
  target.mma = warpMatrixShapes();
  return target;
}

} // namespace

std::span<const ir::Target> targets() {
  static const std::vector<ir::Target> rows = [] {
    std::vector<ir::Target> out;
    for (const Row &row : kRows) {
      out.push_back(makeTarget(row));
    }
    return out;
  }();
  return rows;
}

} // namespace libtile::codegen::nvidia
