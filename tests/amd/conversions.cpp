// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/float_ops.h"
#include "tests/amd/vector_table.h"

#include <limits>

namespace emulator {

namespace {

// Saturating; NaN is 0.
template <class R> R toInteger(double value) {
  using Limits = std::numeric_limits<R>;
  if (std::isnan(value)) {
    return 0;
  }
  return value <= static_cast<double>(Limits::min())   ? Limits::min()
         : value >= static_cast<double>(Limits::max()) ? Limits::max()
                                                       : static_cast<R>(value);
}

uint32_t pack(uint16_t low, uint16_t high) { return low | uint32_t{high} << 16; }

void addFromFloats(VectorTable &t) {
  t.add("cvt_i32_f32", [](float a) { return toInteger<int32_t>(a); });
  t.add("cvt_u32_f32", [](float a) { return toInteger<uint32_t>(a); });
  t.add("cvt_i32_f64", [](double a) { return toInteger<int32_t>(a); });
  t.add("cvt_u32_f64", [](double a) { return toInteger<uint32_t>(a); });
  t.add("cvt_i16_f16", [](Half a) { return toInteger<int16_t>(wide(a)); });
  t.add("cvt_u16_f16", [](Half a) { return toInteger<uint16_t>(wide(a)); });
  t.add("cvt_nearest_i32_f32 cvt_rpi_i32_f32", [](float a) { return toInteger<int32_t>(std::floor(a + 0.5)); });
  t.add("cvt_floor_i32_f32 cvt_flr_i32_f32", [](float a) { return toInteger<int32_t>(std::floor(a)); });
  t.add("cvt_f16_f32", [](float a) { return narrow<Half>(a); });
  t.add("cvt_f32_f16", [](Half a) { return static_cast<float>(wide(a)); });
  t.add("cvt_f64_f32", [](float a) { return double{a}; });
  t.add("cvt_f32_f64", [](double a) { return static_cast<float>(a); });
  t.add("cvt_f32_bf16", [](uint16_t a) { return fromBfloat(a); });
}

void addFromIntegers(VectorTable &t) {
  t.add("cvt_f32_i32", [](int32_t a) { return static_cast<float>(a); });
  t.add("cvt_f32_u32", [](uint32_t a) { return static_cast<float>(a); });
  t.add("cvt_f64_i32", [](int32_t a) { return double{static_cast<double>(a)}; });
  t.add("cvt_f64_u32", [](uint32_t a) { return double{static_cast<double>(a)}; });
  t.add("cvt_f16_i16", [](int16_t a) { return narrow<Half>(a); });
  t.add("cvt_f16_u16", [](uint16_t a) { return narrow<Half>(a); });
  t.add("cvt_f32_ubyte0", [](uint32_t a) { return static_cast<float>(a & 255); });
  t.add("cvt_f32_ubyte1", [](uint32_t a) { return static_cast<float>(a >> 8 & 255); });
  t.add("cvt_f32_ubyte2", [](uint32_t a) { return static_cast<float>(a >> 16 & 255); });
  t.add("cvt_f32_ubyte3", [](uint32_t a) { return static_cast<float>(a >> 24); });
  t.add("cvt_i32_i16", [](int16_t a) { return int32_t{a}; });
  t.add("cvt_u32_u16", [](uint16_t a) { return uint32_t{a}; });
}

void addPacked(VectorTable &t) {
  t.add("pack_b32_f16", [](uint16_t a, uint16_t b) { return pack(a, b); });
  t.add("cvt_pk_bf16_f32", [](float a, float b) { return pack(toBfloat(a), toBfloat(b)); });
  t.add("cvt_pk_f16_f32", [](float a, float b) { return pack(toHalf(a), toHalf(b)); });
  t.add("cvt_pkrtz_f16_f32 cvt_pk_rtz_f16_f32", [](float a, float b) { return pack(toHalfTowardsZero(a), toHalfTowardsZero(b)); });
  t.add("cvt_pk_i16_i32", [](int32_t a, int32_t b) {
    const auto narrowed = [](int32_t x) { return static_cast<uint16_t>(std::min(std::max(x, -32768), 32767)); };
    return pack(narrowed(a), narrowed(b));
  });
  t.add("cvt_pk_u16_u32", [](uint32_t a, uint32_t b) {
    return pack(static_cast<uint16_t>(std::min(a, 65535U)), static_cast<uint16_t>(std::min(b, 65535U)));
  });
  t.add("sat_pk_u8_i16", [](uint32_t a) {
    const auto byte = [](int16_t x) { return static_cast<uint32_t>(std::min<int16_t>(std::max<int16_t>(x, 0), 255)); };
    return byte(static_cast<int16_t>(a)) | byte(static_cast<int16_t>(a >> 16)) << 8;
  });
}

} // namespace

void addConversions(VectorTable &table) {
  addFromFloats(table);
  addFromIntegers(table);
  addPacked(table);
}

} // namespace emulator
