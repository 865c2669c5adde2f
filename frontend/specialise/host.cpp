// SPDX-License-Identifier: Apache-2.0
// TableHost: constants by name, and the language under the names that programs import it by.
#include "frontend/specialise/host.h"

#include "frontend/semantics/semantics.h"
#include "frontend/syntax/ast.h"
#include "frontend/syntax/source.h"

#include <algorithm>
#include <cstdio>

namespace libtile::frontend {

namespace {

// `libtile` and `triton`: what kernels may use of the packages outside of the language.
class Package : public HostObject {
public:
  [[nodiscard]] std::string describe() const override { return "module libtile"; }
};

const std::shared_ptr<HostObject> &package() {
  static const auto &only = *new std::shared_ptr<HostObject>(std::make_shared<Package>());
  return only;
}

Value packageAttribute(std::string_view name) {
  return name == "language" ? Value(Semantics::language())
         : name == "cdiv"   ? Semantics::languageName(name)
                            : Value();
}

// What an import of that dotted path binds; unbound for modules that only Python could import.
Value imported(std::string_view path) {
  const auto takeFirst = [&path] {
    const size_t end = std::min(path.find('.'), path.size());
    const std::string_view first = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    return first;
  };
  const std::string_view top = takeFirst();
  if (top != "libtile" && top != "triton") {
    return {};
  }
  if (path.empty()) {
    return Value(package());
  }
  Value value = packageAttribute(takeFirst());
  while (!path.empty() && value.bound()) {
    const std::string_view name = takeFirst();
    const auto *part = value.as<const LanguagePart *>();
    if (part == nullptr) {
      return {};
    }
    if (Semantics::isLater(name)) {
      throw ir::Unsupported("tl." + std::string(name) + " is not there yet");
    }
    value = Semantics::partName(**part, name);
  }
  return value;
}

} // namespace

void Host::print(const std::string &text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool stillHolds(Host &host, const HostAnswer &answer) {
  if (answer.kind == HostAnswer::Warps) {
    return true;
  }
  try {
    const Value value =
        answer.kind == HostAnswer::Global    ? host.global(*answer.function, answer.name)
        : answer.kind == HostAnswer::Default ? host.defaultOf(answer.object, answer.name)
                                             : host.attribute(answer.object, answer.name);
    return sameValue(value, answer.value);
  } catch (const ir::Error &) {
    return false;
  }
}

Value TableHost::global(const FunctionSource &fn, const std::string &name) {
  if (const auto it = globals_.find(name); it != globals_.end()) {
    return it->second;
  }
  const Ast &tree = *fn.ast;
  const auto found = std::ranges::find_if(
      tree.imports, [&](const auto &row) { return tree[row.first] == name; });
  if (found != tree.imports.end()) {
    return imported(found->second);
  }
  return name == "tl"                             ? Value(Semantics::language())
         : name == "libtile" || name == "triton"  ? Value(package())
         : name == "constexpr"                    ? Semantics::languageName(name)
                                                  : Value();
}

Value TableHost::defaultOf(const std::shared_ptr<HostObject> &callee, const std::string &name) {
  return {};
}

Value TableHost::attribute(const std::shared_ptr<HostObject> &object, const std::string &name) {
  return object == package() ? packageAttribute(name) : Value();
}

Value TableHost::call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
                      Semantics &semantics) {
  semantics.fail(callee->describe() + " cannot be called");
}

} // namespace libtile::frontend
