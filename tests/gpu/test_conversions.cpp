// SPDX-License-Identifier: Apache-2.0
// Conversions between random and fragment layouts, run on the host, and bank conflicts.
#include "codegen/codegen.h"
#include "passes/gpu/conversion.h"
#include "passes/gpu/fragments.h"
#include "tests/gpu/random_layouts.h"

#include <gtest/gtest.h>

#include <set>

using namespace libtile;
using ir::Coords;
using ir::HwDim;
using ir::Layout;
using passes::Conversion;

namespace {

bool inside(const Coords &coords, std::span<const int32_t> shape) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (coords[d] >= shape[d]) {
      return false;
    }
  }
  return true;
}

int64_t number(const Coords &coords) {
  int64_t result = 0;
  for (const int32_t c : coords) {
    result = result * 4096 + c;
  }
  return result;
}

// Each register holds the number of its element; -1 in the padding.
std::vector<int64_t> fill(const Layout &layout, std::span<const int32_t> shape) {
  std::vector<int64_t> data;
  for (int32_t warp = 0; warp < layout.size(HwDim::Warp); ++warp) {
    for (int32_t lane = 0; lane < layout.size(HwDim::Lane); ++lane) {
      for (int32_t reg = 0; reg < layout.size(HwDim::Reg); ++reg) {
        const Coords coords = layout.apply(reg, lane, warp);
        data.push_back(inside(coords, shape) ? number(coords) : -1);
      }
    }
  }
  return data;
}

Conversion::Kind expectConverts(const Layout &from, const Layout &to,
                                std::span<const int32_t> shape, int32_t bytes, const ir::SharedReads &reads = {}) {
  const Conversion plan = passes::planConversion(from, to, shape, bytes, reads);
  const auto got = passes::simulate(plan, from, to, fill(from, shape));
  const auto want = fill(to, shape);
  EXPECT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] >= 0 && got[i] != want[i]) {
      ADD_FAILURE() << "register " << i << ": " << got[i] << " for " << want[i] << "\nfrom "
                    << from.str() << "\nto   " << to.str() << "\nkind " << int(plan.kind);
      break;
    }
  }
  return plan.kind;
}

TEST(Conversion, MovesEveryElementBetweenRandomLayouts) {
  tests::Random random(11);
  std::array<int, 4> kinds{};
  for (int i = 0; i < 80; ++i) {
    const unsigned rank = 1 + static_cast<unsigned>(random.below(3));
    const auto shape = random.shape(rank, rank == 1 ? 1000 : 24);
    const int32_t warpBits = random.below(3);
    const int32_t bytes = 1 << random.below(4);
    const auto make = [&] {
      return random.below(2) == 0 ? random.blocked(shape, 1 << warpBits)
                                  : random.scattered(shape, warpBits);
    };
    const Layout from = make(), to = make();
    ++kinds[unsigned(expectConverts(from, to, shape, bytes))];
    EXPECT_EQ(expectConverts(from, from, shape, bytes), Conversion::Kind::Registers);
  }
  EXPECT_GT(kinds[unsigned(Conversion::Kind::Shared)], 20);
}

TEST(Conversion, ShufflesInsideAWarp) {
  const std::vector<int32_t> shape = {32, 32};
  const std::vector<int32_t> rows = {1, 0}, cols = {0, 1};
  // The same elements on a warp, in other lanes.
  const Layout a = Layout::blocked(shape, rows, 1, 1);
  const Layout b = Layout::parse("regs=[[1,0],[2,0],[4,0],[8,0],[16,0]] "
                                 "lanes=[[0,16],[0,8],[0,4],[0,2],[0,1]] warps=[] "
                                 "subtile=[32,32] repeats=[1,1]")
                       .value();
  EXPECT_EQ(expectConverts(a, b, shape, 4), Conversion::Kind::Shuffles);
  EXPECT_EQ(expectConverts(a, Layout::blocked(shape, cols, 1, 1), shape, 4),
            Conversion::Kind::Shared);
}

TEST(Conversion, ExchangesBitsOfLanesAndRegisters) {
  tests::Random random(12);
  for (int i = 0; i < 60; ++i) {
    const int32_t bytes = 1 << random.below(4);
    const unsigned rank = 1 + static_cast<unsigned>(random.below(3));
    const auto shape = random.shape(rank, rank == 1 ? 1000 : 24);
    const Layout from = random.scattered(shape, random.below(3));
    Layout::Bases registers = from.bases(HwDim::Reg), lanes = from.bases(HwDim::Lane);
    for (size_t bit = 0; bit < lanes.size() && !registers.empty(); bit += 2) {
      std::swap(lanes[bit], registers[static_cast<size_t>(random.below(static_cast<int32_t>(registers.size())))]);
    }
    const Layout to({from.subtile().begin(), from.subtile().end()}, {from.repeats().begin(), from.repeats().end()},
                    {registers, lanes, from.bases(HwDim::Warp), {}, {}});
    expectConverts(from, to, shape, bytes);
  }
}

// The first unit of operands of that type.
const ir::DotUnit &unitFor(ir::Elem elem) {
  for (const ir::DotUnit &unit : codegen::findTarget("sm_80").units) {
    if (unit.a.elem == elem) {
      return unit;
    }
  }
  throw std::runtime_error("no unit");
}

TEST(Conversion, AccumulatorOfHalvesIsAFragment) {
  // Attention: the scores of one dot are the left operand of the next without a move.
  const ir::DotUnit &unit = unitFor(ir::Elem::F16);
  for (const std::vector<int32_t> &shape : {std::vector{64, 32}, std::vector{3, 64, 32}}) {
    std::vector<int32_t> next = shape, grid(shape.size(), 1);
    next.back() = 64;
    grid[shape.size() - 2] = 4;
    const Layout acc = passes::accumulatorLayout(unit, shape, grid, 4);
    const Layout a = passes::leftLayout(unit, next, 32, grid, 4);
    EXPECT_EQ(expectConverts(acc, a, shape, 2), Conversion::Kind::Registers);
  }
}

TEST(Conversion, AccumulatorIsStoredFromItsWarp) {
  // Four lanes have a row's eight neighbours of 16 bits; as vectors of eight they are 64 bytes.
  const ir::DotUnit &unit = unitFor(ir::Elem::F16);
  const std::vector<int32_t> shape = {128, 128}, grid = {4, 1};
  const Layout acc = passes::accumulatorLayout(unit, shape, grid, 4);
  Layout::Bases registers = acc.bases(HwDim::Reg), lanes = acc.bases(HwDim::Lane);
  for (const int32_t step : {2, 4}) {
    std::swap(*std::ranges::find(lanes, Coords{0, step}), *std::ranges::find(registers, Coords{0, 4 * step}));
  }
  const Layout to({128, 128}, {1, 1}, {registers, lanes, acc.bases(HwDim::Warp), {}, {}});
  EXPECT_EQ(expectConverts(acc, to, shape, 2), Conversion::Kind::Exchanges);
  EXPECT_EQ(passes::planConversion(acc, to, shape, 2, {}).perWord, 2);
}

TEST(Conversion, HalvesGoToOtherLanesByWords) {
  // RDNA 3's scores have even columns in one half of the lanes and odd ones in the other; as a left operand both have all. Each of
  // the 16 registers of the sums goes to both, two to a word.
  const ir::Target &target = codegen::findTarget("gfx1100");
  const auto unit = std::ranges::find(target.units, std::string("wmma11_f16_turned"), &ir::DotUnit::name);
  ASSERT_NE(unit, target.units.end());
  const std::vector<int32_t> shape = {128, 32}, next = {128, 64}, grid = {8, 1};
  const Layout sums = passes::accumulatorLayout(*unit, shape, grid, 8);
  const Layout left = passes::leftLayout(*unit, next, 32, grid, 8);
  EXPECT_EQ(expectConverts(sums, left, shape, 2, target.sharedReads), Conversion::Kind::Shuffles);
  const Conversion plan = passes::planConversion(sums, left, shape, 2, target.sharedReads);
  EXPECT_EQ(plan.perWord, 2);
  std::set<std::pair<int32_t, int32_t>> words;
  for (const Conversion::Shuffle &shuffle : plan.shuffles) {
    words.emplace(shuffle.lane.base, shuffle.shown() / plan.perWord);
  }
  EXPECT_EQ(plan.shuffles.size(), 32U);
  EXPECT_EQ(words.size(), 16U);
  EXPECT_EQ(passes::planConversion(sums, left, shape, 4, target.sharedReads).perWord, 1);
}

struct MatrixCase {
  ir::Elem elem;
  int32_t m, n, k, warps;
  bool swapB = false; // b lies with k side by side
};

TEST(Conversion, OperandsOfDotsHaveNoBankConflicts) {
  using ir::Elem;
  const MatrixCase cases[] = {
      {Elem::F16, 128, 128, 32, 4},      {Elem::F16, 128, 128, 64, 8},
      {Elem::F16, 128, 256, 64, 8},      {Elem::BF16, 64, 64, 32, 4},
      {Elem::F16, 64, 64, 64, 4, true},  {Elem::F32, 128, 128, 32, 4, true},
      {Elem::I8, 128, 128, 64, 4, true}, {Elem::F16, 96, 80, 48, 4},
      {Elem::F16, 16, 16, 16, 1},
  };
  const ir::SharedReads &reads = codegen::findTarget("sm_80").sharedReads;
  for (const MatrixCase &c : cases) {
    const auto bytes = static_cast<int32_t>(ir::byteSize(c.elem));
    const ir::DotUnit &unit = unitFor(c.elem);
    const std::vector<int32_t> acc = {c.m, c.n};
    const passes::WarpGrid grid = passes::chooseWarpGrid(acc, c.warps, {unit.m, unit.n});
    const Layout aHeld = passes::leftLayout(unit, acc, c.k, grid, c.warps);
    const Layout bHeld = passes::rightLayout(unit, acc, c.k, grid, c.warps);
    const std::vector<int32_t> aShape = {c.m, c.k}, bShape = {c.k, c.n}, rowMajor = {1, 0},
                               columnMajor = {0, 1};
    const Layout aGlobal = Layout::blocked(aShape, rowMajor, 16 / bytes, c.warps);
    const Layout bGlobal =
        Layout::blocked(bShape, c.swapB ? columnMajor : rowMajor, 16 / bytes, c.warps);
    const auto expectFree = [&](const Layout &from, const Layout &to,
                                const std::vector<int32_t> &shape) {
      const Layout buffer = passes::chooseBuffer(
          shape, {.writers = {&from, 1}, .readers = {&to, 1}, .elementBytes = bytes, .reads = reads});
      const auto write = passes::writeAccess(from, buffer, bytes);
      const auto read = passes::readAccess(to, buffer, bytes, reads);
      EXPECT_EQ(write.elements * bytes, 16) << c.m << " " << c.n << " " << c.k;
      EXPECT_NE(read.kind, passes::AccessKind::Vector) << c.m << " " << c.n << " " << c.k;
      EXPECT_EQ(passes::bankConflicts(from, buffer, bytes, write), 0)
          << "write " << c.m << "x" << c.n << "x" << c.k << " " << buffer.str();
      EXPECT_EQ(passes::bankConflicts(to, buffer, bytes, read), 0)
          << "read " << c.m << "x" << c.n << "x" << c.k << " " << buffer.str();
      expectConverts(from, to, shape, bytes);
    };
    expectFree(aGlobal, aHeld, aShape);
    expectFree(bGlobal, bHeld, bShape);
    // The result on its way to memory.
    const std::vector<int32_t> shape = {c.m, c.n};
    const Layout out = Layout::blocked(shape, rowMajor, 4, c.warps);
    expectConverts(passes::accumulatorLayout(unit, acc, grid, c.warps), out, shape, 4);
  }
}

struct TurnedCase {
  const char *target, *unit;
  int32_t bytes, k, n, vector, rows, warps;
};

TEST(BankConflicts, RowsThatTurnInRegistersHaveNone) {
  const TurnedCase cases[] = {{"gfx942", "mfma_32x32x8_f16", 2, 64, 128, 8, 4, 4},  {"gfx942", "mfma_32x32x16_i8", 1, 128, 128, 16, 4, 4},
                              {"gfx942", "mfma_16x16x16_f16", 2, 64, 64, 8, 2, 4},  {"gfx1100", "wmma11_f16", 2, 32, 128, 8, 2, 8},
                              {"gfx1100", "wmma11_bf16", 2, 64, 64, 8, 2, 8},       {"gfx1201", "wmma12_f16", 2, 32, 128, 8, 2, 8}};
  for (const TurnedCase &c : cases) {
    const ir::Target &target = codegen::findTarget(c.target);
    const auto unit = std::ranges::find(target.units, c.unit, &ir::DotUnit::name);
    ASSERT_NE(unit, target.units.end()) << c.unit;
    const std::vector<int32_t> shape = {c.k, c.n}, acc = {128, c.n}, rowMajor = {1, 0};
    const Layout from = Layout::blocked(shape, {.order = rowMajor,
                                                .vector = c.vector,
                                                .rows = c.rows,
                                                .warps = c.warps,
                                                .warpSize = target.warpSize,
                                                .lanesAlong = 128 / (c.vector * c.bytes)});
    const Layout to = passes::rightLayout(*unit, acc, c.k, passes::chooseWarpGrid(acc, c.warps, {unit->m, unit->n}), c.warps);
    const Layout buffer = passes::chooseBuffer(shape, {.writers = {&from, 1}, .readers = {&to, 1}, .elementBytes = c.bytes});
    const auto write = passes::writeAccess(from, buffer, c.bytes), read = passes::readAccess(to, buffer, c.bytes, target.sharedReads);
    EXPECT_EQ(write.elements, c.rows) << c.unit << " " << buffer.str();
    EXPECT_GE(read.elements * c.bytes, 8) << c.unit << " " << buffer.str();
    EXPECT_EQ(passes::bankConflicts(from, buffer, c.bytes, write), 0) << c.unit << " " << buffer.str();
    EXPECT_EQ(passes::bankConflicts(to, buffer, c.bytes, read), 0) << c.unit << " " << buffer.str();
    expectConverts(from, to, shape, c.bytes);
  }
}

TEST(BankConflicts, ReadsOfATargetsOwnBanksHaveNone) {
  struct Case {
    const char *target, *unit;
    int32_t bytes, rows, k;
  };
  const Case cases[] = {{"gfx950", "mfma_32x32x16_f16", 2, 128, 64}, {"gfx950", "mfma_16x16x32_bf16", 2, 64, 64}, {"gfx950", "mfma_32x32x32_i8", 1, 128, 128},
                        {"gfx942", "mfma_32x32x8_f16", 2, 128, 64},  {"gfx942", "mfma_32x32x16_i8", 1, 128, 128}, {"gfx1100", "wmma11_f16", 2, 128, 32},
                        {"gfx1201", "wmma12_f16", 2, 128, 32}};
  for (const Case &c : cases) {
    const ir::Target *known = nullptr;
    try {
      known = &codegen::findTarget(c.target);
    } catch (const ir::Unsupported &) {
      continue; // it needs a newer LLVM
    }
    const ir::Target &target = *known;
    const auto unit = std::ranges::find(target.units, c.unit, &ir::DotUnit::name);
    ASSERT_NE(unit, target.units.end()) << c.unit;
    const std::vector<int32_t> shape = {c.rows, c.k}, acc = {c.rows, 128}, rowMajor = {1, 0};
    const Layout from = Layout::blocked(shape, {.order = rowMajor, .vector = 16 / c.bytes, .warps = 4, .warpSize = target.warpSize});
    const Layout to = passes::leftLayout(*unit, acc, c.k, passes::chooseWarpGrid(acc, 4, {unit->m, unit->n}), 4);
    const Layout buffer =
        passes::chooseBuffer(shape, {.writers = {&from, 1}, .readers = {&to, 1}, .elementBytes = c.bytes, .reads = target.sharedReads});
    const auto write = passes::writeAccess(from, buffer, c.bytes), read = passes::readAccess(to, buffer, c.bytes, target.sharedReads);
    EXPECT_GE(write.elements * c.bytes, 8) << c.unit << " " << buffer.str();
    EXPECT_EQ(passes::bankConflicts(from, buffer, c.bytes, write), 0) << c.unit << " " << buffer.str();
    EXPECT_EQ(passes::bankConflicts(to, buffer, c.bytes, read, target.sharedReads), 0) << c.unit << " " << buffer.str();
    expectConverts(from, to, shape, c.bytes);
  }
}

// What an instruction gives a lane is what its layout says that the lane holds, and where each lane reads no two meet in a bank.
TEST(TurnedReads, GiveEachLaneItsElements) {
  const TurnedCase cases[] = {{"gfx950", "mfma_32x32x16_f16", 2, 64, 128, 8, 1, 4}, {"gfx950", "mfma_16x16x32_bf16", 2, 64, 64, 8, 1, 4},
                              {"gfx950", "mfma_16x16x16_f16", 2, 16, 64, 8, 1, 4},  {"gfx950", "mfma_32x32x32_i8", 1, 128, 128, 16, 1, 4},
                              {"gfx950", "mfma_16x16x128_fp8_fp8", 1, 128, 64, 16, 1, 4}};
  for (const TurnedCase &c : cases) {
    const ir::Target *known = nullptr;
    try {
      known = &codegen::findTarget(c.target);
    } catch (const ir::Unsupported &) {
      continue; // it needs a newer LLVM
    }
    const ir::SharedReads &reads = known->sharedReads;
    const auto unit = std::ranges::find(known->units, c.unit, &ir::DotUnit::name);
    ASSERT_NE(unit, known->units.end()) << c.unit;
    const std::vector<int32_t> shape = {c.k, c.n}, acc = {128, c.n}, rowMajor = {1, 0};
    const Layout from = Layout::blocked(shape, {.order = rowMajor, .vector = c.vector, .warps = c.warps, .warpSize = 64});
    const Layout to = passes::rightLayout(*unit, acc, c.k, passes::chooseWarpGrid(acc, c.warps, {unit->m, unit->n}), c.warps);
    const Layout buffer = passes::chooseBuffer(shape, {.writers = {&from, 1}, .readers = {&to, 1}, .elementBytes = c.bytes, .reads = reads});
    const passes::BufferAccess read = passes::readAccess(to, buffer, c.bytes, reads), write = passes::writeAccess(from, buffer, c.bytes);
    ASSERT_EQ(read.kind, passes::AccessKind::Turned) << c.unit << " " << buffer.str();
    EXPECT_EQ(write.elements, c.vector) << c.unit << " " << buffer.str();
    EXPECT_EQ(passes::bankConflicts(to, buffer, c.bytes, read, reads), 0) << c.unit << " " << buffer.str();
    EXPECT_EQ(passes::bankConflicts(from, buffer, c.bytes, write), 0) << c.unit << " " << buffer.str();
    const ir::LayoutInverse inverse(buffer);
    const std::vector<int32_t> named = passes::namedOffsets(to, buffer, read);
    ASSERT_EQ(named.size(), 6U);
    for (int32_t lane = 0; lane < 64; ++lane) {
      for (int32_t j = 0; j < read.elements; ++j) {
        const int32_t by = (lane & ~15) + 16 / read.elements * j + lane % 16 / read.elements;
        int32_t at = 0;
        for (size_t bit = 0; bit < named.size(); ++bit) {
          at ^= (by >> bit & 1) != 0 ? named[bit] : 0;
        }
        EXPECT_EQ(at % read.elements, 0);
        EXPECT_EQ(at + lane % read.elements, inverse.offsetOf(to.apply(j, lane, 0))) << c.unit << " lane " << lane << " element " << j;
      }
    }
  }
}

// stmatrix (PTX ISA, 9.7.14): the lane l has the elements 2 (l mod 4) and behind of row l / 4, or of that column if transposed; the lanes
// 0 to 7 name where rows lie.
TEST(MatrixWrites, PutEachElementWhereTheBufferHasIt) {
  tests::Random random(17);
  int seen[2] = {0, 0};
  for (int round = 0; round < 1000; ++round) {
    const ir::Target &target = codegen::findTarget("sm_90a");
    const ir::DotUnit &unit = target.units[static_cast<size_t>(random.below(static_cast<int32_t>(target.units.size())))];
    const std::vector<int32_t> shape = {64 << random.below(2), 32 << random.below(3)}, rowMajor = {1, 0}, columnMajor = {0, 1};
    const int32_t warps = 4, bytes = 1 << random.below(2);
    const Layout registers = passes::accumulatorLayout(unit, shape, passes::chooseWarpGrid(shape, warps, {unit.m, unit.n}), warps);
    const auto candidates = passes::swizzles(bytes, 11);
    const Layout buffer = passes::bufferLayout(shape, shape, random.below(2) == 0 ? rowMajor : columnMajor,
                                               candidates[static_cast<size_t>(random.below(static_cast<int32_t>(candidates.size())))]);
    const auto access = passes::matrixWriteAccess(registers, buffer, bytes, target.sharedReads);
    EXPECT_FALSE(passes::matrixWriteAccess(registers, buffer, bytes, codegen::findTarget("sm_89").sharedReads));
    if (!access) {
      continue;
    }
    const bool transposed = access->kind == passes::AccessKind::MatrixTransposed;
    ++seen[transposed ? 1 : 0];
    const ir::LayoutInverse inverse(buffer);
    const std::vector<int32_t> named = passes::namedOffsets(registers, buffer, *access);
    ASSERT_EQ(named.size(), 3U);
    const int32_t first = inverse.offsetOf(registers.apply(0, 0, 0));
    for (int32_t lane = 0; lane < 32; ++lane) {
      for (int32_t element = 0; element < access->elements; ++element) {
        int32_t reg = 0;
        for (size_t bit = 0; bit < access->registerBits.size(); ++bit) {
          reg |= (element >> bit & 1) << access->registerBits[bit];
        }
        const int32_t inRow = access->elements * (lane % 4) + element;
        const int32_t row = transposed ? inRow : lane / 4, column = transposed ? lane / 4 : inRow;
        int32_t at = first;
        for (size_t bit = 0; bit < named.size(); ++bit) {
          at ^= (row >> bit & 1) != 0 ? named[bit] : 0;
        }
        EXPECT_EQ(at + column, inverse.offsetOf(registers.apply(reg, lane, 0))) << unit.name << " in " << buffer.str() << " lane " << lane;
      }
    }
  }
  EXPECT_GT(seen[0], 20);
  EXPECT_GT(seen[1], 20);
}

TEST(BankConflicts, AreWhatCountingTheLanesSays) {
  tests::Random random(11);
  const ir::SharedReads wide = {.banks = 64, .order = {1, 2, 12, 20, 16, 32}};
  for (int round = 0; round < 2000; ++round) {
    const std::vector<int32_t> shape = {64, 64}, order = random.below(2) == 0 ? std::vector<int32_t>{1, 0} : std::vector<int32_t>{0, 1};
    const int32_t bytes = 1 << random.below(4);
    const auto candidates = passes::swizzles(bytes, 12);
    const Layout buffer = passes::bufferLayout(shape, shape, std::vector<int32_t>{1, 0}, candidates[static_cast<size_t>(random.below(static_cast<int32_t>(candidates.size())))]);
    const Layout registers = Layout::blocked(shape, {.order = order, .vector = 1 << random.below(5), .warps = 2, .warpSize = 32 << random.below(2)});
    const ir::SharedReads reads = random.below(2) == 0 ? ir::SharedReads() : wide;
    const auto access = passes::writeAccess(registers, buffer, bytes);
    const int32_t lanes = registers.size(HwDim::Lane), accessBytes = access.elements * bytes;
    const ir::LayoutInverse inverse(buffer);
    std::vector<int32_t> addresses;
    for (int32_t i = 0; i < lanes; ++i) {
      int32_t lane = accessBytes == 16 ? 0 : i;
      for (size_t bit = 0; accessBytes == 16 && bit < reads.order.size(); ++bit) {
        lane ^= (i >> bit & 1) != 0 ? reads.order[bit] : 0;
      }
      addresses.push_back(inverse.offsetOf(registers.apply(0, lane, 0)) * bytes);
    }
    const int32_t least = std::max(1, lanes * accessBytes / (4 * reads.banks));
    const int32_t counted = passes::bankParts(addresses, accessBytes, reads.banks) - least;
    EXPECT_EQ(passes::bankConflicts(registers, buffer, bytes, access, reads), std::max(0, counted))
        << registers.str() << " in " << buffer.str() << " by " << accessBytes << " bytes";
  }
}

TEST(Swizzle, PermutesPositions) {
  constexpr int32_t kBits = 9;
  for (const int32_t bytes : {1, 2, 4}) {
    for (const passes::Swizzle &swizzle : passes::swizzles(bytes, kBits)) {
      std::vector<bool> seen(1 << kBits);
      for (int32_t position = 0; position < 1 << kBits; ++position) {
        seen[static_cast<size_t>(swizzle.apply(position))] = true;
      }
      EXPECT_TRUE(std::ranges::all_of(seen, [](bool each) { return each; }));
    }
  }
}

TEST(BankConflicts, CountsWhatTheHardwareSerialises) {
  const std::vector<int32_t> shape = {32, 32}, rowMajor = {1, 0}, columnMajor = {0, 1};
  const Layout columns = Layout::blocked(shape, columnMajor, 1, 1);
  const Layout plain = passes::bufferLayout(shape, shape, rowMajor);
  // A column of a 32 x 32 matrix of words lies in one bank.
  EXPECT_EQ(passes::bankConflicts(columns, plain, 4, passes::writeAccess(columns, plain, 4)), 31);
  const Layout swizzled = passes::bufferLayout(shape, shape, rowMajor, {0, 5, 5});
  EXPECT_EQ(passes::bankConflicts(columns, swizzled, 4, passes::writeAccess(columns, swizzled, 4)),
            0);
}

} // namespace
