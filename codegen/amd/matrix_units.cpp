// SPDX-License-Identifier: Apache-2.0
#include "codegen/amd/matrix_units.h"

#include "ir/diagnostic.h"
#include "ir/ops.h"

#include <algorithm>

namespace libtile::codegen::amd {

namespace {

using Bases = ir::Layout::Bases;
using ir::Elem;
using ir::Float8;

// first, 2 * first, ... below `end`, along rows or columns.
void append(Bases &bases, int32_t first, int32_t end, bool alongRows) {
  for (int32_t step = first; step < end; step *= 2) {
    bases.push_back(alongRows ? ir::Coords{step, 0} : ir::Coords{0, step});
  }
}
Bases transposed(Bases bases) {
  for (ir::Coords &basis : bases) {
    std::swap(basis[0], basis[1]);
  }
  return bases;
}

// Operands of n rows (columns) whose lanes go through them, and then along k in runs of `perLane`, of which a lane has several behind
// each other's; sums in runs of four rows.
ir::DotUnit mfmaUnit(std::string name, Elem elem, Elem sum, int32_t n, int32_t perLane, int32_t runs = 1) {
  const int32_t k = perLane * 64 / n;
  Bases regs, lanes, sums, sumLanes;
  append(regs, 1, perLane, false);
  append(lanes, 1, n, true);
  append(lanes, perLane, k, false);
  append(regs, k, k * runs, false);
  const bool isDouble = elem == Elem::F64; // rows go through lanes first
  append(sums, isDouble ? 4 : 1, isDouble ? 16 : 4, true);
  append(sums, 8, isDouble || n == 16 ? 8 : n, true);
  append(sumLanes, 1, n, false);
  append(sumLanes, isDouble ? 1 : 4, isDouble ? 4 : n == 16 ? 16 : 8, true);
  return {.name = std::move(name),
          .m = n,
          .n = n,
          .k = k * runs,
          .a = {.elem = elem, .regs = regs, .lanes = lanes},
          .b = {.elem = elem, .regs = transposed(regs), .lanes = transposed(lanes)},
          .acc = {.elem = sum, .regs = sums, .lanes = sumLanes},
          .leastM = n == 32 ? 32 : 4,
          .leastN = n == 32 ? 32 : 4,
          .sumsOf = ir::SumsOf::Column};
}

// 16 x 16. RDNA 3: both halves of a wave have the whole run along k, and the sums' rows alternate between them; RDNA 4: each half
// has half of the run, and of the rows.
ir::DotUnit wmmaUnit(std::string name, Elem elem, Elem sum, int32_t k, bool isNew) {
  Bases regs, lanes, sums, sumLanes;
  append(regs, 1, isNew ? k / 2 : k, false);
  append(lanes, 1, 16, true);
  lanes.push_back({0, isNew ? k / 2 : 0});
  append(sums, isNew ? 1 : 2, isNew ? 8 : 16, true);
  append(sumLanes, 1, 16, false);
  sumLanes.push_back({isNew ? 8 : 1, 0});
  return {.name = std::move(name),
          .m = 16,
          .n = 16,
          .k = k,
          .a = {.elem = elem, .regs = regs, .lanes = lanes},
          .b = {.elem = elem, .regs = transposed(regs), .lanes = transposed(lanes)},
          .acc = {.elem = sum, .regs = sums, .lanes = sumLanes},
          .leastM = 4,
          .leastN = 4,
          .sumsOf = ir::SumsOf::Column};
}

ir::DotUnit ofFormats(ir::DotUnit unit, Float8 a, Float8 b) {
  unit.a.format = a;
  unit.b.format = b;
  return unit;
}
ir::DotUnit ofPrecision(ir::DotUnit unit, ir::Precision precision) {
  unit.precision = precision;
  return unit;
}

using List = std::vector<MatrixUnit>;

void addMfma(List &list, const char *name, const char *intrinsic, Elem elem, Elem sum, int32_t n, int32_t perLane, MatrixUnit::Word word) {
  list.push_back({mfmaUnit(name, elem, sum, n, perLane), intrinsic, word, MatrixUnit::Modes});
}

// The same in all of CDNA from 2 on.
void addCommonMfma(List &list) {
  using W = MatrixUnit::Word;
  addMfma(list, "mfma_32x32x8_f16", "llvm.amdgcn.mfma.f32.32x32x8f16", Elem::F16, Elem::F32, 32, 4, W::Half);
  addMfma(list, "mfma_16x16x16_f16", "llvm.amdgcn.mfma.f32.16x16x16f16", Elem::F16, Elem::F32, 16, 4, W::Half);
  addMfma(list, "mfma_32x32x8_bf16", "llvm.amdgcn.mfma.f32.32x32x8bf16.1k", Elem::BF16, Elem::F32, 32, 4, W::Short);
  addMfma(list, "mfma_16x16x16_bf16", "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", Elem::BF16, Elem::F32, 16, 4, W::Short);
  addMfma(list, "mfma_32x32x2_f32", "llvm.amdgcn.mfma.f32.32x32x2f32", Elem::F32, Elem::F32, 32, 1, W::Float);
  addMfma(list, "mfma_16x16x4_f32", "llvm.amdgcn.mfma.f32.16x16x4f32", Elem::F32, Elem::F32, 16, 1, W::Float);
  addMfma(list, "mfma_16x16x4_f64", "llvm.amdgcn.mfma.f64.16x16x4f64", Elem::F64, Elem::F64, 16, 1, W::Double);
}

// With the operands of two instructions side by side in a lane, which k's order allows: both take them from the same places.
MatrixUnit ofTwo(MatrixUnit matrix) {
  ir::DotUnit &unit = matrix.unit;
  const int32_t perLane = 1 << unit.a.regs.size();
  unit.name += "_x2";
  unit.groups = 2;
  unit.k *= 2;
  for (ir::DotPart *part : {&unit.a, &unit.b}) {
    const size_t alongK = part == &unit.a ? 1 : 0;
    for (ir::Coords &lane : part->lanes) {
      lane[alongK] *= 2;
    }
    part->regs.push_back(alongK == 1 ? ir::Coords{0, perLane} : ir::Coords{perLane, 0});
  }
  return matrix;
}

// Codes of two formats, and what either is called in an intrinsic.
struct Formats {
  const char *text32, *text16;
  const char *name32, *name16;
  bool aIsFp8, bIsFp8;
};
constexpr Formats kMfmaFormats[] = {
    {"llvm.amdgcn.mfma.f32.32x32x16.fp8.fp8", "llvm.amdgcn.mfma.f32.16x16x32.fp8.fp8", "mfma_32x32x16_fp8_fp8", "mfma_16x16x32_fp8_fp8", true, true},
    {"llvm.amdgcn.mfma.f32.32x32x16.fp8.bf8", "llvm.amdgcn.mfma.f32.16x16x32.fp8.bf8", "mfma_32x32x16_fp8_bf8", "mfma_16x16x32_fp8_bf8", true, false},
    {"llvm.amdgcn.mfma.f32.32x32x16.bf8.fp8", "llvm.amdgcn.mfma.f32.16x16x32.bf8.fp8", "mfma_32x32x16_bf8_fp8", "mfma_16x16x32_bf8_fp8", false, true},
    {"llvm.amdgcn.mfma.f32.32x32x16.bf8.bf8", "llvm.amdgcn.mfma.f32.16x16x32.bf8.bf8", "mfma_32x32x16_bf8_bf8", "mfma_16x16x32_bf8_bf8", false, false}};

// CDNA 3's formats have one zero and no infinities, CDNA 4's are the common ones.
void addFloat8(List &list, Float8 fp8, Float8 bf8, const std::string &prefix) {
  for (const Formats &f : kMfmaFormats) {
    const Float8 a = f.aIsFp8 ? fp8 : bf8, b = f.bIsFp8 ? fp8 : bf8;
    list.push_back({ofFormats(mfmaUnit(prefix + f.name32, Elem::I8, Elem::F32, 32, 8), a, b), f.text32, MatrixUnit::Int64, MatrixUnit::Modes});
    list.push_back({ofFormats(mfmaUnit(prefix + f.name16, Elem::I8, Elem::F32, 16, 8), a, b), f.text16, MatrixUnit::Int64, MatrixUnit::Modes});
  }
}

// Of two runs of sixteen codes a lane, whose formats are numbers beside the operands: four times as deep, and twice as fast.
void addDeepFloat8(List &list) {
  for (const auto &[n, shape] : {std::pair{32, "32x32x64"}, std::pair{16, "16x16x128"}}) {
    for (const Formats &f : kMfmaFormats) {
      const std::string name = std::string("mfma_") + shape + (f.aIsFp8 ? "_fp8" : "_bf8") + (f.bIsFp8 ? "_fp8" : "_bf8");
      const char *intrinsic = n == 32 ? "llvm.amdgcn.mfma.scale.f32.32x32x64.f8f6f4.v8i32.v8i32" : "llvm.amdgcn.mfma.scale.f32.16x16x128.f8f6f4.v8i32.v8i32";
      ir::DotUnit unit = ofFormats(mfmaUnit(name, Elem::I8, Elem::F32, n, 16, 2), f.aIsFp8 ? Float8::e4nv : Float8::e5,
                                   f.bIsFp8 ? Float8::e4nv : Float8::e5);
      list.push_back({std::move(unit), intrinsic, MatrixUnit::Int32, MatrixUnit::Formats, f.aIsFp8 ? 0 : 1, f.bIsFp8 ? 0 : 1});
    }
  }
}

List cdna(MatrixSet set) {
  using W = MatrixUnit::Word;
  List list;
  if (set == MatrixSet::Cdna4) {
    addMfma(list, "mfma_32x32x16_f16", "llvm.amdgcn.mfma.f32.32x32x16.f16", Elem::F16, Elem::F32, 32, 8, W::Half);
    addMfma(list, "mfma_16x16x32_f16", "llvm.amdgcn.mfma.f32.16x16x32.f16", Elem::F16, Elem::F32, 16, 8, W::Half);
    addMfma(list, "mfma_32x32x16_bf16", "llvm.amdgcn.mfma.f32.32x32x16.bf16", Elem::BF16, Elem::F32, 32, 8, W::Bfloat);
    addMfma(list, "mfma_16x16x32_bf16", "llvm.amdgcn.mfma.f32.16x16x32.bf16", Elem::BF16, Elem::F32, 16, 8, W::Bfloat);
    addMfma(list, "mfma_32x32x32_i8", "llvm.amdgcn.mfma.i32.32x32x32.i8", Elem::I8, Elem::I32, 32, 16, W::Int32);
    addMfma(list, "mfma_16x16x64_i8", "llvm.amdgcn.mfma.i32.16x16x64.i8", Elem::I8, Elem::I32, 16, 16, W::Int32);
  }
  if (set == MatrixSet::Cdna3) {
    const auto tf32 = [&](const char *name, const char *intrinsic, int32_t n) {
      list.push_back({ofPrecision(mfmaUnit(name, Elem::F32, Elem::F32, n, 2), ir::Precision::tf32), intrinsic, W::Float, MatrixUnit::Modes});
    };
    tf32("mfma_32x32x4_xf32", "llvm.amdgcn.mfma.f32.32x32x4.xf32", 32);
    tf32("mfma_16x16x8_xf32", "llvm.amdgcn.mfma.f32.16x16x8.xf32", 16);
    addFloat8(list, Float8::e4b8, Float8::e5b16, "fnuz_");
  }
  if (set == MatrixSet::Cdna4) {
    addDeepFloat8(list);
    addFloat8(list, Float8::e4nv, Float8::e5, "");
  }
  if (set == MatrixSet::Cdna2) {
    addMfma(list, "mfma_32x32x8_i8", "llvm.amdgcn.mfma.i32.32x32x8i8", Elem::I8, Elem::I32, 32, 4, W::Int32);
    addMfma(list, "mfma_16x16x16_i8", "llvm.amdgcn.mfma.i32.16x16x16i8", Elem::I8, Elem::I32, 16, 4, W::Int32);
  } else {
    addMfma(list, "mfma_32x32x16_i8", "llvm.amdgcn.mfma.i32.32x32x16.i8", Elem::I8, Elem::I32, 32, 8, W::Int64);
    addMfma(list, "mfma_16x16x32_i8", "llvm.amdgcn.mfma.i32.16x16x32.i8", Elem::I8, Elem::I32, 16, 8, W::Int64);
  }
  addCommonMfma(list);
  if (set != MatrixSet::Cdna4) { // there a lane reads 16 bytes for one
    List both;
    for (const MatrixUnit &matrix : list) {
      both.push_back(ofTwo(matrix));
      both.push_back(matrix);
    }
    return both;
  }
  return list;
}

List rdna(bool isNew) {
  const auto unit = [&](const char *name, Elem elem, Elem sum) {
    return wmmaUnit(std::string(isNew ? "wmma12_" : "wmma11_") + name, elem, sum, 16, isNew);
  };
  using M = MatrixUnit;
  List list = {
      {unit("f16", Elem::F16, Elem::F32), isNew ? "llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v8f16" : "llvm.amdgcn.wmma.f32.16x16x16.f16.v8f32.v16f16", M::Half, M::None},
      {unit("bf16", Elem::BF16, Elem::F32), isNew ? "llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v8i16" : "llvm.amdgcn.wmma.f32.16x16x16.bf16.v8f32.v16i16", M::Short, M::None},
      {unit("i8", Elem::I8, Elem::I32), isNew ? "llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v2i32" : "llvm.amdgcn.wmma.i32.16x16x16.iu8.v8i32.v4i32", M::Int32, M::Signs}};
  if (isNew) {
    const auto codes = [&](const char *name, const char *intrinsic, Float8 a, Float8 b) {
      list.push_back({ofFormats(unit(name, Elem::I8, Elem::F32), a, b), intrinsic, M::Int32, M::None});
    };
    codes("fp8_fp8", "llvm.amdgcn.wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32", Float8::e4nv, Float8::e4nv);
    codes("fp8_bf8", "llvm.amdgcn.wmma.f32.16x16x16.fp8.bf8.v8f32.v2i32", Float8::e4nv, Float8::e5);
    codes("bf8_fp8", "llvm.amdgcn.wmma.f32.16x16x16.bf8.fp8.v8f32.v2i32", Float8::e5, Float8::e4nv);
    codes("bf8_bf8", "llvm.amdgcn.wmma.f32.16x16x16.bf8.bf8.v8f32.v2i32", Float8::e5, Float8::e5);
  }
  return list;
}

// (a b)^T = b^T a^T: the operands lie as each other's transposes do. A lane then has sums of one row instead of one column, as
// reductions of rows, left operands of a next dot and stores of rows have it.
MatrixUnit turned(MatrixUnit matrix) {
  ir::DotUnit &unit = matrix.unit;
  unit.name += "_turned";
  std::swap(unit.a.format, unit.b.format);
  unit.acc.regs = transposed(std::move(unit.acc.regs));
  unit.acc.lanes = transposed(std::move(unit.acc.lanes));
  unit.sumsOf = ir::SumsOf::Row;
  matrix.turned = true;
  return matrix;
}

// Either way round. What a dot takes that wants neither comes first, of all types: a lane's neighbours in a row, which are stored at
// once, if its sums of one row are neighbours.
List bothWays(const List &list) {
  List all;
  for (const bool isFirst : {true, false}) {
    for (const MatrixUnit &matrix : list) {
      const bool areNeighbours = matrix.unit.acc.regs.front() == ir::Coords{1, 0};
      all.push_back(areNeighbours == isFirst ? turned(matrix) : matrix);
    }
  }
  return all;
}

constexpr MatrixSet kSets[] = {MatrixSet::Cdna2, MatrixSet::Cdna3, MatrixSet::Cdna4, MatrixSet::Rdna3, MatrixSet::Rdna4};

} // namespace

const std::vector<MatrixUnit> &matrixUnits(MatrixSet set) {
  static const std::vector<List> all = {bothWays(cdna(MatrixSet::Cdna2)), bothWays(cdna(MatrixSet::Cdna3)),
                                        bothWays(cdna(MatrixSet::Cdna4)), bothWays(rdna(false)), bothWays(rdna(true))};
  return all[static_cast<size_t>(set)];
}

const MatrixUnit &matrixUnit(const std::string &name) {
  for (const MatrixSet set : kSets) {
    const auto &units = matrixUnits(set);
    const auto found = std::ranges::find(units, name, [](const MatrixUnit &unit) { return unit.unit.name; });
    if (found != units.end()) {
      return *found;
    }
  }
  throw ir::InternalError("no instruction for the unit " + name);
}

} // namespace libtile::codegen::amd
