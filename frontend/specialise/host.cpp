// SPDX-License-Identifier: Apache-2.0
// TableHost: constants by name, and the language under the names that programs import it by.
#include "frontend/specialise/host.h"

#include "frontend/semantics/semantics.h"

namespace libtile::frontend {

Value TableHost::global(const FunctionSource &fn, const std::string &name) {
  if (const auto it = globals_.find(name); it != globals_.end()) {
    return it->second;
  }
  if (name == "tl" || name == "libtile" || name == "triton") {
    return Value(Module{name, nullptr});
  }
  return name == "constexpr" ? Value(Semantics::find(name)) : Value();
}

Value TableHost::defaultOf(const FunctionSource &fn, const std::string &parameter) { return {}; }

Value TableHost::attribute(const std::shared_ptr<HostObject> &object, const std::string &name) {
  return {};
}

Value TableHost::call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
                      Semantics &semantics) {
  semantics.fail(callee->describe() + " cannot be called");
}

bool TableHost::stillHolds(const HostAnswer &answer) {
  const auto it = globals_.find(answer.name);
  return it == globals_.end() || fingerprint(it->second) == answer.fingerprint;
}

std::string TableHost::fingerprint(const Value &value) { return value.describe(); }

} // namespace libtile::frontend
