// SPDX-License-Identifier: Apache-2.0
// The command line of tile-opt; kHelp in options.cpp is its manual.
#pragma once

#include "passes/pipeline.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace libtile {

// The command line cannot be read: an unknown option, a value that is missing or malformed.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ToolOptions {
  std::string file;
  std::string target = "cpu";
  std::string emit = "tile";
  // ---- what runs
  std::vector<std::string> passes; // these alone, in this order
  bool pipeline = false;
  passes::PipelineOptions run; // its `after` and `time` are set by who runs it
  int32_t warps = 0;
  int32_t stages = 0;
  bool check = false;
  bool copyBoxes = false;
  bool storeBoxes = false;
  bool specialises = false;
  bool sharesBlocks = false;
  bool spreadsWarps = false;
  bool overlapsLaunches = false;
  int32_t unitRows = 0;
  int32_t unitGroups = 0;
  int32_t cluster = 1;
  // ---- tile-opt reduce
  bool reduces = false;
  std::string command; // that succeeds while the failure is there; "": the run above ends with an internal error
  // ---- what is printed
  std::string printAfter; // a pattern of passes (passes::matches); "" for none
  enum class Changes : uint8_t { None, Text, Diff } changes = Changes::None;
  bool locations = false;
  bool source = false;
  bool time = false;
  std::string draw; // a file for the picture; "": none
  // ---- which function, and its specialisation
  std::string kernel;
  std::vector<std::string> signature;
  std::vector<std::string> constants;
};

// Throws UsageError. Names (of targets, passes, ...) are not looked up yet.
[[nodiscard]] ToolOptions readOptions(const std::vector<std::string> &arguments);
// --help, --list-passes, --list-targets: prints and says true.
[[nodiscard]] bool listed(const std::string &argument);
[[nodiscard]] int64_t parseInt(const std::string &text, const std::string &what);
// "a, b, c"
[[nodiscard]] std::string joined(const std::vector<std::string> &names);

} // namespace libtile
