// SPDX-License-Identifier: Apache-2.0
// The dot's innermost loop: every unit, odd blocks, any k; and its assembly, in which no
// accumulator may leave its register.
#include "codegen/backends.h"
#include "tests/cpu/dot_trap.h"
#include "tests/cpu/numbers.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace libtile::test {
namespace {

using ir::Elem;

// `direct` numbers of each row of a are read in place; less than 0: the contract has no such rows. They lie in rows from the
// last to the first, of which `turn` stand behind the first. Sums are needed up to column `end` and stored soon; less than 0: all
// of them, some time. Whether there are sums yet is known beforehand, or the kernel is told.
enum class Empty { never, always, told, toldNot };
struct Shape {
  int m, n, k, blockM, blockN, direct = -1, end = -1;
  Empty empty = Empty::never;
  int turn = 0;
};

struct Layout {
  size_t a, b, acc, rows, inPlace, end;
  int rowA, rowB, rowInPlace;
};

Layout layoutOf(const ir::ContractUnit &unit, const Shape &shape) {
  const auto up = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
  Layout layout{};
  layout.rowA = shape.k + 6;
  layout.rowB = shape.n + 16;
  layout.b = up(size_t(shape.m) * layout.rowA * ir::byteSize(unit.packed));
  layout.acc = layout.b + up(size_t(shape.k + unit.group) * layout.rowB * ir::byteSize(unit.packed));
  layout.rows = layout.acc + up(size_t(shape.m) * shape.n * ir::byteSize(unit.accumulator));
  layout.inPlace = layout.rows + up(size_t(shape.m) * 8);
  layout.rowInPlace = std::max(shape.direct, 0) + 5;
  layout.end = layout.inPlace + up(size_t(shape.m) * layout.rowInPlace * ir::byteSize(unit.packed));
  return layout;
}

std::string kernel(const ir::ContractUnit &unit, const Shape &shape) {
  const Layout layout = layoutOf(unit, shape);
  const std::string packed = ir::elemName(unit.packed), sum = ir::elemName(unit.accumulator);
  const auto word = [](int64_t number) { return std::to_string(number); };
  const std::string b = word(shape.k / unit.group + 1) + "x" + word(layout.rowB) + "x" +
                        (unit.group > 1 ? "i32" : packed);
  return "func @f stage=nested warps=4 stages=3 arena=" + word(layout.end) + " (%k: i32, %direct: i32, %holds: i32) {\n  %zero = constant {value=0} : i32\n  %empty = " +
         (shape.empty == Empty::never    ? "constant {value=0} : i1"
          : shape.empty == Empty::always ? "constant {value=1} : i1"
                                         : "cmp %holds, %zero {predicate=eq} : i1") +
         "\n" +
         "  %rows = alloc {offset=" + word(layout.rows) + "} : buffer<" + word(shape.m) + "xi64>\n" +
         "  %a = alloc {offset=0} : buffer<" + word(shape.m) + "x" + word(layout.rowA) + "x" +
         packed + ">\n" + "  %b = alloc {offset=" + word(layout.b) + "} : buffer<" + b + ">\n" +
         "  %c = alloc {offset=" + word(layout.acc) + "} : buffer<" + word(shape.m) + "x" +
         word(shape.n) + "x" + sum + ">\n  %m = constant {value=" + word(shape.m) + "} : i32\n  %end = constant {value=" +
         word(shape.end) + "} : i32\n  %soon = cmp %m, %end {predicate=sgt} : i1\n  contract %a, %b, %c, %k, %empty" +
         (shape.direct < 0 ? "" : ", %rows, %direct") + (shape.end < 0 ? "" : ", %rows, %soon, %m, %end") + " {unit=\"" + unit.name +
         "\", block_m=" + word(shape.blockM) + ", block_n=" + word(shape.blockN) + (shape.end < 0 ? "" : ", ahead_bytes=4") +
         "}\n  return\n}\n";
}

// Where a number lies that is read in place: at an odd place.
size_t placeInRows(const Shape &shape, const Layout &layout, int m, int k) {
  return size_t((shape.m - 1 - m + shape.turn) % shape.m) * layout.rowInPlace + 1 + k;
}

void tabulateRows(NestedKernel &contract, const ir::ContractUnit &unit, const Shape &shape, const Layout &layout) {
  for (int m = 0; m < shape.m; ++m) {
    const uint64_t address = slot(contract.arena() + layout.inPlace + placeInRows(shape, layout, m, 0) * ir::byteSize(unit.packed));
    std::memcpy(contract.arena() + layout.rows + 8 * m, &address, 8);
  }
}

// Where b holds the element, counted in elements.
size_t placeInB(const ir::ContractUnit &unit, const Layout &layout, int k, int n) {
  return (size_t(k / unit.group) * layout.rowB + n) * unit.group + k % unit.group;
}

// Integers of which every sum is exact, in any order: small ones for floats; of i8 all, the outermost often,
// and sums of i32 that wrap.
void checkUnit(const std::string &target, const ir::ContractUnit &unit, const Shape &shape) {
  const Layout layout = layoutOf(unit, shape);
  NestedKernel contract(kernel(unit, shape), target);
  std::mt19937 random(shape.m * 31 + shape.k);
  const auto put = [&](size_t base, Elem elem, size_t index, int value) {
    const uint64_t bits = ir::isFloat(elem)
                              ? encode(elem, value)
                              : truncate(ir::bitWidth(elem), static_cast<uint64_t>(value));
    std::memcpy(contract.arena() + base + index * ir::byteSize(elem), &bits, ir::byteSize(elem));
  };
  std::memset(contract.arena(), 0, layout.end);
  tabulateRows(contract, unit, shape, layout);
  const bool floats = ir::isFloat(unit.accumulator);
  std::vector<int> a(shape.m * shape.k), b(shape.k * shape.n), acc(shape.m * shape.n);
  const auto number = [&] {
    if (floats) {
      return int(random() % 13) - 6;
    }
    const int values[] = {-128, 127, int(random() % 256) - 128};
    return values[random() % 3];
  };
  for (int m = 0; m < shape.m; ++m) {
    for (int k = 0; k < shape.k; ++k) {
      a[m * shape.k + k] = number();
      const bool inPlace = k < shape.direct; // in the buffer there is something else
      put(0, unit.packed, size_t(m) * layout.rowA + k, inPlace ? 99 : a[m * shape.k + k] + unit.packedBias());
      if (inPlace) {
        put(layout.inPlace, unit.packed, placeInRows(shape, layout, m, k), a[m * shape.k + k]);
      }
    }
    for (int n = 0; n < shape.n; ++n) {
      put(layout.acc, unit.accumulator, size_t(m) * shape.n + n, acc[m * shape.n + n] = floats ? number() : int(random()));
    }
  }
  for (int k = 0; k < shape.k; ++k) {
    for (int n = 0; n < shape.n; ++n) {
      put(layout.b, unit.packed, placeInB(unit, layout, k, n), b[k * shape.n + n] = number());
    }
  }
  const bool isEmpty = (shape.empty == Empty::always || shape.empty == Empty::told) && shape.k > 0;
  contract.run({slot(shape.k), slot(shape.direct), slot(shape.empty == Empty::told ? 0 : 1)});
  for (int m = 0; m < shape.m; ++m) {
    for (int n = 0; n < (shape.end < 0 ? shape.n : shape.end); ++n) {
      int64_t want = isEmpty ? 0 : acc[m * shape.n + n];
      for (int k = 0; k < shape.k; ++k) {
        want += a[m * shape.k + k] * b[k * shape.n + n];
      }
      want = static_cast<int32_t>(want);
      uint64_t bits = 0;
      const unsigned bytes = ir::byteSize(unit.accumulator);
      std::memcpy(&bits, contract.arena() + layout.acc + (size_t(m) * shape.n + n) * bytes, bytes);
      const long double got = ir::isFloat(unit.accumulator) ? decode(unit.accumulator, bits)
                                                            : signExtend(8 * bytes, bits);
      ASSERT_EQ(got, want) << target << " " << ir::elemName(unit.operand) << " at " << m << "," << n
                           << " of " << shape.m << "x" << shape.n << "x" << shape.k;
    }
  }
}

TEST(Contract, EveryUnit) {
  const DotTrap trap;
  for (const std::string &target : dotTargets()) {
    for (const ir::ContractUnit &unit : codegen::findTarget(target).contractUnits) {
      const int lanes = unit.lanes;
      for (int steps : {0, 1, 3, 29}) {
        const int k = steps * unit.stepK();
        if (unit.ofTiles()) { // as many as there are registers for, and fewer
          checkUnit(target, unit, {32, 64, k, 32, 32});
          checkUnit(target, unit, {48, 96, k, 16, 48});
          checkUnit(target, unit, {96, 16, k, 96, 16});
          checkUnit(target, unit, {32, 32, k, 16, 16});
          checkUnit(target, unit, {32, 64, k, 32, 32, -1, 35});
          for (const Empty empty : {Empty::always, Empty::told, Empty::toldNot}) {
            checkUnit(target, unit, {48, 96, k, 16, 48, -1, -1, empty});
          }
          for (int direct = 0; unit.packedBias() == 0 && direct <= k; direct += 7 * unit.stepK()) {
            for (const int turn : {0, 5, 16, 47}) {
              checkUnit(target, unit, {48, 96, k, 16, 48, direct, -1, turn == 5 ? Empty::told : Empty::never, turn});
            }
            checkUnit(target, unit, {96, 16, k, 96, 16, direct, -1, Empty::always, 40});
          }
          continue;
        }
        checkUnit(target, unit, {6, 2 * lanes, k, 6, 2 * lanes});
        checkUnit(target, unit, {8, 3 * lanes, k, 4, lanes});
        checkUnit(target, unit, {3, lanes, k, 1, lanes});
        checkUnit(target, unit, {20, 2 * lanes, k, 6, 2 * lanes}); // by blocks of 6 and of 4
        checkUnit(target, unit, {16, 3 * lanes, k, 6, lanes, -1, 2 * lanes + 1, Empty::told});
        for (int end : {1, 3 * lanes, 5 * lanes + 1, 6 * lanes}) {
          checkUnit(target, unit, {6, 6 * lanes, k, 6, 3 * lanes, -1, end});
        }
        const int vector = codegen::findTarget(target).vectorBytes / int(ir::byteSize(unit.packed));
        for (int direct = 0; unit.packedBias() == 0 && direct <= k; direct += vector) {
          checkUnit(target, unit, {6, 2 * lanes, k, 6, 2 * lanes, direct});
          checkUnit(target, unit, {8, 3 * lanes, k, 4, lanes, direct});
          checkUnit(target, unit, {20, 2 * lanes, k, 6, 2 * lanes, direct, -1, Empty::never, 3});
          checkUnit(target, unit, {6, 4 * lanes, k, 6, 2 * lanes, direct, 3 * lanes - 1});
          checkUnit(target, unit, {6, 2 * lanes, k, 6, 2 * lanes, direct, -1, direct / vector % 2 == 0 ? Empty::told : Empty::toldNot});
        }
        for (const Empty empty : {Empty::always, Empty::told, Empty::toldNot}) {
          checkUnit(target, unit, {8, 3 * lanes, k, 4, lanes, -1, -1, empty});
        }
      }
    }
  }
}

// Numbers around and below the least normal one, beside large ones: each sum rounds once, nothing else is
// lost.
void checkTiny(const std::string &target, const ir::ContractUnit &unit, bool inPlace) {
  const int least = unit.operand == Elem::F16 ? -14 : unit.operand == Elem::F64 ? -1022 : -126;
  const int leastSum = unit.accumulator == Elem::F64 ? -1022 : -126;
  // bfdot rounds to odd, which may be the farther neighbour.
  const int digits = unit.accumulator == Elem::F64 ? 53 : unit.instruction == ir::MultiplyAdd::Bfdot128 ? 23 : 24;
  const int rows = unit.ofTiles() ? 2 * unit.rows : 6;
  const int k = unit.ofTiles() ? unit.stepK() : 22;
  Shape shape{rows, 2 * unit.lanes, k, rows, 2 * unit.lanes};
  shape.direct = inPlace ? k : -1;
  shape.turn = inPlace ? 1 : 0;
  const Layout layout = layoutOf(unit, shape);
  NestedKernel contract(kernel(unit, shape), target);
  std::mt19937 random(5);
  std::memset(contract.arena(), 0, layout.end);
  tabulateRows(contract, unit, shape, layout);
  // Returns the number as the buffer holds it: of the operand's type.
  const auto put = [&](size_t base, Elem elem, size_t index, long double value) {
    const long double held = elem == unit.accumulator && base == layout.acc
                                 ? value
                                 : decode(unit.operand, encode(unit.operand, value));
    const uint64_t bits = encode(elem, held);
    std::memcpy(contract.arena() + base + index * ir::byteSize(elem), &bits, ir::byteSize(elem));
    return decode(elem, bits);
  };
  const auto number = [&](int from, int to) {
    const int exponent = from + int(random() % unsigned(to - from + 1));
    return std::ldexp(static_cast<long double>(int(random() % 255) - 127), exponent - 7);
  };
  std::vector<long double> a(shape.m * shape.k), b(shape.k * shape.n), acc(shape.m * shape.n);
  for (int m = 0; m < shape.m; ++m) {
    for (int k = 0; k < shape.k; ++k) {
      const size_t place = inPlace ? placeInRows(shape, layout, m, k) : size_t(m) * layout.rowA + k;
      a[m * shape.k + k] = put(inPlace ? layout.inPlace : 0, unit.packed, place, number(least - 6, least + 4));
    }
    for (int n = 0; n < shape.n; ++n) {
      acc[m * shape.n + n] = put(layout.acc, unit.accumulator, size_t(m) * shape.n + n,
                                 m % 2 == 0 ? number(leastSum - 6, leastSum + 2) : 0);
    }
  }
  for (int k = 0; k < shape.k; ++k) {
    for (int n = 0; n < shape.n; ++n) {
      b[k * shape.n + n] = put(layout.b, unit.packed, placeInB(unit, layout, k, n),
                               number(-4, n % 2 == 0 ? 2 : 12));
    }
  }
  contract.run({slot(shape.k), slot(shape.direct)});
  for (int m = 0; m < shape.m; ++m) {
    for (int n = 0; n < shape.n; ++n) {
      const long double start = acc[m * shape.n + n];
      long double want = start, size = std::fabs(start);
      for (int k = 0; k < shape.k; ++k) {
        const long double x = a[m * shape.k + k], y = b[k * shape.n + n];
        want += x * y;
        size += std::fabs(x * y);
      }
      const long double bound = (shape.k + 1) * (std::ldexp(size, -digits) +
                                           std::ldexp(1.0L, leastSum - digits));
      uint64_t bits = 0;
      const unsigned bytes = ir::byteSize(unit.accumulator);
      std::memcpy(&bits, contract.arena() + layout.acc + (size_t(m) * shape.n + n) * bytes, bytes);
      const long double got = decode(unit.accumulator, bits);
      ASSERT_LE(std::fabs(got - want), bound)
          << target << " " << ir::elemName(unit.operand) << " packed " << ir::elemName(unit.packed)
          << " at " << m << "," << n << ": " << got << " for " << want;
    }
  }
}

TEST(Contract, TinyNumbers) {
  const DotTrap trap;
  for (const std::string &target : dotTargets()) {
    for (const ir::ContractUnit &unit : codegen::findTarget(target).contractUnits) {
      if (ir::isFloat(unit.operand)) {
        checkTiny(target, unit, false);
        if (unit.ofTiles()) {
          checkTiny(target, unit, true);
        }
      }
    }
  }
}

int countOf(const std::string &text, const std::string &word) {
  int count = 0;
  for (size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    ++count;
  }
  return count;
}

// The loop that holds the multiply-adds, the last one: from its label to the jump back to it.
std::string innerLoop(const std::string &assembly, const std::string &instruction) {
  const size_t last = assembly.rfind("\t" + instruction);
  const size_t begin = assembly.rfind("\n.LBB", last);
  const std::string label = assembly.substr(begin + 1, assembly.find(':', begin) - begin - 1);
  return assembly.substr(begin, assembly.find("\tjne\t" + label, last) - begin);
}

// As many accumulators as leave room for one row of b and one number of a.
TEST(Contract, AccumulatorsStayInRegisters) {
  for (const std::string target : {"avx512", "avx512vnni", "avx512bf16", "x86-64-v3"}) {
    const ir::Target &description = codegen::findTarget(target);
    for (const ir::ContractUnit &unit : description.contractUnits) {
      const bool wide = description.vectorRegisters == 32;
      const int lanes = unit.lanes;
      const Shape shape =
          wide ? Shape{12, 8 * lanes, 64, 6, 4 * lanes} : Shape{12, 8 * lanes, 64, 6, 2 * lanes};
      codegen::CodeOptions options;
      options.keepAssembly = true;
      const codegen::Code code =
          codegen::generate(ir::parse(kernel(unit, shape)), description, options);
      const std::string instruction = unit.group > 1 ? unit.name : "vfmadd";
      const std::string loop = innerLoop(code.assembly, instruction);
      EXPECT_EQ(countOf(loop, instruction), wide ? 24 : 12)
          << target << " " << ir::elemName(unit.operand) << "\n"
          << loop;
      // One access for each vector of b and each number of a: nothing is spilled or read again.
      EXPECT_EQ(std::count(loop.begin(), loop.end(), '('), wide ? 4 + 6 : 2 + 6)
          << target << " " << ir::elemName(unit.operand) << "\n"
          << loop;
      if (unit.bias != 0) { // one row more, with the operands in memory
        EXPECT_EQ(countOf(code.assembly, instruction), 24 + 4) << code.assembly;
      }
      if (instruction == "vdpbf16ps") { // and where there is something to flush
        const std::string widened = innerLoop(code.assembly, "vfmadd");
        EXPECT_EQ(countOf(widened, "vfmadd"), 24) << widened;
        EXPECT_EQ(countOf(widened, "%rsp"), 0) << widened;
      }
    }
  }
}

// What does not lie in the second cache is asked for: each line of b's next columns, once in the code.
TEST(Contract, NextColumnsAreAskedForFromAfar) {
  const DotTrap trap;
  codegen::CodeOptions options;
  options.keepAssembly = true;
  for (const ir::Target &target : codegen::cpu::targets()) {
    for (const ir::ContractUnit &unit : target.contractUnits) {
      if (unit.ofTiles()) {
        continue;
      }
      const int width = 2 * unit.lanes, bytes = int(ir::byteSize(unit.packed));
      const Shape small{12, 3 * width, 4 * unit.group, 6, width};
      Shape large = small;
      large.k += target.l2Bytes / (layoutOf(unit, small).rowB * bytes) / unit.group * unit.group;
      const int lines = (width * unit.group * bytes + 63) / 64;
      for (const auto &[shape, wanted] : {std::pair(small, 0), std::pair(large, lines)}) {
        const codegen::Code code = codegen::generate(ir::parse(kernel(unit, shape)), target, options);
        const int asked = countOf(code.assembly, "prefetcht1") + countOf(code.assembly, "pldl2keep");
        EXPECT_EQ(asked, wanted) << target.name << " " << unit.name;
      }
      const std::vector<std::string> run = dotTargets();
      if (std::ranges::find(run, target.name) != run.end()) {
        checkUnit(target.name, unit, large);
        large.end = 2 * width + 1;
        checkUnit(target.name, unit, large);
      }
    }
  }
}

// Rows in place take a register each, and nothing is read again.
TEST(Contract, RowsInPlaceStayInRegisters) {
  const ir::Target &target = codegen::findTarget("avx512bf16");
  codegen::CodeOptions options;
  options.keepAssembly = true;
  for (const ir::ContractUnit &unit : target.contractUnits) {
    const Shape shape{12, 8 * unit.lanes, 64, 6, 4 * unit.lanes, 64};
    const codegen::Code code = codegen::generate(ir::parse(kernel(unit, shape)), target, options);
    const std::string instruction = unit.group > 1 ? unit.name : "vfmadd";
    const std::string loop = innerLoop(code.assembly, instruction);
    EXPECT_EQ(countOf(loop, instruction), 24) << loop;
    EXPECT_EQ(std::count(loop.begin(), loop.end(), '('), 4 + 6) << loop;
    EXPECT_EQ(countOf(loop, "%rsp"), 0) << loop;
  }
}

// Each tile of a and of b is loaded once for all of its multiply-adds, and no other access is in the loop.
TEST(Contract, TilesAreLoadedOnce) {
  const ir::Target &target = codegen::findTarget("amx");
  codegen::CodeOptions options;
  options.keepAssembly = true;
  for (const ir::ContractUnit &unit : target.contractUnits) {
    if (!unit.ofTiles()) {
      continue;
    }
    const Shape shape{64, 64, 256, 32, 32};
    const codegen::Code code = codegen::generate(ir::parse(kernel(unit, shape)), target, options);
    const std::string loop = innerLoop(code.assembly, unit.name);
    EXPECT_EQ(countOf(loop, unit.name), 4) << loop;
    EXPECT_EQ(countOf(loop, "tileloadd"), 4) << loop;
    EXPECT_EQ(std::count(loop.begin(), loop.end(), '(') - countOf(loop, "\tlea"), 4) << loop;
    EXPECT_EQ(countOf(code.assembly, "ldtilecfg"), 1) << code.assembly;
    EXPECT_EQ(countOf(code.assembly, "tilerelease"), 1) << code.assembly;
  }
}

TEST(Contract, MoreTilesThanThereAre) {
  const ir::Target &target = codegen::findTarget("amx");
  const ir::ContractUnit &unit = target.contractUnits.front();
  ASSERT_TRUE(unit.ofTiles());
  for (const Shape &shape : {Shape{32, 64, 64, 32, 64}, {8, 16, 64, 8, 16}}) {
    EXPECT_THROW((void)codegen::generate(ir::parse(kernel(unit, shape)), target), ir::UserError);
  }
}

} // namespace
} // namespace libtile::test
