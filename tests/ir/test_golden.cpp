// SPDX-License-Identifier: Apache-2.0
// test_golden ROOT [FILTER]: runs every *.tile below ROOT whose path holds FILTER (golden.h has the
// format). Each pass runs under the pipeline's scope with the verifier on, and each result must
// round-trip through its text.
#include "tests/golden.h"

#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "runtime/cache/function_library.h"

#include <algorithm>
#include <iostream>
#include <stdexcept>

namespace libtile::test {
namespace {

std::string violations(const ir::Function &fn) {
  std::string out;
  for (const ir::Violation &violation : ir::verify(fn)) {
    out += "[" + std::to_string(violation.invariant) + "] " + violation.message;
    out +=
        violation.op.valid() ? std::string(" (") + fn.opInfo(violation.op).mnemonic + ")\n" : "\n";
  }
  return out.empty() ? "valid\n" : out;
}

// What the first pass is going to do that plans in the function's stage.
std::string planText(const ir::Function &fn, const passes::PassContext &context) {
  for (const passes::PassRun &run : passes::schedule(context.target)) {
    if (run.row.plan != nullptr && run.row.needs == fn.stage) {
      return run.row.plan(fn, context, {});
    }
  }
  throw std::invalid_argument("no pass plans here");
}

// Not as an error of the case, which could be blessed.
ir::Function parsed(const std::string &input) {
  try {
    return ir::parse(input, "<golden>");
  } catch (const ir::UserError &error) {
    throw std::invalid_argument(std::string("a case does not parse: ") + error.what());
  }
}

// A file of a target that this build's LLVM does not have: its texts are those of other builds.
struct NeedsNewerLlvm {};

const ir::Target &targetNamed(const std::string &name) {
  try {
    return codegen::findTarget(name);
  } catch (const ir::Unsupported &) {
    throw NeedsNewerLlvm{};
  }
}

std::string runPasses(const GoldenRun &run, const std::string &input) {
  ir::Function fn = parsed(input);
  const ir::Target &target = targetNamed(run.target);
  const passes::PassContext context{target, run.warps, run.stages, passes::Reliance::Numbers,
                                    &runtime::functionLibrary(), run.check, run.copyBoxes, run.specialises, run.sharesBlocks, run.spreadsWarps, false, run.storeBoxes, run.overlapsLaunches,
                                    run.unitRows, run.unitGroups, run.cluster};
  passes::PipelineOptions options;
  options.verifyEach = true;
  for (const std::string &name : run.passes) {
    if (name == "verify") {
      return violations(fn);
    }
    if (name == "plan") {
      return planText(fn, context);
    }
    if (name == "pipeline") {
      passes::runPipeline(fn, context, options);
      continue;
    }
    const passes::PassRow *row = passes::findPass(name);
    if (row == nullptr) { // not as an error of the case, which could be blessed
      throw std::invalid_argument("no pass named " + name);
    }
    passes::runPass(*row, fn, context, options);
  }
  const std::string text = ir::print(fn);
  if (ir::print(ir::parse(text)) != text) {
    throw ir::InternalError("the text does not round-trip:\n" + text);
  }
  return text;
}

int runAll(const std::filesystem::path &root, const std::string &filter) {
  std::vector<std::filesystem::path> files;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".tile" &&
        entry.path().string().find(filter) != std::string::npos) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  size_t failed = 0, left = 0;
  for (const std::filesystem::path &file : files) {
    std::string wrong;
    try {
      wrong = checkGoldenFile(file, runPasses);
    } catch (const std::invalid_argument &error) {
      wrong = file.string() + ": " + error.what() + "\n";
    } catch (const NeedsNewerLlvm &) {
      ++left;
    }
    failed += wrong.empty() ? 0 : 1;
    std::cout << wrong;
  }
  std::cout << files.size() - failed - left << " of " << files.size() << " golden files fit";
  std::cout << (left == 0 ? "" : ", " + std::to_string(left) + " are of targets that need a newer LLVM") << "\n";
  if (failed != 0) {
    std::cout << "to accept what was seen: LIBTILE_BLESS=1 test_golden " << root.string() << " "
              << filter << "\n";
  }
  return failed == 0 && !files.empty() ? 0 : 1;
}

} // namespace
} // namespace libtile::test

int main(int argc, char **argv) {
  if (argc < 2) {
    std::cerr << "usage: test_golden ROOT [FILTER]\n";
    return 2;
  }
  return libtile::test::runAll(argv[1], argc > 2 ? argv[2] : "");
}
