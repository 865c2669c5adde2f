// SPDX-License-Identifier: Apache-2.0
// The walker: IR of small kernels, places of errors and ops.
#include "ir/ops.h"
#include "syntax_fixture.h"

#include "frontend/semantics/semantics.h"

namespace libtile::frontend {
namespace {

std::string ir(const std::string &text, const std::vector<std::string> &arguments) {
  return ir::print(compile(text, "k", arguments));
}

TEST(Walker, VectorAdd) {
  EXPECT_EQ(
      ir("import libtile, libtile.language as tl\n"
         "@libtile.jit\n"
         "def k(x, y, out, n, BLOCK: tl.constexpr):\n"
         "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
         "    m = i < n\n"
         "    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)\n",
         {"*fp32", "*fp32", "*fp32", "i32", "=1000"}),
      R"(func @k stage=tile warps=4 stages=3 (%x: ptr<f32>, %y: ptr<f32>, %out: ptr<f32>, %n: i32) {
  %0 = program_id {axis=0} : i32
  %1 = constant {value=1000} : i32
  %2 = mul %0, %1 : i32
  %3 = arange {start=0} : tile<1000xi32>
  %4 = splat %2 : tile<1000xi32>
  %5 = add %4, %3 : tile<1000xi32>
  %6 = splat %n : tile<1000xi32>
  %7 = cmp %5, %6 {predicate=slt} : tile<1000xi1>
  %8 = splat %out : tile<1000xptr<f32>>
  %9 = ptr_add %8, %5 : tile<1000xptr<f32>>
  %10 = splat %x : tile<1000xptr<f32>>
  %11 = ptr_add %10, %5 : tile<1000xptr<f32>>
  %12 = load %11, %7 : tile<1000xf32>
  %13 = splat %y : tile<1000xptr<f32>>
  %14 = ptr_add %13, %5 : tile<1000xptr<f32>>
  %15 = load %14, %7 : tile<1000xf32>
  %16 = add %12, %15 : tile<1000xf32>
  store %9, %16, %7
  return
}
)");
}

// `continue` needs no flag: what follows goes into the other side; `break` is the loop's stop.
TEST(Walker, BreakAndContinue) {
  EXPECT_EQ(ir("def k(p, n):\n"
               "    acc = 0.0\n"
               "    for i in range(n):\n"
               "        v = tl.load(p + i)\n"
               "        if v < 0: continue\n"
               "        if v > 100:\n"
               "            break\n"
               "        acc += v\n"
               "    tl.store(p, acc)\n",
               {"*fp32", "i32"}),
            R"(func @k stage=tile warps=4 stages=3 (%p: ptr<f32>, %n: i32) {
  %0 = constant {value=0.0} : f32
  %1 = constant {value=0} : i32
  %2 = constant {value=1} : i32
  %3 = for %1, %n, %2, %0 {stop=true} : f32 {
  ^(%4: i32, %5: f32):
    %6 = ptr_add %p, %4 : ptr<f32>
    %7 = load %6 : f32
    %8 = constant {value=0.0} : f32
    %9 = cmp %7, %8 {predicate=olt} : i1
    %10, %11 = if %9 : f32, i1 {
      %12 = constant {value=0} : i1
      yield %5, %12
    } {
      %13 = constant {value=100.0} : f32
      %14 = cmp %7, %13 {predicate=ogt} : i1
      %15 = if %14 : f32 {
        yield %5
      } {
        %16 = add %5, %7 : f32
        yield %16
      }
      yield %15, %14
    }
    yield %11, %10
  }
  store %p, %3
  return
}
)");
}

// A value returned from inside a loop is carried out of it.
TEST(Walker, ReturnInALoop) {
  EXPECT_EQ(ir("def find(p, n):\n"
               "    for i in range(n):\n"
               "        v = tl.load(p + i)\n"
               "        if v > 3.0:\n"
               "            return v\n"
               "    return 0.0\n"
               "def k(p, n):\n"
               "    tl.store(p, find(p, n))\n",
               {"*fp32", "i32"}),
            R"(func @k stage=tile warps=4 stages=3 (%p: ptr<f32>, %n: i32) {
  %0 = constant {value=0} : i32
  %1 = constant {value=1} : i32
  %2 = constant {value=0} : i1
  %3 = constant {value=0.0} : f32
  %4, %5 = for %0, %n, %1, %2, %3 {stop=true} : i1, f32 {
  ^(%6: i32, %7: i1, %8: f32):
    %9 = ptr_add %p, %6 : ptr<f32>
    %10 = load %9 : f32
    %11 = constant {value=3.0} : f32
    %12 = cmp %10, %11 {predicate=ogt} : i1
    yield %12, %12, %10
  }
  %13 = if %4 : f32 {
    yield %5
  } {
    %14 = constant {value=0.0} : f32
    yield %14
  }
  store %p, %13
  return
}
)");
}

// What the body does not change is not carried; num_stages and unsigned bounds are attributes.
TEST(Walker, UnchangedNamesAreNotCarried) {
  EXPECT_EQ(ir("def k(p, n, C: tl.constexpr):\n"
               "    a = n\n"
               "    b = n\n"
               "    for i in tl.range(0, n, num_stages=4):\n"
               "        if C: a = a + 1\n"
               "        b = a\n"
               "    tl.store(p, a + b)\n",
               {"*i32", "u32", "=0"}),
            R"(func @k stage=tile warps=4 stages=3 (%p: ptr<i32>, %n: i32) {
  %0 = constant {value=0} : i32
  %1 = constant {value=1} : i32
  for %0, %n, %1 {num_stages=4, is_unsigned=true} {
  ^(%2: i32):
    yield
  }
  %3 = add %n, %n : i32
  store %p, %3
  return
}
)");
}

TEST(Walker, WhileCarriesTuples) {
  EXPECT_EQ(ir("def k(p, n):\n"
               "    t = (0, (n, None))\n"
               "    while t[0] < n:\n"
               "        t = (t[0] + 1, (t[1][0] * 2, None))\n"
               "    tl.store(p, t[1][0])\n",
               {"*i32", "i32"}),
            R"(func @k stage=tile warps=4 stages=3 (%p: ptr<i32>, %n: i32) {
  %0 = constant {value=0} : i32
  %1, %2 = while %0, %n : i32, i32 {
  ^(%3: i32, %4: i32):
    %5 = cmp %3, %n {predicate=slt} : i1
    yield %5
  } {
  ^(%6: i32, %7: i32):
    %8 = constant {value=1} : i32
    %9 = add %6, %8 : i32
    %10 = constant {value=2} : i32
    %11 = mul %7, %10 : i32
    yield %9, %11
  }
  store %p, %2
  return
}
)");
}

TEST(Walker, UserCombineFunctionsAreInlinedIntoTheRegion) {
  EXPECT_EQ(ir("def larger(a, b):\n"
               "    if a > b:\n"
               "        return a\n"
               "    return b\n"
               "def k(p):\n"
               "    x = tl.load(p + tl.arange(0, 7))\n"
               "    tl.store(p, tl.reduce(x, 0, larger))\n",
               {"*fp32"}),
            R"(func @k stage=tile warps=4 stages=3 (%p: ptr<f32>) {
  %0 = arange {start=0} : tile<7xi32>
  %1 = splat %p : tile<7xptr<f32>>
  %2 = ptr_add %1, %0 : tile<7xptr<f32>>
  %3 = load %2 : tile<7xf32>
  %4 = reduce %3 {axis=0} : f32 {
  ^(%5: f32, %6: f32):
    %7 = cmp %5, %6 {predicate=ogt} : i1
    %8 = if %7 : f32 {
      yield %5
    } {
      yield %6
    }
    yield %8
  }
  store %p, %4
  return
}
)");
}

TEST(Walker, ParametersAndOptions) {
  TableHost host;
  const auto fn =
      parseFunction(sourceFile("def k(p: tl.const, q, n: tl.int64, m=3, C: tl.constexpr = 2 * 4):\n"
                               "    tl.static_assert(m == 3 and C == 8)\n"
                               "    tl.store(q, n)\n"),
                    "k");
  Signature signature = signatureOf({"*fp32", "*i64", "i32", "=", "="});
  signature.arguments[0].divisible = 16;
  signature.numWarps = 8;
  signature.numStages = 2;
  const ir::Function made = specialise(*fn, signature, host);
  EXPECT_EQ(made.numWarps, 8);
  EXPECT_EQ(made.numStages, 2);
  ASSERT_EQ(made.params.size(), 3U);
  EXPECT_TRUE(made.params[0].readOnly);
  EXPECT_EQ(made.params[0].divisible, 16);
  EXPECT_FALSE(made.params[1].readOnly);
  EXPECT_EQ(made.type(made.arg(made.body(), 2)), ir::Type::scalar(ir::Elem::I64));
  EXPECT_EQ(outcome("def k(p, C: tl.constexpr): pass", "k", {"*fp32", "i32"}).message,
            "`C` is constexpr and needs a constant");
  EXPECT_EQ(outcome("def k(p, C: tl.constexpr): pass", "k", {"*fp32", "="}).message,
            "`k` needs a value for `C`");
  EXPECT_EQ(outcome("def k(p): pass", "k", {}).message,
            "`k` has 1 parameters and is given 0 arguments");
}

TEST(Walker, ErrorsPointThroughCalls) {
  const Outcome got = outcome("def inner(a):\n"
                              "    return a + nope\n"
                              "def outer(a):\n"
                              "    return inner(a) * 2\n"
                              "def k(p, n):\n"
                              "    tl.store(p, outer(n))\n",
                              "k", {"*fp32", "i32"});
  EXPECT_EQ(got.what, "kernel.py:2:16: error: `nope` is not defined\n"
                      "  2 |     return a + nope\n"
                      "    |                ^~~~\n"
                      "called from kernel.py:4:12\n"
                      "  4 |     return inner(a) * 2\n"
                      "    |            ^~~~~~~~\n"
                      "called from kernel.py:6:17\n"
                      "  6 |     tl.store(p, outer(n))\n"
                      "    |                 ^~~~~~~~");
}

TEST(Walker, ErrorsPointAtTheExpression) {
  struct Case {
    const char *body;
    uint32_t line, column, end;
  };
  const Case cases[] = {
      {"x = 1 + (tl.arange(0, 4) + tl.arange(0, 8))", 2, 11, 46},
      {"tl.store(p, tl.arange(0, n))", 2, 28, 29},
      {"tl.store(p, tl.arange(0, end=n))", 2, 28, 33},
      {"x = tl.load(p, maks=n > 0)", 2, 18, 28},
      {"x = tl.load(p, n > 0, 0.0, 1)", 2, 30, 31},
      {"x = tl.load(p, other=1.0)", 2, 18, 27},
      {"tl.store(p, 1.0, n)", 2, 20, 21},
      {"x = tl.zeros((4, 4, n), tl.int32)", 2, 16, 25},
      {"x = tl.zeros((4,), 3)", 2, 22, 23},
      {"x = tl.zeros((4,), tl.int32).reshape(2, n)", 2, 43, 44},
      {"x = tl.sum(tl.zeros((4,), tl.int32), axis=2)", 2, 40, 46},
      {"x = tl.dot(p, tl.zeros((4, 4), tl.float32))", 2, 7, 46},
      {"for i in range(0, p, 2):\n    pass", 2, 21, 22},
      {"for i in tl.static_range(n):\n    pass", 2, 28, 29},
      {"if n > 0:\n    a = 1\n  else:\n    a = 1.5\n  tl.store(p, a)", 5, 5, 6},
      {"for i in range(n):\n    n = 1.5", 3, 5, 6},
      {"x = n if n > 0 else p", 2, 23, 24},
      {"p.nothing()", 2, 3, 12},
      {"[1, 2][5]", 2, 3, 12},
      {"x, y = n", 2, 3, 7},
      {"return lambda: 1", 2, 10, 19},
  };
  for (const Case &one : cases) {
    SCOPED_TRACE(one.body);
    const Outcome got =
        outcome(std::string("def k(p, n):\n  ") + one.body + "\n", "k", {"*fp32", "i32"});
    EXPECT_EQ(got.kind, "error");
    EXPECT_EQ(got.line, one.line) << got.what;
    EXPECT_EQ(got.column, one.column) << got.what;
    EXPECT_EQ(got.endColumn, one.end) << got.what;
  }
}

TEST(Walker, OpsKnowTheirPlace) {
  const ir::Function made = compile("def twice(a):\n"
                                    "    return a * 2\n"
                                    "def k(p, n):\n"
                                    "    tl.store(p, twice(n))\n",
                                    "k", {"*i32", "i32"});
  int found = 0;
  for (const ir::OpId op : made.walk()) {
    const ir::Location &at = made.locationOf(op);
    EXPECT_TRUE(at.known());
    if (made.opcode(op) == ir::Opcode::Mul) {
      EXPECT_EQ(at.line, 2U);
      EXPECT_EQ(at.column, 12U);
      ASSERT_NE(at.caller, nullptr);
      EXPECT_EQ(at.caller->line, 4U);
      ++found;
    } else if (made.opcode(op) == ir::Opcode::Store) {
      EXPECT_EQ(at.line, 4U);
      EXPECT_EQ(at.caller, nullptr);
      ++found;
    }
  }
  EXPECT_EQ(found, 2);
}

// A loop that is unrolled and left at run time grows by one step's ops a step, and no deeper.
TEST(Walker, UnrolledLoopThatStops) {
  for (const std::string &stop : std::vector<std::string> {"if n > i: break", "if n > i: return", "if n > i: continue"}) {
    const auto sizes = [&](int steps) {
      const std::string text = "def k(p, n):\n"
                               "    a = 0\n"
                               "    for i in tl.static_range(" +
                               std::to_string(steps) + "):\n        a += n * i\n        " + stop +
                               "\n        a = a * 3\n    tl.store(p, a)\n";
      const ir::Function made = compile(text, "k", {"*i32", "i32"});
      size_t ops = 0, deepest = 0;
      for (ir::OpId op : made.walk()) {
        ++ops;
        size_t depth = 0;
        for (op = made.parentOp(made.block(op)); op.valid(); op = made.parentOp(made.block(op))) {
          ++depth;
        }
        deepest = std::max(deepest, depth);
      }
      EXPECT_LE(deepest, 3U) << stop;
      return ops;
    };
    const size_t few = sizes(100), many = sizes(1000);
    EXPECT_LT(many, 10 * few + 100) << stop;
  }
}

// Work that never ends is cut off, with its place.
TEST(Walker, Budgets) {
  const auto run = [](const std::string &text) {
    const Outcome got = outcome("def twice(n, D: tl.constexpr):\n"
                                "    if D == 0: return n\n"
                                "    return twice(n, D - 1) + twice(n, D - 1)\n"
                                "def forever(n): return forever(n)\n"
                                "def k(p, n):\n" +
                                    text,
                                "k", {"*i32", "i32"});
    EXPECT_EQ(got.kind, "error") << text;
    EXPECT_GT(got.line, 0U);
    return got.message;
  };
  EXPECT_EQ(run("  for i in tl.static_range(1000000000000): pass\n"),
            "more than 100000 iterations to unroll");
  EXPECT_EQ(run("  for i in tl.static_range(90000):\n    n = n + n + n + n + n + n + n\n"),
            "the kernel has more than 500000 operations after unrolling and inlining");
  EXPECT_EQ(run("  tl.store(p, forever(n))\n"),
            "calls nested more than 100 deep; a recursion must end on a constant");
  EXPECT_EQ(run("  tl.store(p, twice(n, 90))\n"),
            "the kernel takes more than 2000000 steps to unroll and inline");
  EXPECT_EQ(run("  x: tl.constexpr = twice(1, 90)\n"),
            "the kernel takes more than 2000000 steps to unroll and inline");
  std::string returns;
  for (int i = 0; i < 200; ++i) {
    returns += "  if n > " + std::to_string(i) + ": return\n";
  }
  EXPECT_EQ(run(returns), "`if`s and loops nested more than 100 deep after inlining");
  run("  s: tl.constexpr = 'a'\n  for i in tl.static_range(90):\n    s = s + s\n");
  run("  t = (n,)\n  for i in tl.static_range(90):\n    t = t + t\n");
  run("  t = (n,)\n  for i in tl.static_range(90000):\n    t = (t, 1)\n");
  run("  t = (n,) * 1000000000000\n");
  run("  s: tl.constexpr = 'a' * 1000000000000\n");
  run("  i: tl.constexpr = 1 << 1000000000000\n");
  run("  i: tl.constexpr = 3 ** 1000000000000\n");
}

} // namespace
} // namespace libtile::frontend
