// SPDX-License-Identifier: Apache-2.0
// Every elementwise op on every type that the verifier takes, as PTX: LLVM selects instructions for all
// of them. Also what no source makes, such as an ordered comparison of i1, which passes may.
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "runtime/cache/function_library.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

using namespace libtile;

namespace {

const std::vector<std::string> kElements = {"i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64"};

// result[i] = op(x[i], y[i], z[i]).
std::string kernel(const std::string &op, unsigned operands, const std::string &attributes,
                   const std::string &from, const std::string &to, bool select) {
  std::string text = "func @f stage=tile (%x: ptr<" + from + ">, %y: ptr<" + from + ">, %z: ptr<" + from +
                     ">, %out: ptr<" + to + ">, %c: ptr<i1>) {\n  %i = arange {start=0} : tile<64xi32>\n";
  const auto load = [&](const std::string &name, const std::string &elem) {
    const std::string pointers = " : tile<64xptr<" + elem + ">>\n";
    text += "  %s" + name + " = splat %" + name + pointers + "  %p" + name + " = ptr_add %s" + name + ", %i" +
            pointers;
    if (name != "out") {
      text += "  %v" + name + " = load %p" + name + " : tile<64x" + elem + ">\n";
    }
  };
  std::string list = select ? "%vc, %vx, %vy" : "%vx";
  for (const char *name : {"x", "y", "z"}) {
    load(name, from);
  }
  load("c", "i1");
  load("out", to);
  for (unsigned i = 1; i < operands && !select; ++i) {
    list += i == 1 ? ", %vy" : ", %vz";
  }
  return text + "  %r = " + op + " " + list + attributes + " : tile<64x" + to + ">\n  store %pout, %r\n  return\n}\n";
}

// 1: compiled. 0: the op does not take the type.
int compiles(const std::string &text) {
  std::optional<ir::Function> read;
  try {
    read = ir::parse(text);
    ir::verifyOrThrow(*read, "the test");
  } catch (const ir::Error &) {
    return 0;
  }
  ir::Function &fn = *read;
  const ir::Target &target = codegen::findTarget("sm_80");
  try {
    passes::runPipeline(fn, {target, 0, 0, passes::Reliance::Numbers, &runtime::functionLibrary()});
    return codegen::generate(fn, target).assembly.empty() ? 0 : 1;
  } catch (const std::exception &error) {
    ADD_FAILURE() << text << error.what();
    return 0;
  }
}

TEST(EveryOp, ArithmeticCompiles) {
  int seen = 0;
  for (const std::string &elem : kElements) {
    const auto row = [&](const char *mnemonic, std::string_view operands) {
      const auto count = static_cast<unsigned>(std::count(operands.begin(), operands.end(), ' ')) + 1;
      seen += compiles(kernel(mnemonic, count, "", elem, elem, false));
    };
#define ARITHMETIC(Name, mnemonic, operands, ...) row(mnemonic, operands);
#include "ir/ops.def"
    seen += compiles(kernel("select", 3, "", elem, elem, true));
  }
  EXPECT_GT(seen, 150);
}

TEST(EveryOp, CastsCompile) {
  int seen = 0;
  for (const std::string &from : kElements) {
    for (const std::string &to : kElements) {
#define CAST(Name, mnemonic, ...) seen += compiles(kernel(mnemonic, 1, "", from, to, false));
#include "ir/ops.def"
    }
  }
  EXPECT_GT(seen, 100);
}

TEST(EveryOp, ComparisonsCompile) {
  int seen = 0;
  for (const std::string &elem : kElements) {
    for (const char *predicate : {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge", "oeq",
                                  "one", "olt", "ole", "ogt", "oge", "une"}) {
      seen += compiles(kernel("cmp", 2, std::string(" {predicate=") + predicate + "}", elem, "i1", false));
    }
  }
  EXPECT_EQ(seen, 5 * 10 + 4 * 7); // integers, floats
}

// As a branch's condition LLVM leaves i1 as it is.
TEST(EveryOp, ConditionsCompile) {
  int seen = 0;
  for (const char *predicate : {"eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"}) {
    seen += compiles(std::string("func @f stage=tile (%p: ptr<i32>, %x: f32, %n: i32) {\n"
                                 "  %a = cmp %x, %x {predicate=ole} : i1\n"
                                 "  %v = load %p : i32\n"
                                 "  %b = cmp %n, %v {predicate=slt} : i1\n"
                                 "  %c = cmp %b, %a {predicate=") + predicate + "} : i1\n"
                     "  if %c {\n    store %p, %n\n    yield\n  } {\n    yield\n  }\n  return\n}\n");
  }
  EXPECT_EQ(seen, 10);
}

} // namespace
