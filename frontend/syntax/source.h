// SPDX-License-Identifier: Apache-2.0
// A jit function as text and as a tree, and how kernels are turned into tile IR.
//
//   auto file = std::make_shared<ir::SourceFile>("add.py", text);
//   auto fn   = frontend::parseFunction(file, "add");       // once a function
//   auto tile = frontend::specialise(*fn, signature, host); // once a signature
#pragma once

#include "frontend/specialise/host.h"
#include "frontend/semantics/value.h"
#include "ir/function.h"
#include "ir/ops.h"

namespace libtile::frontend {

struct Ast; // frontend/syntax/ast.h

struct ParameterSource {
  std::string name;
  bool isConstexpr = false;           // annotated tl.constexpr
  bool isConst = false;               // annotated tl.const: read-only pointer
  std::optional<DType> forcedType;    // annotated with a type: overrides the argument's
  bool hasDefault = false;            // its value: evaluated by the Host or from the tree
  enum Kind : uint8_t { Normal, VarArgs, KeywordOnly } kind = Normal;
};

// Always owned by a shared_ptr.
struct FunctionSource : std::enable_shared_from_this<FunctionSource> {
  std::string name;
  std::shared_ptr<const ir::SourceFile> file;
  std::shared_ptr<const Ast> ast;
  std::vector<ParameterSource> params;
  // The function of the host, which answers for globals and defaults; null in a C++ program.
  std::shared_ptr<HostObject> host;
};

// Parses `file` (a whole module, or one function with its decorators) and returns the function of
// that name; an empty name takes the only one with @jit, or the only one. Throws UserError with caret.
[[nodiscard]] std::shared_ptr<const FunctionSource>
parseFunction(std::shared_ptr<const ir::SourceFile> file, const std::string &name,
              std::shared_ptr<HostObject> host = nullptr);

// The default of that parameter, which has one, evaluated outside of any kernel. Throws UserError.
[[nodiscard]] Value defaultValue(const FunctionSource &fn, size_t parameter, Host &host);

// One argument of a specialisation.
struct Argument {
  // A run-time argument of this type (shape empty), or a compile-time constant.
  std::optional<DType> dtype;
  Value constant;
  int64_t divisible = 1; // ir::Param::divisible
  // Or an aggregate of both: then `constant` is its class (unbound: a plain tuple), and these are its fields. Each run-time one
  // becomes a parameter of the kernel, in order.
  std::optional<std::vector<Argument>> items;

  [[nodiscard]] const std::shared_ptr<const Class> &itemsClass() const {
    const auto *given = constant.as<std::shared_ptr<const Class>>();
    return given != nullptr ? *given : Class::tuple();
  }
};

struct Signature {
  std::vector<Argument> arguments; // one a parameter
  int32_t numWarps = 4;
  int32_t numStages = 3;
  std::string target; // by name, for kernels that ask for it; empty: none is known
  bool debug = false; // what the kernel asserts is checked
  bool sanitizesOverflow = false; // and that its sums and products fit their types
  std::optional<ir::Precision> dotPrecision; // of dots of fp32 that ask for none
  int64_t impreciseSums = 1 << 30; // products of 8-bit floats that dots may sum in less than fp32 where they do not say
  bool portable = false; // descriptors reduce what Triton's do
};

// The kernel as tile IR: stage tile, passes the verifier. Throws UserError, Unsupported.
// `answers`, if given, gets every answer of the Host that the result depends on.
[[nodiscard]] ir::Function specialise(const FunctionSource &fn, const Signature &signature,
                                      Host &host, std::vector<HostAnswer> *answers = nullptr);

} // namespace libtile::frontend
