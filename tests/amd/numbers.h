// SPDX-License-Identifier: Apache-2.0
// The numbers that lanes hold, as C++ types, and what rounds them. The rounding mode is the host's (fesetround), which the
// emulator sets as MODE says: this folder is compiled with -frounding-math.
#pragma once

#include <bit>
#include <cstdint>

namespace emulator {

enum class Kind : uint8_t { Bits, Signed, Float };

struct Type {
  uint8_t bits; // 16, 32, 64
  Kind kind;
  bool operator==(const Type &) const = default;
};

struct Half {
  uint16_t bits;
};

[[nodiscard]] double fromHalf(uint16_t bits);
// Rounded once, as the host's rounding mode says; subnormal results are kept.
[[nodiscard]] uint16_t toHalf(double value);
[[nodiscard]] uint16_t toHalfTowardsZero(double value);
[[nodiscard]] inline float fromBfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
[[nodiscard]] uint16_t toBfloat(float value); // to nearest even
// Floats of 8 bits: E4M3 ("fp8") and E5M2 ("bf8"), of OCP or, as gfx942 has them, without infinities and with one zero.
[[nodiscard]] float fromFp8(uint8_t bits, bool isOcp);
[[nodiscard]] float fromBf8(uint8_t bits, bool isOcp);
// Rounded to nearest even; what is too large is NaN, or the largest number if it `saturates`.
[[nodiscard]] uint8_t toFp8(float value, bool isOcp, bool saturates);
[[nodiscard]] uint8_t toBf8(float value, bool isOcp, bool saturates);

// a * b + c of halves, rounded once.
[[nodiscard]] uint16_t multiplyAddHalf(uint16_t a, uint16_t b, uint16_t c);
// a + b so that rounding it to fewer bits rounds the exact sum: what is cut off sets the last bit.
[[nodiscard]] double sumToOdd(double a, double b);

template <class T> constexpr Type typeOf();
template <> constexpr Type typeOf<uint16_t>() { return {16, Kind::Bits}; }
template <> constexpr Type typeOf<int16_t>() { return {16, Kind::Signed}; }
template <> constexpr Type typeOf<Half>() { return {16, Kind::Float}; }
template <> constexpr Type typeOf<uint32_t>() { return {32, Kind::Bits}; }
template <> constexpr Type typeOf<int32_t>() { return {32, Kind::Signed}; }
template <> constexpr Type typeOf<float>() { return {32, Kind::Float}; }
template <> constexpr Type typeOf<uint64_t>() { return {64, Kind::Bits}; }
template <> constexpr Type typeOf<int64_t>() { return {64, Kind::Signed}; }
template <> constexpr Type typeOf<double>() { return {64, Kind::Float}; }

template <class T> [[nodiscard]] T fromBits(uint64_t bits) {
  if constexpr (sizeof(T) == 2) {
    return std::bit_cast<T>(static_cast<uint16_t>(bits));
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(static_cast<uint32_t>(bits));
  } else {
    return std::bit_cast<T>(bits);
  }
}
template <class T> [[nodiscard]] uint64_t toBits(T value) {
  if constexpr (sizeof(T) == 2) {
    return std::bit_cast<uint16_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return std::bit_cast<uint64_t>(value);
  }
}

// Sets the host's rounding mode for as long as it lives.
class Rounding {
public:
  explicit Rounding(int mode);
  ~Rounding();
  Rounding(const Rounding &) = delete;
  Rounding &operator=(const Rounding &) = delete;

private:
  int before_;
};

} // namespace emulator
