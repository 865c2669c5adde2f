// SPDX-License-Identifier: Apache-2.0
// Every construct of data/constructs.txt, as the body of a kernel, ends as its line says.
#include "syntax_fixture.h"

#include <fstream>
#include <sstream>

namespace libtile::frontend {
namespace {

constexpr const char *kPrologue = R"(
def helper(x, y=2): return x + y
def various(*xs): return xs[0]
def keyword_only(x, *, k=3): return x + k
def recursive(x, n: tl.constexpr):
    if n == 0: return x
    else: return recursive(x + 1, n - 1)
def early(x):
    if x > 0:
        return x
    return -x
def with_constexpr(x: tl.constexpr): return x
def nothing(x):
    x + 1
)";

struct Case {
  std::string name, expected, body;
};

std::vector<Case> readCases() {
  std::ifstream in(std::string(TEST_DATA) + "/constructs.txt");
  EXPECT_TRUE(in.good());
  std::vector<Case> cases;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("## ")) {
      const size_t colon = line.find(": ");
      cases.push_back({line.substr(3, colon - 3), line.substr(colon + 2), ""});
    } else if (!cases.empty()) {
      cases.back().body += "    " + line + "\n";
    }
  }
  return cases;
}

TEST(Constructs, EndAsTheirLineSays) {
  const std::vector<Case> cases = readCases();
  EXPECT_GE(cases.size(), 150U);
  for (const Case &one : cases) {
    SCOPED_TRACE(one.name + ":\n" + one.body);
    const std::string text =
        std::string(kPrologue) + "def k(out, count, G: tl.constexpr):\n" + one.body;
    const Outcome got = outcome(text, "k", {"*fp32", "i32", "=4"});
    const std::string found = got.kind == "ok" ? "ok" : got.kind + ": " + got.message;
    EXPECT_TRUE(one.expected == "ok" ? found == "ok" : found.starts_with(one.expected))
        << "expected " << one.expected << "\nfound    " << found << "\n"
        << got.what;
    if (got.kind != "ok") {
      EXPECT_GT(got.line, 0U) << "an error without place: " << found;
    }
  }
}

} // namespace
} // namespace libtile::frontend
