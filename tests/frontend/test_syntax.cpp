// SPDX-License-Identifier: Apache-2.0
// Lexer and parser: tokens, whole modules, places of syntax errors, limits.
#include "frontend/syntax/lexer.h"
#include "frontend/syntax/parser.h"
#include "syntax_fixture.h"

namespace libtile::frontend {
namespace {

// "Name:a Operator:+ ..." of the text.
std::string tokens(const std::string &text) {
  static constexpr const char *kKinds[] = {"end",     "newline", "indent", "dedent", "name",
                                           "keyword", "number",  "string", "op"};
  std::string out;
  const auto file = sourceFile(text);
  for (const Token &token : lex(file)) {
    out += out.empty() ? "" : " ";
    out += kKinds[static_cast<size_t>(token.kind)];
    out += token.text.empty() ? "" : ":" + std::string(token.text);
  }
  return out;
}

TEST(Lexer, OperatorsAreLongest) {
  EXPECT_EQ(tokens("a**=b//c>>=d->e:=f...g!=h"), "name:a op:**= name:b op:// name:c op:>>= name:d "
                                                 "op:-> name:e op::= name:f op:... name:g op:!= "
                                                 "name:h newline end");
}

TEST(Lexer, IndentationAndBlankLines) {
  EXPECT_EQ(
      tokens("if a:\n\n # comment\n\tb\n\tc if d else e\n"),
      "keyword:if name:a op:: newline indent name:b newline name:c keyword:if name:d keyword:else "
      "name:e newline dedent end");
  EXPECT_EQ(tokens("a:\n  b:\n    c\nd"), "name:a op:: newline indent name:b op:: newline indent "
                                          "name:c newline dedent dedent name:d newline "
                                          "end");
}

TEST(Lexer, LinesJoin) {
  EXPECT_EQ(
      tokens("a = (1,\n  2)\nb = \\\r\n 3\r\n"),
      "name:a op:= op:( number:1 op:, number:2 op:) newline name:b op:= number:3 newline end");
}

TEST(Lexer, FirstLineMayBeIndented) {
  EXPECT_EQ(tokens("  a\n  b\n"), "name:a newline name:b newline end");
}

TEST(Lexer, StringsKeepPrefixAndQuotes) {
  EXPECT_EQ(
      tokens("rb'a\\'' f\"{x!r:{w}} {'}'}\" '''a\n'b''' \"\""),
      "string:rb'a\\'' string:f\"{x!r:{w}} {'}'}\" string:'''a\n'b''' string:\"\" newline end");
  EXPECT_EQ(splitString("Rb'x'").prefix, "br");
  EXPECT_EQ(splitString("f\"\"\"x\"\"\"").body, "x");
}

TEST(Lexer, Escapes) {
  EXPECT_EQ(decodeEscapes("a\\n\\t\\\\\\'\\x41\\u00e9\\101\\q\\\nb"), "a\n\t\\'A\xc3\xa9"
                                                                      "A\\qb");
  EXPECT_EQ(decodeEscapes("\\U0001F600"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(decodeEscapes("\\x4"), "\\x4");
}

TEST(Lexer, NamesTakeAnyLetters) {
  EXPECT_EQ(tokens("\xC3\xA9t\xC3\xA9 = _1"), "name:\xC3\xA9t\xC3\xA9 op:= name:_1 newline end");
}

struct SyntaxError {
  const char *text;
  uint32_t line, column;
  const char *message;
};

TEST(Parser, ErrorsHaveTheirPlace) {
  const SyntaxError cases[] = {
      {"def k(a):\n  x = (1, 2\n", 2, 7, "`(` is not closed"},
      {"def k(a):\n  x = 1)\n", 2, 8, "`)` without `(`"},
      {"def k(a):\n  x = [1)\n", 2, 9, "`)` does not match `[`"},
      {"def k(a):\n  x = 'ab\n", 2, 7, "string is not closed"},
      {"def k(a):\n  x = f'{a'\n", 2, 11, "string is not closed"},
      {"def k(a):\n    x\n  y\n", 3, 3, "indentation matches no outer level"},
      {"def k(a):\n  x\n    y\n", 3, 5, "unexpected indentation"},
      {"def k(a):\nx = 1\n", 2, 1, "expected an indented block before `x`"},
      {"def k(a):\n  x = 1 +\n", 2, 10, "expected an expression before the end of the line"},
      {"def k(a):\n  x = 1 y\n", 2, 9, "expected the end of the statement before `y`"},
      {"def k(a):\n  if a\n    x\n", 2, 7, "expected `:` before the end of the line"},
      {"def k(a):\n  1 = x\n", 2, 3, "cannot assign to this expression"},
      {"def k(a):\n  x + 1 += 2\n", 2, 3, "cannot assign to this expression"},
      {"def k(a):\n  for i range(3): pass\n", 2, 9, "expected `in` before `range`"},
      {"def k(a):\n  f(x=1, 2)\n", 2, 10, "a positional argument behind a keyword argument"},
      {"def k(a):\n  f(x=1, x=2)\n", 2, 10, "a second argument `x`"},
      {"def k(a, a):\n  pass\n", 1, 10, "a second parameter `a`"},
      {"def k(a=1, b):\n  pass\n", 1, 12,
       "parameter `b` needs a default, as the one before it has one"},
      {"def k(a, /):\n  pass\n", 1, 10, "positional-only parameters are not allowed"},
      {"def k(a):\n  x = 0x\n", 2, 9, "a number needs digits behind its base"},
      {"def k(a):\n  x = 0b12\n", 2, 10, "malformed number"},
      {"def k(a):\n  x = a ? 1\n", 2, 9, "unexpected character `?`"},
      {"def k(a):\n  x = a \\ 1\n", 2, 9, "unexpected character after a line continuation"},
      {"def k(a):\n  x.1\n", 2, 4, "expected the end of the statement before `.1`"},
      {"def k(a):\n  else: pass\n", 2, 3, "unexpected `else`"},
      {"def k(a):\n  retrun a\n", 2, 10,
       "expected the end of the statement before `a`; did you mean `return`?"},
      {"def k(a):\n  fro i in range(3): pass\n", 2, 7,
       "expected the end of the statement before `i`; did you mean `for`?"},
      {"def k(a):\n  if a: pass\n  esle:\n    pass\n", 3, 8,
       "expected an expression before the end of the line; did you mean `else`?"},
      {"def k(a):\n  retrun = (a 1)\n", 2, 15, "expected `)` before `1`"},
      {"def k(a):\n\tx\n        y\n", 3, 9, "indentation mixes tabs and spaces"},
  };
  for (const SyntaxError &one : cases) {
    SCOPED_TRACE(one.text);
    const Outcome got = outcomeOf([&] { (void)parseFunction(sourceFile(one.text), "k"); });
    EXPECT_EQ(got.kind, "error");
    EXPECT_EQ(got.message, one.message);
    EXPECT_EQ(got.line, one.line);
    EXPECT_EQ(got.column, one.column);
  }
}

TEST(Parser, ErrorsShowACaret) {
  const Outcome got =
      outcomeOf([&] { (void)parseFunction(sourceFile("def k(a):\n  x = a + * b\n"), "k"); });
  EXPECT_EQ(got.what, "kernel.py:2:11: error: expected an expression before `*`\n"
                      "  2 |   x = a + * b\n"
                      "    |           ^");
}

// Host code of all sorts around two kernels.
constexpr const char *kModule = R"py(#!/usr/bin/env python
"""A module."""
from __future__ import annotations
import libtile, os.path as p
from libtile.language import (
    float32,  # one
    int32,
)

X: int = {"a": [1, 2, *range(3)]}["a"][0]

class Thing(Base, metaclass=Meta):
    """Doc."""
    def method(self, /, a, *, b): return {**a, "b": b}

    async def wait(self):
        async with self.x as y, z: await y
        return [i async for i in y if i]

@libtile.jit(noinline=True)
def first(x, n: "i32", *rest, flag: tl.constexpr = True, scale=1.5) -> None:
    """Doc."""
    pass

if __name__ == "__main__":
    def inner(): pass
else:
    try:
        pass
    except* ValueError as e:
        raise RuntimeError from e
    finally: pass

def host(a, *args, **kwargs):
    global X
    with open("f") as f, g(): yield from f
    match a:
        case [1, *_] if a > 2: return {k: v for k, v in a.items()}
        case {"x": y}: pass
    nonlocal_ = lambda x, *y, z=1, **w: (x, y)
    del a[0], args
    print(f"{a!r:>10} {'nested'}", *args, sep="", **kwargs)
    x = yield
    a.b, c[1:2, ::3], *rest = 1, 2, 3
    return not a if (b := 1) else ~c ** -d @ e

def broken(a):
    x = = 1

@libtile.jit
def second(x, n): tl.store(x, n)
first = 3; second2 = None
)py";

TEST(Parser, ModulesGiveTheirFunctions) {
  const auto ast = parse(sourceFile(kModule));
  std::vector<std::string> names;
  for (const AstFunction &fn : ast->functions) {
    names.push_back((*ast)[fn.name] + (fn.error ? "!" : ""));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"first", "host", "broken!", "second"}));
  const auto fn = parseFunction(sourceFile(kModule), "first");
  EXPECT_TRUE(fn->ast->functions[0].isJit);
  ASSERT_EQ(fn->params.size(), 5U);
  EXPECT_EQ(fn->params[1].forcedType, DType::byName("i32"));
  EXPECT_EQ(fn->params[2].kind, ParameterSource::VarArgs);
  EXPECT_EQ(fn->params[3].kind, ParameterSource::KeywordOnly);
  EXPECT_TRUE(fn->params[3].isConstexpr);
  EXPECT_TRUE(fn->params[4].hasDefault);
  const Outcome bad = outcomeOf([&] { (void)parseFunction(sourceFile(kModule), "broken"); });
  EXPECT_EQ(bad.message, "expected an expression before `=`");
  EXPECT_EQ(outcome(kModule, "second", {"*fp32", "i32"}).kind, "ok");
}

TEST(Parser, AnnotationsOfParameters) {
  const auto fn = parseFunction(
      sourceFile(
          "def k(a: tl.constexpr, b: constexpr, c: 'tl.constexpr', d: tl.const, e: tl.float16,\n"
          "      f: '*fp32', g: 'const float32*', h: int, i: List[int], j: 'u8'): pass"),
      "");
  EXPECT_TRUE(fn->params[0].isConstexpr && fn->params[1].isConstexpr && fn->params[2].isConstexpr);
  EXPECT_TRUE(fn->params[3].isConst);
  EXPECT_EQ(fn->params[4].forcedType, DType::byName("fp16"));
  EXPECT_EQ(fn->params[5].forcedType, DType::byName("*fp32"));
  EXPECT_EQ(fn->params[6].forcedType, DType::byName("*fp32"));
  EXPECT_TRUE(fn->params[6].isConst);
  EXPECT_FALSE(fn->params[7].forcedType || fn->params[8].forcedType);
  EXPECT_EQ(fn->params[9].forcedType, DType::byName("u8"));
}

TEST(Parser, WhichFunction) {
  EXPECT_EQ(parseFunction(sourceFile("  @jit\n  def k(): pass\n"), "")->name, "k");
  for (const char *decorator : {"@jit", "@triton.jit", "@a.b.jit(debug=True)", "@autotune([\n1])\n@libtile.jit"}) {
    const std::string text = std::string("def main(): pass\n") + decorator + "\ndef k(): pass\n@jit_less\ndef c(): pass";
    EXPECT_EQ(parseFunction(sourceFile(text), "")->name, "k") << decorator;
  }
  EXPECT_EQ(outcomeOf([] { (void)parseFunction(sourceFile("@jit\ndef a(): pass\n@jit\ndef b(): pass"), ""); }).message,
            "several functions in the source text: name one");
  EXPECT_EQ(outcomeOf([] { (void)parseFunction(sourceFile("x = 1\n"), ""); }).message,
            "no function in the source text");
  EXPECT_EQ(outcomeOf([] {
              (void)parseFunction(sourceFile("def a(): pass\ndef b(): pass"), "");
            }).message,
            "several functions in the source text: name one");
  EXPECT_EQ(outcomeOf([] { (void)parseFunction(sourceFile("def a(): pass"), "b"); }).message,
            "no function `b` at the top level of the source text");
  EXPECT_EQ(outcomeOf([] { (void)parseFunction(sourceFile("def a(**kw): pass"), "a"); }).message,
            "`**` parameters are not allowed");
}

std::string repeated(const std::string &text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) {
    out += text;
  }
  return out;
}

// Nothing in the text's shape can exhaust the stack: it works, or it is an error.
TEST(Parser, DeepAndLongTexts) {
  constexpr size_t kMany = 100'000;
  const std::string head = "def k(a, n: tl.constexpr):\n  x = ";
  const auto run = [&](const std::string &body) {
    return outcome(head + body + "\n", "k", {"i32", "=1"}).kind;
  };
  EXPECT_EQ(run("n" + repeated("+n", kMany)), "ok");
  EXPECT_EQ(run("a" + repeated("+a", kMany)), "ok");
  EXPECT_EQ(run("n" + repeated(" and n", kMany)), "ok");
  EXPECT_EQ(run("n" + repeated(" <= n", kMany)), "ok");
  EXPECT_EQ(run(repeated("'a' ", kMany)), "ok");
  for (const char *open :
       {"(", "[", "{", "f(", "a[", "-", "not ", "lambda: ", "n**", "n if n else ", "(n:=", "await ",
        "yield ", "*", "[*", "f(x=", "{n:", "'' if "}) {
    EXPECT_EQ(run(repeated(open, kMany)), "error") << open;
    EXPECT_EQ(run(repeated(open, kMany) + "n"), "error") << open;
  }
  for (const char *tail : {".x", "()", "[0]", "(n)"}) {
    EXPECT_EQ(run("n" + repeated(tail, kMany)), "error") << tail;
  }
  EXPECT_EQ(run(repeated("(", kMany) + "n" + repeated(")", kMany)), "error");
  EXPECT_EQ(run(repeated("f'{", kMany)), "error");
  EXPECT_EQ(run(repeated("f'{n:{", kMany)), "error");
  std::string ifs = "0\n";
  for (size_t i = 1; i < 150; ++i) {
    ifs += repeated(" ", i + 1) + "if a:\n";
  }
  EXPECT_EQ(run(ifs + repeated(" ", 152) + "pass"), "error");
  EXPECT_EQ(run("0\n  if a: x = 1\n" + repeated("  elif a: x = 2\n", kMany)), "error");
  EXPECT_EQ(run("0\n" + repeated("  if a == 3: return\n", kMany)), "error");
  EXPECT_EQ(run("0\n" + repeated("  x = a\n", kMany)), "ok");
}

} // namespace
} // namespace libtile::frontend
