// SPDX-License-Identifier: Apache-2.0
// What the units of avx512bf16 and amx flush: the bound of codegen/cpu/tiny_numbers.h against a model of the
// instructions, and which of its two ways the code of a contract takes.
#include "codegen/cpu/tiny_numbers.h"
#include "tests/cpu/dot_trap.h"
#include "tests/cpu/numbers.h"
#include "tests/cpu/run_nested.h"

#include <bit>
#include <cmath>
#include <map>

namespace libtile::test {
namespace {

using codegen::cpu::nothingToFlush;
using ir::Elem;

float ofPart(uint32_t word, bool high) { return std::bit_cast<float>(high ? word & 0xffff0000 : word << 16); }

// As dotBf16, but nothing is flushed.
float dotKept(float sum, uint32_t a, uint32_t b) {
  for (bool high : {true, false}) {
    sum = std::fma(ofPart(a, high), ofPart(b, high), sum);
  }
  return sum;
}

// The two products first, each exact, then the sum: another order that a unit may have.
float flushed(float x) { return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x; }
float pairsFirst(float sum, uint32_t a, uint32_t b, float (*keep)(float)) {
  const auto product = [&](bool high) {
    return keep(keep(ofPart(a, high)) * keep(ofPart(b, high)));
  };
  return keep(keep(product(true) + product(false)) + keep(sum));
}

class Numbers {
public:
  explicit Numbers(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t end) { return uint32_t(random_() % end); }
  // 0, or a number of bf16 whose exponent's field is at least that, most often near it.
  uint32_t bf16(int field) {
    const uint32_t mantissas[] = {0, 1, 2, 3, 64, 126, 127, below(128)};
    const int beyond = below(4) == 0 ? int(below(60)) : int(below(3));
    const uint32_t sign = below(2) << 15;
    return below(8) == 0 ? sign : sign | uint32_t(std::min(field + beyond, 250)) << 7 | mantissas[below(8)];
  }
  float f32(int field) {
    const uint32_t mantissas[] = {0, 1, 2, 0x400000, 0x7fffff, below(1 << 23)};
    const int beyond = below(4) == 0 ? int(below(60)) : int(below(3));
    const uint32_t bits = below(2) << 31 | uint32_t(field + beyond) << 23 | mantissas[below(6)];
    return below(6) == 0 ? 0 : std::bit_cast<float>(bits);
  }

private:
  std::mt19937 random_;
};

// At the bound and above, sums of any numbers are the same bits with and without flushing, in either order.
TEST(TinyNumbers, TheBoundHolds) {
  Numbers numbers(1);
  for (int turn = 0; turn < 200000; ++turn) {
    const int a = 1 + int(numbers.below(141)), b = std::max(1, 142 - a + (turn % 3 == 0 ? int(numbers.below(3)) : 0));
    const int acc = 24 + (turn % 2 == 0 ? 0 : int(numbers.below(100)));
    ASSERT_TRUE(nothingToFlush(a, b, acc));
    const float start = numbers.f32(acc);
    float kept = start, unit = start, keptPairs = start, unitPairs = start;
    uint32_t left = 0, right = 0;
    for (int step = 0; step < 6; ++step) {
      // Half of the time what was added is nearly taken away.
      const bool back = step % 2 == 1 && numbers.below(2) == 0;
      left = back ? left ^ 0x80008000 ^ numbers.below(2) : numbers.bf16(a) << 16 | numbers.bf16(a);
      right = back ? right : numbers.bf16(b) << 16 | numbers.bf16(b);
      if (back && ((left & 0x7f80) >> 7) < uint32_t(a)) {
        left &= 0xffff8000; // a 0 has grown into a subnormal number
      }
      kept = dotKept(kept, left, right);
      unit = dotBf16(unit, left, right);
      keptPairs = pairsFirst(keptPairs, left, right, [](float x) { return x; });
      unitPairs = pairsFirst(unitPairs, left, right, flushed);
      ASSERT_EQ(std::bit_cast<uint32_t>(kept), std::bit_cast<uint32_t>(unit)) << turn << " " << a << " " << b;
      ASSERT_EQ(std::bit_cast<uint32_t>(keptPairs), std::bit_cast<uint32_t>(unitPairs)) << turn;
    }
  }
}

TEST(TinyNumbers, TheBoundIsTight) {
  const auto word = [](float high, float low) {
    return (std::bit_cast<uint32_t>(high) & 0xffff0000) | std::bit_cast<uint32_t>(low) >> 16;
  };
  const auto fieldOf = [](float x) { return int(std::bit_cast<uint32_t>(x) >> 23 & 255); };
  // (1 + 2^-7)^2 - (1 + 2^-6) is 2^-14.
  for (int p : {-90, -56, -20}) {
    const int q = -113 - p;
    const uint32_t a = word(std::ldexp(0x1.02p0F, p), std::ldexp(-0x1.04p0F, p));
    const uint32_t b = word(std::ldexp(0x1.02p0F, q), std::ldexp(1.0F, q));
    EXPECT_EQ(dotKept(0, a, b), 0x1p-127F);
    EXPECT_EQ(dotBf16(0, a, b), 0);
    EXPECT_FALSE(nothingToFlush(p + 127, q + 127, 255));
    EXPECT_TRUE(nothingToFlush(p + 127, q + 128, 255));
  }
  // A sum of its own digits.
  const float sum = 0x1.000002p-104F;
  EXPECT_EQ(dotKept(sum, word(-0x1p-52F, 0), word(0x1p-52F, 0)), 0x1p-127F);
  EXPECT_EQ(dotBf16(sum, word(-0x1p-52F, 0), word(0x1p-52F, 0)), 0);
  EXPECT_FALSE(nothingToFlush(75, 75, fieldOf(sum)));
  EXPECT_TRUE(nothingToFlush(75, 75, fieldOf(sum) + 1));
  // An operand that is subnormal itself.
  EXPECT_EQ(dotKept(0, word(0x1p-127F, 0), word(0x1p100F, 0)), 0x1p-27F);
  EXPECT_EQ(dotBf16(0, word(0x1p-127F, 0), word(0x1p100F, 0)), 0);
  EXPECT_FALSE(nothingToFlush(0, 227, 255));
  EXPECT_FALSE(nothingToFlush(227, 0, 255));
  EXPECT_TRUE(nothingToFlush(1, 227, 255));
}

// Contracts of 16 x 64 x up to 64, with rows that are longer than k.
constexpr int kM = 16, kN = 64, kMostK = 64, kRowA = 96, kRowB = 80, kBlockN = 32;
constexpr int kRowsOfB = kMostK / 2 + 3;
constexpr size_t kB = size_t(kM) * kRowA * 2, kAcc = kB + size_t(kRowsOfB) * kRowB * 4;
constexpr size_t kEnd = kAcc + size_t(kM) * kN * 4;

struct Unit {
  const char *target, *name;
  int k, blockM;
  uint64_t dots; // instructions for a block of columns
};
constexpr Unit kUnits[] = {
    {"avx512bf16", "vdpbf16ps", 54, 8, uint64_t{kM} * (kBlockN / 16) * (54 / 2)},
    {"amx", "tdpbf16ps", 64, 16, (kBlockN / 16) * (64 / 32)},
};

std::string contractText(const Unit &unit) {
  const auto word = [](auto number) { return std::to_string(number); };
  const auto buffer = [&](const char *name, size_t offset, int rows, int columns, const char *elem) {
    return std::string("  ") + name + " = alloc {offset=" + word(offset) + "} : buffer<" + word(rows) + "x" +
           word(columns) + "x" + elem + ">\n";
  };
  return "func @f stage=nested warps=4 stages=3 arena=" + word(kEnd) + " (%k: i32) {\n" +
         buffer("%a", 0, kM, kRowA, "bf16") + buffer("%b", kB, kRowsOfB, kRowB, "i32") +
         buffer("%c", kAcc, kM, kN, "f32") + "  %empty = constant {value=0} : i1\n  contract %a, %b, %c, %k, %empty {unit=\"" + unit.name +
         "\", block_m=" + word(unit.blockM) + ", block_n=" + word(kBlockN) + "}\n  return\n}\n";
}

// One at a time: those of a unit share a kernel and its buffers.
class TinyContract {
public:
  explicit TinyContract(const Unit &unit) : unit_(unit) {
    // What is not packed and no sum is tiny everywhere.
    for (size_t i = 0; i < kEnd / 2; ++i) {
      putBits(2 * i, uint16_t(1 + i % 100));
    }
    for (int m = 0; m < kM; ++m) {
      for (int k = 0; k < unit_.k; ++k) {
        setA(m, k, some());
      }
      for (int n = 0; n < kN; ++n) {
        setAcc(m, n, some());
      }
    }
    for (int k = 0; k < unit_.k; ++k) {
      for (int n = 0; n < kN; ++n) {
        setB(k, n, some());
      }
    }
  }

  void setA(int m, int k, float value) { put(a_[m][k], 2 * (size_t(m) * kRowA + k), value); }
  void setB(int k, int n, float value) {
    put(b_[k][n], kB + 4 * (size_t(k / 2) * kRowB + n) + 2 * (k % 2), value);
  }
  void setAcc(int m, int n, float value) {
    std::memcpy(kernel().arena() + kAcc + 4 * (size_t(m) * kN + n), &value, 4);
    acc_[m][n] = value;
  }
  void setAllA(float value) {
    for (int m = 0; m < kM; ++m) {
      for (int k = 0; k < unit_.k; ++k) {
        setA(m, k, value);
      }
    }
  }

  // Runs it; `blocks` of columns should take the flushing unit.
  void check(uint64_t blocks) {
    const uint64_t before = DotTrap::count();
    kernel().run({slot(unit_.k)});
    if (DotTrap::serves(unit_.target)) {
      EXPECT_EQ(DotTrap::count() - before, blocks * unit_.dots);
    }
    for (int m = 0; m < kM; ++m) {
      for (int n = 0; n < kN; ++n) {
        long double want = acc_[m][n], size = std::fabs(want);
        for (int k = 0; k < unit_.k; ++k) {
          const long double product = static_cast<long double>(a_[m][k]) * b_[k][n];
          want += product;
          size += std::fabs(product);
        }
        float got = 0;
        std::memcpy(&got, kernel().arena() + kAcc + 4 * (size_t(m) * kN + n), 4);
        if (std::isfinite(want)) {
          ASSERT_LE(std::fabs(got - want), (unit_.k + 1) * (std::ldexp(size, -24) + 0x1p-150L)) << m << "," << n;
        } else {
          ASSERT_EQ(std::isnan(got), std::isnan(want)) << m << "," << n;
        }
      }
    }
  }

private:
  // Of at least 2^-10, and now and then 0.
  float some() {
    const auto value = float(int(random_() % 255) - 127);
    return std::ldexp(value, -7 + int(random_() % 4));
  }
  void putBits(size_t place, uint16_t bits) { std::memcpy(kernel().arena() + place, &bits, 2); }
  void put(float &held, size_t place, float value) {
    held = value;
    putBits(place, uint16_t(std::bit_cast<uint32_t>(value) >> 16));
  }

  NestedKernel &kernel() {
    static std::map<std::string, NestedKernel> made;
    return made.try_emplace(unit_.name, contractText(unit_), unit_.target).first->second;
  }

  const Unit &unit_;
  DotTrap trap_;
  std::mt19937 random_{3};
  float a_[kM][kMostK], b_[kMostK][kN], acc_[kM][kN];
};

// The units that this machine has, or a DotTrap.
std::vector<Unit> unitsHere() {
  const std::vector<std::string> targets = dotTargets();
  std::vector<Unit> units(std::begin(kUnits), std::end(kUnits));
  std::erase_if(units, [&](const Unit &unit) { return std::ranges::count(targets, unit.target) == 0; });
  return units;
}

TEST(TinyNumbers, OrdinaryOnesTakeTheUnit) {
  for (const Unit &unit : unitsHere()) {
    TinyContract(unit).check(2);
    TinyContract zeros(unit);
    zeros.setAllA(-0.0F);
    zeros.check(2);
    TinyContract infinite(unit);
    infinite.setA(3, 20, INFINITY);
    infinite.setB(50, 50, NAN);
    infinite.check(2);
  }
}

// One number is enough, wherever it is; in b and acc for its block of columns.
TEST(TinyNumbers, OneDecides) {
  std::mt19937 random(11);
  for (const Unit &unit : unitsHere()) {
    for (int turn = 0; turn < 40; ++turn) {
      const int m = int(random() % kM), n = int(random() % kN), k = int(random() % unsigned(unit.k));
      const float tiny = std::ldexp(turn % 2 == 0 ? 1.0F : -1.25F, -127 - int(random() % 5));
      TinyContract left(unit);
      left.setA(m, k, tiny);
      left.setB(k, n, 0x1p100F);
      left.check(0);
      TinyContract right(unit);
      right.setB(k, n, tiny);
      right.setA(m, k, 0x1p100F);
      right.check(1);
      TinyContract sum(unit);
      sum.setAcc(m, n, std::ldexp(tiny, 22));
      sum.check(1);
    }
  }
}

// The least of b is 2^q, but for one number in the second block of columns.
void checkBound(const Unit &unit, int p, int beside) {
  const int q = -112 - p;
  TinyContract contract(unit);
  contract.setAllA(std::ldexp(-1.5F, p));
  for (int k = 0; k < unit.k; ++k) {
    for (int n = 0; n < kN; ++n) {
      contract.setB(k, n, std::ldexp(1 + float(n) / 128, std::min(q + k % 3, 120)));
    }
  }
  contract.setB(unit.k - 1, 40, std::ldexp(1.875F, q - beside));
  const bool operandsFit = q >= -126 && q <= 120;
  if (operandsFit && q - beside >= -126) {
    for (int m = 0; m < kM; ++m) {
      for (int n = 0; n < kN; ++n) {
        contract.setAcc(m, n, n % 2 == 0 ? 0 : -0x1.fp-103F);
      }
    }
    contract.check(beside == 0 ? 2 : 1);
  }
}

TEST(TinyNumbers, TheBoundIsWhereItIs) {
  for (const Unit &unit : unitsHere()) {
    for (int p = -126; p < 100; p += 5) {
      checkBound(unit, p, 0);
      checkBound(unit, p, 1);
    }
  }
}

} // namespace
} // namespace libtile::test
