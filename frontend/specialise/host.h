// SPDX-License-Identifier: Apache-2.0
// Host: answers for names that a kernel's source does not define. Python implements it over live
// objects; a C++ program over a table of constants; without one, unknown names are errors.
#pragma once

#include "frontend/semantics/value.h"

namespace libtile::frontend {

class Semantics; // frontend/semantics/semantics.h

// An object of the host language, kept alive by its owner.
class HostObject {
public:
  virtual ~HostObject() = default;
  // For messages.
  [[nodiscard]] virtual std::string describe() const = 0;
};

// One answer that a specialisation depends on. `check` tells later whether the host would still
// give the same answer (Python: a global that was changed compiles the kernel anew).
struct HostAnswer {
  std::string question; // "global SCALE of add"
  std::shared_ptr<HostObject> object;
  std::string name;
  std::string fingerprint;
};

class Host {
public:
  virtual ~Host() = default;
  // The value of a global or closure variable of `fn`; unbound if there is none. A plain global
  // that Triton would refuse throws UserError (without location; the walker adds it).
  virtual Value global(const FunctionSource &fn, const std::string &name) = 0;
  // The default of a parameter.
  virtual Value defaultOf(const FunctionSource &fn, const std::string &parameter) = 0;
  // object.name for a module or an object of the host; unbound if there is none.
  virtual Value attribute(const std::shared_ptr<HostObject> &object, const std::string &name) = 0;
  // Calls an object of the host: a constexpr function, a class, a function of `math`, or a Python
  // function that takes _semantic (which may call back into `semantics`).
  virtual Value call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
                     Semantics &semantics) = 0;
  // Whether the answer would be the same now.
  virtual bool stillHolds(const HostAnswer &answer) = 0;
  // Fingerprint of an answer for HostAnswer.
  virtual std::string fingerprint(const Value &value) = 0;
};

// A Host over a table of names: what a C++ program uses. Functions of the same file are found by
// the specialiser itself.
class TableHost : public Host {
public:
  TableHost() = default;
  explicit TableHost(std::map<std::string, Value> globals) : globals_(std::move(globals)) {}
  Value global(const FunctionSource &fn, const std::string &name) override;
  Value defaultOf(const FunctionSource &fn, const std::string &parameter) override;
  Value attribute(const std::shared_ptr<HostObject> &object, const std::string &name) override;
  Value call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
             Semantics &semantics) override;
  bool stillHolds(const HostAnswer &answer) override;
  std::string fingerprint(const Value &value) override;

private:
  std::map<std::string, Value> globals_;
};

} // namespace libtile::frontend
