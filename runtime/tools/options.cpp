// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/options.h"

#include "codegen/codegen.h"

#include <algorithm>
#include <charconv>
#include <iostream>
#include <span>
#include <sstream>

namespace libtile {

namespace {

constexpr const char *kHelp = R"(usage: tile-opt FILE [options]
       tile-opt reduce FILE [--while COMMAND] [options]

FILE is tile IR text (one function or several) or, when it ends in .py, kernel source; - is standard
input (IR text). Without an option that runs passes the functions are verified and printed. Values
and layouts keep the names that the text gives them, from the first print to the last.

what to run
  --target T          sm_80, sm_90a, x86-64-v3, avx512, ..., cpu: the best of this machine (default)
  --passes A,B,C      these passes, in this order; --list-passes names them
  --pipeline          all passes for the target
  --start-after P     the rest of the pipeline after pass P; FILE is the text that P left
  --stop-after P      the pipeline up to and with pass P
  --disable A,B       the pipeline without these passes
  --warps N           as the launch option num_warps; --stages N, --check, --copy-boxes,
                      --store-boxes, --warp-specialize, --share-blocks, --spread-warps, --launch-pdl likewise
  --unit-rows N       as matrix_instr_nonkdim; --unit-groups N as kpack; --cluster N as num_ctas
  A pass that runs several times is named simplify (each run) or simplify:2 (the second).

what to print (standard output)
  --emit KIND         at the end: tile, the IR (default); plan, what is decided of it: nests (CPU), units, copies
                      ahead (GPU); llvm, and asm (CPU, AMD) or ptx (NVIDIA), the code of the whole pipeline; none
  --print-after P     the IR after pass P, or after each with `all`
  --print-changed     the IR at first and after each pass that changed its text; with =diff what
                      changed. This and --print-after run the pipeline unless --passes says otherwise
  --draw FILE.svg     a picture of loops that copy ahead and of layouts, for GPUs; runs the pipeline
  --source            the line of kernel source that ops come from, as a comment above them
  --locations         with source locations, so that a reproducer keeps them
  --time              seconds of each pass and of code generation (standard error)
  --verify-each       verify after each pass, not only at the end
  --list-passes       the passes in pipeline order, and nothing else
  --list-targets      the targets, and nothing else

reduce: prints a function that is smaller and still goes wrong
  --while COMMAND     it goes wrong as long as this succeeds, for a shell; {} in it is the file with the
                      smaller function. Without: as long as what the options run ends in an internal
                      error with the same first line

which function
  --kernel NAME       of several in FILE this one; kernel source: left out if only one has @jit
  --sig LIST          types of the run-time parameters: x=*fp32:16,n=i32 (:16: multiple of 16)
  --const NAME=VALUE  a compile-time parameter: an integer, float, True, False, None or 'text'; may be
                      given several times

exit status: 0 fine, 1 an error in the input or in a name, 2 wrong usage, 3 a fault of the compiler

example
  tile-opt add.py --sig "x=*fp32:16,y=*fp32:16,out=*fp32:16,n=i32" --const BLOCK=1024 \
    --target sm_90a --print-changed=diff --source --emit ptx
)";

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

int32_t parseCount(const std::string &text, const std::string &what) {
  const int64_t value = parseInt(text, what);
  if (value < 0 || value > 1024) {
    throw UsageError(what + " lies between 0 and 1024");
  }
  return static_cast<int32_t>(value);
}

struct Flag {
  const char *name;
  void (*set)(ToolOptions &);
};

constexpr Flag kFlags[] = {
    {"--pipeline", [](ToolOptions &o) { o.pipeline = true; }},
    {"--print-changed", [](ToolOptions &o) { o.changes = ToolOptions::Changes::Text; }},
    {"--print-changed=diff", [](ToolOptions &o) { o.changes = ToolOptions::Changes::Diff; }},
    {"--source", [](ToolOptions &o) { o.source = true; }},
    {"--locations", [](ToolOptions &o) { o.locations = true; }},
    {"--time", [](ToolOptions &o) { o.time = true; }},
    {"--check", [](ToolOptions &o) { o.check = true; }},
    {"--copy-boxes", [](ToolOptions &o) { o.copyBoxes = true; }},
    {"--store-boxes", [](ToolOptions &o) { o.storeBoxes = true; }},
    {"--warp-specialize", [](ToolOptions &o) { o.specialises = true; }},
    {"--share-blocks", [](ToolOptions &o) { o.sharesBlocks = true; }},
    {"--spread-warps", [](ToolOptions &o) { o.spreadsWarps = true; }},
    {"--launch-pdl", [](ToolOptions &o) { o.overlapsLaunches = true; }},
    {"--verify-each", [](ToolOptions &o) { o.run.verifyEach = true; }},
};

// `--name value` or `--name=value`.
struct Setting {
  const char *name;
  void (*set)(ToolOptions &, const std::string &value);
};

using Text = const std::string &;
constexpr Setting kSettings[] = {
    {"--target", [](ToolOptions &o, Text v) { o.target = v; }},
    {"--passes", [](ToolOptions &o, Text v) { o.passes = split(v, ','); }},
    {"--start-after", [](ToolOptions &o, Text v) { o.run.startAfter = v; }},
    {"--stop-after", [](ToolOptions &o, Text v) { o.run.stopAfter = v; }},
    {"--disable", [](ToolOptions &o, Text v) { o.run.disabled = split(v, ','); }},
    {"--warps", [](ToolOptions &o, Text v) { o.warps = parseCount(v, "--warps"); }},
    {"--stages", [](ToolOptions &o, Text v) { o.stages = parseCount(v, "--stages"); }},
    {"--unit-rows", [](ToolOptions &o, Text v) { o.unitRows = parseCount(v, "--unit-rows"); }},
    {"--unit-groups", [](ToolOptions &o, Text v) { o.unitGroups = parseCount(v, "--unit-groups"); }},
    {"--cluster", [](ToolOptions &o, Text v) { o.cluster = parseCount(v, "--cluster"); }},
    {"--while", [](ToolOptions &o, Text v) { o.command = v; }},
    {"--emit", [](ToolOptions &o, Text v) { o.emit = v; }},
    {"--draw", [](ToolOptions &o, Text v) { o.draw = v; }},
    {"--print-after", [](ToolOptions &o, Text v) { o.printAfter = v; }},
    {"--kernel", [](ToolOptions &o, Text v) { o.kernel = v; }},
    {"--sig", [](ToolOptions &o, Text v) { o.signature = split(v, ','); }},
    {"--const", [](ToolOptions &o, Text v) { o.constants.push_back(v); }},
};

// Reads the option at the front and takes what belongs to it.
void readOption(ToolOptions &options, std::span<const std::string> &rest) {
  const std::string &argument = rest[0];
  const auto flag = std::ranges::find(kFlags, argument, &Flag::name);
  if (flag != std::end(kFlags)) {
    flag->set(options);
    rest = rest.subspan(1);
    return;
  }
  const size_t equals = std::min(argument.find('='), argument.size());
  const auto setting = std::ranges::find(kSettings, argument.substr(0, equals), &Setting::name);
  if (setting == std::end(kSettings)) {
    throw UsageError("unknown option " + argument);
  }
  const bool isJoined = equals < argument.size();
  if (!isJoined && rest.size() < 2) {
    throw UsageError(argument + " takes a value");
  }
  setting->set(options, isJoined ? argument.substr(equals + 1) : rest[1]);
  rest = rest.subspan(isJoined ? 1 : 2);
}

} // namespace

ToolOptions readOptions(const std::vector<std::string> &arguments) {
  ToolOptions options;
  for (std::span<const std::string> rest = arguments; !rest.empty();) {
    if (rest[0].size() >= 2 && rest[0][0] == '-') {
      readOption(options, rest);
      continue;
    }
    if (rest[0] == "reduce" && rest.data() == arguments.data()) {
      options.reduces = true;
      rest = rest.subspan(1);
      continue;
    }
    if (!options.file.empty()) {
      throw UsageError("one FILE at a time");
    }
    options.file = rest[0];
    rest = rest.subspan(1);
  }
  if (options.file.empty()) {
    throw UsageError("no FILE given");
  }
  const bool prints =
      !options.printAfter.empty() || options.changes != ToolOptions::Changes::None || !options.draw.empty();
  options.pipeline |= !options.run.startAfter.empty() || !options.run.stopAfter.empty() ||
                      !options.run.disabled.empty() || (prints && options.passes.empty());
  if (!options.command.empty() && !options.reduces) {
    throw UsageError("--while is an option of tile-opt reduce");
  }
  if (options.pipeline && !options.passes.empty()) {
    throw UsageError("--passes runs these passes alone: no option for the pipeline beside it");
  }
  return options;
}

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

int64_t parseInt(const std::string &text, const std::string &what) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw UsageError(what + ": '" + text + "' is no integer");
  }
  return value;
}

std::string joined(const std::vector<std::string> &names) {
  std::string out;
  for (const std::string &name : names) {
    out += (out.empty() ? "" : ", ") + name;
  }
  return out;
}

} // namespace libtile
