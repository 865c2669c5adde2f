// SPDX-License-Identifier: Apache-2.0
// Golden text tests. A file tests/<area>/<pass>/<case>.tile of at most 150 lines:
//
//   // run: simplify,eliminate_common target=sm_80
//   func @one stage=tile ... {        input: any number of comment lines and one function
//   }
//   // expect:
//   func @one stage=tile ... {        what print() gives after the passes, byte for byte
//   }
//   // ----                           between cases; further inputs and expectations follow
//
// `run:` may end with, or be, the name of one of the texts that a runner offers, such as `verify`: the
// violations, one a line; `plan`: the function with what the next pass is going to do. A thrown error gives "error: message". Options after the passes:
// target=NAME (default x86-64-v3), warps=N, stages=N (0: the compiler's choice), check, copy_boxes, warp_specialize, share_blocks,
// spreads, launch_pdl, unit_rows=N, unit_groups=N, cluster=N.
//
// LIBTILE_BLESS=1 writes what was seen into the files. A mismatch prints a diff and that command.
#pragma once

#include "ir/diagnostic.h"
#include "runtime/tools/text_diff.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace libtile::test {

struct GoldenRun {
  std::vector<std::string> passes;
  std::string target = "x86-64-v3";
  int warps = 0;
  int stages = 0;
  bool check = false;
  bool copyBoxes = false;
  bool storeBoxes = false;
  bool specialises = false;
  bool sharesBlocks = false;
  bool spreadsWarps = false;
  bool overlapsLaunches = false;
  int unitRows = 0;
  int unitGroups = 0;
  int cluster = 1;
};
// The text that a run gives for one input.
using GoldenRunner = std::function<std::string(const GoldenRun &, const std::string &input)>;

inline std::vector<std::string> splitText(const std::string &text, char separator) {
  std::vector<std::string> out;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    out.push_back(part);
  }
  return out;
}

inline GoldenRun parseGoldenRun(const std::string &line) {
  GoldenRun run;
  for (const std::string &word : splitText(line.substr(std::string("// run:").size()), ' ')) {
    const size_t equals = word.find('=');
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (word.starts_with("target=")) {
      run.target = value;
    } else if (word.starts_with("warps=")) {
      run.warps = std::atoi(value.c_str());
    } else if (word.starts_with("stages=")) {
      run.stages = std::atoi(value.c_str());
    } else if (word.starts_with("unit_rows=")) {
      run.unitRows = std::atoi(value.c_str());
    } else if (word.starts_with("unit_groups=")) {
      run.unitGroups = std::atoi(value.c_str());
    } else if (word.starts_with("cluster=")) {
      run.cluster = std::atoi(value.c_str());
    } else if (word == "check") {
      run.check = true;
    } else if (word == "copy_boxes") {
      run.copyBoxes = true;
    } else if (word == "stores_boxes") {
      run.storeBoxes = true;
    } else if (word == "warp_specialize") {
      run.specialises = true;
    } else if (word == "share_blocks") {
      run.sharesBlocks = true;
    } else if (word == "spreads") {
      run.spreadsWarps = true;
    } else if (word == "launch_pdl") {
      run.overlapsLaunches = true;
    } else if (!word.empty()) {
      run.passes = splitText(word, ',');
    }
  }
  return run;
}

// Runs the cases of one file. Returns "" if all fit (or were blessed), else what is wrong.
inline std::string checkGoldenFile(const std::filesystem::path &path, const GoldenRunner &runner) {
  std::ifstream stream(path);
  std::string header;
  std::getline(stream, header);
  if (!header.starts_with("// run:")) {
    return path.string() + ": the first line is not `// run: ...`\n";
  }
  struct Case {
    std::string input, expected;
  };
  std::vector<Case> cases(1);
  bool expecting = false;
  size_t lines = 1;
  for (std::string line; std::getline(stream, line); ++lines) {
    if (line == "// expect:") {
      expecting = true;
    } else if (line == "// ----") {
      cases.emplace_back();
      expecting = false;
    } else {
      (expecting ? cases.back().expected : cases.back().input) += line + "\n";
    }
  }
  const GoldenRun run = parseGoldenRun(header);
  std::string wrong;
  std::string blessed = header + "\n";
  for (size_t i = 0; i < cases.size(); ++i) {
    std::string seen;
    try {
      seen = runner(run, cases[i].input);
    } catch (const ir::Error &error) {
      seen = "error: " + error.message() + "\n";
    }
    seen += seen.empty() || seen.back() == '\n' ? "" : "\n";
    if (seen != cases[i].expected) {
      wrong += path.string() + ": case " + std::to_string(i + 1) + "\n" +
               diff(cases[i].expected, seen);
    }
    blessed += (i == 0 ? "" : "// ----\n") + cases[i].input + "// expect:\n" + seen;
  }
  const char *bless = std::getenv("LIBTILE_BLESS");
  if (bless != nullptr && std::string(bless) == "1") {
    stream.close();
    std::ofstream(path) << blessed;
    return {};
  }
  if (lines > 150) {
    wrong += path.string() + ": more than 150 lines\n";
  }
  return wrong;
}

} // namespace libtile::test
