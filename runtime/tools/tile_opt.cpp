// SPDX-License-Identifier: Apache-2.0
// tile-opt: the compiler by hand. Reads tile IR text or kernel source, runs passes, prints what is
// asked for.
#include "codegen/codegen.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "runtime/cache/function_library.h"
#include "runtime/tools/kernel_source.h"
#include "runtime/tools/options.h"
#include "runtime/tools/pass_printer.h"
#include "runtime/tools/picture.h"
#include "runtime/tools/reduce.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace libtile {
namespace {

std::string readFile(const std::string &path) {
  std::stringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw UsageError("cannot read " + path);
  }
  text << stream.rdbuf();
  return text.str();
}

void writeFile(const std::string &path, const std::string &text) {
  if (!(std::ofstream(path, std::ios::binary) << text).flush()) {
    throw ir::UserError("cannot write " + path);
  }
}

// ---- names that the options give

void requireEmit(const ToolOptions &options, const ir::Target &target) {
  const std::vector<std::string> kinds = {"tile", "plan", "llvm", target.assembly, "none"};
  if (std::ranges::find(kinds, options.emit) == kinds.end()) {
    throw ir::UserError("--emit " + options.emit + ": for " + target.name + " there are " +
                        joined(kinds));
  }
}

void requireRun(const std::string &option, const std::string &pattern, const ir::Target &target) {
  std::vector<std::string> known;
  for (const passes::PassRun &run : passes::schedule(target)) {
    if (passes::matches(pattern, run)) {
      return;
    }
    known.push_back(run.row.name + (run.nth > 1 ? ":" + std::to_string(run.nth) : ""));
  }
  throw ir::UserError(option + ": no pass named " + pattern + " in the pipeline for " +
                      target.name + "; there are " + joined(known));
}

void requireRuns(const ToolOptions &options, const ir::Target &target) {
  for (const std::string &pattern : options.passes) {
    requireRun("--passes", pattern, target);
  }
  for (const std::string &pattern : options.run.disabled) {
    requireRun("--disable", pattern, target);
  }
  for (const auto &[option, pattern] : {std::pair("--print-after", &options.printAfter),
                                        std::pair("--start-after", &options.run.startAfter),
                                        std::pair("--stop-after", &options.run.stopAfter)}) {
    if (!pattern->empty()) {
      requireRun(option, *pattern, target);
    }
  }
}

// The row of the pass for the function's stage.
const passes::PassRow &rowFor(const std::string &pass, const ir::Function &fn,
                              const ir::Target &target) {
  std::vector<std::string> stages;
  for (const passes::PassRun &run : passes::schedule(target)) {
    if (passes::matches(pass, run)) {
      if (run.row.needs == fn.stage) {
        return run.row;
      }
      stages.emplace_back(ir::stageName(run.row.needs));
    }
  }
  throw ir::UserError("pass " + pass + " takes a function in stage " + joined(stages) + "; @" +
                      fn.name + " is in stage " + ir::stageName(fn.stage));
}

// ---- running

template <class Work> auto timed(const ToolOptions &options, const char *what, Work work) {
  const auto start = std::chrono::steady_clock::now();
  auto result = work();
  if (options.run.time) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    options.run.time(what, taken.count());
  }
  return result;
}

passes::PassContext contextOf(const ToolOptions &options, const ir::Target &target) {
  return {target, options.warps, options.stages, passes::Reliance::Numbers,
          &runtime::functionLibrary(), options.check, options.copyBoxes, options.specialises, options.sharesBlocks, options.spreadsWarps, false, options.storeBoxes, options.overlapsLaunches,
          options.unitRows, options.unitGroups, options.cluster};
}

void runPasses(ir::Function &fn, const ToolOptions &options, const ir::Target &target) {
  const passes::PassContext context = contextOf(options, target);
  for (const std::string &name : options.passes) {
    passes::runPass(rowFor(name, fn, target), fn, context, options.run);
  }
  const bool wantsAll = options.emit != "tile" && options.emit != "none";
  const bool implied = wantsAll && options.passes.empty() && fn.stage == ir::Stage::Tile;
  if (options.pipeline || implied) {
    passes::runPipeline(fn, context, options.run);
  }
}

bool makesCode(const ToolOptions &options) {
  return options.emit != "tile" && options.emit != "plan" && options.emit != "none";
}

std::string codeOf(const ir::Function &fn, const ToolOptions &options, const ir::Target &target) {
  const ir::Stage last = target.laysOut ? ir::Stage::Staged : ir::Stage::Nested;
  if (fn.stage != last) {
    throw ir::UserError("code for " + target.name + " is made in stage " + ir::stageName(last) +
                        "; @" + fn.name + " is in stage " + ir::stageName(fn.stage));
  }
  codegen::CodeOptions wanted;
  wanted.keepLlvm = options.emit == "llvm";
  wanted.keepAssembly = !wanted.keepLlvm;
  codegen::Code code =
      timed(options, "code generation", [&] { return codegen::generate(fn, target, wanted); });
  return wanted.keepLlvm ? std::move(code.llvm) : std::move(code.assembly);
}

// ---- reduce

std::string firstLine(const std::string &text) { return text.substr(0, text.find('\n')); }

// What the options run ends with, if that is a fault of the compiler; "": it is not.
std::string faultOf(const ir::Function &fn, const ToolOptions &options, const ir::Target &target) {
  try {
    ir::Function run = fn.clone();
    runPasses(run, options, target);
    ir::verifyOrThrow(run, "the passes");
    if (makesCode(options)) {
      static_cast<void>(codeOf(run, options, target));
    }
  } catch (const ir::InternalError &error) {
    return firstLine(error.message());
  } catch (const ir::Error &) {
  }
  return "";
}

// In a folder of its own, which goes with it.
class CandidateFile {
public:
  CandidateFile() : folder_((std::filesystem::temp_directory_path() / "tile-opt-XXXXXX").string()) {
    if (mkdtemp(folder_.data()) == nullptr) {
      throw ir::UserError("there is no place for files in " + std::filesystem::temp_directory_path().string());
    }
  }
  ~CandidateFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  CandidateFile(const CandidateFile &) = delete;
  CandidateFile &operator=(const CandidateFile &) = delete;
  [[nodiscard]] std::string path() const { return folder_ + "/reduced.tile"; }
  [[nodiscard]] bool passes(std::string command, const std::string &text) const {
    std::ofstream(path(), std::ios::binary) << text;
    for (size_t at = 0; (at = command.find("{}", at)) != std::string::npos; at += path().size()) {
      command.replace(at, 2, path());
    }
    return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
  }

private:
  std::string folder_;
};

void reduceIt(ir::Function fn, const ToolOptions &options, const ir::Target &target) {
  ir::verifyOrThrow(fn, "reading");
  ir::PrintOptions print;
  print.locations = options.locations;
  const CandidateFile file;
  const std::string fault = options.command.empty() ? faultOf(fn, options, target) : "";
  const auto fails = [&](const ir::Function &smaller) {
    return options.command.empty() ? !fault.empty() && faultOf(smaller, options, target) == fault
                                   : file.passes(options.command, ir::print(smaller, print));
  };
  if (!fails(fn)) {
    throw ir::UserError(options.command.empty() ? "nothing goes wrong with @" + fn.name + ": give --while COMMAND"
                                                : "the command fails for @" + fn.name + " itself");
  }
  std::cout << ir::print(reduced(std::move(fn), fails), print);
}

void process(ir::Function fn, ir::Names names, ToolOptions options, const ir::Target &target) {
  if (options.reduces) {
    return reduceIt(std::move(fn), options, target);
  }
  PassPrinter printer(options, std::move(names));
  const passes::PassContext context = contextOf(options, target);
  Picture picture(context);
  options.run.after = [&](const passes::PassRun &run, const ir::Function &now) {
    printer.after(run, now);
    if (!options.draw.empty()) {
      picture.after(run, now);
    }
  };
  std::string plan;
  options.run.before = [&](const passes::PassRun &run, const ir::Function &now) {
    if (run.row.plan != nullptr && options.emit == "plan") {
      plan = run.row.plan(now, context, printer.options());
    }
  };
  printer.begin(fn);
  runPasses(fn, options, target);
  if (!options.draw.empty()) {
    writeFile(options.draw, picture.svg());
  }
  ir::verifyOrThrow(fn, options.passes.empty() ? "reading" : options.passes.back(), target.warpSize);
  if (options.emit == "tile") {
    std::cout << printer.text(fn);
  } else if (options.emit == "plan") {
    if (plan.empty()) {
      throw ir::UserError("--emit plan: no pass that plans has run on @" + fn.name);
    }
    std::cout << plan;
  } else if (makesCode(options)) {
    std::cout << codeOf(fn, options, target);
  }
}

// ---- IR text

// What comes from outside is checked before a pass relies on it.
void requireValid(ir::Reading &reading, const ir::Target &target) {
  std::string errors;
  for (const ir::Violation &violation : ir::verify(reading.fn, target.warpSize)) {
    const std::string text = ir::describe(reading.fn, violation, reading.names);
    errors += errors.empty() ? "" : "\n";
    errors += violation.op.valid() ? reading.place(violation.op).render(text)
                                   : reading.file->name + ": error: " + text;
  }
  if (!errors.empty()) {
    throw ir::UserError(errors);
  }
}

void processText(const std::string &text, const ToolOptions &options, const ir::Target &target) {
  std::vector<ir::Reading> readings = ir::parseAll(text, options.file);
  std::vector<std::string> names;
  for (ir::Reading &reading : readings) {
    names.push_back(reading.fn.name);
    if (options.kernel.empty() || options.kernel == reading.fn.name) {
      requireValid(reading, target);
      process(std::move(reading.fn), std::move(reading.names), options, target);
    }
  }
  if (!options.kernel.empty() && std::ranges::find(names, options.kernel) == names.end()) {
    throw ir::UserError("no function @" + options.kernel + " in " + options.file +
                        "; --kernel takes " + joined(names));
  }
}

int run(const std::vector<std::string> &arguments) {
  if (std::ranges::any_of(arguments, listed)) {
    return 0;
  }
  ToolOptions options = readOptions(arguments);
  if (options.time) {
    options.run.time = [](std::string_view pass, double seconds) {
      std::fprintf(stderr, "%10.3f ms  %.*s\n", seconds * 1e3, static_cast<int>(pass.size()),
                   pass.data());
    };
  }
  const std::string text = readFile(options.file);
  const ir::Target &target = codegen::findTarget(options.target);
  if (codegen::isInterpreted(target)) {
    throw ir::UserError("the interpreter runs kernels as they are: tile-opt makes nothing for it");
  }
  requireEmit(options, target);
  requireRuns(options, target);
  if (options.file.ends_with(".py")) {
    process(timed(options, "specialise", [&] { return readKernel(options, text); }), {}, options,
            target);
  } else {
    processText(text, options, target);
  }
  return 0;
}

} // namespace
} // namespace libtile

int main(int argc, char **argv) {
  using namespace libtile;
  try {
    return run({argv + 1, argv + argc});
  } catch (const UsageError &error) {
    std::cerr << "tile-opt: " << error.what() << "\ntile-opt --help shows the manual\n";
    return 2;
  } catch (const ir::InternalError &error) {
    std::cerr << "internal error: " << error.what() << "\n" << error.reproducer() << "\n";
    return 3;
  } catch (const std::exception &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
