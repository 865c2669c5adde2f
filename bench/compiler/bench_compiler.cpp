// SPDX-License-Identifier: Apache-2.0
// The compiler's own time on the lessons' kernels, step by step, by Google Benchmark: lexer, parser,
// specialiser, each pass of each target's pipeline, code generation.
//
//   bench_compiler TUTORIALS [--benchmark_filter=REGEX ...]
//
// A name is step/lesson, or pass/target/lesson for what depends on the target. `per_op` is the time
// divided by what the step goes through: tokens, else the function's ops as the step finds them.
#include "codegen/codegen.h"
#include "frontend/syntax/lexer.h"
#include "frontend/syntax/parser.h"
#include "passes/pipeline.h"
#include "runtime/cache/function_library.h"
#include "runtime/tools/kernel_source.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace libtile {
namespace {

struct Lesson {
  const char *name;
  const char *file;
  std::vector<std::string> signature;
  std::vector<std::string> constants;
};

const Lesson kLessons[] = {
    {"add", "01_vector_add.py", {"x=*fp32:16", "y=*fp32:16", "out=*fp32:16", "n=i32"}, {"BLOCK=1024"}},
    {"softmax",
     "02_fused_softmax.py",
     {"out=*fp32:16", "x=*fp32:16", "out_stride=i32:16", "x_stride=i32:16", "n_rows=i32",
      "n_cols=i32"},
     {"BLOCK=1024"}},
    {"layer_norm",
     "05_layer_norm.py",
     {"x=*fp32:16", "out=*fp32:16", "weight=*fp32:16", "bias=*fp32:16", "mean_out=*fp32:16",
      "rstd_out=*fp32:16", "stride=i32:16", "n=i32", "eps=fp32"},
     {"BLOCK=1024"}},
    {"matmul",
     "03_matmul.py",
     {"a=*fp16:16", "b=*fp16:16", "c=*fp16:16", "M=i32:16", "N=i32:16", "K=i32:16",
      "stride_am=i32:16", "stride_bk=i32:16", "stride_cm=i32:16"},
     {"stride_ak=1", "stride_bn=1", "stride_cn=1", "BLOCK_M=128", "BLOCK_N=128", "BLOCK_K=32",
      "GROUP_M=8"}},
};
const char *const kTargets[] = {"avx512", "sm_80"};

// Runs `prepare` and then, timed, `work` on what it made. `size`: what one run goes through.
template <class Prepare, class Work>
void add(const std::string &name, size_t size, Prepare prepare, Work work) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) {
    for (auto _ : state) {
      auto input = prepare();
      const auto start = std::chrono::steady_clock::now();
      benchmark::DoNotOptimize(work(input));
      state.SetIterationTime(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    using benchmark::Counter;
    state.counters["per_op"] =
        Counter(double(size), Counter::kIsIterationInvariantRate | Counter::kInvert);
  })->UseManualTime();
}

std::string readFile(const std::filesystem::path &path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

ToolOptions optionsOf(const Lesson &lesson) {
  ToolOptions options;
  options.file = lesson.file;
  options.signature = lesson.signature;
  options.constants = lesson.constants;
  return options;
}

void addFrontend(const Lesson &lesson, const std::string &text) {
  const auto file =
      std::make_shared<const ir::SourceFile>(ir::SourceFile{lesson.file, text, 1});
  const auto nothing = [] { return 0; };
  const size_t tokens = frontend::lex(file).size();
  add(std::string("lex/") + lesson.name, tokens, nothing,
      [=](int) { return frontend::lex(file).size(); });
  add(std::string("parse/") + lesson.name, tokens, nothing,
      [=](int) { return frontend::parse(file).get(); });
  const ToolOptions options = optionsOf(lesson);
  const size_t ops = readKernel(options, text).walk().size();
  // With the parser, which comes first for every kernel.
  add(std::string("parse+specialise/") + lesson.name, ops, nothing,
      [=](int) { return readKernel(options, text).numOps(); });
}

void addBackend(const Lesson &lesson, ir::Function fn, const ir::Target &target) {
  const passes::PassContext context{target, 0, 0, true, &runtime::functionLibrary()};
  const std::string place = "/" + target.name + "/" + lesson.name;
  for (const passes::PassRun &run : passes::schedule(target)) {
    const auto before = std::make_shared<const ir::Function>(fn.clone());
    const std::string nth = run.nth > 1 ? ":" + std::to_string(run.nth) : "";
    add(run.row.name + nth + place, fn.walk().size(), [=] { return before->clone(); },
        [context, pass = run.row.fn](ir::Function &input) { return pass(input, context); });
    passes::runPass(run.row, fn, context);
  }
  const auto last = std::make_shared<const ir::Function>(std::move(fn));
  add("generate" + place, last->walk().size(), [] { return 0; }, [last, &target](int) {
    return codegen::generate(*last, target).info.symbol.size();
  });
}

int run(int count, char **arguments) {
  benchmark::Initialize(&count, arguments);
  if (count != 2) {
    std::cerr << "usage: bench_compiler TUTORIALS [--benchmark_...]\n";
    return 2;
  }
  for (const Lesson &lesson : kLessons) {
    const std::string text = readFile(std::filesystem::path(arguments[1]) / lesson.file);
    addFrontend(lesson, text);
    for (const char *target : kTargets) {
      addBackend(lesson, readKernel(optionsOf(lesson), text), codegen::findTarget(target));
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

} // namespace
} // namespace libtile

int main(int count, char **arguments) {
  try {
    return libtile::run(count, arguments);
  } catch (const std::exception &error) {
    std::cerr << "bench_compiler: " << error.what() << '\n';
    return 1;
  }
}
