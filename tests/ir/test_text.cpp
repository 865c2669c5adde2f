// SPDX-License-Identifier: Apache-2.0
// Printer and parser: exact round trips, errors with their place, and no crash on any text.
#include "tests/ir/options.h"
#include "tests/ir/random_function.h"

#include "ir/ops.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

#include <gtest/gtest.h>

namespace libtile::test {
namespace {

using namespace libtile::ir;

TEST(Text, RandomFunctionsRoundTrip) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Function fn = randomFunction(seed);
    ASSERT_TRUE(verify(fn).empty()) << verify(fn)[0].message << "\n" << print(fn);
    for (bool locations : {false, true}) {
      PrintOptions options;
      options.locations = locations;
      const std::string text = print(fn, options);
      const Function again = parse(text);
      ASSERT_EQ(print(again, options), text);
      EXPECT_TRUE(verify(again).empty());
      EXPECT_EQ(again.guards, fn.guards);
      EXPECT_EQ(again.fallbacks, fn.fallbacks);
    }
  }
}

TEST(Text, LocationsAndCallersSurvive) {
  Function fn("f");
  auto file = std::make_shared<SourceFile>(SourceFile{"k.py", "one\ntwo\tthree\n", 5});
  auto caller = std::make_shared<Location>();
  caller->file = file;
  caller->line = 1;
  caller->column = 1;
  caller->endColumn = 4;
  Location location = *caller;
  location.line = 2;
  location.column = 5;
  location.endColumn = 10;
  location.caller = caller;
  Builder builder(fn);
  builder.loc = fn.internLocation(location);
  builder.op(Opcode::Return, {});
  PrintOptions options;
  options.locations = true;
  const Function again = parse(print(fn, options));
  const Location &read = again.locationOf(again.first(again.body()));
  EXPECT_EQ(read.render("x"), location.render("x"));
  EXPECT_EQ(read.render("x"), "k.py:6:5: error: x\n  6 | two\tthree\n    |    \t^~~~~\n"
                              "called from k.py:5:1\n  5 | one\n    | ^~~");
  EXPECT_FALSE(parse(print(fn)).locationOf(again.first(again.body())).known());
}

TEST(Text, FloatsAreExact) {
  for (uint64_t seed = 1; seed < 500; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    const std::string text =
        "func @f () {\n  %0 = constant {value=" + formatFloat(value) + "} : f64\n  return\n}\n";
    const Function fn = parse(text);
    const double read = *fn.constantFloat(fn.result(fn.first(fn.body())));
    EXPECT_EQ(std::memcmp(&read, &value, sizeof value), 0) << text;
  }
}

TEST(Text, LayoutsAreNumberedByUse) {
  const std::string text = "#0 = layout regs=[] lanes=[[1],[2],[4],[8],[16]] warps=[[32],[64]] "
                           "subtile=[128] repeats=[1]\n"
                           "#1 = layout regs=[[1]] lanes=[[2],[4],[8],[16],[32]] warps=[[64],[0]] "
                           "subtile=[128] repeats=[1]\n"
                           "func @f stage=laid-out warps=4 stages=3 () {\n"
                           "  %0 = arange {start=0} : tile<128xi32, #1>\n"
                           "  %1 = convert_layout %0 : tile<128xi32, #0>\n"
                           "  return\n"
                           "}\n";
  const std::string once = print(parse(text));
  EXPECT_EQ(once.find("#0 = layout regs=[[1]]"), 0u) << once;
  EXPECT_EQ(print(parse(once)), once);
  EXPECT_TRUE(verify(parse(once)).empty());
}

// What the text calls values and layouts, it is called again; what is new gets numbers above.
TEST(Text, NamesOfTheTextStay) {
  const std::string text =
      "#tall = layout regs=[] lanes=[[1],[2],[4],[8],[16]] warps=[[32],[64]] subtile=[128] "
      "repeats=[1]\n"
      "func @f stage=laid-out warps=4 stages=3 (%p: ptr<f32>, %7: i32 {name=\"n 1\"})\n"
      "  guard below %7 64\n"
      "  guard disjoint %p %p {\n"
      "  %sum = arange {start=0} : tile<128xi32, #tall>\n"
      "  %40 = add %sum, %sum : tile<128xi32, #tall>\n"
      "  return\n"
      "}\n";
  std::vector<Reading> readings = parseAll(text + text, "t");
  ASSERT_EQ(readings.size(), 2u);
  for (Reading &reading : readings) {
    PrintOptions options;
    options.names = &reading.names;
    EXPECT_EQ(print(reading.fn, options), text);
    Function &fn = reading.fn;
    Builder builder(fn, fn.last(fn.body()));
    const ValueId added = builder.i32(5);
    EXPECT_EQ(fn.guards[0], (Guard{Guard::Kind::Below, 1, 64}));
    const OpId first = fn.first(fn.body());
    fn.erase(fn.next(first));
    EXPECT_NE(print(fn, options).find("%sum = arange"), std::string::npos);
    EXPECT_NE(print(fn, options).find("  %41 = constant {value=5}"), std::string::npos);
    EXPECT_EQ(reading.names.of(added), "41");
    EXPECT_NE(print(fn).find("%1 = arange"), std::string::npos) << "without names: numbers";
  }
  EXPECT_EQ(readings[1].place(readings[1].fn.first({0})).str(), "t:13:10");
}

// Random functions, edited: values that stay keep their names, and each text reads back as itself.
TEST(Text, ValuesKeepTheirNames) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Function fn = randomFunction(seed);
    Names names;
    PrintOptions options;
    options.names = &names;
    (void)print(fn, options);
    IndexMap<ValueId, std::string> before;
    for (uint32_t i = 0; i < fn.numValues(); ++i) {
      before.set({i}, names.of(ValueId{i}));
    }
    Builder builder(fn, fn.first(fn.body()));
    (void)builder.i32(7); // shifts all numbers of a fresh text
    const std::string after = print(fn, options);
    for (uint32_t i = 0; i < fn.numValues() - 1; ++i) {
      EXPECT_EQ(names.of(ValueId{i}), before[{i}]) << after;
    }
    std::vector<Reading> again = parseAll(after, "t");
    options.names = &again[0].names;
    EXPECT_EQ(print(again[0].fn, options), after);
    EXPECT_EQ(print(again[0].fn), print(fn));
  }
}

TEST(Text, LayoutsAreCalledAfterTheirForm) {
  const std::pair<const char *, const char *> cases[] = {
      {"regs=[[0,1],[0,2]] lanes=[[0,4],[1,0]] warps=[[2,0]] subtile=[4,8] repeats=[1,2]", "blocked"},
      {"regs=[[0,1],[2,0]] lanes=[[0,2],[1,0]] warps=[[4,0]] subtile=[8,4] repeats=[1,1]",
       "fragment"},
      {"regs=[[0,1],[2,0]] lanes=[[0,2],[1,0]] warps=[[0,0]] subtile=[4,4] repeats=[1,1]",
       "fragment"},
      {"regs=[] lanes=[[1],[0]] warps=[] subtile=[2] repeats=[1]", "replicated"},
      {"regs=[] lanes=[[1],[2]] warps=[[0]] subtile=[4] repeats=[1]", "replicated"},
      {"offsets=[[0,1],[0,2],[1,0]] subtile=[2,4] repeats=[1,1]", "rows"},
      {"offsets=[[1,0],[2,0],[0,1]] subtile=[4,2] repeats=[1,1]", "columns"},
      {"offsets=[[0,1],[0,2],[1,1]] subtile=[2,4] repeats=[1,1]", "swizzled"},
  };
  for (const auto &[text, form] : cases) {
    const std::optional<Layout> layout = Layout::parse(text);
    ASSERT_TRUE(layout) << text;
    EXPECT_EQ(formOf(*layout), form) << text;
  }
}

TEST(Text, SourceLinesAreComments) {
  Function fn("f");
  const auto at = [](const char *name, const char *text, uint32_t line) {
    auto file = std::make_shared<SourceFile>(SourceFile{name, text, 5});
    return Location{std::move(file), line, 1, 2, nullptr};
  };
  const Location call = at("/home/k.py", "one\n  two  # why\n", 2);
  Location inlined = at("lib/m.py", "three\n", 1);
  inlined.caller = std::make_shared<Location>(call);
  Builder builder(fn);
  for (const Location &location : {call, call, inlined, call}) {
    builder.loc = fn.internLocation(location);
    (void)builder.i32(1);
  }
  builder.op(Opcode::Return, {});
  PrintOptions options;
  options.source = true;
  const std::string text = print(fn, options);
  EXPECT_EQ(text, "func @f stage=tile warps=4 stages=3 () {\n"
                  "  // k.py:6: two  # why\n"
                  "  %0 = constant {value=1} : i32\n"
                  "  %1 = constant {value=1} : i32\n"
                  "  // m.py:5 in k.py:6: three\n"
                  "  %2 = constant {value=1} : i32\n"
                  "  // k.py:6: two  # why\n"
                  "  %3 = constant {value=1} : i32\n"
                  "  return\n"
                  "}\n");
  EXPECT_EQ(print(parse(text)), print(fn));
}

struct Wrong {
  const char *text;
  const char *message;
  const char *place;
};

TEST(Text, ErrorsSayWhatAndWhere) {
  const std::string open = "func @f (%p: ptr<f32>) {\n  ";
  const Wrong cases[] = {
      {"%0 = nonsense\n}", "unknown op nonsense", "2:8"},
      {"%0 = add %1, %p : i32\n}", "%1 is not defined before its use", "2:13"},
      {"%0 = program_id : i32\n}", "program_id needs axis", "2:8"},
      {"%0 = program_id {axis=0, start=1} : i32\n}", "program_id takes no start", "2:28"},
      {"%0 = program_id {axis=0} : i33\n}", "expected a type", "2:30"},
      {"%p = program_id {axis=0} : i32\n}", "%p is defined twice", "2:4"},
      {"%0 = arange {start=0} : tile<99999999xi32>\n}", "a tile of more than 16777216 elements",
       "2:27"},
      {"%0 = arange {start=0} : tile<99999999999xi32>\n}", "integer out of range", "2:32"},
      {"%0 = load %p : tile<4xf32, #3>\n}", "unknown layout", "2:32"},
      {"%0 = constant {value=1.5} : i32\n}", "a float as a constant of type i32", "2:8"},
      {"%0 = constant {value=1e999} : f32\n}", "expected a number that a double can hold", "2:24"},
      {"store %p\n}", "store with 1 operands", "2:3"},
      {"%0 = store %p, %p : i32\n}", "store with 1 results", "2:8"},
      {"return loc(3)\n}", "unknown location", "2:15"},
      {"return", "expected an op", "2:9"},
      {"%0 = cmp %p, %p {predicate=above} : i1\n}", "above is no predicate", "2:30"},
  };
  for (const Wrong &wrong : cases) {
    try {
      (void)parse(open + wrong.text, "t");
      ADD_FAILURE() << "no error: " << wrong.text;
    } catch (const UserError &error) {
      EXPECT_EQ(error.message(), wrong.message) << wrong.text;
      EXPECT_EQ(error.location().str(), std::string("t:") + wrong.place) << wrong.text;
    }
  }
  for (const auto &[text, message] :
       {std::pair("func @f (%p: ptr<f32>) guard below %q 1 { return }", "%q is no parameter"),
        std::pair("#a = layout regs=[] lanes=[[1]] warps=[] subtile=[2] repeats=[1]\n"
                  "#a = layout regs=[] lanes=[[1]] warps=[] subtile=[2] repeats=[1]\n"
                  "func @f () { return }",
                  "#a is defined twice")}) {
    try {
      (void)parse(text, "t");
      ADD_FAILURE() << "no error: " << text;
    } catch (const UserError &error) {
      EXPECT_EQ(error.message(), message);
    }
  }
  EXPECT_THROW((void)parse(""), UserError);
  EXPECT_THROW((void)parse("func @a () {\n return\n}\nfunc @b () {\n return\n}\n"), UserError);
}

TEST(Text, NestingIsLimited) {
  std::string text = "func @f (%c: i1) {\n";
  for (int i = 0; i < 100000; ++i) {
    text += "if %c {\n";
  }
  EXPECT_THROW((void)parse(text), UserError);
  std::string pointers;
  for (int i = 0; i < 100000; ++i) {
    pointers += "ptr<";
  }
  EXPECT_THROW((void)parse("func @f (%c: " + pointers), UserError);
}

// Whatever is accepted can be verified and printed, and comes back as it is.
TEST(Text, MutatedTextsNeverCrash) {
  std::mt19937_64 random(options().seed);
  std::vector<std::string> seeds;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    PrintOptions print_options;
    print_options.locations = seed % 2 == 0;
    seeds.push_back(print(randomFunction(seed), print_options));
  }
  uint64_t accepted = 0;
  for (uint64_t i = 0; i < options().count; ++i) {
    const std::string text = mutateText(seeds[random() % seeds.size()], random);
    try {
      const Function fn = parse(text);
      (void)verify(fn);
      const std::string once = print(fn);
      ASSERT_EQ(print(parse(once)), once) << text;
      PrintOptions named;
      std::vector<Reading> readings = parseAll(text, "t");
      named.names = &readings[0].names;
      const std::string again = print(readings[0].fn, named);
      readings = parseAll(again, "t");
      named.names = &readings[0].names;
      ASSERT_EQ(print(readings[0].fn, named), again) << text;
      ++accepted;
    } catch (const UserError &) {
    }
  }
  EXPECT_GT(accepted, options().count / 50);
}

} // namespace
} // namespace libtile::test
