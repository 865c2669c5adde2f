// SPDX-License-Identifier: Apache-2.0
// Each operation of the language by the IR that it makes.
#include "semantics_fixture.h"

namespace libtile::frontend {
namespace {

Value integer(int64_t value) { return Value::integer(value); }
Value text(const char *value) { return Value::string(value); }

TEST(Operations, VectorAdd) {
  Kernel k;
  const Value x = k.param("*fp32");
  const Value n = k.param("i32");
  const Value start = k.s.binary(BinaryOp::Mul, k.call("program_id", {integer(0)}), integer(96));
  const Value i = k.s.binary(BinaryOp::Add, start, k.call("arange", {integer(0), integer(96)}));
  const Value m = k.s.compare(CompareOp::Lt, i, n);
  const Value p = k.s.binary(BinaryOp::Add, x, i);
  const Value v = k.call("load", {p}, {{"mask", m}});
  k.call("store", {p, k.s.binary(BinaryOp::Add, v, v)}, {{"mask", m}});
  EXPECT_EQ(k.text(), "%0 = program_id {axis=0} : i32\n"
                      "%1 = constant {value=96} : i32\n"
                      "%2 = mul %0, %1 : i32\n"
                      "%3 = arange {start=0} : tile<96xi32>\n"
                      "%4 = splat %2 : tile<96xi32>\n"
                      "%5 = add %4, %3 : tile<96xi32>\n"
                      "%6 = splat %b : tile<96xi32>\n"
                      "%7 = cmp %5, %6 {predicate=slt} : tile<96xi1>\n"
                      "%8 = splat %a : tile<96xptr<f32>>\n"
                      "%9 = ptr_add %8, %5 : tile<96xptr<f32>>\n"
                      "%10 = load %9, %7 : tile<96xf32>\n"
                      "%11 = add %10, %10 : tile<96xf32>\n"
                      "store %9, %11, %7\n");
}

struct BinaryCase {
  BinaryOp op;
  const char *type;
  const char *expected;
};

TEST(Operations, BinaryOperators) {
  const std::vector<BinaryCase> cases = {
      {BinaryOp::Add, "f16", "%0 = add %a, %b : f16\n"},
      {BinaryOp::Sub, "i8", "%0 = sub %a, %b : i8\n"},
      {BinaryOp::Mul, "u64", "%0 = mul %a, %b : i64\n"},
      {BinaryOp::TrueDiv, "f32", "%0 = fdiv %a, %b : f32\n"},
      {BinaryOp::TrueDiv, "u8",
       "%0 = uitofp %a : f32\n%1 = uitofp %b : f32\n%2 = fdiv %0, %1 : f32\n"},
      {BinaryOp::FloorDiv, "i32", "%0 = sdiv %a, %b : i32\n"},
      {BinaryOp::FloorDiv, "u32", "%0 = udiv %a, %b : i32\n"},
      {BinaryOp::Mod, "i32", "%0 = srem %a, %b : i32\n"},
      {BinaryOp::Mod, "u32", "%0 = urem %a, %b : i32\n"},
      {BinaryOp::Mod, "bf16", "%0 = fpext %a : f32\n%1 = fpext %b : f32\n%2 = frem %0, %1 : f32\n"},
      {BinaryOp::BitAnd, "i1", "%0 = and %a, %b : i1\n"},
      {BinaryOp::BitOr, "i16", "%0 = or %a, %b : i16\n"},
      {BinaryOp::BitXor, "u8", "%0 = xor %a, %b : i8\n"},
      {BinaryOp::LShift, "i32", "%0 = shl %a, %b : i32\n"},
      {BinaryOp::RShift, "i32", "%0 = ashr %a, %b : i32\n"},
      {BinaryOp::RShift, "u32", "%0 = lshr %a, %b : i32\n"}};
  for (const BinaryCase &c : cases) {
    Kernel k;
    const Value a = k.param(c.type);
    k.s.binary(c.op, a, k.param(c.type));
    EXPECT_EQ(k.text(), c.expected) << c.type;
  }
}

TEST(Operations, ShiftsTakeTheSignOfTheShifted) {
  Kernel k;
  const Value i = k.param("i32");
  const Value u = k.param("u32");
  EXPECT_EQ(k.s.binary(BinaryOp::RShift, i, u).describe(), "tensor of uint32");
  k.s.binary(BinaryOp::RShift, u, i);
  k.s.binary(BinaryOp::RShift, integer(-8), i);
  EXPECT_EQ(k.text(), "%0 = ashr %a, %b : i32\n%1 = lshr %b, %a : i32\n"
                      "%2 = constant {value=-8} : i32\n%3 = ashr %2, %a : i32\n");
}

TEST(Operations, Comparisons) {
  const std::vector<std::tuple<CompareOp, const char *, const char *>> cases = {
      {CompareOp::Eq, "i32", "eq"},   {CompareOp::Ne, "u8", "ne"},   {CompareOp::Lt, "i32", "slt"},
      {CompareOp::Le, "u32", "ule"},  {CompareOp::Gt, "i1", "ugt"},  {CompareOp::Ge, "i64", "sge"},
      {CompareOp::Eq, "f32", "oeq"},  {CompareOp::Ne, "f16", "une"}, {CompareOp::Lt, "f64", "olt"},
      {CompareOp::Le, "bf16", "ole"}, {CompareOp::Gt, "f32", "ogt"}, {CompareOp::Ge, "f32", "oge"},
      {CompareOp::Eq, "*f32", "eq"}};
  for (const auto &[op, type, predicate] : cases) {
    Kernel k;
    const Value a = k.param(type);
    EXPECT_EQ(k.s.compare(op, a, k.param(type)).describe(), "tensor of int1");
    EXPECT_EQ(k.text(), std::string("%0 = cmp %a, %b {predicate=") + predicate + "} : i1\n");
  }
  Kernel k;
  const Value pointer = k.param("*f32");
  EXPECT_EQ(k.s.compare(CompareOp::IsNot, pointer, Value::none()).describe(), "constexpr True");
  EXPECT_EQ(k.s.compare(CompareOp::Eq, pointer, Value::none()).describe(), "constexpr False");
}

TEST(Operations, UnaryAndLogical) {
  Kernel k;
  const Value b = k.param("i1");
  const Value i = k.param("u32");
  k.s.unary(UnaryOp::Not, b);
  k.s.unary(UnaryOp::Invert, i);
  k.s.unary(UnaryOp::Neg, i);
  k.s.logical(true, b, b);
  k.s.logical(false, b, Value::boolean(true));
  EXPECT_EQ(k.text(), "%0 = constant {value=1} : i1\n%1 = xor %a, %0 : i1\n"
                      "%2 = constant {value=-1} : i32\n%3 = xor %b, %2 : i32\n"
                      "%4 = neg %b : i32\n%5 = and %a, %a : i1\n"
                      "%6 = constant {value=1} : i1\n%7 = or %a, %6 : i1\n");
}

TEST(Operations, PointerArithmetic) {
  Kernel k;
  const Value p = k.param("*f16");
  k.s.binary(BinaryOp::Add, p, integer(3));
  k.s.binary(BinaryOp::Add, k.param("i64"), p);
  k.s.binary(BinaryOp::Sub, p, k.param("i32"));
  k.s.binary(BinaryOp::Add, p, k.param("u32"));
  k.s.binary(BinaryOp::Add, p, k.param("i1")); // True is 1
  EXPECT_EQ(k.text(), "%0 = constant {value=3} : i32\n%1 = ptr_add %a, %0 : ptr<f16>\n"
                      "%2 = ptr_add %a, %b : ptr<f16>\n"
                      "%3 = neg %c : i32\n%4 = ptr_add %a, %3 : ptr<f16>\n"
                      "%5 = zext %d : i64\n%6 = ptr_add %a, %5 : ptr<f16>\n"
                      "%7 = zext %e : i64\n%8 = ptr_add %a, %7 : ptr<f16>\n");
}

TEST(Operations, Creation) {
  Kernel k;
  k.call("full", {Kernel::ints({3, 5}), integer(7), Kernel::type("i16")});
  k.call("zeros", {Kernel::ints({1000}), Kernel::type("f32")});
  k.call("zeros", {Kernel::ints({}), Kernel::type("u8")});
  k.call("full", {Kernel::ints({2}), k.param("i32"), Kernel::type("f32")});
  k.call("full", {Kernel::ints({2}), Kernel::real(0.5), Kernel::type("i1")});
  k.call("arange", {integer(-3), integer(4)});
  k.call("full", {Kernel::ints({2}), integer(300), Kernel::type("u8")});
  EXPECT_EQ(k.text(), "%0 = constant {value=7} : tile<3x5xi16>\n"
                      "%1 = constant {value=0.0} : tile<1000xf32>\n"
                      "%2 = constant {value=0} : i8\n"
                      "%3 = sitofp %a : f32\n%4 = splat %3 : tile<2xf32>\n"
                      "%5 = constant {value=1} : tile<2xi1>\n"
                      "%6 = arange {start=-3} : tile<7xi32>\n"
                      "%7 = constant {value=44} : tile<2xi8>\n");
}

TEST(Operations, LoadsAndStores) {
  Kernel k;
  const Value p = k.tile("*f16", {4});
  const Value m = k.tile("i1", {4});
  k.call("load", {p, m, integer(0)},
         {{"cache_modifier", text(".cg")}, {"volatile", Value::boolean(true)}});
  k.call("store", {p, k.param("f32"), m}, {{"eviction_policy", text("evict_first")}});
  k.call("load", {p, Value::boolean(true), integer(1)});
  EXPECT_EQ(k.text(), "%0 = splat %a : tile<4xptr<f16>>\n%1 = splat %b : tile<4xi1>\n"
                      "%2 = constant {value=0.0} : tile<4xf16>\n"
                      "%3 = load %0, %1, %2 {cache=cg, is_volatile=true} : tile<4xf16>\n"
                      "%4 = splat %c : tile<4xf32>\n%5 = fptrunc %4 : tile<4xf16>\n"
                      "store %0, %5, %1 {evict=first}\n"
                      "%6 = load %0 : tile<4xf16>\n");
}

TEST(Operations, BoolsAreBytesInMemory) {
  Kernel k;
  const Value p = k.param("*i1");
  k.call("store", {p, k.call("load", {p})});
  EXPECT_EQ(k.text(), "%0 = bitcast %a : ptr<i8>\n%1 = load %0 : i8\n"
                      "%2 = constant {value=0} : i8\n%3 = cmp %1, %2 {predicate=ne} : i1\n"
                      "%4 = bitcast %a : ptr<i8>\n%5 = zext %3 : i8\nstore %4, %5\n");
}

TEST(Operations, MasksBroadcast) {
  Kernel k;
  const Value p = k.tile("*f32", {4, 1});
  const Value m = k.tile("i1", {1, 8});
  EXPECT_EQ(k.call("load", {p, m}).describe(), "tensor of fp32[4, 8]");
  const Value wide = k.tile("*f32", {4, 8});
  k.call("store", {wide, Kernel::real(1), m});
  k.text();
}

TEST(Operations, Atomics) {
  Kernel k;
  const Value p = k.param("*i32");
  k.call("atomic_add", {p, integer(1)});
  k.call("atomic_xchg", {p, integer(0)}, {{"sem", text("release")}, {"scope", text("sys")}});
  k.call("atomic_cas", {p, integer(0), integer(1)},
         {{"sem", text("acquire")}, {"scope", text("cta")}});
  EXPECT_EQ(k.text(), "%0 = constant {value=1} : i32\n"
                      "%1 = atomic_rmw %a, %0 {kind=add, sem=acq_rel, scope=gpu} : i32\n"
                      "%2 = constant {value=0} : i32\n"
                      "%3 = atomic_rmw %a, %2 {kind=xchg, sem=release, scope=sys} : i32\n"
                      "%4 = constant {value=0} : i32\n%5 = constant {value=1} : i32\n"
                      "%6 = atomic_cas %a, %4, %5 {sem=acquire, scope=cta} : i32\n");
}

TEST(Operations, Mathematics) {
  for (const char *name : {"exp", "exp2", "log", "log2", "sqrt", "rsqrt"}) {
    Kernel k;
    k.call(name, {k.param("f32")});
    k.call(name, {k.param("f16")});
    const std::string op(name);
    EXPECT_EQ(k.text(), "%0 = " + op + " %a : f32\n%1 = fpext %b : f32\n%2 = " + op +
                            " %1 : f32\n%3 = fptrunc %2 : f16\n");
  }
  Kernel k;
  const Value f = k.param("f32");
  k.call("abs", {f});
  EXPECT_EQ(k.call("abs", {k.param("u8")}).describe(), "tensor of uint8");
  k.call("fma", {f, Kernel::real(2), k.param("f16")});
  k.call("fdiv", {integer(1), k.param("f16")});
  EXPECT_EQ(k.text(),
            "%0 = abs %a : f32\n%1 = constant {value=2.0} : f32\n"
            "%2 = fpext %c : f32\n%3 = fma %a, %1, %2 : f32\n"
            "%4 = constant {value=1.0} : f32\n%5 = fpext %d : f32\n%6 = fdiv %4, %5 : f32\n");
}

TEST(Operations, MinimumMaximumClampWhere) {
  Kernel k;
  const Value f = k.param("f32");
  const Value u = k.param("u32");
  const Value i = k.param("i8");
  k.call("maximum", {f, f});
  k.call("minimum", {f, f},
         {{"propagate_nan", k.s.attribute(k.s.languageName("PropagateNan"), "ALL")}});
  k.call("maximum", {u, u});
  k.call("minimum", {i, i});
  k.call("clamp", {f, f, f});
  k.call("where", {k.param("i1"), i, integer(3)});
  EXPECT_EQ(k.call("maximum", {integer(3), Kernel::real(4.5)}).describe(), "constexpr 4.5");
  EXPECT_EQ(k.call("minimum", {integer(3), Kernel::real(4.5)}).describe(), "constexpr 3.0");
  EXPECT_EQ(k.text(), "%0 = fmax %a, %a : f32\n%1 = fmin %a, %a {nan=true} : f32\n"
                      "%2 = umax %b, %b : i32\n%3 = smin %c, %c : i8\n"
                      "%4 = fmax %a, %a : f32\n%5 = fmin %4, %a : f32\n"
                      "%6 = constant {value=3} : i8\n%7 = select %d, %c, %6 : i8\n");
}

TEST(Operations, Shapes) {
  Kernel k;
  const Value x = k.tile("f32", {4, 6});
  const auto shape = [&](const Value &v) { return k.s.attribute(v, "shape").text(); };
  EXPECT_EQ(shape(k.call("trans", {x})), "(6, 4)");
  EXPECT_EQ(shape(k.call("permute", {x, integer(1), integer(0)})), "(6, 4)");
  EXPECT_EQ(shape(k.call("permute", {x, Kernel::ints({-1, 0})})), "(6, 4)");
  EXPECT_EQ(shape(k.call("reshape", {x, integer(2), integer(12)})), "(2, 12)");
  EXPECT_EQ(shape(k.call("view", {x, Kernel::ints({24})})), "(24,)");
  EXPECT_EQ(shape(k.call("ravel", {x})), "(24,)");
  EXPECT_EQ(shape(k.call("expand_dims", {x, integer(-1)})), "(4, 6, 1)");
  EXPECT_EQ(shape(k.call("expand_dims", {x, Kernel::ints({0, 2})})), "(1, 4, 1, 6)");
  EXPECT_EQ(shape(k.call("squeeze", {k.call("unsqueeze", {x, integer(0)}), integer(0)})), "(4, 6)");
  EXPECT_EQ(shape(k.call("broadcast_to", {k.tile("f32", {4, 1}), Kernel::ints({4, 3})})), "(4, 3)");
  const Value both = k.call("broadcast", {k.tile("f32", {4, 1}), k.tile("f32", {5})});
  EXPECT_EQ(shape(both.tuple()->fields[1]), "(4, 5)");
  EXPECT_EQ(k.call("item", {k.tile("f32", {1, 1})}).describe(), "tensor of fp32");
  EXPECT_EQ(k.call("reshape", {k.tile("f32", {1}), Kernel::ints({})}).describe(), "tensor of fp32");
  k.text();
}

TEST(Operations, Subscripts) {
  Kernel k;
  const Value whole =
      Value::aggregate(Class::slice(), {Value::none(), Value::none(), Value::none()});
  const Value x = k.tile("f32", {4});
  EXPECT_EQ(k.s.subscript(x, Value::tuple({whole, Value::none()})).describe(),
            "tensor of fp32[4, 1]");
  EXPECT_EQ(k.s.subscript(x, Value::tuple({Value::none(), whole})).describe(),
            "tensor of fp32[1, 4]");
  EXPECT_EQ(k.s.subscript(x, Value::none()).describe(), "tensor of fp32[1, 4]");
  EXPECT_EQ(k.s.subscript(k.param("f32"), Value::none()).describe(), "tensor of fp32[1]");
  EXPECT_USER_ERROR(k.s.subscript(x, integer(4)), "index 4 is outside of a tensor's axis of 4");
  EXPECT_EQ(k.s.subscript(x, Value::tuple({whole, whole})).describe(), "tensor of fp32[4]");
  EXPECT_EQ(k.s.subscript(k.param("f32"), Value::tuple({Value::none(), whole})).describe(), "tensor of fp32[1]");
  const Value half = Value::aggregate(Class::slice(), {Value::none(), integer(2), Value::none()});
  EXPECT_USER_ERROR(k.s.subscript(x, Value::tuple({whole, half})), "too many indices for shape [4]");
  EXPECT_EQ(k.text(),
            "%0 = splat %a : tile<4xf32>\n%1 = expand_dims %0 {axis=1} : tile<4x1xf32>\n"
            "%2 = expand_dims %0 {axis=0} : tile<1x4xf32>\n"
            "%3 = expand_dims %0 {axis=0} : tile<1x4xf32>\n%4 = splat %b : tile<1xf32>\n"
            "%5 = splat %c : tile<1xf32>\n");
}

TEST(Operations, Dot) {
  Kernel k;
  const Value a = k.tile("f16", {17, 3});
  const Value b = k.tile("f16", {3, 5});
  const Value acc = k.tile("f32", {17, 5});
  k.call("dot", {a, b}, {{"acc", acc}, {"input_precision", text("ieee")}});
  EXPECT_EQ(k.call("dot", {a, b}, {{"out_dtype", Kernel::type("f16")}}).describe(),
            "tensor of fp16[17, 5]");
  const Value f = k.tile("f32", {2, 2});
  k.call("dot", {f, f, f}, {{"allow_tf32", Value::boolean(false)}});
  EXPECT_EQ(k.text(), "%0 = splat %a : tile<17x3xf16>\n%1 = splat %b : tile<3x5xf16>\n"
                      "%2 = splat %c : tile<17x5xf32>\n%3 = dot %0, %1, %2 : tile<17x5xf32>\n"
                      "%4 = constant {value=0.0} : tile<17x5xf32>\n"
                      "%5 = dot %0, %1, %4 : tile<17x5xf32>\n"
                      "%6 = fptrunc %5 : tile<17x5xf16>\n%7 = splat %d : tile<2x2xf32>\n"
                      "%8 = dot %7, %7, %7 {precision=ieee} : tile<2x2xf32>\n");
}

// How operands are kept is a choice for fp32 alone.
TEST(Operations, DotPrecision) {
  for (const char *elem : {"f16", "bf16", "f32", "f64", "i8"}) {
    const bool isFp32 = elem == std::string("f32");
    const auto marked = [&](const char *keyword, const Value &value) {
      Kernel k;
      const Value a = k.tile(elem, {2, 2});
      k.call("dot", {a, a}, {{keyword, value}});
      return k.text().find("{precision=") != std::string::npos;
    };
    for (const char *precision : {"ieee", "tf32", "tf32x3", "bf16x3", "bf16x6"}) {
      EXPECT_EQ(marked("input_precision", text(precision)), isFp32) << elem << " " << precision;
    }
    EXPECT_EQ(marked("allow_tf32", Value::boolean(false)), isFp32) << elem;
  }
}

TEST(Operations, DotTypes) {
  const std::vector<std::pair<const char *, const char *>> cases = {
      {"i8", "int32"}, {"f16", "fp32"}, {"bf16", "fp32"}, {"f32", "fp32"}, {"f64", "fp64"}};
  for (const auto &[type, expected] : cases) {
    Kernel k;
    const Value product = k.call("dot", {k.tile(type, {96, 48}), k.tile(type, {48, 80})});
    EXPECT_EQ(product.describe(), std::string("tensor of ") + expected + "[96, 80]");
    k.text();
  }
  Kernel k;
  const Value u = k.tile("u8", {2, 2});
  EXPECT_USER_ERROR(k.call("dot", {u, u}), "dot takes int8, 8-bit floats, fp16, bf16, fp32 or fp64, got uint8");
}

TEST(Operations, HintsAndChecks) {
  Kernel k;
  const Value x = k.tile("i32", {4, 8});
  k.call("multiple_of", {x, Kernel::ints({1, 8})});
  k.call("max_contiguous", {x, Kernel::ints({1, 4})});
  k.call("max_constancy", {k.param("i32"), integer(1)});
  k.call("assume", {k.s.compare(CompareOp::Gt, k.param("i32"), integer(0))});
  k.call("static_assert", {Value::boolean(true), text("fine")});
  std::vector<std::string> printed;
  k.s.print = [&](const std::string &line) { printed.push_back(line); };
  k.call("static_print", {text("x"), integer(3), Kernel::type("f32"), x});
  k.call("debug_barrier", {});
  EXPECT_EQ(printed, std::vector<std::string>{"x 3 fp32 int32[4, 8]\n"});
  EXPECT_EQ(k.text(),
            "%0 = splat %a : tile<4x8xi32>\n%1 = hint %0 {divisible=[1, 8]} : tile<4x8xi32>\n"
            "%2 = hint %0 {contiguous=[1, 4]} : tile<4x8xi32>\n%3 = hint %b {constant=[1]} : i32\n"
            "%4 = constant {value=0} : i32\n%5 = cmp %c, %4 {predicate=sgt} : i1\nassume %5\n");
}

} // namespace
} // namespace libtile::frontend
