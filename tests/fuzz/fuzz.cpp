// SPDX-License-Identifier: Apache-2.0
// Mutated inputs are compiled and never run:
//
//     fuzz sources   kernels: parse, specialise, passes, machine code
//     fuzz texts     kernels and random functions as IR at every stage: parse, verify, print; those of the
//                  tile stage are compiled
//
// Each ends in code, or in an error of the user's, within 10 s of this process's time and 1 GiB of
// its memory; a crash, a hang or an internal error is a failure, printed with its text. `--count N`
// inputs from `--seed S`, on one target after the other; `--only K` runs the K-th alone.
#include "tests/fuzz/mutator.h"
#include "tests/fuzz/seeds.h"
#include "tests/ir/random_function.h"

#include "codegen/codegen.h"
#include "frontend/syntax/source.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "runtime/cache/function_library.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace libtile::test {
namespace {

constexpr int kMostSeconds = 10;
constexpr rlim_t kMostBytes = rlim_t{1} << 30;
constexpr const char *kTargets[] = {"avx512bf16", "sm_80", "x86-64-v3"};

// ---- limits: what the signal handlers say of the input at hand
std::string present;
volatile uint64_t presentNumber = 0;

void stop(int signal) {
  char head[80];
  const int length = std::snprintf(head, sizeof head, "---- %llu: %s (signal %d)\n",
                                   static_cast<unsigned long long>(presentNumber),
                                   signal == SIGVTALRM ? "too slow" : "crash", signal);
  const ssize_t written = write(STDOUT_FILENO, head, static_cast<size_t>(length)) +
                          write(STDOUT_FILENO, present.data(), present.size());
  _exit(written >= 0 ? 1 : 2);
}

void setLimits() {
  const rlimit memory{kMostBytes, kMostBytes};
  const rlimit noCore{0, 0};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &noCore);
  // A stack of its own, for the handler of a stack overflow.
  static char stack[1 << 16];
  stack_t other{};
  other.ss_sp = stack;
  other.ss_size = sizeof stack;
  sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGVTALRM}) {
    struct sigaction action {};
    action.sa_handler = stop;
    action.sa_flags = SA_ONSTACK;
    sigaction(signal, &action, nullptr);
  }
}

void startClock() {
  const itimerval limit{{0, 0}, {kMostSeconds, 0}};
  setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

// ---- the two kinds of input
passes::PassContext contextOf(const ir::Target &target) {
  passes::PassContext context{target};
  context.library = &runtime::functionLibrary();
  return context;
}

// Half of the functions with checked accesses; which ones depends on the input alone.
void compile(ir::Function &fn, const ir::Target &target) {
  passes::PassContext context = contextOf(target);
  context.checksAccesses = fn.numValues() % 2 == 0;
  passes::PipelineOptions options;
  options.verifyEach = true;
  passes::runPipeline(fn, context, options);
  (void)codegen::generate(fn, target);
}

ir::Function specialiseSource(const std::string &text, const std::string &name) {
  frontend::TableHost host;
  const auto file = std::make_shared<const ir::SourceFile>(ir::SourceFile{"kernel.py", text});
  const auto fn = frontend::parseFunction(file, name);
  frontend::Signature signature;
  for (const char *type : {"*fp16", "*fp16", "*fp32", "i32", ""}) {
    frontend::Argument argument;
    argument.dtype = *type != '\0' ? frontend::DType::byName(type) : std::nullopt;
    argument.constant = *type != '\0' ? frontend::Value() : frontend::Value::integer(64);
    signature.arguments.push_back(argument);
  }
  signature.arguments.resize(fn->params.size(), signature.arguments[3]);
  ir::Function tile = frontend::specialise(*fn, signature, host);
  ir::verifyOrThrow(tile, "specialise");
  return tile;
}

class Sources {
public:
  std::string make(uint64_t seed, std::string &name) const {
    Mutator mutator(seed, kPieces);
    name = kNames[mutator.pick(std::size(kNames))];
    return mutator(kKernels);
  }
  static void run(const std::string &text, const std::string &name, const ir::Target &target) {
    ir::Function fn = specialiseSource(text, name);
    compile(fn, target);
  }
};

class Texts {
public:
  Texts() {
    for (const char *name : kNames) {
      const ir::Function tile = specialiseSource(kKernels, name);
      kernels_.push_back(ir::print(tile));
      for (const char *target : {"avx512bf16", "sm_80"}) {
        ir::Function fn = tile.clone();
        passes::PipelineOptions options;
        options.after = [&](const passes::PassRun &, const ir::Function &now) {
          late_.push_back(ir::print(now));
        };
        passes::runPipeline(fn, contextOf(codegen::findTarget(target)), options);
      }
    }
  }
  std::string make(uint64_t seed, std::string &name) const {
    std::mt19937_64 random(seed);
    const uint64_t kind = random() % 8;
    if (kind == 0) {
      name = "a random function, as it is";
      return ir::print(randomFunction(random()));
    }
    const std::vector<std::string> &from = kind < 3 ? late_ : kernels_;
    name = kind < 3 ? "a later stage" : kind < 5 ? "a kernel" : "a random function";
    return mutateText(kind < 5 ? from[random() % from.size()] : ir::print(randomFunction(random())),
                      random);
  }
  static void run(const std::string &text, const std::string &, const ir::Target &target) {
    ir::Function fn = ir::parse(text);
    const std::string once = ir::print(fn);
    ir::check(ir::print(ir::parse(once)) == once, "what is printed reads back as the same");
    if (!ir::verify(fn).empty()) {
      throw ir::UserError("refused by the verifier");
    }
    if (fn.stage == ir::Stage::Tile) {
      compile(fn, target);
    }
  }

private:
  std::vector<std::string> kernels_, late_;
};

// ---- counting
struct Tally {
  size_t compiled = 0, refused = 0, later = 0, failed = 0;
};

template <typename Inputs> void runOne(const std::string &name, const ir::Target &target, Tally &tally) {
  std::string problem;
  startClock();
  try {
    Inputs::run(present, name, target);
    ++tally.compiled;
  } catch (const ir::UserError &) {
    ++tally.refused;
  } catch (const ir::Unsupported &) {
    ++tally.later;
  } catch (const std::exception &error) {
    problem = error.what();
  }
  if (!problem.empty()) {
    ++tally.failed;
    std::cout << "---- " << presentNumber << ": " << name << " for " << target.name << ": " << problem
              << "\n" << present << std::endl;
  }
}

struct Options {
  uint64_t count = 2000, seed = 1, only = 0;
};

template <typename Inputs> int runAll(const Options &options) {
  const Inputs inputs;
  setLimits();
  Tally tally;
  for (uint64_t number = 1; number <= options.count; ++number) {
    if (options.only != 0 && number != options.only) {
      continue;
    }
    std::string name;
    present = inputs.make(options.seed * 1'000'003 + number, name);
    presentNumber = number;
    runOne<Inputs>(name, codegen::findTarget(kTargets[number % std::size(kTargets)]), tally);
  }
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::cout << tally.compiled << " compiled, " << tally.refused << " refused, " << tally.later
            << " not there yet, " << tally.failed << " failed; at most " << used.ru_maxrss / 1024
            << " MiB\n";
  return tally.failed == 0 ? 0 : 1;
}

} // namespace
} // namespace libtile::test

int main(int argc, char **argv) {
  using namespace libtile::test;
  Options options;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    (option == "--seed"   ? options.seed
     : option == "--only" ? options.only
                          : options.count) = std::strtoull(argv[i + 1], nullptr, 10);
  }
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what != "sources" && what != "texts") {
    std::cerr << "fuzz sources|texts [--count N] [--seed S] [--only K]\n";
    return 2;
  }
  return what == "sources" ? runAll<Sources>(options) : runAll<Texts>(options);
}
