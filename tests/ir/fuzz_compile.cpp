// SPDX-License-Identifier: Apache-2.0
// fuzz_compile [--count N] [--seed N]: random functions and mutations of their texts go through all
// passes and code generation for a CPU and a GPU target. Whatever is no error of the user's, or
// takes longer than 10 s, fails.
#include "tests/ir/random_function.h"

#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"

#include <chrono>
#include <cstdlib>
#include <iostream>

namespace libtile::test {
namespace {

// What is wrong; "" if nothing. Counts the texts that were compiled to the end.
std::string compile(const std::string &text, uint64_t &compiled) {
  try {
    for (const char *name : {"avx512", "sm_80"}) {
      ir::Function fn = ir::parse(text);
      if (fn.stage != ir::Stage::Tile || !ir::verify(fn).empty()) {
        return {};
      }
      const ir::Target &target = codegen::findTarget(name);
      passes::PipelineOptions options;
      options.verifyEach = true;
      passes::runPipeline(fn, {target, 0, 0}, options);
      (void)codegen::generate(fn, target);
    }
    ++compiled;
  } catch (const ir::UserError &) {
  } catch (const ir::Unsupported &) {
  } catch (const std::exception &error) {
    return error.what();
  }
  return {};
}

int run(uint64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  int wrong = 0;
  uint64_t compiled = 0;
  for (uint64_t i = 0; i < count; ++i) {
    std::string text = ir::print(randomFunction(random() % 1000));
    text = i % 8 == 0 ? text : mutateText(text, random);
    const auto start = std::chrono::steady_clock::now();
    std::string fault = compile(text, compiled);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    fault = taken.count() > 10 ? "took longer than 10 s" : fault;
    if (!fault.empty()) {
      ++wrong;
      std::cerr << fault << "\nfor the text\n" << text << "\n";
    }
  }
  std::cout << count << " texts, " << compiled << " compiled, " << wrong << " failures\n";
  return wrong == 0 && compiled >= count / 10 ? 0 : 1;
}

} // namespace
} // namespace libtile::test

int main(int argc, char **argv) {
  uint64_t count = 300;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    (std::string(argv[i]) == "--count" ? count : seed) = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return libtile::test::run(count, seed);
}
