// SPDX-License-Identifier: Apache-2.0
// What expand_functions does with a library's answers; the golden texts show the prelude's.
#include "ir/ops.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/expand_functions.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace libtile::test {
namespace {

using ir::Elem;
using ir::Opcode;

// rsqrt(x) = x * x of f32; exp uses itself; the code of a number is its integer part.
class Fake : public ir::FunctionLibrary {
public:
  Fake() : square_("rsqrt"), endless_("exp"), code_("float8_encode") {
    fill(square_, Opcode::Mul, 2, Elem::F32);
    fill(endless_, Opcode::Exp, 1, Elem::F32);
    fill(code_, Opcode::FpToSI, 1, Elem::I8);
  }
  const ir::Function *body(const ir::FunctionKey &wanted) override {
    asked.push_back(wanted);
    return wanted.opcode == Opcode::Float8Encode ? &code_
           : wanted.elem != Elem::F32            ? nullptr
           : wanted.opcode == Opcode::Rsqrt      ? &square_
           : wanted.opcode == Opcode::Exp        ? &endless_
                                                 : nullptr;
  }
  std::vector<ir::FunctionKey> asked;

private:
  static void fill(ir::Function &fn, Opcode opcode, size_t operands, Elem elem) {
    const ir::Type type = ir::Type::scalar(elem);
    const ir::ValueId x = fn.addParam(ir::Type::scalar(Elem::F32), {"x"});
    const std::vector<ir::ValueId> all(operands, x);
    const ir::OpId op = fn.createOp(opcode, all, {&type, 1}, {});
    fn.append(fn.body(), op);
    const ir::ValueId result = fn.result(op);
    fn.append(fn.body(), fn.createOp(Opcode::Yield, {&result, 1}, {}, {}));
  }
  ir::Function square_, endless_, code_;
};

std::string kernel(const std::string &op, const std::string &type) {
  return "file 0 \"k.py\" line 1 \"\"\nloc 0 0 3:5-9\nfunc @f stage=tile warps=4 stages=3 (%x: " + type + ", %o: ptr<" + type +
         ">) {\n  %0 = " + op + " %x : " + type + " loc(0)\n  store %o, %0\n  return\n}\n";
}

ir::Function expanded(const std::string &text, ir::FunctionLibrary *library,
                      std::vector<ir::FunctionKey> native = {}, int32_t vectorBytes = 0) {
  ir::Target target;
  target.name = "abacus";
  target.vectorBytes = vectorBytes;
  target.functions = std::move(native);
  ir::Function fn = ir::parse(text);
  passes::PassContext context{target};
  context.library = library;
  passes::expandFunctions(fn, context);
  ir::verifyOrThrow(fn, "expand_functions");
  return fn;
}

TEST(ExpandFunctions, InlinesAtTheOpsPlace) {
  Fake library;
  const ir::Function fn = expanded(kernel("rsqrt", "f32"), &library);
  const ir::OpId op = fn.first(fn.body());
  EXPECT_EQ(fn.opcode(op), Opcode::Mul);
  EXPECT_EQ(fn.locationOf(op).str(), "k.py:3:5");
}

TEST(ExpandFunctions, NarrowFloatsAskForF32) {
  Fake library;
  const ir::Function fn = expanded(kernel("rsqrt", "bf16"), &library);
  ASSERT_EQ(library.asked.size(), 1U);
  EXPECT_EQ(library.asked[0], (ir::FunctionKey{Opcode::Rsqrt, Elem::F32}));
  std::vector<Opcode> codes;
  for (const ir::OpId op : fn.walk()) {
    codes.push_back(fn.opcode(op));
  }
  EXPECT_EQ(codes, (std::vector{Opcode::FpExt, Opcode::Mul, Opcode::FpTrunc, Opcode::Store,
                                Opcode::Return}));
}

TEST(ExpandFunctions, WhatTheTargetHasStays) {
  Fake library;
  const std::vector<ir::FunctionKey> native = {{Opcode::Rsqrt, Elem::F32}};
  for (const char *type : {"f32", "f16", "bf16"}) {
    const ir::Function fn = expanded(kernel("rsqrt", type), &library, native);
    EXPECT_EQ(fn.opcode(fn.first(fn.body())), Opcode::Rsqrt);
  }
  EXPECT_TRUE(library.asked.empty());
}

// For operands at most 0 there is a body of its own, and another one where scalb is an instruction.
TEST(ExpandFunctions, NonpositiveOperandsAreAskedFor) {
  const std::string text = kernel("exp", "f64");
  const std::string marked = std::string(text).insert(text.find("%x : f64") + 2, " {nonpositive=true}");
  for (const bool scales : {false, true}) {
    Fake library;
    std::vector<ir::FunctionKey> native;
    if (scales) {
      native = {{Opcode::Scalb, Elem::F64}};
    }
    EXPECT_THROW(expanded(marked, &library, native), ir::Unsupported); // there is none of f64
    EXPECT_EQ(library.asked, (std::vector{ir::FunctionKey{.opcode = Opcode::Exp, .elem = Elem::F64, .nonpositive = true, .scales = scales}}));
  }
  Fake library;
  expanded(marked, &library, {{Opcode::Exp, Elem::F64}});
  EXPECT_TRUE(library.asked.empty());
}

// A cast has a body for each format, whose result is of another type.
TEST(ExpandFunctions, FormatsAreAskedFor) {
  const std::string text = "func @f stage=tile warps=4 stages=3 (%x: f32, %o: ptr<i8>) {\n"
                           "  %0 = float8_encode %x {format=e5} : i8\n"
                           "  %1 = float8_encode %x {format=e4b8} : i8\n"
                           "  %2 = add %0, %1 : i8\n  store %o, %2\n  return\n}\n";
  Fake library;
  const ir::FunctionKey e5{Opcode::Float8Encode, Elem::F32, ir::Float8::e5};
  const ir::FunctionKey e4b8{Opcode::Float8Encode, Elem::F32, ir::Float8::e4b8};
  const ir::Function fn = expanded(text, &library, {e5});
  EXPECT_EQ(library.asked, std::vector{e4b8});
  std::vector<Opcode> codes;
  for (const ir::OpId op : fn.walk()) {
    codes.push_back(fn.opcode(op));
  }
  EXPECT_EQ(codes, (std::vector{Opcode::Float8Encode, Opcode::FpToSI, Opcode::Add, Opcode::Store, Opcode::Return}));
}

// bf16 has bodies of its own for vectors, which hold twice as much of 16 bits; all else goes through f32.
TEST(ExpandFunctions, CastsOfBf16StayNarrowInVectors) {
  for (const char *type : {"f16", "bf16"}) {
    const std::string text = std::string("func @f stage=tile warps=4 stages=3 (%x: ") + type + ", %c: i8, %o: ptr<i8>, %p: ptr<" + type +
                             ">) {\n  %0 = float8_encode %x {format=e5} : i8\n"
                             "  %1 = float8_decode %c {format=e5} : " + type +
                             "\n  store %o, %0\n  store %p, %1\n  return\n}\n";
    for (const int32_t vectorBytes : {0, 32}) {
      Fake library;
      const Elem elem = vectorBytes != 0 && type[0] == 'b' ? Elem::BF16 : Elem::F32;
      const ir::FunctionKey decode{Opcode::Float8Decode, elem, ir::Float8::e5};
      const ir::Function fn = expanded(text, &library, {decode}, vectorBytes);
      EXPECT_EQ(library.asked, (std::vector{ir::FunctionKey{Opcode::Float8Encode, elem, ir::Float8::e5}}));
      const auto narrowed = std::ranges::count(fn.walk(), Opcode::FpTrunc, [&](ir::OpId op) { return fn.opcode(op); });
      EXPECT_EQ(narrowed, elem == Elem::F32 ? 1 : 0) << type;
    }
  }
}

// Neither an instruction nor a body: the user hears where.
TEST(ExpandFunctions, WithoutABodyItIsUnsupported) {
  Fake fake;
  for (ir::FunctionLibrary *library : {static_cast<ir::FunctionLibrary *>(&fake),
                                       static_cast<ir::FunctionLibrary *>(nullptr)}) {
    try {
      (void)expanded(kernel("rsqrt", "f64"), library);
      FAIL();
    } catch (const ir::Unsupported &error) {
      EXPECT_EQ(error.message(), "rsqrt of f64 is not there yet on abacus");
      EXPECT_EQ(error.location().str(), "k.py:3:5");
    }
  }
}

TEST(ExpandFunctions, AFunctionOfItselfEnds) {
  Fake library;
  EXPECT_THROW((void)expanded(kernel("exp", "f32"), &library), ir::InternalError);
}

} // namespace
} // namespace libtile::test
