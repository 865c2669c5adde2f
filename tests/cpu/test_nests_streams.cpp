// SPDX-License-Identifier: Apache-2.0
// Stores past the caches (codegen/cpu/streams.cpp): rows that begin at any element and have any length, of which each
// element is written once and none beside them; and when the stores go there.
#include "tests/cpu/guarded.h"
#include "tests/cpu/nests_fixture.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestStreams);

// Of each row and turn of a loop n elements, or all: o = x + 1, and q = x + 2, which lies apart from o by any distance.
const char *const kTwo = R"(
func @two stage=tile warps=4 stages=3 (%x: ptr<ELEM>, %o: ptr<ELEM>, %q: ptr<ELEM>, %n: i32, %turns: i32) {
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %p = program_id {axis=0} : i32
  for %zero, %turns, %one {
  ^(%t: i32):
    %before = mul %p, %turns : i32
    %row = add %before, %t : i32
    %at = mul %row, %n : i32
    %i = arange {start=0} : tile<BxI32>
    %ns = splat %n : tile<BxI32>
    %m = cmp %i, %ns {predicate=slt} : tile<Bxi1>
    %xr = ptr_add %x, %at : ptr<ELEM>
    %xs = splat %xr : tile<Bxptr<ELEM>>
    %xp = ptr_add %xs, %i : tile<Bxptr<ELEM>>
    %v = load %xp, %m : tile<BxELEM>
    %c1 = constant {value=1} : tile<BxELEM>
    %y = add %v, %c1 : tile<BxELEM>
    %z = add %y, %c1 : tile<BxELEM>
    %or = ptr_add %o, %at : ptr<ELEM>
    %os = splat %or : tile<Bxptr<ELEM>>
    %op = ptr_add %os, %i : tile<Bxptr<ELEM>>
    store %op, %y, %m {cache=cs}
    %qr = ptr_add %q, %at : ptr<ELEM>
    %qs = splat %qr : tile<Bxptr<ELEM>>
    %qp = ptr_add %qs, %i : tile<Bxptr<ELEM>>
    store %qp, %z, %m {cache=cs}
    yield
  }
  return
}
)";

// All of a tile of two rows, the second of which begins anywhere.
const char *const kWholeRows = R"(
func @whole stage=tile warps=4 stages=3 (%x: ptr<i32>, %o: ptr<i32>) {
  %r = arange {start=0} : tile<2xi32>
  %c = arange {start=0} : tile<Bxi32>
  %re = expand_dims %r {axis=1} : tile<2x1xi32>
  %rb = broadcast %re : tile<2xBxi32>
  %ce = expand_dims %c {axis=0} : tile<1xBxi32>
  %cb = broadcast %ce : tile<2xBxi32>
  %width = constant {value=B} : tile<2xBxi32>
  %ro = mul %rb, %width : tile<2xBxi32>
  %i = add %ro, %cb : tile<2xBxi32>
  %xs = splat %x : tile<2xBxptr<i32>>
  %xp = ptr_add %xs, %i : tile<2xBxptr<i32>>
  %v = load %xp : tile<2xBxi32>
  %y = add %v, %i : tile<2xBxi32>
  %os = splat %o : tile<2xBxptr<i32>>
  %op = ptr_add %os, %i : tile<2xBxptr<i32>>
  store %op, %y {cache=cs}
  return
}
)";

template <class T> void expectRows(const std::string &elem, const std::string &way) {
  constexpr int kBlock = 300, kPrograms = 2, kTurns = 2, kRoom = 64;
  TileKernel kernel(fill(kTwo, {{"BxI32", "Bxi32"}, {"ELEM", elem}, {"Bx", std::to_string(kBlock) + "x"}}), way);
  for (const int n : {1, 15, 63, 64, 129, 255, 256, 299, 300}) {
    const int all = n * kTurns * kPrograms;
    std::vector<T> x(all);
    for (int i = 0; i < all; ++i) {
      x[i] = T(i % 50);
    }
    for (int shift = 0; shift < 17; ++shift) {
      std::vector<T> o(all + 2 * kRoom, T(77)), q = o;
      T *first = o.data() + shift, *second = q.data() + 3 * shift;
      kernel.run({pointer(x.data()), pointer(first), pointer(second), slot(n), slot(kTurns)}, {kPrograms, 1, 1});
      for (int i = -shift; i < all + kRoom; ++i) {
        const bool inside = i >= 0 && i < all;
        ASSERT_EQ(first[i], inside ? T(x[i] + 1) : T(77)) << elem << " " << n << " " << shift << " " << i;
      }
      for (int i = -3 * shift; i < all + kRoom; ++i) {
        const bool inside = i >= 0 && i < all;
        ASSERT_EQ(second[i], inside ? T(x[i] + 2) : T(77)) << elem << " " << n << " " << shift << " " << i;
      }
    }
  }
}

} // namespace

TEST_P(NestStreams, RowsOfAnyLengthAnywhere) {
  expectRows<int32_t>("i32", GetParam());
  expectRows<int64_t>("i64", GetParam());
  expectRows<int16_t>("i16", GetParam());
  expectRows<int8_t>("i8", GetParam());
}

TEST_P(NestStreams, WholeTilesTouchNothingElse) {
  for (const int width : {256, 301, 512}) {
    TileKernel kernel(fill(kWholeRows, {{"xBx", times(0, width).substr(1) + "x"}, {"<Bx", "<" + std::to_string(width) + "x"}, {"value=B", "value=" + std::to_string(width)}}), GetParam());
    for (const bool atEnd : {true, false}) {
      const Guarded x(8 * width, atEnd), o(8 * width, atEnd);
      for (int i = 0; i < 2 * width; ++i) {
        x.as<int32_t>()[i] = 7 * i;
      }
      kernel.run({pointer(x.data()), pointer(o.data())});
      for (int i = 0; i < 2 * width; ++i) {
        ASSERT_EQ(o.as<int32_t>()[i], 8 * i) << width;
      }
    }
  }
}

TEST_P(NestStreams, WhichStoresGoThere) {
  const auto streams = [](const std::string &text) {
    const NestedKernel kernel(ir::print(nested(text, GetParam())), targetOf(GetParam()), {.keepLlvm = true});
    const std::string &code = kernel.code().llvm;
    const bool stores = code.find("!nontemporal") != std::string::npos;
    EXPECT_EQ(code.find("sfence") != std::string::npos, stores) << "they are done when the call returns";
    return stores;
  };
  const std::string two = fill(kTwo, {{"BxI32", "512xi32"}, {"ELEM", "f32"}, {"value=1} : tile", "value=1.0} : tile"}, {"Bx", "512x"}});
  EXPECT_EQ(streams(two), !GetParam().starts_with("aarch64"));
  EXPECT_FALSE(streams(fill(two, {{"%row = add %before, %t", "%row = add %before, %zero"}}))) << "each turn to the same place";
  const std::string speaks = "%old = atomic_rmw %n_at, %one {kind=add, sem=release, scope=gpu} : i32\n  for ";
  EXPECT_FALSE(streams(fill(two, {{"%turns: i32)", "%turns: i32, %n_at: ptr<i32>)"}, {"for ", speaks}}))) << "programs may wait for it";
  // A step of one vector of 32 bytes is half a line.
  EXPECT_EQ(streams(fill(two, {{"{cache=cs}", "{cache=cs, unroll=1}"}})), codegen::findTarget(targetOf(GetParam())).vectorBytes == 64);
  // Without the hint, but for what the pipeline finds by itself.
  EXPECT_EQ(streams(fill(two, {{" {cache=cs}", ""}})), GetParam().ends_with(kWhole));
}

} // namespace libtile::test
