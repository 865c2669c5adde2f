// SPDX-License-Identifier: Apache-2.0
// The Host: its answers, what is recorded of them, which objects are the language; aggregates of the
// host's classes.
#include "syntax_fixture.h"

#include "frontend/semantics/semantics.h"

#include <array>

namespace libtile::frontend {
namespace {

struct Thing : HostObject {
  explicit Thing(std::string name) : name(std::move(name)) {}
  [[nodiscard]] std::string describe() const override { return "thing " + name; }
  std::string name;
};

// Globals of a Python-like host: an object with an attribute, a function that uses the semantics.
class TestHost : public TableHost {
public:
  std::shared_ptr<HostObject> owner = std::make_shared<Thing>("owner");
  std::shared_ptr<HostObject> config = std::make_shared<Thing>("config");
  std::shared_ptr<HostObject> add = std::make_shared<Thing>("add");
  int scale = 3;
  int asked = 0;

  Value global(const FunctionSource &fn, const std::string &name) override {
    EXPECT_EQ(fn.host, owner);
    ++asked;
    if (name == "PLAIN") {
      throw ir::UserError("cannot use the plain global PLAIN");
    }
    return name == "SCALE"    ? Value::integer(scale)
           : name == "config" ? Value(config)
           : name == "add"    ? Value(add)
                              : TableHost::global(fn, name);
  }
  Value defaultOf(const std::shared_ptr<HostObject> &callee, const std::string &name) override {
    EXPECT_EQ(callee, owner);
    ++asked;
    return name == "d" ? Value::integer(5) : Value();
  }
  Value attribute(const std::shared_ptr<HostObject> &object, const std::string &name) override {
    ++asked;
    return object == config && name == "block" ? Value::integer(16) : Value();
  }
  std::vector<std::string> names(const std::shared_ptr<HostObject> &object) override {
    return object == owner ? std::vector<std::string>{"SCALE", "config", "add"}
                           : std::vector<std::string>{"block"};
  }
  Value call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
             Semantics &semantics) override {
    if (callee != add || arguments.positional.size() != 2) {
      throw ir::UserError("cannot call this");
    }
    return semantics.binary(BinaryOp::Add, arguments.positional[0], arguments.positional[1]);
  }
};

// "<kind> <name>" of each.
std::vector<std::string> questionsOf(const std::vector<HostAnswer> &answers) {
  constexpr std::array kKinds = {"global", "default", "attribute"};
  std::vector<std::string> questions;
  for (const HostAnswer &answer : answers) {
    questions.push_back(std::string(kKinds[answer.kind]) + " " + answer.name);
  }
  return questions;
}

TEST(Host, AnswersAreUsedAndRecorded) {
  TestHost host;
  std::vector<HostAnswer> answers;
  const auto fn = parseFunction(sourceFile("def k(p, n, d=compute()):\n"
                                           "    for i in tl.static_range(3):\n"
                                           "        n = add(n, SCALE * config.block)\n"
                                           "    tl.static_assert(d == 5)\n"
                                           "    tl.store(p, n)\n"),
                                "k", host.owner);
  const ir::Function made = specialise(*fn, signatureOf({"*i32", "i32", "="}), host, &answers);
  EXPECT_EQ(questionsOf(answers),
            (std::vector<std::string>{"default d", "global tl", "global add", "global SCALE",
                                      "global config", "attribute block"}));
  EXPECT_EQ(answers[3].function, fn);
  EXPECT_EQ(answers[3].value.describe(), "constexpr 3");
  EXPECT_EQ(answers[5].object, host.config);
  for (const HostAnswer &answer : answers) {
    EXPECT_TRUE(stillHolds(host, answer)) << answer.name;
  }
  host.scale = 4;
  EXPECT_FALSE(stillHolds(host, answers[3]));
}

// What an unrolled loop, or a function that it calls, reads each time is asked for once.
TEST(Host, IsAskedOnce) {
  TestHost host;
  std::vector<HostAnswer> answers;
  const auto fn = parseFunction(sourceFile("def f(n, d=compute()):\n"
                                           "    return n + d * config.block + hasattr(config, 'none')\n"
                                           "def k(p):\n"
                                           "    s: tl.constexpr = 0\n"
                                           "    for i in tl.static_range(10000):\n"
                                           "        s = f(s) + config.block - SCALE\n"
                                           "    tl.store(p, s)\n"),
                                "k", host.owner);
  const ir::Function made = specialise(*fn, signatureOf({"*i32"}), host, &answers);
  // f, config, SCALE and tl of k; config, hasattr and d of f; block and none.
  EXPECT_EQ(host.asked, 9);
  EXPECT_EQ(answers.size(), 9U);
}

// That there was no such name is an answer too.
TEST(Host, MissingNamesAreRecorded) {
  TestHost host;
  std::vector<HostAnswer> answers;
  const auto fn =
      parseFunction(sourceFile("def k(p):\n    tl.store(p, len((1, 2)))\n"), "k", host.owner);
  const ir::Function made = specialise(*fn, signatureOf({"*i32"}), host, &answers);
  EXPECT_EQ(questionsOf(answers), (std::vector<std::string>{"global tl", "global len"}));
  EXPECT_FALSE(answers[1].value.bound());
}

TEST(Host, ErrorsGetThePlace) {
  TestHost host;
  const auto message = [&](const std::string &body) {
    const auto fn = parseFunction(sourceFile("def k(p, n):\n  " + body + "\n"), "k", host.owner);
    const Outcome got =
        outcomeOf([&] { (void)specialise(*fn, signatureOf({"*i32", "i32"}), host); });
    EXPECT_EQ(got.line, 2U) << got.what;
    return got.message + " at " + std::to_string(got.column);
  };
  EXPECT_EQ(message("n = PLAIN"), "cannot use the plain global PLAIN at 7");
  EXPECT_EQ(message("n = 1 + config(n)"), "cannot call this at 11");
  EXPECT_EQ(message("n = 1 + config.size"), "thing config has no attribute `size` at 11");
  EXPECT_EQ(message("n = config.blok"),
            "thing config has no attribute `blok`; did you mean `block`? at 7");
  EXPECT_EQ(message("n = n + SCAEL"), "`SCAEL` is not defined; did you mean `SCALE`? at 11");
  EXPECT_EQ(message("n = n + Scale"), "`Scale` is not defined; did you mean `SCALE`? at 11");
}

// ---- aggregates of the host's classes

// A class Point of x and y = 7, with a method, a function of the host and a constant.
class ClassHost : public TestHost {
public:
  std::shared_ptr<HostObject> point = std::make_shared<Thing>("Point");
  bool isSequence = false;
  std::shared_ptr<const FunctionSource> method = parseFunction(
      sourceFile("def total(self, factor):\n    return (self.x + self.y) * factor\n"), "total");

  Value global(const FunctionSource &fn, const std::string &name) override {
    if (name != "Point") {
      return TableHost::global(fn, name);
    }
    return Value(std::make_shared<const Class>(Class{"Point", {"x", "y"}, isSequence, point}));
  }
  Value defaultOf(const std::shared_ptr<HostObject> &callee, const std::string &name) override {
    return callee == point && name == "y" ? Value::integer(7) : Value();
  }
  Value attribute(const std::shared_ptr<HostObject> &object, const std::string &name) override {
    return object != point     ? Value()
           : name == "total"   ? Value(method)
           : name == "largest" ? Value(Semantics::find("maximum"))
           : name == "LIMIT"   ? Value::integer(100)
                               : Value();
  }
  std::vector<std::string> names(const std::shared_ptr<HostObject> &object) override {
    using Names = std::vector<std::string>;
    return object == point ? Names{"total", "LIMIT"} : Names();
  }
};

Outcome outcomeWith(ClassHost &host, const std::string &body) {
  const auto fn = parseFunction(sourceFile("def k(p, n):\n" + body), "k", host.owner);
  return outcomeOf([&] {
    const ir::Function made = specialise(*fn, signatureOf({"*i32", "i32"}), host);
    ir::verifyOrThrow(made, "specialise");
  });
}

TEST(Aggregates, FieldsMethodsAndConstants) {
  ClassHost host;
  for (const bool isSequence : {false, true}) {
    host.isSequence = isSequence;
    EXPECT_EQ(outcomeWith(host, "    a: tl.constexpr = Point(3)\n"
                                "    tl.static_assert(a.x == 3 and a.y == 7 and a.LIMIT == 100)\n"
                                "    tl.static_assert(a.total(2) == 20)\n"
                                "    tl.static_assert(a.total(factor=3) == 30)\n"
                                "    tl.static_assert(Point.LIMIT == 100)\n"
                                "    total: tl.constexpr = a.total\n"
                                "    tl.static_assert(total(1) == 10 and a.total is total)\n"
                                "    tl.static_assert(isinstance(a, Point) and not isinstance(3, Point))\n"
                                "    tl.static_assert(Point is Point and a is not Point(4))\n"
                                "    tl.static_assert(hasattr(a, 'total') and not hasattr(a, 'z'))\n"
                                "    tl.static_assert(isinstance((1, 2), tl.tuple))\n")
                  .what,
              "");
  }
}

// Branches and loops carry them field by field.
TEST(Aggregates, AreCarried) {
  ClassHost host;
  for (const bool isSequence : {false, true}) {
    host.isSequence = isSequence;
    const auto fn = parseFunction(sourceFile("def k(p, n):\n"
                                             "    a = Point(n, y=n + 1)\n"
                                             "    for i in range(n):\n"
                                             "        if n > 3:\n"
                                             "            a = Point(a.y, a.x)\n"
                                             "    tl.store(p, a.total(a.LIMIT))\n"),
                                  "k", host.owner);
    const ir::Function made = specialise(*fn, signatureOf({"*i32", "i32"}), host);
    ir::verifyOrThrow(made, "specialise");
    EXPECT_NE(ir::print(made).find("%4, %5 = for"), std::string::npos) << ir::print(made);
  }
}

TEST(Aggregates, TuplesAreTuplesAndOthersAreNot) {
  ClassHost host;
  const std::string body = "    a: tl.constexpr = Point(3, 4)\n    x, y = a\n";
  host.isSequence = true;
  const std::string isTuple = "    tl.static_assert(len(a) == 2 and a[1] == 4 and a == (3, 4))\n";
  EXPECT_EQ(outcomeWith(host, body + isTuple).what, "");
  host.isSequence = false;
  EXPECT_EQ(outcomeWith(host, body).message, "cannot take Point apart into 2 names");
  EXPECT_EQ(outcomeWith(host, "    n = len(Point(1, 2))\n").message,
            "`len` needs a tuple, not Point");
  EXPECT_EQ(outcomeWith(host, "    n = Point(1, 2) == Point(1, 2)\n").message,
            "operator == does not take Point and Point");
}

TEST(Aggregates, Mistakes) {
  ClassHost host;
  const auto message = [&](const std::string &expression) {
    const Outcome got = outcomeWith(host, "    a = Point(1)\n    n = " + expression + "\n");
    EXPECT_EQ(got.line, 3U) << got.what;
    return got.message + " at " + std::to_string(got.column);
  };
  EXPECT_EQ(message("Point(1, 2, 3)"), "`Point` has 2 fields, not 3 at 21");
  EXPECT_EQ(message("Point(y=1)"), "`Point` needs a value for `x` at 9");
  EXPECT_EQ(message("Point(1, x=1)"), "`Point` is given two values for `x` at 18");
  EXPECT_EQ(message("Point(1, Y=1)"), "`Point` has no field `Y`; did you mean `y`? at 18");
  EXPECT_EQ(message("a.totl(1)"), "Point has no attribute `totl`; did you mean `total`? at 9");
  EXPECT_EQ(message("a[0]"), "a subscript does not take Point at 9");
}

TEST(Host, TablesGiveConstantsToCppPrograms) {
  TableHost host(
      {{"SCALE", Value::integer(3)}, {"kind", Value(TypeValue{*DType::byName("fp16"), {}})}});
  const auto fn =
      parseFunction(sourceFile("def k(p):\n"
                               "    tl.static_assert(SCALE == 3)\n"
                               "    tl.static_assert(kind == libtile.language.float16)\n"
                               "    x: triton.language.constexpr = triton.cdiv(7, 2)\n"
                               "    tl.static_assert(x == 4)\n"),
                    "k");
  EXPECT_NO_THROW((void)specialise(*fn, signatureOf({"*i32"}), host));
}

// A text says itself under which names it has the language.
TEST(Host, ImportsOfTheTextAreSeen) {
  EXPECT_EQ(outcome("import os, libtile.language as L\n"
                    "from triton.language import (load,\n    store as put)\n"
                    "import triton.language.core as c\n"
                    "from libtile.language.math import exp2 as power\n"
                    "from libtile import language as other\n"
                    "from . import something; import triton\n"
                    "def k(p):\n"
                    "    put(p, load(p) + L.full((), 1, triton.language.int32))\n"
                    "    c.static_assert(other.cdiv(7, 2) == 4 and triton.cdiv is other.cdiv)\n"
                    "    c.static_assert(c.load is load and hasattr(c, 'load'))\n"
                    "    put(p, power(1.0).to(c.int32))\n",
                    "k", {"*i32"})
                .what,
            "");
  EXPECT_EQ(outcome("import os, numpy as np\ndef k(p): np.load(p)\n", "k", {"*i32"}).message,
            "`np` is not defined");
  const Outcome later =
      outcome("from triton.language import slice_type\ndef k(p): slice_type(p)\n", "k", {"*i32"});
  EXPECT_EQ(later.kind + ": " + later.message, "later: tl.slice_type is not there yet");
  EXPECT_EQ(later.column, 11U);
}

// A name is the language's by what it is bound to.
TEST(Host, ANameIsWhatTheProgramBindsItTo) {
  EXPECT_EQ(outcome("import mine as tl\ndef k(p): tl.store(p, 1)\n", "k", {"*i32"}).message,
            "`tl` is not defined");
  TableHost host({{"tl", Value::integer(3)}});
  const auto fn = parseFunction(sourceFile("import libtile.language as lang\n"
                                           "def k(p): lang.store(p, tl)\n"),
                                "k");
  EXPECT_NO_THROW((void)specialise(*fn, signatureOf({"*i32"}), host));
  TableHost nothing;
  std::vector<HostAnswer> answers;
  (void)specialise(*fn, signatureOf({"*i32"}), host, &answers);
  for (const HostAnswer &answer : answers) {
    EXPECT_EQ(stillHolds(nothing, answer), answer.name == "lang") << answer.name;
  }
}

TEST(Host, HasattrIsTrueOfWhatIsThere) {
  EXPECT_EQ(outcome("def k(p):\n"
                    "    tl.static_assert(hasattr(tl, 'load') and not hasattr(tl, 'slice_type'))\n"
                    "    tl.static_assert(not hasattr(tl, 'lod') and not hasattr(p, 'slice_type'))\n"
                    "    tl.static_assert(getattr(tl, 'slice_type', None) is None)\n"
                    "    tl.static_assert(hasattr(tl.PropagateNan, 'ALL'))\n"
                    "    tl.static_assert(not hasattr(tl.PropagateNan, 'load'))\n"
                    "    tl.static_assert(not hasattr(tl, 'ALL'))\n"
                    "    tl.static_assert(getattr(tl, 'math') is tl.math)\n",
                    "k", {"*i32"})
                .what,
            "");
}

} // namespace
} // namespace libtile::frontend
