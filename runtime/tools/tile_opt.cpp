// SPDX-License-Identifier: Apache-2.0
// tile-opt: the compiler by hand. Reads tile IR text or kernel source, runs passes, prints what is
// asked for. kHelp below is its manual.
#include "codegen/codegen.h"
#include "frontend/syntax/source.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"
#include "passes/pipeline.h"
#include "runtime/cache/function_library.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

namespace libtile {
namespace {

constexpr const char *kHelp = R"(usage: tile-opt FILE [options]

FILE is tile IR text (one function or several) or, when it ends in .py, kernel source; - is standard
input (IR text). Without an option that runs passes the functions are verified and printed.

what to run
  --target T          sm_80, sm_90a, x86-64-v3, avx512, ..., cpu: the best of this machine (default)
  --passes A,B,C      these passes, in this order; --list-passes names them
  --pipeline          all passes for the target
  --stop-after P      the pipeline up to and with pass P
  --disable A,B       the pipeline without these passes
  --warps N           as the launch option num_warps; --stages N likewise

what to print (standard output)
  --emit KIND         tile: the IR at the end (default); llvm, ptx or asm: code of the whole pipeline
  --print-after P     the IR after pass P, or after each with `all`; runs the pipeline unless --passes
                      says otherwise
  --locations         with source locations, so that a reproducer keeps them
  --time              seconds of each pass and of code generation (standard error)
  --verify-each       verify after each pass, not only at the end
  --list-passes       the passes in pipeline order, and nothing else
  --list-targets      the targets, and nothing else

kernel source (.py)
  --kernel NAME       the function; may be left out if only one has @jit
  --sig LIST          types of the run-time parameters: x=*fp32:16,n=i32 (:16: multiple of 16)
  --const NAME=VALUE  a compile-time parameter: an integer, float, True, False, None or 'text'; may be
                      given several times

exit status: 0 fine, 1 an error in the input, 2 wrong usage, 3 a fault of the compiler

example
  tile-opt add.py --sig "x=*fp32:16,y=*fp32:16,out=*fp32:16,n=i32" --const BLOCK=1024 \
    --target sm_90a --print-after all --emit ptx
)";

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::string file;
  std::string target = "cpu";
  std::string emit = "tile";
  std::vector<std::string> passes;
  bool pipeline = false;
  bool time = false;
  bool locations = false;
  passes::PipelineOptions run;
  int32_t warps = 0;
  int32_t stages = 0;
  std::string kernel;
  std::vector<std::string> signature;
  std::vector<std::string> constants;
};

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    const size_t first = part.find_first_not_of(' ');
    if (first != std::string::npos) {
      out.push_back(part.substr(first, part.find_last_not_of(' ') - first + 1));
    }
  }
  return out;
}

int64_t parseInt(const std::string &text, const std::string &what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(what + ": '" + text + "' is no integer");
  }
  return value;
}

int32_t parseCount(const std::string &text, const std::string &what) {
  const int64_t value = parseInt(text, what);
  if (value < 0 || value > 1024) {
    throw UsageError(what + " lies between 0 and 1024");
  }
  return static_cast<int32_t>(value);
}

// Lists and nothing else: true.
bool listed(const std::string &argument) {
  if (argument == "--help" || argument == "-h") {
    std::cout << kHelp;
  } else if (argument == "--list-passes") {
    for (const passes::PassRow &row : passes::pipelineTable()) {
      const char *when = row.when == passes::When::Always    ? ""
                         : row.when == passes::When::LaysOut ? " (GPU)"
                                                             : " (CPU)";
      std::cout << row.name << ": " << ir::stageName(row.needs) << " -> "
                << ir::stageName(row.gives) << when << "\n";
    }
  } else if (argument == "--list-targets") {
    for (const std::string &name : codegen::targetNames()) {
      std::cout << name << "\n";
    }
  } else {
    return false;
  }
  return true;
}

void readFlag(Options &options, const std::string &flag) {
  if (flag == "--pipeline") {
    options.pipeline = true;
  } else if (flag == "--time") {
    options.time = true;
  } else if (flag == "--locations") {
    options.locations = true;
  } else if (flag == "--verify-each") {
    options.run.verifyEach = true;
  } else {
    throw UsageError("unknown option " + flag);
  }
}

// An option that takes a value: true.
bool readValue(Options &options, const std::string &name, const std::string &value) {
  if (name == "--target") {
    options.target = value;
  } else if (name == "--passes") {
    options.passes = split(value, ',');
  } else if (name == "--stop-after") {
    options.run.stopAfter = value;
    options.pipeline = true;
  } else if (name == "--disable") {
    options.run.disabled = split(value, ',');
  } else if (name == "--warps") {
    options.warps = parseCount(value, name);
  } else if (name == "--stages") {
    options.stages = parseCount(value, name);
  } else if (name == "--emit") {
    if (value != "tile" && value != "llvm" && value != "ptx" && value != "asm") {
      throw UsageError("--emit takes tile, llvm, ptx or asm");
    }
    options.emit = value;
  } else if (name == "--print-after") {
    options.run.printAfter = value;
  } else if (name == "--kernel") {
    options.kernel = value;
  } else if (name == "--sig") {
    options.signature = split(value, ',');
  } else if (name == "--const") {
    options.constants.push_back(value);
  } else {
    return false;
  }
  return true;
}

void requirePass(const std::string &name) {
  if (passes::findPass(name) == nullptr) {
    throw UsageError("no pass named " + name + " (--list-passes names them)");
  }
}

Options readArguments(const std::vector<std::string> &arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    if (name.size() < 2 || name[0] != '-') {
      if (!options.file.empty()) {
        throw UsageError("one FILE at a time");
      }
      options.file = name;
      continue;
    }
    const size_t equals = name.find('=');
    const bool joined = equals != std::string::npos;
    const std::string value = joined                     ? name.substr(equals + 1)
                              : i + 1 < arguments.size() ? arguments[i + 1]
                                                         : std::string();
    name = name.substr(0, equals);
    Options trial = options;
    if (readValue(trial, name, value)) {
      if (!joined && ++i == arguments.size()) {
        throw UsageError(name + " takes a value");
      }
      options = std::move(trial);
    } else {
      readFlag(options, name);
    }
  }
  if (options.file.empty()) {
    throw UsageError("no FILE given");
  }
  options.pipeline |= !options.run.printAfter.empty() && options.passes.empty();
  for (const std::string &name : options.passes) {
    requirePass(name);
  }
  for (const std::string &name : options.run.disabled) {
    requirePass(name);
  }
  if (!options.run.stopAfter.empty()) {
    requirePass(options.run.stopAfter);
  }
  if (!options.run.printAfter.empty() && options.run.printAfter != "all") {
    requirePass(options.run.printAfter);
  }
  return options;
}

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

// ---- kernel source

frontend::Value parseConstant(const std::string &text) {
  using frontend::Value;
  if (text == "None") {
    return Value::none();
  }
  if (text == "True" || text == "False") {
    return Value::boolean(text == "True");
  }
  if (text.size() >= 2 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0]) {
    return Value::string(text.substr(1, text.size() - 2));
  }
  int64_t whole = 0;
  const char *end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole);
      error == std::errc() && stop == end) {
    return Value::integer(whole);
  }
  double real = 0;
  if (const auto [stop, error] = std::from_chars(text.data(), end, real);
      error == std::errc() && stop == end) {
    return Value(frontend::Constant(real));
  }
  throw UsageError("--const: '" + text + "' is no integer, float, True, False, None or 'text'");
}

// "*fp32:16"
frontend::Argument parseArgument(const std::string &text) {
  frontend::Argument argument;
  const size_t colon = text.find(':');
  argument.dtype = frontend::DType::byName(text.substr(0, colon));
  if (!argument.dtype) {
    throw UsageError("--sig: '" + text.substr(0, colon) + "' is no type");
  }
  if (colon != std::string::npos) {
    argument.divisible = parseInt(text.substr(colon + 1), "--sig");
  }
  return argument;
}

std::map<std::string, std::string> byName(const std::vector<std::string> &entries,
                                          const std::string &option) {
  std::map<std::string, std::string> out;
  for (const std::string &entry : entries) {
    const size_t equals = entry.find('=');
    if (equals == std::string::npos) {
      throw UsageError(option + ": '" + entry + "' is not NAME=...");
    }
    out[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return out;
}

ir::Function specialiseKernel(const Options &options, const std::string &text) {
  auto file = std::make_shared<ir::SourceFile>(ir::SourceFile{options.file, text, 1});
  const auto kernel = frontend::parseFunction(file, options.kernel);
  auto types = byName(options.signature, "--sig");
  auto constants = byName(options.constants, "--const");
  frontend::TableHost host;
  frontend::Signature signature;
  signature.numWarps = options.warps != 0 ? options.warps : signature.numWarps;
  signature.numStages = options.stages != 0 ? options.stages : signature.numStages;
  for (const frontend::ParameterSource &param : kernel->params) {
    if (const auto type = types.extract(param.name)) {
      signature.arguments.push_back(parseArgument(type.mapped()));
      continue;
    }
    frontend::Argument argument;
    if (const auto constant = constants.extract(param.name)) {
      argument.constant = parseConstant(constant.mapped());
    } else if (param.hasDefault) {
      argument.constant = host.defaultOf(*kernel, param.name);
    } else {
      throw UsageError("parameter " + param.name + " stands neither in --sig nor in --const");
    }
    signature.arguments.push_back(std::move(argument));
  }
  if (!types.empty() || !constants.empty()) {
    throw UsageError(kernel->name + " has no parameter " +
                     (types.empty() ? constants : types).begin()->first);
  }
  return frontend::specialise(*kernel, signature, host);
}

// ---- running

void show(const std::string &title, const std::string &text) {
  std::cout << "// ---- " << title << "\n" << text;
}

template <class Work> auto timed(const Options &options, const char *what, Work work) {
  const auto start = std::chrono::steady_clock::now();
  auto result = work();
  if (options.run.time) {
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    options.run.time(what, taken.count());
  }
  return result;
}

void process(ir::Function fn, const Options &options, const ir::Target &target) {
  const passes::PassContext context{target, options.warps, options.stages, true,
                                    &runtime::functionLibrary()};
  if (options.emit != "tile" || options.pipeline) {
    passes::runPipeline(fn, context, options.run);
  }
  for (const std::string &name : options.passes) {
    passes::runPass(*passes::findPass(name), fn, context, options.run);
  }
  ir::verifyOrThrow(fn, options.passes.empty() ? "reading" : options.passes.back());
  if (options.emit == "tile") {
    ir::PrintOptions print;
    print.locations = options.locations;
    std::cout << ir::print(fn, print);
    return;
  }
  codegen::CodeOptions wanted;
  wanted.keepLlvm = options.emit == "llvm";
  wanted.keepAssembly = true;
  const codegen::Code code =
      timed(options, "code generation", [&] { return codegen::generate(fn, target, wanted); });
  std::cout << (options.emit == "llvm" ? code.llvm : code.assembly);
}

int run(const std::vector<std::string> &arguments) {
  for (const std::string &argument : arguments) {
    if (listed(argument)) {
      return 0;
    }
  }
  Options options = readArguments(arguments);
  options.run.print = [](std::string_view pass, const std::string &text) {
    show("after " + std::string(pass), text);
  };
  if (options.time) {
    options.run.time = [](std::string_view pass, double seconds) {
      std::fprintf(stderr, "%10.3f ms  %.*s\n", seconds * 1e3, static_cast<int>(pass.size()),
                   pass.data());
    };
  }
  const std::string text = readFile(options.file);
  const ir::Target &target = codegen::findTarget(options.target);
  if (options.file.ends_with(".py")) {
    process(timed(options, "specialise", [&] { return specialiseKernel(options, text); }), options,
            target);
    return 0;
  }
  for (ir::Function &fn : ir::parseAll(text, options.file)) {
    // What comes from outside is checked before a pass relies on it.
    const std::vector<ir::Violation> found = ir::verify(fn);
    if (!found.empty()) {
      try {
        ir::verifyOrThrow(fn, "reading");
      } catch (const ir::Error &error) {
        throw ir::UserError(error.message(), error.location());
      }
    }
    process(std::move(fn), options, target);
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
