// SPDX-License-Identifier: Apache-2.0
// Lines of a name and its value, then the IR. A line "parameter" has the argument's index, what it is a
// multiple of, and its type with `const` in front where it is read-only; "signature" the number of bytes of
// the text behind it, which may have lines of its own.
#include "runtime/cache/kernel_state.h"

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verifier.h"

#include <algorithm>
#include <charconv>

namespace libtile::runtime {

namespace {

constexpr std::string_view kHead = "libtile kernel " LIBTILE_VERSION "\n";
constexpr std::string_view kIr = "ir\n";

[[noreturn]] void refuse() {
  throw ir::UserError("this is no compiled kernel of libtile " LIBTILE_VERSION);
}

std::string_view takeWord(std::string_view &text, char end) {
  const size_t length = text.find(end);
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length == std::string_view::npos ? text.size() : length + 1);
  return word;
}

template <class Number> Number number(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) {
    refuse();
  }
  return value;
}

RuntimeParameter readParameter(std::string_view line) {
  RuntimeParameter parameter;
  parameter.argument = number<uint32_t>(takeWord(line, ' '));
  parameter.divisible = number<int64_t>(takeWord(line, ' '));
  const bool isConst = line.starts_with("const ");
  const auto dtype = frontend::DType::byName(isConst ? line.substr(6) : line);
  if (!dtype || parameter.divisible < 1 || parameter.argument >= 256) {
    refuse();
  }
  parameter.dtype = *dtype;
  parameter.dtype.isConst = isConst;
  return parameter;
}

ir::Function readFunction(std::string_view text, const std::vector<RuntimeParameter> &parameters) {
  ir::Function function = ir::parse(text);
  if (!ir::verify(function).empty() || function.stage != ir::Stage::Tile ||
      function.params.size() != parameters.size()) {
    refuse();
  }
  for (unsigned i = 0; i < parameters.size(); ++i) {
    if (function.type(function.arg(function.body(), i)) != parameters[i].dtype.irType()) {
      refuse();
    }
  }
  return function;
}

// "*fp32" for pointers, as DType::byName takes it.
std::string typeText(frontend::DType dtype) {
  std::string text = dtype.isConst ? "const " : "";
  text.append(dtype.pointerDepth, '*');
  dtype.pointerDepth = 0;
  dtype.isConst = false;
  return text + dtype.name();
}

} // namespace

std::string saveKernel(const Compiled &kernel) {
  std::string text(kHead);
  text += "target " + kernel.target().name + "\nsignature " +
          std::to_string(kernel.signature().size()) + "\n" + kernel.signature() + "\n";
  text += "frontend_ms " + std::to_string(kernel.frontendMs) + "\n";
  for (const OptionRow &row : optionRows()) {
    const int64_t value = kernel.options()[*findOption(row.name)];
    if (value != row.standard) {
      text += "option " + std::string(row.name) + " " + std::to_string(value) + "\n";
    }
  }
  for (const RuntimeParameter &parameter : kernel.parameters()) {
    text += "parameter " + std::to_string(parameter.argument) + " " +
            std::to_string(parameter.divisible) + " " + typeText(parameter.dtype) + "\n";
  }
  return text + std::string(kIr) + ir::print(kernel.tile());
}

std::shared_ptr<const Compiled> restoreKernel(std::string_view text) {
  if (!text.starts_with(kHead)) {
    refuse();
  }
  text.remove_prefix(kHead.size());
  std::string target, signature;
  double frontendMs = 0;
  Options options = Options::ofTable();
  std::vector<RuntimeParameter> parameters;
  while (!text.starts_with(kIr)) {
    std::string_view line = takeWord(text, '\n');
    const std::string_view name = takeWord(line, ' ');
    if (name == "target") {
      target = line;
    } else if (name == "signature") {
      signature = text.substr(0, number<size_t>(line));
      text.remove_prefix(std::min(signature.size() + 1, text.size()));
    } else if (name == "frontend_ms") {
      frontendMs = number<double>(line);
    } else if (name == "option") {
      const auto option = findOption(takeWord(line, ' '));
      if (!option) {
        refuse();
      }
      options.set(*option, number<int64_t>(line));
    } else if (name == "parameter") {
      parameters.push_back(readParameter(line));
    } else {
      refuse();
    }
  }
  text.remove_prefix(kIr.size());
  ir::Function function = readFunction(text, parameters);
  auto made = std::make_shared<Compiled>(std::move(function), std::move(parameters), std::move(signature),
                                         codegen::findTarget(target), options);
  made->frontendMs = frontendMs;
  return made;
}

} // namespace libtile::runtime
