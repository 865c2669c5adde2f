// SPDX-License-Identifier: Apache-2.0
// Kernels from text, for the tests of the syntax and the walker.
#pragma once

#include "frontend/syntax/source.h"
#include "ir/printer.h"
#include "ir/verifier.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace libtile::frontend {

inline std::shared_ptr<const ir::SourceFile> sourceFile(std::string text) {
  return std::make_shared<const ir::SourceFile>(ir::SourceFile{"kernel.py", std::move(text)});
}

// Types ("*fp32", "i32") are run-time arguments, "=7" is the constant 7, "=" the default.
inline Signature signatureOf(const std::vector<std::string> &arguments) {
  Signature signature;
  for (const std::string &text : arguments) {
    Argument argument;
    if (!text.starts_with("=")) {
      argument.dtype = DType::byName(text);
      EXPECT_TRUE(argument.dtype.has_value()) << text;
    } else if (text.size() > 1) {
      argument.constant = Value::integer(std::stoll(text.substr(1)));
    }
    signature.arguments.push_back(std::move(argument));
  }
  return signature;
}

// The verified IR of the kernel `name` of the text.
inline ir::Function compile(const std::string &text, const std::string &name,
                            const std::vector<std::string> &arguments) {
  TableHost host;
  const auto fn = parseFunction(sourceFile(text), name);
  ir::Function made = specialise(*fn, signatureOf(arguments), host);
  ir::verifyOrThrow(made, "specialise");
  return made;
}

// How it ended: "ok", "error: <message>", "later: <message>" (Unsupported), with ":line:column".
struct Outcome {
  std::string kind, message;
  uint32_t line = 0, column = 0, endColumn = 0;
  std::string what;
};

template <class Fn> Outcome outcomeOf(Fn &&fn) {
  const auto from = [](const char *kind, const ir::Error &error) {
    const ir::Location &at = error.location();
    return Outcome{kind, error.message(), at.line, at.column, at.endColumn, error.what()};
  };
  try {
    fn();
  } catch (const ir::UserError &error) {
    return from("error", error);
  } catch (const ir::Unsupported &error) {
    return from("later", error);
  } catch (const ir::InternalError &error) {
    return from("internal", error);
  }
  return {"ok", "", 0, 0, 0, ""};
}

inline Outcome outcome(const std::string &text, const std::string &name,
                       const std::vector<std::string> &arguments) {
  return outcomeOf([&] { (void)compile(text, name, arguments); });
}

} // namespace libtile::frontend
