// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/vector_table.h"

#include <algorithm>
#include <bit>

namespace emulator {

namespace {

using U16 = uint16_t;
using I16 = int16_t;
using U32 = uint32_t;
using I32 = int32_t;
using U64 = uint64_t;
using I64 = int64_t;

template <class T> T middle(T a, T b, T c) { return std::max(std::min(a, b), std::min(std::max(a, b), c)); }
U32 low24(U32 a) { return a & 0xffffff; }
I32 low24(I32 a) { return static_cast<I32>(static_cast<U32>(a) << 8) >> 8; }

// Eight bytes, of which each byte of `selector` takes one, a sign, or a constant (V_PERM_B32).
U32 permute(U32 high, U32 low, U32 selector) {
  const U64 bytes = low | U64{high} << 32;
  U32 result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const U32 which = selector >> (8 * i) & 255;
    U32 byte = which >= 13 ? 255 : 0;
    if (which < 8) {
      byte = static_cast<U32>(bytes >> (8 * which) & 255);
    } else if (which < 12) {
      byte = (bytes >> (16 * (which - 8) + 15) & 1) != 0 ? 255 : 0;
    }
    result |= byte << (8 * i);
  }
  return result;
}

template <class T> void addMinMax(VectorTable &t, const std::string &type) {
  t.add("max_" + type, [](T a, T b) { return std::max(a, b); });
  t.add("min_" + type, [](T a, T b) { return std::min(a, b); });
  t.add("max3_" + type, [](T a, T b, T c) { return std::max(std::max(a, b), c); });
  t.add("min3_" + type, [](T a, T b, T c) { return std::min(std::min(a, b), c); });
  t.add("med3_" + type, [](T a, T b, T c) { return middle(a, b, c); });
  t.add("maxmin_" + type, [](T a, T b, T c) { return std::min(std::max(a, b), c); });
  t.add("minmax_" + type, [](T a, T b, T c) { return std::max(std::min(a, b), c); });
}

void addArithmetic(VectorTable &t) {
  t.add("add_u32 add_nc_u32 add_i32 add_nc_i32", [](U32 a, U32 b) { return a + b; });
  t.add("sub_u32 sub_nc_u32 sub_i32 sub_nc_i32", [](U32 a, U32 b) { return a - b; });
  t.add("subrev_u32 subrev_nc_u32", [](U32 a, U32 b) { return b - a; });
  t.add("add_u16 add_nc_u16 add_i16 add_nc_i16", [](U16 a, U16 b) { return static_cast<U16>(a + b); });
  t.add("sub_u16 sub_nc_u16 sub_i16 sub_nc_i16", [](U16 a, U16 b) { return static_cast<U16>(a - b); });
  t.add("subrev_u16", [](U16 a, U16 b) { return static_cast<U16>(b - a); });
  t.add("add_nc_u64", [](U64 a, U64 b) { return a + b; });
  t.add("mul_lo_u32", [](U32 a, U32 b) { return a * b; });
  t.add("mul_hi_u32", [](U32 a, U32 b) { return static_cast<U32>(U64{a} * b >> 32); });
  t.add("mul_hi_i32", [](I32 a, I32 b) { return static_cast<I32>(I64{a} * b >> 32); });
  t.add("mul_lo_u16", [](U16 a, U16 b) { return static_cast<U16>(U32{a} * b); });
  t.add("mad_u16 mad_i16 mad_legacy_u16 mad_legacy_i16", [](U16 a, U16 b, U16 c) { return static_cast<U16>(U32{a} * b + c); });
  t.add("mad_u32_u16", [](U16 a, U16 b, U32 c) { return U32{a} * b + c; });
  t.add("mad_i32_i16", [](I16 a, I16 b, I32 c) { return I32{a} * b + c; });
  t.add("mul_u32_u24", [](U32 a, U32 b) { return low24(a) * low24(b); });
  t.add("mul_i32_i24", [](I32 a, I32 b) { return static_cast<I32>(I64{low24(a)} * low24(b)); });
  t.add("mul_hi_u32_u24", [](U32 a, U32 b) { return static_cast<U32>(U64{low24(a)} * low24(b) >> 32); });
  t.add("mul_hi_i32_i24", [](I32 a, I32 b) { return static_cast<I32>(I64{low24(a)} * low24(b) >> 32); });
  t.add("mad_u32_u24", [](U32 a, U32 b, U32 c) { return low24(a) * low24(b) + c; });
  t.add("mad_i32_i24", [](I32 a, I32 b, I32 c) { return static_cast<I32>(I64{low24(a)} * low24(b) + c); });
  t.add("sad_u32", [](U32 a, U32 b, U32 c) { return (a > b ? a - b : b - a) + c; });
  t.add("add3_u32", [](U32 a, U32 b, U32 c) { return a + b + c; });
  t.add("lshl_add_u32", [](U32 a, U32 b, U32 c) { return (a << (b & 31)) + c; });
  t.add("add_lshl_u32", [](U32 a, U32 b, U32 c) { return (a + b) << (c & 31); });
  t.add("xad_u32", [](U32 a, U32 b, U32 c) { return (a ^ b) + c; });
  t.add("lshl_add_u64", [](U64 a, U32 b, U64 c) { return (a << (b & 7)) + c; });
  t.add("dot4_i32_i8 dot4_i32_iu8", [](U32 a, U32 b, U32 c) {
    for (unsigned i = 0; i < 32; i += 8) {
      c += static_cast<U32>(static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i));
    }
    return c;
  });
}

void addLogic(VectorTable &t) {
  t.add("mov_b32 accvgpr_read_b32 accvgpr_write_b32 accvgpr_mov_b32", [](U32 a) { return a; });
  t.add("mov_b16", [](U16 a) { return a; });
  t.add("mov_b64", [](U64 a) { return a; });
  t.add("and_b32", [](U32 a, U32 b) { return a & b; });
  t.add("or_b32", [](U32 a, U32 b) { return a | b; });
  t.add("xor_b32", [](U32 a, U32 b) { return a ^ b; });
  t.add("xnor_b32", [](U32 a, U32 b) { return ~(a ^ b); });
  t.add("not_b32", [](U32 a) { return ~a; });
  t.add("and_b16", [](U16 a, U16 b) { return static_cast<U16>(a & b); });
  t.add("or_b16", [](U16 a, U16 b) { return static_cast<U16>(a | b); });
  t.add("xor_b16", [](U16 a, U16 b) { return static_cast<U16>(a ^ b); });
  t.add("not_b16", [](U16 a) { return static_cast<U16>(~a); });
  t.add("and_or_b32", [](U32 a, U32 b, U32 c) { return (a & b) | c; });
  t.add("or3_b32", [](U32 a, U32 b, U32 c) { return a | b | c; });
  t.add("xor3_b32", [](U32 a, U32 b, U32 c) { return a ^ b ^ c; });
  t.add("lshl_or_b32", [](U32 a, U32 b, U32 c) { return (a << (b & 31)) | c; });
  t.add("bfi_b32", [](U32 a, U32 b, U32 c) { return (a & b) | (~a & c); });
  t.add("bfe_u32", [](U32 a, U32 b, U32 c) { return (c & 31) == 0 ? 0 : static_cast<U32>((a >> (b & 31)) & ((U64{1} << (c & 31)) - 1)); });
  t.add("bfe_i32", [](I32 a, U32 b, U32 c) {
    const unsigned width = c & 31, unused = 32 - width;
    return width == 0 ? 0 : static_cast<I32>(static_cast<U32>(a >> (b & 31)) << unused) >> unused;
  });
  t.add("perm_b32", [](U32 a, U32 b, U32 c) { return permute(a, b, c); });
  t.add("alignbit_b32", [](U32 a, U32 b, U32 c) { return static_cast<U32>((U64{a} << 32 | b) >> (c & 31)); });
  t.add("alignbyte_b32", [](U32 a, U32 b, U32 c) { return static_cast<U32>((U64{a} << 32 | b) >> (8 * (c & 3))); });
  t.add("bfrev_b32", [](U32 a) {
    U32 out = 0;
    for (unsigned i = 0; i < 32; ++i) {
      out |= (a >> i & 1) << (31 - i);
    }
    return out;
  });
  t.add("bcnt_u32_b32", [](U32 a, U32 b) { return static_cast<U32>(std::popcount(a)) + b; });
  t.add("ffbl_b32 ctz_i32_b32", [](U32 a) { return a == 0 ? -1 : std::countr_zero(a); });
  t.add("ffbh_u32 clz_i32_u32", [](U32 a) { return a == 0 ? -1 : std::countl_zero(a); });
  t.add("ffbh_i32 cls_i32", [](I32 a) {
    const auto bits = static_cast<U32>(a < 0 ? ~a : a);
    return bits == 0 ? -1 : std::countl_zero(bits);
  });
  t.add("cvt_pk_u8_f32", [](float a, U32 b, U32 c) {
    const unsigned shift = 8 * (b & 3);
    const U32 byte = !(a > 0) ? 0 : a >= 255 ? 255 : static_cast<U32>(a);
    return (c & ~(255U << shift)) | byte << shift;
  });
}

void addShifts(VectorTable &t) {
  t.add("lshlrev_b32", [](U32 a, U32 b) { return b << (a & 31); });
  t.add("lshrrev_b32", [](U32 a, U32 b) { return b >> (a & 31); });
  t.add("ashrrev_i32", [](U32 a, I32 b) { return b >> (a & 31); });
  t.add("lshlrev_b16", [](U16 a, U16 b) { return static_cast<U16>(b << (a & 15)); });
  t.add("lshrrev_b16", [](U16 a, U16 b) { return static_cast<U16>(b >> (a & 15)); });
  t.add("ashrrev_i16", [](U16 a, I16 b) { return static_cast<I16>(b >> (a & 15)); });
  t.add("lshlrev_b64", [](U32 a, U64 b) { return b << (a & 63); });
  t.add("lshrrev_b64", [](U32 a, U64 b) { return b >> (a & 63); });
  t.add("ashrrev_i64", [](U32 a, I64 b) { return b >> (a & 63); });
}

} // namespace

void addIntegerOps(VectorTable &table) {
  addArithmetic(table);
  addLogic(table);
  addShifts(table);
  addMinMax<U16>(table, "u16");
  addMinMax<I16>(table, "i16");
  addMinMax<U32>(table, "u32");
  addMinMax<I32>(table, "i32");
}

const VectorTable &vectorTable() {
  static const VectorTable *table = [] {
    auto *made = new VectorTable;
    addIntegerOps(*made);
    addFloatOps(*made);
    addConversions(*made);
    return made;
  }();
  return *table;
}

} // namespace emulator
