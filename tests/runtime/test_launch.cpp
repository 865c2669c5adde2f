// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

using namespace libtile;
using Kind = runtime::CallArgument::Kind;

namespace {

runtime::CallArgument argument(Kind kind, uint64_t bits) {
  runtime::CallArgument made;
  made.kind = kind;
  made.bits = bits;
  return made;
}

frontend::DType type(const char *name) { return *frontend::DType::byName(name); }

// The value of f16 bits, exactly.
double half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  const double size = exponent == 31  ? (mantissa != 0 ? std::nan("") : INFINITY)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

double bfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Nearest, ties to even: no neighbour is nearer, and in a tie the last bit is 0.
template <class Round, class Back> void expectNearest(double value, Round round, Back back) {
  const uint16_t bits = round(value);
  const double got = std::abs(back(bits) - value);
  for (const int step : {-1, 1}) {
    const auto neighbour = static_cast<uint16_t>(bits + step);
    const double other = std::abs(back(neighbour) - value);
    if (!std::isfinite(other) || std::signbit(back(neighbour)) != std::signbit(value)) {
      continue;
    }
    EXPECT_LE(got, other) << value;
    EXPECT_TRUE(got < other || (bits & 1) == 0) << value;
  }
}

} // namespace

TEST(Rounding, EveryHalfIsItself) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const double value = half(static_cast<uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half(runtime::roundToHalf(value))));
    } else {
      EXPECT_EQ(runtime::roundToHalf(value), bits);
    }
  }
}

TEST(Rounding, Nearest) {
  std::mt19937_64 generator(1);
  std::uniform_real_distribution<double> exponent(-26, 16);
  for (int i = 0; i < 20'000; ++i) {
    const double value = std::ldexp(1 + std::uniform_real_distribution<>(0, 1)(generator),
                                    static_cast<int>(exponent(generator))) *
                         ((i & 1) != 0 ? -1 : 1);
    if (std::abs(value) < 65504) {
      expectNearest(value, runtime::roundToHalf, half);
    }
    expectNearest(value, runtime::roundToBfloat, bfloat);
  }
  // Halfway cases that double rounding through f32 gets wrong.
  EXPECT_EQ(runtime::roundToBfloat(1 + 0x1p-8 + 0x1p-40), 0x3F81);
  EXPECT_EQ(runtime::roundToBfloat(1 + 0x1p-8), 0x3F80);
  EXPECT_EQ(runtime::roundToHalf(65520), 0x7C00);
  EXPECT_EQ(runtime::roundToHalf(65519.99), 0x7BFF);
  EXPECT_TRUE(std::isnan(bfloat(runtime::roundToBfloat(std::nan("")))));
  EXPECT_TRUE(std::isinf(bfloat(runtime::roundToBfloat(1e300))));
}

TEST(Slots, ByType) {
  uint64_t slot = 0;
  EXPECT_TRUE(runtime::encodeSlot(type("i32"), argument(Kind::Int, static_cast<uint64_t>(-5)), slot));
  EXPECT_EQ(static_cast<int32_t>(slot), -5);
  EXPECT_TRUE(runtime::encodeSlot(type("fp32"), argument(Kind::Float, std::bit_cast<uint64_t>(1.5)), slot));
  EXPECT_EQ(slot, std::bit_cast<uint32_t>(1.5F));
  EXPECT_TRUE(runtime::encodeSlot(type("fp64"), argument(Kind::Int, 3), slot));
  EXPECT_EQ(slot, std::bit_cast<uint64_t>(3.0));
  EXPECT_TRUE(runtime::encodeSlot(type("fp16"), argument(Kind::Float, std::bit_cast<uint64_t>(1.0)), slot));
  EXPECT_EQ(slot, 0x3C00U);
  EXPECT_TRUE(runtime::encodeSlot(type("bf16"), argument(Kind::Bool, 1), slot));
  EXPECT_EQ(slot, 0x3F80U);
  EXPECT_TRUE(runtime::encodeSlot(type("int1"), argument(Kind::Bool, 1), slot));
  EXPECT_EQ(slot, 1U);
  EXPECT_TRUE(runtime::encodeSlot(type("*fp32"), argument(Kind::Pointer, 4096), slot));
  EXPECT_EQ(slot, 4096U);
}

TEST(Slots, Misfits) {
  uint64_t slot = 0;
  EXPECT_FALSE(runtime::encodeSlot(type("i32"), argument(Kind::Float, 0), slot));
  EXPECT_FALSE(runtime::encodeSlot(type("i32"), argument(Kind::Pointer, 0), slot));
  EXPECT_FALSE(runtime::encodeSlot(type("fp32"), argument(Kind::Pointer, 0), slot));
  EXPECT_FALSE(runtime::encodeSlot(type("*fp32"), argument(Kind::Int, 0), slot));
  EXPECT_FALSE(runtime::encodeSlot(type("i32"), argument(Kind::None, 0), slot));
}

TEST(Slots, IntegersThatAreNotOfTheType) {
  const auto fits = [](const char *name, Kind kind, uint64_t bits) {
    uint64_t slot = 0;
    return runtime::encodeSlot(type(name), argument(kind, bits), slot);
  };
  for (const char *name : {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "int1"}) {
    const unsigned bits = ir::bitWidth(type(name).elem);
    const bool isSigned = type(name).isSigned && bits > 1;
    const uint64_t high = ~uint64_t{0} >> (isSigned ? 65 - bits : 64 - bits);
    const uint64_t low = isSigned ? ~high : 0;
    const auto kind = [&](uint64_t value) { return isSigned || value >> 63 == 0 ? Kind::Int : Kind::UInt; };
    EXPECT_TRUE(fits(name, kind(high), high)) << name;
    EXPECT_TRUE(fits(name, Kind::Int, low)) << name;
    EXPECT_TRUE(fits(name, Kind::Bool, 1)) << name;
    if (bits < 64) {
      EXPECT_FALSE(fits(name, Kind::Int, high + 1)) << name;
    }
    if (bits < 64 || !isSigned) {
      EXPECT_FALSE(fits(name, Kind::Int, low - 1)) << name;
    }
    EXPECT_EQ(fits(name, Kind::UInt, uint64_t{1} << 63), bits == 64 && !isSigned) << name;
  }
  EXPECT_EQ(runtime::describeMisfit(type("u8"), argument(Kind::Int, 300)), "the integer 300 does not fit uint8");
  EXPECT_EQ(runtime::describeMisfit(type("i64"), argument(Kind::UInt, uint64_t{1} << 63)),
            "the integer 9223372036854775808 does not fit int64");
}

TEST(Slots, IntegersRoundOnce) {
  uint64_t slot = 0;
  EXPECT_TRUE(runtime::encodeSlot(type("fp32"), argument(Kind::UInt, (uint64_t{1} << 63) + 1), slot));
  EXPECT_EQ(slot, std::bit_cast<uint32_t>(0x1p63F));
  // Just above half of the last bit; a double takes each for the tie itself.
  const uint64_t ties[] = {(uint64_t{1} << 62) + (uint64_t{1} << 38), (uint64_t{1} << 62) + (uint64_t{1} << 54)};
  EXPECT_TRUE(runtime::encodeSlot(type("fp32"), argument(Kind::Int, ties[0]), slot));
  EXPECT_EQ(slot, std::bit_cast<uint32_t>(0x1p62F));
  EXPECT_TRUE(runtime::encodeSlot(type("fp32"), argument(Kind::Int, ties[0] + 1), slot));
  EXPECT_EQ(slot, std::bit_cast<uint32_t>(0x1.000002p62F));
  EXPECT_TRUE(runtime::encodeSlot(type("fp32"), argument(Kind::Int, 0 - ties[0] - 1), slot));
  EXPECT_EQ(slot, std::bit_cast<uint32_t>(-0x1.000002p62F));
  EXPECT_TRUE(runtime::encodeSlot(type("bf16"), argument(Kind::Int, ties[1]), slot));
  EXPECT_EQ(bfloat(static_cast<uint16_t>(slot)), 0x1p62);
  EXPECT_TRUE(runtime::encodeSlot(type("bf16"), argument(Kind::Int, ties[1] + 1), slot));
  EXPECT_EQ(bfloat(static_cast<uint16_t>(slot)), 0x1.02p62);
}

TEST(Grid, Extents) {
  runtime::LaunchShape shape{};
  const int64_t good[] = {3, 1, 2};
  EXPECT_TRUE(runtime::checkGrid(good, shape));
  EXPECT_EQ(shape.grid[2], 2);
  const int64_t empty[] = {3, 0, 2};
  EXPECT_FALSE(runtime::checkGrid(empty, shape));
  const int64_t negative[] = {-1, 1, 1};
  EXPECT_THROW((void)runtime::checkGrid(negative, shape), ir::UserError);
  const int64_t large[] = {int64_t{1} << 31, 1, 1};
  EXPECT_THROW((void)runtime::checkGrid(large, shape), ir::UserError);
}
