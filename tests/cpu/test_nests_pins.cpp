// SPDX-License-Identifier: Apache-2.0
// Decisions that a text pins (passes/cpu/plan_pins.h): they are heeded, and change no number; what cannot be is an error.
#include "tests/cpu/nests_fixture.h"

namespace libtile::test {

namespace {

LIBTILE_NEST_TESTS(NestPins);

constexpr int kRows = 12, kColumns = 40;

// Squares, their sums along an axis, and both together. Sixteenths: all sums are exact.
std::string rowsText(const std::string &keep, const std::string &reduce, const std::string &store) {
  return fill(R"(
func @rows stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>) {
  %flat = arange {start=0} : tile<480xi32>
  %at = reshape %flat : tile<12x40xi32>
  %xs = splat %x : tile<12x40xptr<f32>>
  %xp = ptr_add %xs, %at : tile<12x40xptr<f32>>
  %a = load %xp : tile<12x40xf32>
  %e = mul %a, %a KEEP : tile<12x40xf32>
  %s = reduce %e {axis=1REDUCE} : tile<12xf32> {
  ^(%l: f32, %r: f32):
    %c = add %l, %r : f32
    yield %c
  }
  %s1 = expand_dims %s {axis=1} : tile<12x1xf32>
  %sb = broadcast %s1 : tile<12x40xf32>
  %p = sub %e, %sb : tile<12x40xf32>
  %os = splat %o : tile<12x40xptr<f32>>
  %op = ptr_add %os, %at : tile<12x40xptr<f32>>
  store %op, %pSTORE
  return
}
)", {{" KEEP", keep}, {"REDUCE", reduce}, {"STORE", store}});
}

std::vector<float> rowsOf(const std::string &text, const std::string &way) {
  TileKernel kernel(text, way);
  const std::vector<float> x = randomFloats(kRows * kColumns, 7);
  std::vector<float> out(x.size());
  kernel.run({pointer(x.data()), pointer(out.data())});
  for (int row = 0; row < kRows; ++row) {
    float sum = 0;
    for (int column = 0; column < kColumns; ++column) {
      sum += x[row * kColumns + column] * x[row * kColumns + column];
    }
    for (int column = 0; column < kColumns; ++column) {
      const int at = row * kColumns + column;
      EXPECT_EQ(out[at], x[at] * x[at] - sum) << text << "row " << row << ", column " << column;
    }
  }
  return out;
}

TEST_P(NestPins, ShapesChangeNoNumber) {
  const struct {
    std::string keep, reduce, store, shows;
  } cases[] = {
      {"", "", " {lane_axis=1, lanes=4, unroll=2}", "nest {extents=[12, 40], lanes=4, unroll=2}"},
      {"", "", " {lane_axis=0, lanes=8, unroll=16}", "nest {extents=[40, 12], lanes=8, unroll=16}"},
      {"", "", " {lanes=1}", "nest {extents=[12, 40], lanes=1}"},
      {"", ", lane_axis=1, lanes=2, unroll=16", "", "fold {extent=40, lanes=2, unroll=16}"},
      {"", ", lane_axis=0, lanes=4", "", "nest {extents=[12], lanes=4"},
      {" {keep=definition, lanes=2, unroll=1}", "", "", "nest {extents=[12, 40], lanes=2}"},
      {" {keep=definition, lane_axis=0, lanes=16}", "", "", "nest {extents=[40, 12], lanes=16}"},
      {" {keep=first_use}", "", "", "buffer<12x40xf32>"},
      {" {keep=inline}", "", "", "extents=[12, 40]"},
  };
  for (const auto &pins : cases) {
    const std::string text = rowsText(pins.keep, pins.reduce, pins.store);
    rowsOf(text, GetParam());
    if (!GetParam().ends_with(kWhole)) {
      const std::string made = ir::print(nested(text, GetParam()));
      EXPECT_NE(made.find(pins.shows), std::string::npos) << pins.shows << "\n" << made;
      EXPECT_EQ(made.find("keep="), std::string::npos) << made;
      EXPECT_EQ(made.find("lane_axis="), std::string::npos) << made;
    }
  }
}

std::string errorOf(const std::string &text) {
  try {
    static_cast<void>(nested(text, "x86-64-v3"));
  } catch (const ir::UserError &error) {
    return error.message();
  }
  return "";
}

TEST(NestPinErrors, NameThePinAndTheReason) {
  const auto ofStore = [](const std::string &pins) { return errorOf(rowsText("", "", " {" + pins + "}")); };
  EXPECT_EQ(ofStore("lanes=3"), "store: lanes cannot be pinned: they are a power of two up to 64 along axis 1");
  EXPECT_EQ(ofStore("lanes=0"), ofStore("lanes=3"));
  EXPECT_EQ(ofStore("lanes=-9223372036854775808"), ofStore("lanes=3"));
  EXPECT_EQ(ofStore("lane_axis=0, lanes=32"), "store: lanes cannot be pinned: they are a power of two up to 16 along axis 0");
  EXPECT_EQ(ofStore("lane_axis=2"), "store: lane_axis cannot be pinned: a nest of it has 2 axes");
  EXPECT_EQ(ofStore("lane_axis=-1"), ofStore("lane_axis=2"));
  EXPECT_EQ(ofStore("unroll=32"), "store: unroll cannot be pinned: it is a power of two up to 16");
  EXPECT_EQ(ofStore("lanes=1, unroll=2"), "store: unroll cannot be pinned: it has no nest that takes several vectors at once");
  EXPECT_EQ(ofStore("is_volatile=true, lanes=4"), "store: lanes cannot be pinned: it has no nest whose lanes are chosen");
  EXPECT_EQ(ofStore("keep=definition"), "store: keep cannot be pinned: it has no tile that is computed element by element");
  EXPECT_EQ(errorOf(rowsText(" {lanes=4}", "", "")), "mul: lanes cannot be pinned: it has no nest whose lanes are chosen")
      << "its elements are computed where they are needed";
}

// Products of A and B summed by a loop that may run in chunks.
std::string productText(const std::string &loop, const std::string &dot) {
  return fill(R"(
func @products stage=tile warps=4 stages=3 (%a: ptr<f32>, %o: ptr<f32>, %turns: i32) {
  %i = arange {start=0} : tile<256xi32>
  %at = reshape %i : tile<16x16xi32>
  %as = splat %a : tile<16x16xptr<f32>>
  %lo = constant {value=0} : i32
  %one = constant {value=1} : i32
  %step = constant {value=256} : i32
  %zero = constant {value=0.0} : tile<16x16xf32>
  %sum = for %lo, %turns, %one, %zero LOOP : tile<16x16xf32> {
  ^(%k: i32, %acc: tile<16x16xf32>):
    %off = mul %k, %step : i32
    %offs = splat %off : tile<16x16xi32>
    %where = add %at, %offs : tile<16x16xi32>
    %p = ptr_add %as, %where : tile<16x16xptr<f32>>
    %v = load %p : tile<16x16xf32>
    %next = dot %v, %v, %acc DOT : tile<16x16xf32>
    yield %next
  }
  %os = splat %o : tile<16x16xptr<f32>>
  %op = ptr_add %os, %at : tile<16x16xptr<f32>>
  store %op, %sum
  return
}
)", {{" LOOP", loop}, {" DOT", dot}});
}

TEST_P(NestPins, ChunksAndBlocksChangeNoNumber) {
  constexpr int kTurns = 7;
  const std::vector<float> a = randomFloats(kTurns * 256, 5);
  const auto run = [&](const std::string &text) {
    std::vector<float> out(256);
    TileKernel(text, GetParam()).run({pointer(a.data()), pointer(out.data()), slot(kTurns)});
    return out;
  };
  const std::vector<float> expected = run(productText("", ""));
  EXPECT_NE(expected, std::vector<float>(256)) << "something is summed";
  const struct {
    std::string loop, dot, shows;
  } cases[] = {
      {" {chunk=1}", "", "contract"},
      {" {chunk=3}", "", "constant {value=3}"},
      {"", " {unit=\"fma_f32\"}", "unit=\"fma_f32\""},
      {"", " {block_m=2}", "block_m=2,"},
      {" {chunk=2}", " {block_m=3}", "block_m=3,"},
      {"", " {lanes=4}", "lanes=4"},
  };
  for (const auto &pins : cases) {
    const std::string text = productText(pins.loop, pins.dot);
    EXPECT_EQ(run(text), expected) << text;
    const std::string made = ir::print(nested(text, GetParam()));
    EXPECT_NE(made.find(pins.shows), std::string::npos) << pins.shows << "\n" << made;
  }
}

TEST(NestPinErrors, OfLoopsAndDots) {
  EXPECT_EQ(errorOf(productText(" {chunk=0}", "")), "for: chunk cannot be pinned: a chunk has 1 to 1024 iterations");
  EXPECT_EQ(errorOf(productText(" {chunk=1025}", "")), errorOf(productText(" {chunk=0}", "")));
  EXPECT_EQ(errorOf(productText(" {sunk=1}", "")),
            "for: sunk cannot be pinned: what the loop carries is not updated element by element");
  EXPECT_EQ(errorOf(productText("", " {unit=\"mma_m16n8k16_f16\"}")),
            "dot: unit cannot be pinned: x86-64-v3 has no such unit for its operands, with such a register block");
  EXPECT_EQ(errorOf(productText("", " {block_m=1000}")),
            "dot: block_m cannot be pinned: x86-64-v3 has no such unit for its operands, with such a register block");
}

// A loop that is sunk, or not. Arrays may overlap, so a nest of its own stores what it carries.
TEST_P(NestPins, LoopsThatAreNotSunk) {
  const std::string text = R"(
func @sums stage=tile warps=4 stages=3 (%x: ptr<f32>, %o: ptr<f32>, %turns: i32) {
  %i = arange {start=0} : tile<40xi32>
  %xs = splat %x : tile<40xptr<f32>>
  %lo = constant {value=0} : i32
  %one = constant {value=1} : i32
  %wide = constant {value=40} : i32
  %zero = constant {value=0.0} : tile<40xf32>
  %sum = for %lo, %turns, %one, %zero SUNK : tile<40xf32> {
  ^(%k: i32, %acc: tile<40xf32>):
    %off = mul %k, %wide : i32
    %offs = splat %off : tile<40xi32>
    %at = add %i, %offs : tile<40xi32>
    %p = ptr_add %xs, %at : tile<40xptr<f32>>
    %v = load %p : tile<40xf32>
    %next = add %acc, %v : tile<40xf32>
    yield %next
  }
  %os = splat %o : tile<40xptr<f32>>
  %op = ptr_add %os, %i : tile<40xptr<f32>>
  store %op, %sum
  return
}
)";
  const std::vector<float> x = randomFloats(5 * 40, 11);
  for (const std::string sunk : {"", " {sunk=1}", " {sunk=0}", " {sunk=1, lanes=2}"}) {
    const std::string pinned = fill(text, {{" SUNK", sunk}});
    std::vector<float> out(40);
    TileKernel(pinned, GetParam()).run({pointer(x.data()), pointer(out.data()), slot(5)});
    for (int i = 0; i < 40; ++i) {
      EXPECT_EQ(out[i], x[i] + x[i + 40] + x[i + 80] + x[i + 120] + x[i + 160]) << sunk << i;
    }
    if (sunk.ends_with("lanes=2}") && !GetParam().ends_with(kWhole)) {
      EXPECT_NE(ir::print(nested(pinned, GetParam())).find("nest {extents=[40], lanes=2"), std::string::npos);
    }
  }
}

} // namespace

} // namespace libtile::test
