// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/kernel_source.h"

#include "frontend/syntax/parser.h"
#include "frontend/syntax/source.h"

#include <charconv>
#include <map>

namespace libtile {

namespace {

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

// The name that was given, which the file must have, or "" where it has one kernel only.
std::string kernelName(const ToolOptions &options,
                       const std::shared_ptr<const ir::SourceFile> &file) {
  const auto ast = frontend::parse(file);
  std::vector<std::string> kernels, functions;
  for (const frontend::AstFunction &fn : ast->functions) {
    functions.push_back((*ast)[fn.name]);
    if (fn.isJit) {
      kernels.push_back(functions.back());
    }
  }
  const std::vector<std::string> &choice = kernels.empty() ? functions : kernels;
  if (!options.kernel.empty() && ast->find(options.kernel) == nullptr) {
    throw ir::UserError("no function " + options.kernel + " in " + file->name +
                        "; --kernel takes " + joined(choice));
  }
  if (options.kernel.empty() && choice.size() > 1) {
    throw ir::UserError("several kernels in " + file->name + ": " + joined(choice) +
                        "; --kernel NAME takes one");
  }
  return options.kernel;
}

} // namespace

ir::Function readKernel(const ToolOptions &options, const std::string &text) {
  auto file = std::make_shared<ir::SourceFile>(ir::SourceFile{options.file, text, 1});
  const auto kernel = frontend::parseFunction(file, kernelName(options, file));
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
      argument.constant = host.defaultOf(kernel->host, param.name);
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

} // namespace libtile
