// SPDX-License-Identifier: Apache-2.0
// Mutated kernels are parsed and specialised: each ends in IR that the verifier takes, or in an
// error of the user's, in time. `--count N` sources from `--seed S`; the limits are the caller's
// (a hang or a crash ends this process). What fails is printed, with its text; `--only K` runs the
// K-th alone, `--last FILE` leaves the present text in the file, to be looked at after a crash.
#include "frontend/source.h"
#include "ir/verifier.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>

using namespace libtile;
using namespace libtile::frontend;

namespace {

constexpr double kMostSeconds = 10;

constexpr const char *kKernels = R"(
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)
def softmax(x, y, o, n, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + r * n + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(o + r * n + i, e / tl.sum(e, axis=0), mask=i < n)
def matmul(a, b, c, n, BLOCK: tl.constexpr):
    m = tl.program_id(0) // 3 * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, 32)
    a += m[:, None] * n + k[None, :]
    b += k[:, None] * n + m[None, :] % n
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for j in tl.range(0, tl.cdiv(n, 32), num_stages=2):
        acc = tl.dot(tl.load(a, mask=k[None, :] < n - j * 32), tl.load(b), acc)
        a += 32
        b += 32 * n
    tl.store(c + m[:, None] * n + m[None, :], acc.to(tl.float16), mask=(m[:, None] < n) & (m[None, :] < n))
def pick(x, n, D: tl.constexpr):
    if D == 0: return x
    for i in range(n):
        if i > 3 and x < n: return x + i
        elif i == 2: continue
    return pick(x + 1, n, D - 1)
def loops(x, y, o, n, BLOCK: tl.constexpr):
    t = (n, (1, 2.0))
    while t[0] < n or True:
        t = (t[0] + 1, (t[1][0] * 2, t[1][1]))
        for j in tl.static_range(3):
            if t[0] == j: break
        if n > 5: return
        n += 1 if t[0] > 2 else pick(n, j, 3)
    tl.store(o, tl.reduce(tl.load(x + tl.arange(0, 8)), 0, larger))
def larger(a, b): return max(a, b)
)";
constexpr const char *kNames[] = {"add", "softmax", "matmul", "loops"};

constexpr const char *kPieces[] = {"(",
                                   ")",
                                   "[",
                                   "]",
                                   "{",
                                   "}",
                                   ":",
                                   ",",
                                   ".",
                                   "=",
                                   "+=",
                                   "**",
                                   "//",
                                   "->",
                                   ":=",
                                   "\n",
                                   "\n    ",
                                   "\n        ",
                                   "\t",
                                   "\\",
                                   "'",
                                   "\"",
                                   "\"\"\"",
                                   "f'{",
                                   "#",
                                   "0",
                                   "1",
                                   "-1",
                                   "1e400",
                                   "0x",
                                   "99999999999999999999",
                                   "1 << 70",
                                   "None",
                                   "True",
                                   "n",
                                   "x",
                                   "BLOCK",
                                   "i",
                                   "acc",
                                   "tl.",
                                   "tl.load(",
                                   "tl.arange(0, ",
                                   "tl.static_range(",
                                   "range(",
                                   "if ",
                                   "else:",
                                   "elif n:",
                                   "for ",
                                   "while ",
                                   "return ",
                                   "break",
                                   "continue",
                                   "pass",
                                   "lambda ",
                                   "not ",
                                   "and ",
                                   " or ",
                                   " is ",
                                   " in ",
                                   "del ",
                                   "def f():",
                                   "class ",
                                   "try:",
                                   "with ",
                                   "import ",
                                   "yield ",
                                   "await ",
                                   "async ",
                                   "*",
                                   "@",
                                   "~",
                                   "...",
                                   ";",
                                   "\xC3\xA9",
                                   "\xFF",
                                   "(n,)",
                                   ".to(tl.int8)",
                                   "[:, None]",
                                   "[None, :]",
                                   ".T",
                                   ".shape[0]",
                                   " * 1000000",
                                   " ** 99",
                                   "16777216",
                                   "tl.constexpr",
                                   "float('nan')",
                                   "t = (t, t)",
                                   "n = n + n"};

class Mutator {
public:
  explicit Mutator(uint64_t seed) : random_(seed) {}
  std::string operator()(std::string text) {
    for (size_t left = 1 + pick(4); left > 0; --left) {
      mutate(text);
    }
    return text;
  }
  size_t pick(size_t below) { return std::uniform_int_distribution<size_t>(0, below - 1)(random_); }

private:
  void mutate(std::string &text) {
    const size_t at = pick(text.size() + 1);
    const size_t length = std::min(1 + pick(pick(4) == 0 ? 80 : 6), text.size() - at);
    switch (pick(7)) {
    case 0:
      text.erase(at, length);
      break;
    case 1:
      text.insert(at, kPieces[pick(std::size(kPieces))]);
      break;
    case 2:
      text.replace(at, length, kPieces[pick(std::size(kPieces))]);
      break;
    case 3:
      text.insert(pick(text.size() + 1), text.substr(at, length));
      break;
    case 4:
      if (at < text.size()) {
        text[at] = static_cast<char>(pick(256));
      }
      break;
    case 5:
      swapLines(text);
      break;
    default:
      replaceWord(text);
      break;
    }
  }
  // One word of the text by another: names meet where they do not belong.
  void replaceWord(std::string &text) {
    const auto word = [&] {
      size_t begin = pick(text.size() + 1);
      const auto part = [&](size_t i) {
        return i < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '_');
      };
      while (begin < text.size() && !part(begin)) {
        ++begin;
      }
      size_t end = begin;
      while (part(end)) {
        ++end;
      }
      while (begin > 0 && part(begin - 1)) {
        --begin;
      }
      return std::pair(begin, end - begin);
    };
    const auto [from, count] = word();
    const std::string other = text.substr(from, count);
    const auto [to, length] = word();
    text.replace(to, length, other);
  }
  void swapLines(std::string &text) {
    const size_t a = text.find('\n', pick(text.size() + 1));
    if (a == std::string::npos) {
      return;
    }
    const size_t b = text.find('\n', a + 1);
    if (b != std::string::npos) {
      const std::string line = text.substr(a, b - a);
      text.erase(a, b - a);
      text.insert(std::min(text.find('\n', pick(text.size() + 1)), text.size()), line);
    }
  }
  std::mt19937_64 random_;
};

struct Tally {
  size_t ok = 0, refused = 0, later = 0, failed = 0;
  double longest = 0;
};

void runOne(const std::string &text, const char *name, uint64_t number, Tally &tally) {
  const auto start = std::chrono::steady_clock::now();
  std::string problem;
  try {
    TableHost host;
    const auto file = std::make_shared<const ir::SourceFile>(ir::SourceFile{"kernel.py", text});
    const auto fn = parseFunction(file, name);
    Signature signature;
    for (const char *type : {"*fp16", "*fp16", "*fp32", "i32", ""}) {
      Argument argument;
      argument.dtype = *type != '\0' ? DType::byName(type) : std::nullopt;
      argument.constant = *type != '\0' ? Value() : Value::integer(64);
      signature.arguments.push_back(argument);
    }
    signature.arguments.resize(fn->params.size(), signature.arguments[3]);
    ir::verifyOrThrow(specialise(*fn, signature, host), "specialise");
    ++tally.ok;
  } catch (const ir::UserError &error) {
    ++tally.refused;
    problem = error.location().known() ? "" : "no place: " + error.message();
  } catch (const ir::Unsupported &) {
    ++tally.later;
  } catch (const std::exception &error) {
    problem = error.what();
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  tally.longest = std::max(tally.longest, seconds);
  if (seconds > kMostSeconds) {
    problem = "took " + std::to_string(seconds) + " s";
  }
  if (!problem.empty()) {
    ++tally.failed;
    std::cout << "---- " << number << ": " << name << ": " << problem << "\n" << text << "\n";
  }
}

} // namespace

int main(int argc, char **argv) {
  uint64_t count = 2000;
  uint64_t seed = 1;
  uint64_t only = 0;
  const char *last = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    if (option == "--last") {
      last = argv[i + 1];
      continue;
    }
    (option == "--seed"   ? seed
     : option == "--only" ? only
                          : count) = std::strtoull(argv[i + 1], nullptr, 10);
  }
  Tally tally;
  for (uint64_t number = 1; number <= count; ++number) {
    Mutator mutator(seed * 1'000'003 + number);
    const char *name = kNames[mutator.pick(std::size(kNames))];
    const std::string text = mutator(kKernels);
    if (only != 0 && number != only) {
      continue;
    }
    if (last != nullptr) {
      // Where to look after a crash.
      std::ofstream(last) << text;
    }
    runOne(text, name, number, tally);
  }
  std::cout << tally.ok << " ok, " << tally.refused << " refused, " << tally.later
            << " not there yet, " << tally.failed << " failed; longest " << tally.longest << " s\n";
  return tally.failed == 0 ? 0 : 1;
}
