// SPDX-License-Identifier: Apache-2.0
// NVIDIA's targets as data, each with the oldest PTX that has all of what its code uses: 8.0 a driver of CUDA 12.0 takes,
// 8.1 one of CUDA 12.1 (conversions of 8-bit floats on sm_89; sums of several floats in memory on sm_90).
#include "codegen/backends.h"
#include "codegen/nvidia/description.h"
#include "ir/ops.h"

#include <algorithm>
#include <string_view>

namespace libtile::codegen::nvidia {

namespace {

using ir::Elem;
using Bases = ir::Layout::Bases;

struct Row {
  const char *name;
  int32_t capability; // description.h
  const char *ptx;
  int32_t sharedKib;
  int32_t llvmSince;
  Residents most;
  bool wgmma = false;
  bool movesRegisters = false; // setmaxnreg. As wgmma it is of the architectures whose names end in a
};
constexpr Row kRows[] = {
    {"sm_75", 75, "+ptx80", 64, 19, {32, 16}},    {"sm_80", 80, "+ptx80", 163, 19, {64, 32}},
    {"sm_86", 86, "+ptx80", 99, 19, {48, 16}},    {"sm_89", 89, "+ptx81", 99, 19, {48, 24}},
    {"sm_90", 90, "+ptx81", 227, 19, {64, 32}},   {"sm_90a", 90, "+ptx81", 227, 19, {64, 32}, true, true},
    {"sm_100", 100, "+ptx86", 227, 20, {64, 32}}, {"sm_100a", 100, "+ptx86", 227, 20, {64, 32}, false, true},
    {"sm_120", 120, "+ptx87", 99, 20, {48, 24}},
};

// Four lanes along a row, `neighbours` elements each; eight rows.
Bases fourByEight(int32_t neighbours) {
  return {{0, neighbours}, {0, 2 * neighbours}, {1, 0}, {2, 0}, {4, 0}};
}

Bases transposed(Bases bases) {
  for (ir::Coords &basis : bases) {
    std::swap(basis[0], basis[1]);
  }
  return bases;
}

// mma.sync of 16 x 8 x `bits`, 256 or 128: a lane's register of 32 bits holds neighbours along k; the second one
// is eight rows below (a), the next ones, of 256, half of k further.
ir::DotUnit m16n8(const char *name, Elem operand, Elem acc, ir::Precision precision = {}, int32_t bits = 256) {
  const int32_t neighbours = 32 / static_cast<int32_t>(ir::bitWidth(operand));
  Bases alongK;
  for (int32_t step = 1; step < neighbours; step *= 2) {
    alongK.push_back({0, step});
  }
  Bases a = alongK, b = alongK;
  a.push_back({8, 0});
  if (bits == 256) {
    a.push_back({0, 4 * neighbours});
    b.push_back({0, 4 * neighbours});
  }
  const Bases lanes = fourByEight(neighbours);
  return {.name = name,
          .m = 16,
          .n = 8,
          .k = bits / 32 * neighbours,
          .a = {.elem = operand, .regs = a, .lanes = lanes},
          .b = {.elem = operand, .regs = transposed(b), .lanes = transposed(lanes)},
          .acc = {.elem = acc, .regs = {{0, 1}, {8, 0}}, .lanes = fourByEight(2)},
          .precision = precision,
          .leastM = 8,
          .leastN = 8};
}

// mma.sync of 8 x 8: a lane has neighbours along k, in a register of 32 bits or one f64.
ir::DotUnit m8n8(const char *name, Elem operand, Elem acc) {
  const int32_t neighbours = std::max(1, 32 / static_cast<int32_t>(ir::bitWidth(operand)));
  Bases regs;
  for (int32_t step = 1; step < neighbours; step *= 2) {
    regs.push_back({0, step});
  }
  return {.name = name,
          .m = 8,
          .n = 8,
          .k = 4 * neighbours,
          .a = {.elem = operand, .regs = regs, .lanes = fourByEight(neighbours)},
          .b = {.elem = operand, .regs = transposed(regs), .lanes = transposed(fourByEight(neighbours))},
          .acc = {.elem = acc, .regs = {{0, 1}}, .lanes = fourByEight(2)},
          .leastM = 4,
          .leastN = 8};
}

ir::DotUnit wgmma(std::string name, ir::DotPart a, ir::DotPart b, Elem acc, int32_t k, ir::Precision precision = {}) {
  return {.name = std::move(name),
          .m = 64,
          .n = 8,
          .k = k,
          .a = std::move(a),
          .b = std::move(b),
          .acc = {.elem = acc, .regs = {{0, 1}, {8, 0}}, .lanes = fourByEight(2)},
          .precision = precision,
          .leastM = 64,
          .leastN = 32};
}

// wgmma of four warps, 64 rows: each warp holds 16 of them as by mma.sync. It takes eight columns or any multiple,
// b from shared memory, and a from there or from registers, which hold it as by mma.sync.
ir::DotUnit wgmma(const char *name, Elem operand, bool aInShared) {
  const ir::DotPart shared = {.elem = operand, .inShared = true, .regs = {}, .lanes = {}};
  const ir::DotPart held = {.elem = operand, .regs = {{0, 1}, {8, 0}, {0, 8}}, .lanes = fourByEight(2)};
  return wgmma(name, aInShared ? shared : held, shared, Elem::F32, 16);
}

// Of types that have no 16 bits it turns no operand: 32 bytes along k lie side by side.
ir::DotUnit wgmmaAlongK(std::string name, Elem operand, Elem acc, ir::Precision precision = {}) {
  const ir::DotPart part = {.elem = operand, .inShared = true, .regs = {}, .lanes = {}, .alongK = true};
  return wgmma(std::move(name), part, part, acc, 256 / static_cast<int32_t>(ir::bitWidth(operand)), precision);
}

// The same with a from registers, which take it from a buffer whose neighbours lie along m: m's rows may be any, so two of
// them that lie side by side are a thread's, and lanes have those that lie in banks of their own where four rows of k
// are swizzled as in passes/gpu/matrix_buffers.h.
ir::DotUnit wgmmaHeld(ir::DotUnit unit) {
  const int32_t neighbours = 32 / static_cast<int32_t>(ir::bitWidth(unit.a.elem));
  const auto rowsOf = [&](int32_t columns) { return Bases{{0, columns}, {0, 2 * columns}, {2, 0}, {16, 0}, {4, 0}}; };
  unit.name += "_regs";
  unit.a.inShared = unit.a.alongK = false;
  for (int32_t step = 1; step < neighbours; step *= 2) {
    unit.a.regs.push_back({0, step});
  }
  unit.a.regs.insert(unit.a.regs.end(), {{1, 0}, {0, 4 * neighbours}});
  unit.a.lanes = rowsOf(neighbours);
  unit.acc.regs = {{0, 1}, {1, 0}};
  unit.acc.lanes = rowsOf(2);
  unit.a.warps = unit.acc.warps = {{8, 0}, {32, 0}};
  return unit;
}

// 8-bit floats, of one format or two. Of a running sum it keeps 13 bits of mantissa (arXiv:2412.19437, section 3.3).
std::vector<ir::DotUnit> wgmmaFloat8() {
  constexpr std::pair<ir::Float8, const char *> kFormats[] = {{ir::Float8::e4nv, "e4m3"}, {ir::Float8::e5, "e5m2"}};
  std::vector<ir::DotUnit> units;
  for (const auto &[a, nameA] : kFormats) {
    for (const auto &[b, nameB] : kFormats) {
      units.push_back(wgmmaAlongK(std::string("wgmma_m64k32_") + nameA + "_" + nameB, Elem::I8, Elem::F32));
      units.back().a.format = a;
      units.back().b.format = b;
      units.back().imprecise = true;
      units.push_back(wgmmaHeld(units.back()));
    }
  }
  return units;
}

// Fused multiply-adds of every type: four columns a thread, eight threads along a row.
ir::DotUnit multiplyAdds() {
  return {.name = "multiply_add",
          .m = 4,
          .n = 32,
          .k = 1,
          .a = {.elem = Elem::Void, .inShared = true, .regs = {}, .lanes = {}},
          .b = {.elem = Elem::Void, .inShared = true, .regs = {}, .lanes = {}},
          .acc = {.elem = Elem::Void,
                  .regs = {{0, 1}, {0, 2}},
                  .lanes = {{0, 4}, {0, 8}, {0, 16}, {1, 0}, {2, 0}}},
          .together = false};
}

std::vector<ir::DotUnit> dotUnits(const Row &row) {
  if (row.capability < 80) {
    return {m16n8("mma_m16n8k8_f16", Elem::F16, Elem::F32, {}, 128), m8n8("mma_m8n8k16_i8", Elem::I8, Elem::I32), multiplyAdds()};
  }
  std::vector<ir::DotUnit> units;
  if (row.wgmma) {
    const ir::DotUnit i8 = wgmmaAlongK("wgmma_m64k32_i8", Elem::I8, Elem::I32);
    const ir::DotUnit tf32 = wgmmaAlongK("wgmma_m64k8_tf32", Elem::F32, Elem::F32, ir::Precision::tf32);
    units = {wgmma("wgmma_m64k16_f16", Elem::F16, true), wgmma("wgmma_m64k16_bf16", Elem::BF16, true),
             wgmma("wgmma_m64k16_f16_regs", Elem::F16, false), wgmma("wgmma_m64k16_bf16_regs", Elem::BF16, false),
             i8, wgmmaHeld(i8),
             tf32, wgmmaHeld(tf32)};
    std::ranges::move(wgmmaFloat8(), std::back_inserter(units));
  }
  const ir::DotUnit others[] = {
      m16n8("mma_m16n8k16_f16", Elem::F16, Elem::F32),
      m16n8("mma_m16n8k16_bf16", Elem::BF16, Elem::F32),
      m16n8("mma_m16n8k32_i8", Elem::I8, Elem::I32),
      m16n8("mma_m16n8k8_tf32", Elem::F32, Elem::F32, ir::Precision::tf32),
      m16n8("mma_m16n8k8_f16", Elem::F16, Elem::F32, {}, 128),
      m16n8("mma_m16n8k8_bf16", Elem::BF16, Elem::F32, {}, 128),
      m16n8("mma_m16n8k16_i8", Elem::I8, Elem::I32, {}, 128),
      m16n8("mma_m16n8k4_tf32", Elem::F32, Elem::F32, ir::Precision::tf32, 128),
      m8n8("mma_m8n8k4_f64", Elem::F64, Elem::F64),
      multiplyAdds(),
  };
  units.insert(units.end(), std::begin(others), std::end(others));
  return units;
}

ir::Target makeTarget(const Row &row) {
  ir::Target target;
  target.name = row.name;
  target.triple = "nvptx64-nvidia-cuda";
  target.cpu = row.name;
  target.features = row.ptx;
  target.llvmSince = row.llvmSince;
  target.laysOut = true;
  target.assembly = "ptx";
  // lg2.approx is no logarithm: near 1, where the result is small, it is off by up to 2^-22.
  target.functions = {{ir::Opcode::Exp, ir::Elem::F32},
                      {ir::Opcode::Exp2, ir::Elem::F32},
                      {ir::Opcode::Rsqrt, ir::Elem::F32}};
  if (row.capability >= 89) {
    // An e5 is the upper half of an fp16, so it needs no instruction of its own.
    target.functions.push_back({ir::Opcode::Float8Decode, ir::Elem::F32, ir::Float8::e4nv});
    target.functions.push_back({ir::Opcode::Float8Encode, ir::Elem::F32, ir::Float8::e4nv});
    target.functions.push_back({ir::Opcode::Float8Encode, ir::Elem::F32, ir::Float8::e5});
  }
  target.warpSize = 32;
  target.sharedReads.matrices = ir::MatrixReads::EightRows;
  target.sharedReads.writesMatrices = row.capability >= 90;
  target.maxWarps = 32;
  target.sharedMemory = row.sharedKib * 1024;
  target.registersPerThread = 255;
  // Code for sm_120 takes some more of them for the same work.
  target.registers = row.capability == 120 ? 61440 : 65536;
  target.maxVectorBytes = 16;
  target.runsPtx = true;
  target.asyncCopy = row.capability >= 80;
  target.boxCopy = target.gridDependencies = row.capability >= 90;
  target.mostCluster = row.capability >= 90 ? 8 : 0; // that every such device has
  target.leastBoxRow = 80; // 2.2 cycles a row, threads 36 bytes a cycle: an H100, all multiprocessors at once
  target.registerTeam = row.movesRegisters ? 4 : 0;
  target.atomicAddBf16 = row.capability >= 90;
  target.units = dotUnits(row);
  return target;
}

const Row &rowOf(const ir::Target &target) {
  const Row *row = std::ranges::find(kRows, target.name, [](const Row &each) { return std::string_view(each.name); });
  ir::check(row != std::end(kRows), "a target of NVIDIA's");
  return *row;
}

} // namespace

int32_t capabilityOf(const ir::Target &target) { return rowOf(target).capability; }
Residents mostResident(const ir::Target &target) { return rowOf(target).most; }

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
