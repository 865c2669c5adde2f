// SPDX-License-Identifier: Apache-2.0
// AMD's targets as data (LLVM's "User Guide for AMDGPU Backend", and the ISA documents of CDNA 2 to 4 and RDNA 3 to 4).
#include "codegen/amd/description.h"
#include "codegen/amd/matrix_units.h"
#include "codegen/backends.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen::amd {

namespace {

using ir::Elem;

struct Row {
  const char *name;
  int32_t wave;          // lanes
  int32_t sharedKib;     // of a workgroup
  int32_t registers;     // of a lane
  int32_t allRegisters;  // of a compute unit: of all its lanes together
  ir::SharedReads reads; // tests/amd/banks.h says where they are from
  int32_t rowCopy;       // 4 bytes have other targets, too: four times the instructions
  int32_t llvmSince;
  MatrixSet matrices;
  LaneSet lanes;
};
constexpr ir::SharedReads kPlain, kCrosswise = {.banks = 32, .order = {1, 2, 20, 8, 16, 32}}, kWide = {.banks = 64, .order = {1, 2, 12, 20, 16, 32}, .matrices = ir::MatrixReads::SixteenLanes};
constexpr Row kRows[] = {
    {"gfx90a", 64, 64, 512, 131072, kCrosswise, 0, 19, MatrixSet::Cdna2, LaneSet::Cdna},
    {"gfx942", 64, 64, 512, 131072, kCrosswise, 0, 19, MatrixSet::Cdna3, LaneSet::Cdna},
    {"gfx950", 64, 160, 512, 131072, kWide, 16, 20, MatrixSet::Cdna4, LaneSet::Cdna4},
    {"gfx1100", 32, 64, 256, 98304, kCrosswise, 0, 19, MatrixSet::Rdna3, LaneSet::Rdna3},
    {"gfx1101", 32, 64, 256, 98304, kCrosswise, 0, 19, MatrixSet::Rdna3, LaneSet::Rdna3},
    {"gfx1102", 32, 64, 256, 65536, kCrosswise, 0, 19, MatrixSet::Rdna3, LaneSet::Rdna3},
    {"gfx1150", 32, 64, 256, 65536, kCrosswise, 0, 19, MatrixSet::Rdna3, LaneSet::Rdna3},
    {"gfx1151", 32, 64, 256, 98304, kCrosswise, 0, 19, MatrixSet::Rdna3, LaneSet::Rdna3},
    {"gfx1200", 32, 64, 256, 98304, kPlain, 0, 19, MatrixSet::Rdna4, LaneSet::Rdna4},
    {"gfx1201", 32, 64, 256, 98304, kPlain, 0, 19, MatrixSet::Rdna4, LaneSet::Rdna4},
};

const Row &rowOf(const ir::Target &target) {
  const auto *row = std::ranges::find_if(kRows, [&](const Row &each) { return target.name == each.name; });
  ir::check(row != std::end(kRows), "the target is a row");
  return *row;
}

// Fused multiply-adds of every type: four columns a thread, eight threads along a row.
ir::DotUnit multiplyAdds(int32_t lanes) {
  ir::DotUnit unit = {.name = "multiply_add",
                      .m = 4,
                      .n = 32,
                      .k = 1,
                      .a = {.elem = Elem::Void, .inShared = true, .regs = {}, .lanes = {}},
                      .b = {.elem = Elem::Void, .inShared = true, .regs = {}, .lanes = {}},
                      .acc = {.elem = Elem::Void,
                              .regs = {{0, 1}, {0, 2}},
                              .lanes = {{0, 4}, {0, 8}, {0, 16}, {1, 0}, {2, 0}}},
                      .together = false};
  if (lanes == 64) {
    unit.m = 8;
    unit.acc.lanes.push_back({4, 0});
  }
  return unit;
}

ir::Target makeTarget(const Row &row) {
  ir::Target target;
  target.name = row.name;
  target.triple = "amdgcn-amd-amdhsa";
  target.cpu = row.name;
  target.features = row.wave == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
  target.llvmSince = row.llvmSince;
  target.laysOut = true;
  target.assembly = "asm";
  // v_log_f32 may be off by 1 ulp, more than what the library's log and log2 are.
  target.functions = {{ir::Opcode::Exp, Elem::F32}, {ir::Opcode::Exp2, Elem::F32}};
  target.warpSize = row.wave;
  target.maxWarps = 1024 / row.wave;
  target.sharedMemory = row.sharedKib * 1024;
  target.sharedReads = row.reads;
  target.registersPerThread = row.registers;
  target.registers = row.allRegisters;
  target.maxVectorBytes = 16;
  target.rowCopy = row.rowCopy;
  for (const MatrixUnit &matrix : matrixUnits(row.matrices)) {
    target.units.push_back(matrix.unit);
  }
  target.units.push_back(multiplyAdds(row.wave));
  return target;
}

} // namespace

LaneSet laneSet(const ir::Target &target) { return rowOf(target).lanes; }

uint32_t bufferWord(const ir::Target &target) {
  // Words of 32 bits; RDNA also: compare offsets as raw buffers do, and bit 24 is set.
  constexpr uint32_t kCdna = 0x27000, kRdna = 0x31004000;
  return rowOf(target).wave == 64 ? kCdna : kRdna;
}

bool addsPairs(const ir::Target &target) { return rowOf(target).wave == 64; }
bool matricesBeside(const ir::Target &target) { return rowOf(target).wave == 64; }
bool joinsPairs(const ir::Target &target) { return rowOf(target).wave == 32; }

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

} // namespace libtile::codegen::amd
