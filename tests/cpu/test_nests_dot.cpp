// SPDX-License-Identifier: Apache-2.0
// Dots from text to results: every operand type, odd shapes, and the k loop in chunks.
#include "tests/cpu/dot_trap.h"
#include "tests/cpu/nests_fixture.h"

#include <type_traits>

namespace libtile::test {

namespace {

class NestDots : public NestTest {
  DotTrap trap_;
};

std::vector<std::string> waysToDot() {
  std::vector<std::string> ways = dotTargets();
  ways.push_back(runnableTargets().back() + kWhole);
  return ways;
}

INSTANTIATE_TEST_SUITE_P(Targets, NestDots, testing::ValuesIn(waysToDot()), targetTestName);

struct Bf16 {
  uint16_t bits = 0;
};
struct F16 {
  uint16_t bits = 0;
};

// Small numbers that every type holds; products and sums are exact in f32 and i32.
double number(size_t i) { return double(int(i * 2654435761U >> 7) % 15 - 7); }

// Of i8 all numbers, the outermost often.
template <class T> double numberOf(size_t i) {
  if (!std::is_same_v<T, int8_t>) {
    return number(i);
  }
  const auto bits = uint32_t(i) * 2654435761U >> 7;
  return bits % 5 == 0 ? -128 : bits % 5 == 1 ? 127 : double(int(bits >> 3 & 255) - 128);
}

template <class T> T make(double value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return {toBf16(float(value))};
  } else if constexpr (std::is_same_v<T, F16>) {
    if (value == 0) {
      return {};
    }
    const uint32_t bits = std::bit_cast<uint32_t>(float(value));
    return {uint16_t((bits >> 16 & 0x8000) | (((bits >> 23 & 255) - 112) << 10) | (bits >> 13 & 1023))};
  } else {
    return T(value);
  }
}

using Replacements = std::vector<std::pair<std::string, std::string>>;

Replacements shapes(int m, int n, int k) {
  const auto text = [](int value) { return std::to_string(value); };
  return {{"MxKx", times(m, k) + "x"},       {"KxNx", times(k, n) + "x"},
          {"MxNx", times(m, n) + "x"},       {"Mx1x", text(m) + "x1x"},
          {"Kx1x", text(k) + "x1x"},         {"1xKx", "1x" + text(k) + "x"},
          {"1xNx", "1x" + text(n) + "x"},    {"<Mx", "<" + text(m) + "x"},
          {"<Nx", "<" + text(n) + "x"},      {"<Kx", "<" + text(k) + "x"},
          {"NWORD", text(n)},                {"KWORD", text(k)}};
}

// o = 3 + a x b, and the sum of the accumulator with itself, so that it is used twice.
const char *const kOneDot = R"(
func @dot stage=tile warps=4 stages=3 (%a: ptr<IN>, %b: ptr<IN>, %o: ptr<OUT>) {
  %m = arange {start=0} : tile<Mxi32>
  %n = arange {start=0} : tile<Nxi32>
  %k = arange {start=0} : tile<Kxi32>
  %m1 = expand_dims %m {axis=1} : tile<Mx1xi32>
  %k1 = expand_dims %k {axis=1} : tile<Kx1xi32>
  %k0 = expand_dims %k {axis=0} : tile<1xKxi32>
  %n0 = expand_dims %n {axis=0} : tile<1xNxi32>
  %wk = constant {value=KWORD} : tile<Mx1xi32>
  %wn = constant {value=NWORD} : tile<Kx1xi32>
  %won = constant {value=NWORD} : tile<Mx1xi32>
  %ar = mul %m1, %wk : tile<Mx1xi32>
  %br = mul %k1, %wn : tile<Kx1xi32>
  %or = mul %m1, %won : tile<Mx1xi32>
  %ab = broadcast %ar : tile<MxKxi32>
  %ac = broadcast %k0 : tile<MxKxi32>
  %ai = add %ab, %ac : tile<MxKxi32>
  %bb = broadcast %br : tile<KxNxi32>
  %bc = broadcast %n0 : tile<KxNxi32>
  %bi = add %bb, %bc : tile<KxNxi32>
  %ob = broadcast %or : tile<MxNxi32>
  %oc = broadcast %n0 : tile<MxNxi32>
  %oi = add %ob, %oc : tile<MxNxi32>
  %as = splat %a : tile<MxKxptr<IN>>
  %ap = ptr_add %as, %ai : tile<MxKxptr<IN>>
  %bs = splat %b : tile<KxNxptr<IN>>
  %bp = ptr_add %bs, %bi : tile<KxNxptr<IN>>
  %os = splat %o : tile<MxNxptr<OUT>>
  %op = ptr_add %os, %oi : tile<MxNxptr<OUT>>
  %av = load %ap : tile<MxKxIN>
  %bv = load %bp : tile<KxNxIN>
  %c = constant {value=THREE} : tile<MxNxOUT>
  %d = dot %av, %bv, %c : tile<MxNxOUT>
  %e = add %d, %d : tile<MxNxOUT>
  store %op, %e
  return
}
)";

template <class In, class Out>
void checkDot(const std::string &target, const char *in, const char *out, const char *three) {
  const int sizes[][3] = {{1, 1, 1}, {17, 5, 3}, {96, 80, 48}, {6, 64, 2}, {7, 65, 31}, {1, 40, 16}, {33, 1, 9}};
  for (const auto &[m, n, k] : sizes) {
    Replacements values = shapes(m, n, k);
    values.insert(values.end(), {{"IN", in}, {"OUT", out}, {"THREE", three}});
    TileKernel kernel(fill(kOneDot, values), target);
    std::vector<In> a(size_t(m) * k), b(size_t(k) * n);
    std::vector<Out> o(size_t(m) * n);
    for (size_t i = 0; i < a.size(); ++i) {
      a[i] = make<In>(numberOf<In>(i));
    }
    for (size_t i = 0; i < b.size(); ++i) {
      b[i] = make<In>(numberOf<In>(i + 1000));
    }
    kernel.run({pointer(a.data()), pointer(b.data()), pointer(o.data())});
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        double sum = 3;
        for (int kk = 0; kk < k; ++kk) {
          sum += numberOf<In>(row * k + kk) * numberOf<In>(kk * n + column + 1000);
        }
        ASSERT_EQ(double(o[row * n + column]), 2 * sum)
            << in << " " << m << "x" << n << "x" << k << " at " << row << "," << column;
      }
    }
  }
}

TEST_P(NestDots, F32) { checkDot<float, float>(GetParam(), "f32", "f32", "3.0"); }
TEST_P(NestDots, F16) { checkDot<F16, float>(GetParam(), "f16", "f32", "3.0"); }
TEST_P(NestDots, Bf16) { checkDot<Bf16, float>(GetParam(), "bf16", "f32", "3.0"); }
TEST_P(NestDots, F64) { checkDot<double, double>(GetParam(), "f64", "f64", "3.0"); }
TEST_P(NestDots, I8) { checkDot<int8_t, int32_t>(GetParam(), "i8", "i32", "3"); }
TEST_P(NestDots, I16) { checkDot<int16_t, int32_t>(GetParam(), "i16", "i32", "3"); }
TEST_P(NestDots, I32) { checkDot<int32_t, int32_t>(GetParam(), "i32", "i32", "3"); }

// Operands far below the least normal number count on every unit.
TEST_P(NestDots, TinyBf16) {
  const int m = 17, n = 35, k = 21;
  Replacements values = shapes(m, n, k);
  values.insert(values.end(), {{"IN", "bf16"}, {"OUT", "f32"}, {"THREE", "0.0"}});
  TileKernel kernel(fill(kOneDot, values), GetParam());
  std::vector<uint16_t> a(size_t(m) * k), b(size_t(k) * n);
  std::vector<float> o(size_t(m) * n);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = toBf16(float(std::ldexp(number(i), -130)));
  }
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = toBf16(float(std::ldexp(number(i + 1000), i % 2 == 0 ? 100 : -3)));
  }
  kernel.run({pointer(a.data()), pointer(b.data()), pointer(o.data())});
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int kk = 0; kk < k; ++kk) {
        const int at = kk * n + column;
        sum += std::ldexp(number(row * k + kk) * number(at + 1000), (at % 2 == 0 ? 100 : -3) - 130);
      }
      // Sums that do not meet the large ones are exact; the others lose less than half a unit each.
      ASSERT_LE(std::fabs(o[row * n + column] - 2 * sum), std::fabs(sum) * 0x1p-22 * k)
          << row << "," << column;
    }
  }
}

// The tutorial's matrix multiplication: carried offsets, masks on k, any M, N, K of the arrays.
const char *const kMatmul = R"(
func @matmul stage=tile warps=4 stages=3 (%a: ptr<IN>, %b: ptr<IN>, %o: ptr<OUT>, %M: i32, %N: i32, %K: i32) {
  %pm = program_id {axis=0} : i32
  %pn = program_id {axis=1} : i32
  %bm = constant {value=MWORD} : i32
  %bn = constant {value=NWORD} : i32
  %bk = constant {value=KWORD} : i32
  %pms = mul %pm, %bm : i32
  %pns = mul %pn, %bn : i32
  %m = arange {start=0} : tile<Mxi32>
  %n = arange {start=0} : tile<Nxi32>
  %k = arange {start=0} : tile<Kxi32>
  %pmt = splat %pms : tile<Mxi32>
  %pnt = splat %pns : tile<Nxi32>
  %om = add %pmt, %m : tile<Mxi32>
  %on = add %pnt, %n : tile<Nxi32>
  %Mt = splat %M : tile<Mxi32>
  %Nt = splat %N : tile<Nxi32>
  %mm = srem %om, %Mt : tile<Mxi32>
  %nn = srem %on, %Nt : tile<Nxi32>
  %m1 = expand_dims %mm {axis=1} : tile<Mx1xi32>
  %k1 = expand_dims %k {axis=1} : tile<Kx1xi32>
  %k0 = expand_dims %k {axis=0} : tile<1xKxi32>
  %n0 = expand_dims %nn {axis=0} : tile<1xNxi32>
  %Kt = splat %K : tile<Mx1xi32>
  %Ntk = splat %N : tile<Kx1xi32>
  %ar = mul %m1, %Kt : tile<Mx1xi32>
  %br = mul %k1, %Ntk : tile<Kx1xi32>
  %ab = broadcast %ar : tile<MxKxi32>
  %ac = broadcast %k0 : tile<MxKxi32>
  %ai = add %ab, %ac : tile<MxKxi32>
  %bb = broadcast %br : tile<KxNxi32>
  %bc = broadcast %n0 : tile<KxNxi32>
  %bi = add %bb, %bc : tile<KxNxi32>
  %as = splat %a : tile<MxKxptr<IN>>
  %ap = ptr_add %as, %ai : tile<MxKxptr<IN>>
  %bs = splat %b : tile<KxNxptr<IN>>
  %bp = ptr_add %bs, %bi : tile<KxNxptr<IN>>
  %zero = constant {value=0} : i32
  %one = constant {value=1} : i32
  %up = sub %bk, %one : i32
  %kup = add %K, %up : i32
  %turns = sdiv %kup, %bk : i32
  %bstep = mul %bk, %N : i32
  %acc0 = constant {value=ZERO} : tile<MxNxOUT>
  %aoff9, %acc9, %boff9 = for %zero, %turns, %one, %zero, %acc0, %zero : i32, tile<MxNxOUT>, i32 {
  ^(%turn: i32, %aoff: i32, %acc: tile<MxNxOUT>, %boff: i32):
    %done = mul %turn, %bk : i32
    %left = sub %K, %done : i32
    %lefta = splat %left : tile<1xKxi32>
    %ma = cmp %k0, %lefta {predicate=slt} : tile<1xKxi1>
    %maska = broadcast %ma : tile<MxKxi1>
    %leftb = splat %left : tile<Kx1xi32>
    %mb = cmp %k1, %leftb {predicate=slt} : tile<Kx1xi1>
    %maskb = broadcast %mb : tile<KxNxi1>
    %ao = splat %aoff : tile<MxKxi32>
    %apo = ptr_add %ap, %ao : tile<MxKxptr<IN>>
    %bo = splat %boff : tile<KxNxi32>
    %bpo = ptr_add %bp, %bo : tile<KxNxptr<IN>>
    %av = load %apo, %maska : tile<MxKxIN>
    %bv = load %bpo, %maskb : tile<KxNxIN>
    %next = dot %av, %bv, %acc : tile<MxNxOUT>
    %aoff1 = add %aoff, %bk : i32
    %boff1 = add %boff, %bstep : i32
    yield %aoff1, %next, %boff1
  }
  %om1 = expand_dims %om {axis=1} : tile<Mx1xi32>
  %on0 = expand_dims %on {axis=0} : tile<1xNxi32>
  %Nm = splat %N : tile<Mx1xi32>
  %or = mul %om1, %Nm : tile<Mx1xi32>
  %ob = broadcast %or : tile<MxNxi32>
  %oc = broadcast %on0 : tile<MxNxi32>
  %oi = add %ob, %oc : tile<MxNxi32>
  %os = splat %o : tile<MxNxptr<OUT>>
  %op = ptr_add %os, %oi : tile<MxNxptr<OUT>>
  %Mm = splat %M : tile<Mx1xi32>
  %ms = cmp %om1, %Mm {predicate=slt} : tile<Mx1xi1>
  %Nn = splat %N : tile<1xNxi32>
  %nsm = cmp %on0, %Nn {predicate=slt} : tile<1xNxi1>
  %mb1 = broadcast %ms : tile<MxNxi1>
  %mb2 = broadcast %nsm : tile<MxNxi1>
  %mask = and %mb1, %mb2 : tile<MxNxi1>
  store %op, %acc9, %mask
  return
}
)";

// With `tiny` the first numbers of every other row of a are tiny and the rest 0, so that sums are below the
// least normal number, and exact, from the first chunk to the last.
template <class In, class Out>
void checkMatmul(const std::string &target, const char *in, const char *out, const char *zero,
                 bool tiny = false) {
  const int blocks[][3] = {{32, 48, 16}, {17, 5, 3}, {96, 80, 48}, {64, 64, 700}};
  for (const auto &[m, n, k] : blocks) {
    Replacements values = shapes(m, n, k);
    values.insert(values.end(), {{"MWORD", std::to_string(m)}, {"IN", in}, {"OUT", out}, {"ZERO", zero}});
    TileKernel kernel(fill(kMatmul, values), target);
    for (const auto &[M, N, K] : {std::array{33, 50, 700}, {96, 80, 48}, {5, 7, 1}, {40, 40, 0}}) {
      std::vector<In> a(size_t(M) * K + 1), b(size_t(K) * N + 1);
      std::vector<Out> o(size_t(M) * N, Out(-1));
      const auto left = [&](size_t i) {
        const double scale = !tiny || i / size_t(std::max(K, 1)) % 2 == 0 ? 1
                             : i % size_t(std::max(K, 1)) < 100           ? 0x1p-133
                                                                          : 0;
        return numberOf<In>(i) * scale;
      };
      for (size_t i = 0; i < a.size(); ++i) {
        a[i] = make<In>(left(i));
      }
      for (size_t i = 0; i < b.size(); ++i) {
        b[i] = make<In>(numberOf<In>(i + 77));
      }
      kernel.run({pointer(a.data()), pointer(b.data()), pointer(o.data()), slot(M), slot(N), slot(K)},
                 {(M + m - 1) / m, (N + n - 1) / n});
      for (int row = 0; row < M; ++row) {
        for (int column = 0; column < N; ++column) {
          double sum = 0;
          for (int kk = 0; kk < K; ++kk) {
            sum += left(size_t(row) * K + kk) * numberOf<In>(kk * N + column + 77);
          }
          ASSERT_EQ(double(o[row * N + column]), sum)
              << in << " block " << m << "x" << n << "x" << k << " of " << M << "x" << N << "x" << K << " at "
              << row << "," << column;
        }
      }
    }
  }
}

TEST_P(NestDots, MatmulF32) { checkMatmul<float, float>(GetParam(), "f32", "f32", "0.0"); }
TEST_P(NestDots, MatmulF16) { checkMatmul<F16, float>(GetParam(), "f16", "f32", "0.0"); }
TEST_P(NestDots, MatmulBf16) { checkMatmul<Bf16, float>(GetParam(), "bf16", "f32", "0.0"); }
TEST_P(NestDots, MatmulTinyBf16) { checkMatmul<Bf16, float>(GetParam(), "bf16", "f32", "0.0", true); }
TEST_P(NestDots, MatmulI8) { checkMatmul<int8_t, int32_t>(GetParam(), "i8", "i32", "0"); }
TEST_P(NestDots, MatmulI32) { checkMatmul<int32_t, int32_t>(GetParam(), "i32", "i32", "0"); }

// A batch of three, with rows that are no whole groups of any unit.
const char *const kBatch = R"(
func @batch stage=tile warps=4 stages=3 (%a: ptr<IN>, %b: ptr<IN>, %o: ptr<OUT>) {
  %i = arange {start=0} : tile<105xi32>
  %ai = reshape %i : tile<3x5x7xi32>
  %as = splat %a : tile<3x5x7xptr<IN>>
  %ap = ptr_add %as, %ai : tile<3x5x7xptr<IN>>
  %av = load %ap : tile<3x5x7xIN>
  %j = arange {start=0} : tile<399xi32>
  %bi = reshape %j : tile<3x7x19xi32>
  %bs = splat %b : tile<3x7x19xptr<IN>>
  %bp = ptr_add %bs, %bi : tile<3x7x19xptr<IN>>
  %bv = load %bp : tile<3x7x19xIN>
  %c = constant {value=ZERO} : tile<3x5x19xOUT>
  %d = dot %av, %bv, %c : tile<3x5x19xOUT>
  %k = arange {start=0} : tile<285xi32>
  %oi = reshape %k : tile<3x5x19xi32>
  %os = splat %o : tile<3x5x19xptr<OUT>>
  %op = ptr_add %os, %oi : tile<3x5x19xptr<OUT>>
  store %op, %d
  return
}
)";

template <class In, class Out>
void checkBatch(const std::string &target, const char *in, const char *out, const char *zero) {
  TileKernel kernel(fill(kBatch, {{"IN", in}, {"OUT", out}, {"ZERO", zero}}), target);
  std::vector<In> a(105), b(399);
  std::vector<Out> o(285, Out(-1));
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = make<In>(numberOf<In>(i));
  }
  for (size_t i = 0; i < b.size(); ++i) {
    b[i] = make<In>(numberOf<In>(i + 500));
  }
  kernel.run({pointer(a.data()), pointer(b.data()), pointer(o.data())});
  for (int i = 0; i < 285; ++i) {
    const int slice = i / 95, row = i / 19 % 5, column = i % 19;
    double sum = 0;
    for (int k = 0; k < 7; ++k) {
      sum += numberOf<In>((slice * 5 + row) * 7 + k) * numberOf<In>((slice * 7 + k) * 19 + column + 500);
    }
    ASSERT_EQ(double(o[i]), sum) << in << " " << slice << "," << row << "," << column;
  }
}

// A unit that the machine may not use is passed over, and that is said.
TEST(NestsOfDots, WithheldUnits) {
  ir::Target target = codegen::findTarget("amx");
  passes::PassContext context{target};
  const std::string text =
      fill(kMatmul, [] {
        Replacements values = shapes(32, 48, 16);
        values.insert(values.end(), {{"MWORD", "32"}, {"IN", "bf16"}, {"OUT", "f32"}, {"ZERO", "0.0"}});
        return values;
      }());
  ir::Function allowed = ir::parse(text);
  passes::formNests(allowed, context);
  EXPECT_TRUE(allowed.fallbacks.empty());
  EXPECT_NE(ir::print(allowed).find("unit=\"tdpbf16ps\""), std::string::npos);
  target.contractUnits.front().withheld = "not today";
  ir::Function refused = ir::parse(text);
  passes::formNests(refused, context);
  ASSERT_EQ(refused.fallbacks.size(), 1U);
  EXPECT_TRUE(refused.fallbacks[0].ends_with(": dot without tdpbf16ps: not today")) << refused.fallbacks[0];
  EXPECT_NE(ir::print(refused).find("unit=\"fma_bf16\""), std::string::npos);
}

TEST_P(NestDots, BatchBf16) { checkBatch<Bf16, float>(GetParam(), "bf16", "f32", "0.0"); }
TEST_P(NestDots, BatchI8) { checkBatch<int8_t, int32_t>(GetParam(), "i8", "i32", "0"); }

} // namespace

} // namespace libtile::test
