// SPDX-License-Identifier: Apache-2.0
// Printer and parser: exact round trips, errors with their place, and no crash on any text.
#include "tests/ir/options.h"
#include "tests/ir/random_function.h"

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
      ++accepted;
    } catch (const UserError &) {
    }
  }
  EXPECT_GT(accepted, options().count / 50);
}

} // namespace
} // namespace libtile::test
