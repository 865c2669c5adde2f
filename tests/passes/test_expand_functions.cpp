// SPDX-License-Identifier: Apache-2.0
// What expand_functions does with a library's answers; the golden texts show the prelude's.
#include "ir/ops.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/expand_functions.h"

#include <gtest/gtest.h>

namespace libtile::test {
namespace {

using ir::Elem;
using ir::Opcode;

// rsqrt(x) = x * x of f32; exp uses itself.
class Fake : public ir::FunctionLibrary {
public:
  Fake() : square_("rsqrt"), endless_("exp") {
    fill(square_, Opcode::Mul, 2);
    fill(endless_, Opcode::Exp, 1);
  }
  const ir::Function *body(Opcode opcode, Elem elem) override {
    asked.emplace_back(opcode, elem);
    return elem != Elem::F32         ? nullptr
           : opcode == Opcode::Rsqrt ? &square_
           : opcode == Opcode::Exp   ? &endless_
                                     : nullptr;
  }
  std::vector<std::pair<Opcode, Elem>> asked;

private:
  static void fill(ir::Function &fn, Opcode opcode, size_t operands) {
    const ir::Type type = ir::Type::scalar(Elem::F32);
    const ir::ValueId x = fn.addParam(type, {"x"});
    const std::vector<ir::ValueId> all(operands, x);
    const ir::OpId op = fn.createOp(opcode, all, {&type, 1}, {});
    fn.append(fn.body(), op);
    const ir::ValueId result = fn.result(op);
    fn.append(fn.body(), fn.createOp(Opcode::Yield, {&result, 1}, {}, {}));
  }
  ir::Function square_, endless_;
};

std::string kernel(const std::string &op, const std::string &type) {
  return "file 0 \"k.py\" line 1 \"\"\nloc 0 0 3:5-9\nfunc @f stage=tile warps=4 stages=3 (%x: " + type + ", %o: ptr<" + type +
         ">) {\n  %0 = " + op + " %x : " + type + " loc(0)\n  store %o, %0\n  return\n}\n";
}

ir::Function expanded(const std::string &text, ir::FunctionLibrary *library,
                      std::vector<ir::NativeFunction> native = {}) {
  ir::Target target;
  target.name = "abacus";
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
  EXPECT_EQ(library.asked[0], std::pair(Opcode::Rsqrt, Elem::F32));
  std::vector<Opcode> codes;
  for (const ir::OpId op : fn.walk()) {
    codes.push_back(fn.opcode(op));
  }
  EXPECT_EQ(codes, (std::vector{Opcode::FpExt, Opcode::Mul, Opcode::FpTrunc, Opcode::Store,
                                Opcode::Return}));
}

TEST(ExpandFunctions, WhatTheTargetHasStays) {
  Fake library;
  const std::vector<ir::NativeFunction> native = {{Opcode::Rsqrt, Elem::F32}};
  for (const char *type : {"f32", "f16", "bf16"}) {
    const ir::Function fn = expanded(kernel("rsqrt", type), &library, native);
    EXPECT_EQ(fn.opcode(fn.first(fn.body())), Opcode::Rsqrt);
  }
  EXPECT_TRUE(library.asked.empty());
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
