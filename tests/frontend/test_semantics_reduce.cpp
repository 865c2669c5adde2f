// SPDX-License-Identifier: Apache-2.0
// Reductions, calls' arguments, and what errors say.
#include "semantics_fixture.h"

namespace libtile::frontend {
namespace {

Value integer(int64_t value) { return Value::integer(value); }

TEST(Reduce, SumsOfEachType) {
  const std::vector<std::pair<const char *, const char *>> cases = {
      {"i1", "uint32"}, {"i8", "int32"},   {"i16", "int32"},  {"i32", "int32"},  {"i64", "int64"},
      {"u8", "uint32"}, {"u16", "uint32"}, {"u32", "uint32"}, {"u64", "uint64"}, {"f16", "fp16"},
      {"bf16", "bf16"}, {"f32", "fp32"},   {"f64", "fp64"}};
  for (const auto &[type, expected] : cases) {
    Kernel k;
    EXPECT_EQ(k.call("sum", {k.tile(type, {4, 3}), integer(1)}).describe(),
              std::string("tensor of ") + expected + "[4]");
    k.text();
  }
}

TEST(Reduce, MaximaWiden) {
  const std::vector<std::pair<const char *, const char *>> cases = {
      {"i1", "int32"}, {"i8", "int32"},  {"u16", "int32"}, {"u32", "uint32"}, {"i64", "int64"},
      {"f16", "fp32"}, {"bf16", "fp32"}, {"f32", "fp32"},  {"f64", "fp64"}};
  for (const auto &[type, expected] : cases) {
    Kernel k;
    EXPECT_EQ(k.call("max", {k.tile(type, {4}), integer(0)}).describe(),
              std::string("tensor of ") + expected);
    EXPECT_EQ(k.call("min", {k.tile(type, {4})}).describe(), std::string("tensor of ") + expected);
    k.text();
  }
}

TEST(Reduce, Text) {
  Kernel k;
  const Value x = k.tile("f16", {4, 3});
  k.call("sum", {x, integer(-1)}, {{"keep_dims", Value::boolean(true)}});
  EXPECT_EQ(k.text(),
            "%0 = splat %a : tile<4x3xf16>\n%1 = fpext %0 : tile<4x3xf32>\n"
            "%2 = reduce %1 {axis=1} : tile<4xf32> {\n"
            "^(%3: f32, %4: f32):\n%5 = add %3, %4 : f32\nyield %5\n}\n"
            "%6 = expand_dims %2 {axis=1} : tile<4x1xf32>\n%7 = fptrunc %6 : tile<4x1xf16>\n");
}

TEST(Reduce, OverAllElements) {
  Kernel k;
  const Value x = k.tile("f32", {4, 3});
  EXPECT_EQ(k.call("sum", {x}).describe(), "tensor of fp32");
  EXPECT_EQ(k.call("max", {x}, {{"keep_dims", Value::boolean(true)}}).describe(),
            "tensor of fp32[1, 1]");
  EXPECT_EQ(k.call("xor_sum", {k.tile("i32", {4, 3})}).describe(), "tensor of int32");
  EXPECT_EQ(k.call("reduce_or", {k.tile("i8", {4, 3}), integer(0)}).describe(),
            "tensor of int8[3]");
  k.text();
}

TEST(Reduce, WithIndices) {
  Kernel k;
  const Value x = k.tile("f32", {4, 3});
  const Value pair = k.call("max", {x, integer(1)}, {{"return_indices", Value::boolean(true)}});
  EXPECT_EQ(pair.tuple()->fields[0].describe(), "tensor of fp32[4]");
  EXPECT_EQ(pair.tuple()->fields[1].describe(), "tensor of int32[4]");
  EXPECT_EQ(k.call("argmin", {x, integer(0)}).describe(), "tensor of int32[3]");
  k.text();
}

TEST(Reduce, UsersFunction) {
  Kernel k;
  const Value x = k.tile("f32", {5, 2});
  const Value i = k.tile("i64", {5, 2});
  k.s.callFunction = [&](const Value &, const Arguments &a) {
    EXPECT_EQ(a.positional.size(), 4U);
    return Value::tuple({k.s.binary(BinaryOp::Add, a.positional[0], a.positional[2]),
                         k.s.binary(BinaryOp::Mul, a.positional[1], a.positional[3])});
  };
  const Value both = k.call("reduce", {Value::tuple({x, i}), integer(0), Value::none()});
  EXPECT_EQ(both.tuple()->fields[0].describe(), "tensor of fp32[2]");
  EXPECT_EQ(both.tuple()->fields[1].describe(), "tensor of int64[2]");
  EXPECT_EQ(k.text(), "%0 = splat %a : tile<5x2xf32>\n%1 = splat %b : tile<5x2xi64>\n"
                      "%2, %3 = reduce %0, %1 {axis=0} : tile<2xf32>, tile<2xi64> {\n"
                      "^(%4: f32, %5: i64, %6: f32, %7: i64):\n%8 = add %4, %6 : f32\n"
                      "%9 = mul %5, %7 : i64\nyield %8, %9\n}\n");
}

TEST(Reduce, Errors) {
  Kernel k;
  const Value x = k.tile("f32", {4, 3});
  EXPECT_USER_ERROR(k.call("sum", {x, integer(2)}), "axis 2 is outside of a tile with 2 axes");
  EXPECT_USER_ERROR(k.call("sum", {k.param("f32")}),
                    "sum takes tiles of numbers, got tensor of fp32");
  EXPECT_USER_ERROR(k.call("xor_sum", {x}), "xor_sum takes integers, got tensor of fp32[4, 3]");
  k.s.callFunction = [&](const Value &, const Arguments &a) {
    return k.s.compare(CompareOp::Lt, a.positional[0], a.positional[1]);
  };
  EXPECT_USER_ERROR(
      k.call("reduce", {x, integer(0), Value::none()}),
      "the function of a reduce gives tensor of int1 where a scalar of fp32 is expected");
  EXPECT_USER_ERROR(
      k.call("reduce", {Value::tuple({x, k.tile("f32", {4})}), integer(0), Value::none()}),
      "the inputs of reduce have shapes [4, 3] and [4]");
}

TEST(Scan, TypesAndRegion) {
  Kernel k;
  const Value x = k.tile("i8", {4, 3});
  EXPECT_EQ(k.call("cumsum", {x, integer(-1)}).describe(), "tensor of int32[4, 3]");
  EXPECT_EQ(k.call("cumprod", {k.tile("u8", {4})}).describe(), "tensor of uint32[4]");
  EXPECT_EQ(k.call("cumsum", {k.tile("int1", {4})}).describe(), "tensor of uint32[4]");
  EXPECT_EQ(k.call("cumsum", {k.tile("f16", {4})}).describe(), "tensor of fp16[4]");
  EXPECT_EQ(k.call("cumsum", {k.tile("bf16", {4})}).describe(), "tensor of bf16[4]");
  EXPECT_USER_ERROR(k.call("cumsum", {x, integer(2)}), "axis 2 is outside of a tile with 2 axes");
  EXPECT_USER_ERROR(k.call("cumprod", {k.param("f32")}),
                    "cumprod takes tiles of numbers, got tensor of fp32");
}

TEST(Scan, UsersFunction) {
  Kernel k;
  const Value x = k.tile("f32", {5});
  const Value i = k.tile("i64", {5});
  k.s.callFunction = [&](const Value &, const Arguments &a) {
    return Value::tuple({a.positional[2], a.positional[1]});
  };
  const Value both = k.call("associative_scan", {Value::tuple({x, i}), integer(0), Value::none()},
                            {{"reverse", Value::boolean(true)}});
  EXPECT_EQ(both.tuple()->fields[1].describe(), "tensor of int64[5]");
  EXPECT_EQ(k.text(), "%0 = splat %a : tile<5xf32>\n%1 = splat %b : tile<5xi64>\n"
                      "%2, %3 = scan %0, %1 {axis=0, reverse=true} : tile<5xf32>, tile<5xi64> {\n"
                      "^(%4: f32, %5: i64, %6: f32, %7: i64):\nyield %6, %5\n}\n");
}

TEST(Sort, TypesAndErrors) {
  Kernel k;
  for (const char *type : {"int1", "i8", "u16", "i32", "u64", "f16", "bf16", "f32", "f64"}) {
    const Value x = k.tile(type, {4, 3});
    EXPECT_EQ(k.call("sort", {x}).describe(), x.describe());
    EXPECT_EQ(k.call("bitonic_merge", {x, integer(0)}).describe(), x.describe());
  }
  const Value x = k.tile("f32", {4, 3});
  EXPECT_EQ(k.call("topk", {x, integer(2)}).describe(), "tensor of fp32[4, 2]");
  EXPECT_USER_ERROR(k.call("topk", {x, integer(4)}), "k lies between 1 and 3, got 4");
  EXPECT_USER_ERROR(k.call("topk", {x, integer(0)}), "k lies between 1 and 3, got 0");
  EXPECT_USER_ERROR(k.call("sort", {x, integer(2)}), "axis 2 is outside of a tile with 2 axes");
  EXPECT_USER_ERROR(k.call("sort", {k.param("f32")}),
                    "sort takes tiles of numbers, got tensor of fp32");
}

TEST(Errors, Arguments) {
  Kernel k;
  EXPECT_USER_ERROR(k.call("arange", {integer(0)}), "arange() needs a value for parameter `end`");
  EXPECT_USER_ERROR(k.call("arange", {integer(0), integer(1), integer(2)}),
                    "arange() takes 2 positional arguments but 3 were given");
  EXPECT_USER_ERROR(k.call("load", {k.param("*f32")}, {{"maks", Value::none()}}),
                    "load() has no parameter `maks`; did you mean `mask`?");
  EXPECT_USER_ERROR(k.call("load", {k.param("*f32")}, {{"bounds", Value::none()}}),
                    "load() has no parameter `bounds`");
  EXPECT_USER_ERROR(k.call("load", {k.param("*f32")}, {{"pointer", Value::none()}}),
                    "load() got two values for parameter `pointer`");
}

TEST(Errors, Names) {
  Kernel k;
  EXPECT_FALSE(k.s.languageName("slice_type").bound());
  EXPECT_UNSUPPORTED((k.s.unknownName("slice_type"), 0), "tl.slice_type is not there yet");
  EXPECT_FALSE(k.s.languageName("lod").bound());
  EXPECT_USER_ERROR((k.s.unknownName("aragne"), 0),
                    "the language has no name `aragne`; did you mean `arange`?");
  EXPECT_USER_ERROR((k.s.unknownName("frobnicate"), 0), "the language has no name `frobnicate`");
  EXPECT_EQ(k.s.languageName("float32").describe(), "type fp32");
  EXPECT_EQ(k.s.languageName("math").describe(), "module tl.math");
  EXPECT_EQ(k.s.attribute(k.s.languageName("math"), "exp").describe(), "operation exp");
  EXPECT_EQ(Semantics::find("range")->kind, Operation::Construct);
  const BoundArguments bound(k.s, *Semantics::find("range"),
                             {{integer(4)}, {{"num_stages", integer(2)}}});
  EXPECT_EQ(bound[0].describe(), "constexpr 4");
  EXPECT_TRUE(bound[1].isNone());
  EXPECT_EQ(bound[3].describe(), "constexpr 2");
}

TEST(Errors, Types) {
  Kernel k;
  const Value f = k.param("f32");
  const Value p = k.param("*f32");
  const auto binary = [&](BinaryOp op, const Value &a, const Value &b) {
    return k.s.binary(op, a, b);
  };
  EXPECT_USER_ERROR(binary(BinaryOp::FloorDiv, f, f),
                    "operator // does not take tensor of fp32 and tensor of fp32");
  EXPECT_USER_ERROR(binary(BinaryOp::BitAnd, f, integer(1)),
                    "operator & does not take tensor of fp32 and constexpr 1");
  EXPECT_USER_ERROR(binary(BinaryOp::Add, p, p),
                    "operator + does not take tensor of pointer<fp32> and tensor of pointer<fp32>");
  EXPECT_USER_ERROR(binary(BinaryOp::Add, p, f),
                    "operator + does not take tensor of pointer<fp32> and tensor of fp32; an offset is an integer, as // "
                    "gives it");
  EXPECT_USER_ERROR(binary(BinaryOp::Sub, integer(1), p),
                    "operator - does not take constexpr 1 and tensor of pointer<fp32>");
  EXPECT_USER_ERROR(binary(BinaryOp::MatMul, f, f), "operator @ does not take tensors; use tl.dot");
  EXPECT_USER_ERROR(binary(BinaryOp::Pow, f, integer(2)), "operator ** does not take tensors");
  EXPECT_USER_ERROR(binary(BinaryOp::Add, f, Value::none()),
                    "operator + does not take tensor of fp32 and None");
  EXPECT_USER_ERROR(binary(BinaryOp::Add, k.param("u8"), integer(-1)),
                    "integer -1 is out of range for uint8; cast one of the operands");
  EXPECT_USER_ERROR(binary(BinaryOp::Add, k.param("i8"), integer(128)),
                    "integer 128 is out of range for int8");
  EXPECT_USER_ERROR(
      binary(BinaryOp::Mod, k.param("i32"), k.param("u32")),
      "/, // and % do not take int32 and uint32, one signed and one unsigned; cast one of them");
  EXPECT_USER_ERROR(binary(BinaryOp::Add, k.tile("f32", {4, 2}), k.tile("f32", {3})),
                    "shapes [4, 2] and [3] do not broadcast: axis 1 has 2 and 3");
  EXPECT_USER_ERROR(k.s.unary(UnaryOp::Not, f),
                    "not does not take tensor of fp32; compare it with 0");
  EXPECT_USER_ERROR(k.s.condition(k.tile("i1", {4})),
                    "the truth of tensor of int1[4] is ambiguous: a condition must be a scalar");
  EXPECT_USER_ERROR(k.call("to", {f, Kernel::type("i16")}, {{"bitcast", Value::boolean(true)}}),
                    "cannot bitcast fp32 to int16: their widths differ");
  EXPECT_USER_ERROR(k.call("to", {p, Kernel::type("f32")}), "cannot cast pointer<fp32> to fp32");
  EXPECT_USER_ERROR(k.call("exp", {k.param("i32")}), "exp takes floats, got tensor of int32");
}

TEST(Errors, Memory) {
  Kernel k;
  const Value p = k.param("*kf32");
  EXPECT_USER_ERROR(
      k.call("load", {k.param("i32")}),
      "the pointer of load must be a pointer or a tile of pointers, got tensor of int32");
  EXPECT_USER_ERROR(k.call("store", {p, integer(0)}),
                    "store cannot write through a pointer that is const");
  EXPECT_USER_ERROR(k.call("load", {p, Value::none(), integer(0)}),
                    "load takes other only with a mask");
  EXPECT_USER_ERROR(k.call("load", {p, k.param("i32")}),
                    "mask must be boolean, got tensor of int32");
  EXPECT_USER_ERROR(k.call("load", {p, k.tile("i1", {4})}),
                    "mask has shape [4] but the pointer is a scalar");
  EXPECT_USER_ERROR(k.call("store", {k.tile("*f32", {4, 1}), k.tile("f32", {4, 2})}),
                    "value has shape [4, 2], which the pointer's shape [4, 1] does not hold");
  EXPECT_USER_ERROR(k.call("load", {p}, {{"cache_modifier", Value::string(".xx")}}),
                    "cache_modifier must be one of '.ca', '.cg', '.cs', '.cv', got '.xx'");
  EXPECT_USER_ERROR(k.call("atomic_add", {k.param("*i1"), integer(1)}),
                    "atomic_add takes pointers to integers of 8 to 64 bits or floats of 16 to 64, got tensor of "
                    "pointer<int1>");
}

TEST(Errors, Shapes) {
  Kernel k;
  const Value x = k.tile("f32", {4, 6});
  EXPECT_USER_ERROR(k.call("arange", {integer(4), integer(4)}),
                    "the end of arange must be greater than its start, got arange(4, 4)");
  EXPECT_USER_ERROR(k.call("arange", {integer(0), integer(int64_t{1} << 32)}),
                    "arange(0, 4294967296) does not fit in int32");
  EXPECT_USER_ERROR(k.call("zeros", {Kernel::ints({0}), Kernel::type("f32")}),
                    "the shape of zeros has extent 0; an extent is from 1 to 16777216");
  EXPECT_USER_ERROR(k.call("zeros", {Kernel::ints({1 << 13, 1 << 13}), Kernel::type("f32")}),
                    "the shape of zeros has more than 16777216 elements");
  EXPECT_USER_ERROR(k.call("reshape", {x, integer(5)}),
                    "cannot reshape [4, 6] to [5]: 24 elements are not 5");
  EXPECT_USER_ERROR(k.call("permute", {x, integer(0), integer(0)}),
                    "the axes of a permutation of [4, 6] must be 0 to 1, each once");
  EXPECT_USER_ERROR(k.call("broadcast_to", {x, Kernel::ints({4, 12})}),
                    "cannot broadcast shape [4, 6] to [4, 12]");
  EXPECT_USER_ERROR(k.call("dot", {x, x}),
                    "dot of shapes [4, 6] and [4, 6]: 6 columns meet 4 rows");
  EXPECT_USER_ERROR(k.call("dot", {x, k.tile("f16", {6, 4})}),
                    "the operands of dot must have one type, got fp32 and fp16");
  EXPECT_USER_ERROR(k.call("dot", {x, k.tile("f32", {6, 4}), k.tile("f16", {4, 4})}),
                    "dot of fp32 gives fp32, not fp16; cast the result with .to()");
  EXPECT_USER_ERROR(k.call("dot", {x, k.tile("f32", {6, 4}), k.tile("f32", {4, 1})}),
                    "the accumulator of this dot must be fp32[4, 4], got tensor of fp32[4, 1]");
  EXPECT_USER_ERROR(k.call("dot", {k.tile("f32", {2, 2, 2}), k.tile("f32", {3, 2, 2})}),
                     "dot of shapes [2, 2, 2] and [3, 2, 2]: the leading axes differ");
  EXPECT_USER_ERROR(k.call("multiple_of", {x, integer(8)}),
                    "multiple_of takes one value an axis: 2 for tensor of fp32[4, 6], got 1");
  EXPECT_USER_ERROR(k.call("static_assert", {Value::boolean(false), Value::string("no")}),
                    "static assertion failed: no");
  EXPECT_USER_ERROR(k.call("program_id", {integer(3)}),
                    "the axis of program_id must be 0, 1 or 2, got 3");
}

TEST(Errors, PointAtTheirPlace) {
  Kernel k;
  const auto file =
      std::make_shared<const ir::SourceFile>(ir::SourceFile{"k.py", "x = 1 // y\n", 10});
  k.s.setLocation({file, 1, 5, 11, nullptr});
  try {
    k.s.binary(BinaryOp::FloorDiv, integer(1), integer(0));
    FAIL();
  } catch (const ir::UserError &error) {
    EXPECT_EQ(error.location().str(), "k.py:10:5");
  }
}

} // namespace
} // namespace libtile::frontend
