// SPDX-License-Identifier: Apache-2.0
// Names of types, and the types in which operands meet: the tables state Triton 3.9's rules pair by
// pair.
#include "semantics_fixture.h"

#include <array>

namespace libtile::frontend {
namespace {

constexpr std::array kTypes = {"int1",   "int8",   "int16", "int32", "int64", "uint8", "uint16",
                               "uint32", "uint64", "fp16",  "bf16",  "fp32",  "fp64"};
using Table = std::vector<std::string>;

// Rows and columns in the order of kTypes.
const Table kMeet = {
    "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 fp32 fp32 fp64",
    "int8 int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 fp32 fp32 fp64",
    "int16 int16 int16 int32 int64 int16 uint16 uint32 uint64 fp16 fp32 fp32 fp64",
    "int32 int32 int32 int32 int64 int32 int32 uint32 uint64 fp16 fp32 fp32 fp64",
    "int64 int64 int64 int64 int64 int64 int64 int64 uint64 fp16 fp32 fp32 fp64",
    "uint8 uint8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 fp32 fp32 fp64",
    "uint16 uint16 uint16 int32 int64 uint16 uint16 uint32 uint64 fp16 fp32 fp32 fp64",
    "uint32 uint32 uint32 uint32 int64 uint32 uint32 uint32 uint64 fp16 fp32 fp32 fp64",
    "uint64 uint64 uint64 uint64 uint64 uint64 uint64 uint64 uint64 fp16 fp32 fp32 fp64",
    "fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp16 fp32 fp64",
    "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp16 bf16 fp32 fp64",
    "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp64",
    "fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64"};
const Table kDivide = {"int1 - - - - uint8 uint16 uint32 uint64 fp32 fp32 fp32 fp64",
                       "- int8 int16 int32 int64 - - - - fp32 fp32 fp32 fp64",
                       "- int16 int16 int32 int64 - - - - fp32 fp32 fp32 fp64",
                       "- int32 int32 int32 int64 - - - - fp32 fp32 fp32 fp64",
                       "- int64 int64 int64 int64 - - - - fp32 fp32 fp32 fp64",
                       "uint8 - - - - uint8 uint16 uint32 uint64 fp32 fp32 fp32 fp64",
                       "uint16 - - - - uint16 uint16 uint32 uint64 fp32 fp32 fp32 fp64",
                       "uint32 - - - - uint32 uint32 uint32 uint64 fp32 fp32 fp32 fp64",
                       "uint64 - - - - uint64 uint64 uint64 uint64 fp32 fp32 fp32 fp64",
                       "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp64",
                       "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp64",
                       "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp64",
                       "fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64 fp64"};
// A bool, an int and a float constant beside a tensor of each type.
const Table kConstantMeets = {
    "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 bf16 fp32 fp64",
    "int32 int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp16 bf16 fp32 fp64",
    "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp16 bf16 fp32 fp64"};
const Table kConstantDivides = {
    "int1 int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp32 fp32 fp32 fp64",
    "- int8 int16 int32 int64 uint8 uint16 uint32 uint64 fp32 fp32 fp32 fp64",
    "fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp32 fp64"};

// The names of the types of op(left, each type).
template <class F> std::string row(F meet) {
  std::string line;
  for (const char *type : kTypes) {
    const std::string result = meet(type);
    line += (line.empty() ? "" : " ") + (result.empty() ? "-" : result);
  }
  return line;
}

std::string typeOf(const Value &value) { return value.tensor()->dtype.name(); }

std::string binaryType(BinaryOp op, const Value &a, const std::string &b, Kernel &k) {
  std::string result;
  const std::string error =
      messageOf<ir::UserError>([&] { result = typeOf(k.s.binary(op, a, k.param(b))); });
  return error.empty() ? result : "-";
}

TEST(Types, NamesRoundTrip) {
  for (const char *name : kTypes) {
    ASSERT_TRUE(DType::byName(name)) << name;
    EXPECT_EQ(DType::byName(name)->name(), name);
  }
  const std::vector<std::pair<const char *, const char *>> others = {
      {"i1", "int1"},
      {"u1", "int1"},
      {"B", "int1"},
      {"i8", "int8"},
      {"u8", "uint8"},
      {"i16", "int16"},
      {"u16", "uint16"},
      {"i32", "int32"},
      {"u32", "uint32"},
      {"i64", "int64"},
      {"u64", "uint64"},
      {"f16", "fp16"},
      {"f32", "fp32"},
      {"f64", "fp64"},
      {"bfloat16", "bf16"},
      {"float16", "fp16"},
      {"float32", "fp32"},
      {"*fp16", "pointer<fp16>"},
      {"*u8", "pointer<uint8>"},
      {"**i32", "pointer<pointer<int32>>"},
      {"*kf32", "pointer<fp32>"},
      {"pointer<bf16>", "pointer<bf16>"}};
  for (const auto &[name, expected] : others) {
    ASSERT_TRUE(DType::byName(name)) << name;
    EXPECT_EQ(DType::byName(name)->name(), expected);
  }
  EXPECT_TRUE(DType::byName("*kf32")->isConst);
  EXPECT_FALSE(DType::byName("*kf32")->pointee().isConst);
  for (const char *name : {"", "int", "i7", "*", "float", "fp8e6", "pointer<>", "i32 "}) {
    EXPECT_FALSE(DType::byName(name)) << name;
  }
}

TEST(Types, TensorsMeet) {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    Kernel k;
    const Value left = k.param(kTypes[i]);
    EXPECT_EQ(row([&](const char *t) { return binaryType(BinaryOp::Add, left, t, k); }), kMeet[i]);
    EXPECT_EQ(row([&](const char *t) { return binaryType(BinaryOp::Mod, left, t, k); }),
              kDivide[i]);
    k.text();
  }
}

TEST(Types, ConstantsMeetTensors) {
  const std::vector<Value> constants = {Value::boolean(true), Value::integer(7), Kernel::real(0.5)};
  for (size_t i = 0; i < constants.size(); ++i) {
    Kernel k;
    const auto with = [&](BinaryOp op) {
      return row([&](const char *t) { return binaryType(op, constants[i], t, k); });
    };
    EXPECT_EQ(with(BinaryOp::Mul), kConstantMeets[i]);
    EXPECT_EQ(with(BinaryOp::Mod), kConstantDivides[i]);
    k.text();
  }
}

TEST(Types, TrueDivisionGivesFloats) {
  Kernel k;
  const auto divided = [&](const char *a, const char *b) {
    return typeOf(k.s.binary(BinaryOp::TrueDiv, k.param(a), k.param(b)));
  };
  EXPECT_EQ(divided("int32", "int32"), "fp32");
  EXPECT_EQ(divided("int64", "int8"), "fp32");
  EXPECT_EQ(divided("fp16", "fp16"), "fp32");
  EXPECT_EQ(divided("bf16", "int32"), "fp32");
  EXPECT_EQ(divided("fp64", "int32"), "fp64");
  k.text();
}

TEST(Types, NumbersBecomeTensors) {
  const std::vector<std::pair<Value, const char *>> cases = {
      {Value::boolean(true), "int1"},
      {Value::integer(0), "int32"},
      {Value::integer(-(BigInt(1) << 31)), "int32"},
      {Value::integer((BigInt(1) << 31) - 1), "int32"},
      {Value::integer(BigInt(1) << 31), "uint32"},
      {Value::integer((BigInt(1) << 32) - 1), "uint32"},
      {Value::integer(BigInt(1) << 32), "int64"},
      {Value::integer(-(BigInt(1) << 31) - 1), "int64"},
      {Value::integer(BigInt(1) << 63), "uint64"},
      {Kernel::real(0.1), "fp32"},
      {Kernel::real(1e39), "fp64"},
      {Kernel::real(1e-39), "fp64"},
      {Kernel::real(1.0 / 0.0), "fp32"}};
  for (const auto &[value, expected] : cases) {
    Kernel k;
    EXPECT_EQ(typeOf(k.s.decay(value)), expected) << value.describe();
    k.text();
  }
  Kernel k;
  EXPECT_USER_ERROR(k.s.decay(Value::integer(BigInt(1) << 64)),
                    "integer 18446744073709551616 does not fit in 64 bits");
  EXPECT_EQ(k.s.decay(Value::string("x")).describe(), "constexpr 'x'");
  EXPECT_TRUE(k.s.decay(Value::none()).isNone());
  EXPECT_EQ(k.s.decay(Kernel::ints({1, 2})).tuple()->fields[1].describe(), "tensor of int32");
}

// Every pair of types casts, and casts to the type that it says.
TEST(Types, AllCasts) {
  for (const char *from : kTypes) {
    Kernel k;
    const Value x = k.tile(from, {4});
    for (const char *to : kTypes) {
      const Value y = k.call("to", {x, Kernel::type(to)});
      EXPECT_EQ(y.describe(), std::string("tensor of ") + to + "[4]");
    }
    k.text();
  }
}

TEST(Types, CastOps) {
  const std::vector<std::array<const char *, 3>> cases = {
      {"int8", "int32", "%0 = sext %a : i32\n"},
      {"uint8", "int32", "%0 = zext %a : i32\n"},
      {"int1", "int32", "%0 = zext %a : i32\n"},
      {"int32", "uint32", ""},
      {"int64", "int16", "%0 = trunc %a : i16\n"},
      {"int32", "fp16", "%0 = sitofp %a : f16\n"},
      {"uint32", "fp32", "%0 = uitofp %a : f32\n"},
      {"int1", "bf16", "%0 = uitofp %a : bf16\n"},
      {"fp32", "int32", "%0 = fptosi %a : i32\n"},
      {"fp32", "uint8", "%0 = fptoui %a : i8\n"},
      {"fp16", "int32", "%0 = fpext %a : f32\n%1 = fptosi %0 : i32\n"},
      {"fp16", "bf16", "%0 = fptrunc %a : bf16\n"},
      {"bf16", "fp64", "%0 = fpext %a : f64\n"},
      {"fp64", "fp16", "%0 = fptrunc %a : f16\n"},
      {"int32", "int1", "%0 = constant {value=0} : i32\n%1 = cmp %a, %0 {predicate=ne} : i1\n"},
      {"fp32", "int1", "%0 = constant {value=0.0} : f32\n%1 = cmp %a, %0 {predicate=une} : i1\n"},
      {"*fp32", "int64", "%0 = ptrtoint %a : i64\n"},
      {"uint32", "*fp32", "%0 = zext %a : i64\n%1 = inttoptr %0 : ptr<f32>\n"},
      {"*fp32", "*int8", "%0 = bitcast %a : ptr<i8>\n"},
      {"*int8", "*uint8", ""}};
  for (const auto &[from, to, expected] : cases) {
    Kernel k;
    k.call("cast", {k.param(from), Kernel::type(to)});
    EXPECT_EQ(k.text(), expected) << from << " to " << to;
  }
  Kernel k;
  k.call("to", {k.param("fp32"), Kernel::type("uint32")}, {{"bitcast", Value::boolean(true)}});
  EXPECT_EQ(k.text(), "%0 = bitcast %a : i32\n");
}

TEST(Types, Attributes) {
  Kernel k;
  const Value x = k.tile("bf16", {4, 8});
  const auto get = [&](const Value &object, const char *name) {
    return k.s.attribute(object, name);
  };
  EXPECT_EQ(get(x, "shape").text(), "(4, 8)");
  EXPECT_EQ(get(x, "numel").text(), "32");
  EXPECT_EQ(get(x, "dtype").text(), "bf16");
  EXPECT_EQ(get(x, "type").text(), "bf16[4, 8]");
  EXPECT_EQ(get(get(x, "type"), "element_ty").text(), "bf16");
  EXPECT_EQ(get(get(x, "type"), "shape").text(), "(4, 8)");
  EXPECT_EQ(get(get(x, "dtype"), "primitive_bitwidth").text(), "16");
  EXPECT_EQ(get(get(x, "dtype"), "fp_mantissa_width").text(), "7");
  EXPECT_EQ(get(x, "T").describe(), "tensor of bf16[8, 4]");
  const Value pointer = k.param("*u8");
  EXPECT_EQ(get(get(pointer, "dtype"), "element_ty").text(), "uint8");
  EXPECT_TRUE(
      k.s.compare(CompareOp::Eq, get(get(pointer, "dtype"), "element_ty"), Kernel::type("u8"))
          .describe() == "constexpr True");
  EXPECT_EQ(get(x, "sum").describe(), "method sum");
  EXPECT_FALSE(get(x, "nonsense").bound());
  EXPECT_FALSE(get(x, "slice_type").bound());
  EXPECT_UNSUPPORTED((k.s.noAttribute(x, "slice_type"), 0), "tl.slice_type is not there yet");
  EXPECT_USER_ERROR((k.s.noAttribute(x, "argmaks"), 0),
                    x.describe() + " has no attribute `argmaks`; did you mean `argmax`?");
  const Value method = get(get(x, "dtype"), "is_floating");
  const auto &bound = **method.as<std::shared_ptr<const BoundMethod>>();
  const Operation &isFloating = **bound.callee.as<const Operation *>();
  EXPECT_EQ(k.s.call(isFloating, {{bound.self}, {}}).describe(), "constexpr True");
  k.text();
}

} // namespace
} // namespace libtile::frontend
