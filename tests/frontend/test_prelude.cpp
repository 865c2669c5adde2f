// SPDX-License-Identifier: Apache-2.0
// The prelude: what language.def and ops.def say of it is there, its names, its errors, and cdiv. That
// elementary functions are right is tested by running them (tests/cpu/test_math.cpp).
#include "ir/ops.h"
#include "syntax_fixture.h"

#include "frontend/syntax/ast.h"
#include "frontend/prelude/prelude.h"
#include "frontend/semantics/semantics.h"

namespace libtile::frontend {
namespace {

constexpr DType kFloat32{ir::Elem::F32, true};
constexpr DType kFloat64{ir::Elem::F64, true};

std::string in(const std::string &body, const std::vector<std::string> &arguments) {
  const std::string text = ir::print(compile("def k(p, n):\n" + body, "k", arguments));
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.find("  return") - begin);
}

// cdiv is a function of the prelude, which constants pass through.
TEST(Prelude, Cdiv) {
  EXPECT_EQ(in("    x: tl.constexpr = tl.cdiv(10, 4)\n"
               "    tl.static_assert(x == 3)\n"
               "    tl.static_assert(tl.cdiv(x=8, div=4) == 2)\n",
               {"*i32", "i32"}),
            "");
  const std::string want = "  %0 = constant {value=3} : i32\n"
                           "  %1 = add %n, %0 : i32\n"
                           "  %2 = constant {value=4} : i32\n"
                           "  %3 = sdiv %1, %2 : i32\n"
                           "  store %p, %3\n";
  EXPECT_EQ(in("    tl.store(p, tl.cdiv(n, 4))\n", {"*i32", "i32"}), want);
  EXPECT_EQ(in("    tl.store(p, n.cdiv(4))\n", {"*i32", "i32"}), want);
}

TEST(Prelude, HasEveryFunctionOfTheLanguage) {
  unsigned seen = 0;
  for (const Operation &row : Semantics::operations()) {
    if (row.fn != nullptr || row.kind == Operation::Construct) {
      continue;
    }
    const auto function = preludeFunction(row.name);
    ASSERT_NE(function, nullptr) << row.name;
    ASSERT_EQ(function->params.size(), row.params.size()) << row.name;
    for (size_t i = 0; i < row.params.size(); ++i) {
      EXPECT_EQ(function->params[i].name, row.params[i].name) << row.name;
    }
    ++seen;
  }
  EXPECT_GE(seen, 1U);
}

// Each elementary function has a body for both types, of ops that stand for every shape.
TEST(Prelude, HasEveryFunctionOfTheIr) {
  unsigned seen = 0;
  for (unsigned number = 0; number < ir::kNumOpcodes; ++number) {
    const auto opcode = static_cast<ir::Opcode>(number);
    const ir::OpInfo &row = ir::info(opcode);
    // Casts differ in their types: their bodies are tested by running them.
    if (!ir::isFunction(opcode) || row.rule == ir::TypeRule::Cast) {
      continue;
    }
    const auto function = preludeFunction(row.mnemonic);
    ASSERT_NE(function, nullptr) << row.mnemonic;
    for (const DType type : {kFloat32, kFloat64}) {
      const ir::Function body =
          scalarBody(*function, std::vector<DType>(row.operands.size(), type));
      const ir::OpId last = body.last(body.body());
      ASSERT_EQ(body.opcode(last), ir::Opcode::Yield);
      EXPECT_EQ(body.type(body.operand(last, 0)), type.irType());
      for (const ir::OpId op : body.walk()) {
        EXPECT_TRUE(op == last || body.opcode(op) == ir::Opcode::Constant ||
                    (ir::isElementwise(body.opcode(op)) && body.opcode(op) != opcode))
            << row.mnemonic << "\n"
            << body.str();
        EXPECT_TRUE(body.locationOf(op).str().starts_with("prelude/")) << body.locationOf(op).str();
      }
    }
    ++seen;
  }
  EXPECT_GE(seen, 6U);
}

// A mistake shows the line of the prelude and the call that led there.
TEST(Prelude, ErrorsHaveBothPlaces) {
  const Outcome wrong = outcome("def k(p, n):\n    tl.store(n, tl.cdiv(p, 4))\n", "k", {"*i32", "i32"});
  EXPECT_EQ(wrong.kind, "error");
  EXPECT_NE(wrong.what.find("prelude/standard.py:"), std::string::npos) << wrong.what;
  EXPECT_NE(wrong.what.find("kernel.py:2:17"), std::string::npos) << wrong.what;
  const Outcome few = outcome("def k(p, n):\n    tl.store(p, tl.cdiv(n))\n", "k", {"*i32", "i32"});
  EXPECT_EQ(few.message, "cdiv() needs a value for parameter `div`");
  EXPECT_EQ(few.line, 2U);
}

// What a body returns must be its op's result.
TEST(Prelude, BodiesAreChecked) {
  const auto text = sourceFile("import libtile.language as tl\n"
                               "def two(x): return x + 1, x\n"
                               "def nothing(x): pass\n"
                               "def truth(x): return x < 1\n");
  EXPECT_EQ(outcomeOf([&] { (void)scalarBody(*parseFunction(text, "two"), {{kFloat32}}); }).message,
            "`two` returns tuple of 2 and not a scalar fp32");
  EXPECT_EQ(outcomeOf([&] { (void)scalarBody(*parseFunction(text, "nothing"), {{kFloat32}}); }).message,
            "`nothing` returns None and not a scalar fp32");
  EXPECT_EQ(outcomeOf([&] { (void)scalarBody(*parseFunction(text, "truth"), {{kFloat64}}); }).message,
            "`truth` returns tensor of int1 and not a scalar fp64");
  EXPECT_EQ(outcomeOf([&] {
              (void)scalarBody(*parseFunction(text, "truth"), {{kFloat64, kFloat64}});
            }).message,
            "`truth` needs a parameter for each operand of its op");
}

// Kernels do not see the prelude's own operations and pieces.
TEST(Prelude, KeepsItsNames) {
  EXPECT_EQ(outcome("def k(p, n):\n    tl.store(p, tl.scalb(1.0, 2.0))\n", "k", {"*fp32", "i32"}).message,
            "the language has no name `scalb`");
  EXPECT_EQ(outcome("def k(p, n):\n    tl.store(p, polynomial(1.0, (2.0,)))\n", "k", {"*fp32", "i32"})
                .message,
            "`polynomial` is not defined");
}

// Nor does the prelude see the program's: a Host that answers for every name changes nothing.
class Confusing : public TableHost {
public:
  Value global(const FunctionSource &fn, const std::string &name) override {
    return name == "tl" && !fn.ast->isPrelude() ? TableHost::global(fn, name) : Value::integer(7);
  }
};

TEST(Prelude, AsksNoHost) {
  Confusing host;
  std::vector<HostAnswer> answers;
  const auto fn = parseFunction(sourceFile("def k(p, n):\n    tl.store(p, tl.cdiv(n, 4))\n"), "k");
  const ir::Function made = specialise(*fn, signatureOf({"*i32", "i32"}), host, &answers);
  ir::verifyOrThrow(made, "specialise");
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].name, "tl");
}

} // namespace
} // namespace libtile::frontend
