// SPDX-License-Identifier: Apache-2.0
// Host: answers for names that a kernel's source does not define, and says which of them are the
// language. Python implements it over live objects; a C++ program over a table of constants; without
// one, unknown names are errors.
#pragma once

#include "frontend/semantics/value.h"

namespace libtile::frontend {

class Semantics; // frontend/semantics/semantics.h

// An object of the host language, kept alive by its owner. A Host has one HostObject for each of its
// objects, for as long as some value refers to it.
class HostObject {
public:
  virtual ~HostObject() = default;
  // For messages.
  [[nodiscard]] virtual std::string describe() const = 0;
  // A function: as a member of a class it is called with the object in front of its arguments.
  [[nodiscard]] virtual bool isFunction() const { return false; }
};

// What a specialisation asked and was answered; it depends on it. The same question is asked once in
// a specialisation, whatever it costs the host.
struct HostAnswer {
  enum Kind : uint8_t {
    Global,
    Default,
    Attribute,
    Warps, // asked of the signature: the kernel must have that many, whatever the compiler would choose
  };
  Kind kind;
  std::shared_ptr<const FunctionSource> function; // Global: whose
  std::shared_ptr<HostObject> object;             // Default, Attribute: whose
  std::string name;
  Value value; // unbound: there was none
};

class Host {
public:
  virtual ~Host() = default;
  // The value of a global or closure variable of `fn`; unbound if there is none. A plain global
  // that Triton would refuse throws UserError (without location; the walker adds it). Objects of the
  // language come as what they are in it: operations, types, parts.
  virtual Value global(const FunctionSource &fn, const std::string &name) = 0;
  // The default of a parameter of a function, or of a field of a class; unbound if it has none.
  virtual Value defaultOf(const std::shared_ptr<HostObject> &callee, const std::string &name) = 0;
  // object.name; unbound if there is none.
  virtual Value attribute(const std::shared_ptr<HostObject> &object, const std::string &name) = 0;
  // Calls an object of the host: a constexpr function, a class, a function of `math`, or a Python
  // function that takes _semantic (which may call back into `semantics`).
  virtual Value call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
                     Semantics &semantics) = 0;
  // The specialisation whose `semantics` call() was given is over: what was made in it means nothing
  // any more.
  virtual void ended(Semantics &semantics) noexcept {}
  // Shows what a kernel prints while it is compiled.
  virtual void print(const std::string &text);
  // The names that global() of a function, or attribute() of another object, answers for; to say in
  // errors which one may have been meant.
  virtual std::vector<std::string> names(const std::shared_ptr<HostObject> &object) { return {}; }
};

// Whether the host would still give that answer.
[[nodiscard]] bool stillHolds(Host &host, const HostAnswer &answer);

// A Host over a table of names: what a C++ program uses. Behind the table come the names that the
// text imports from the language, and the language as `tl`, `libtile` and `triton`, unless the text
// imports something else by that name. Functions of the same file are found by the specialiser.
class TableHost : public Host {
public:
  TableHost() = default;
  explicit TableHost(std::map<std::string, Value> globals) : globals_(std::move(globals)) {}
  Value global(const FunctionSource &fn, const std::string &name) override;
  Value defaultOf(const std::shared_ptr<HostObject> &callee, const std::string &name) override;
  Value attribute(const std::shared_ptr<HostObject> &object, const std::string &name) override;
  Value call(const std::shared_ptr<HostObject> &callee, const Arguments &arguments,
             Semantics &semantics) override;

private:
  std::map<std::string, Value> globals_;
};

} // namespace libtile::frontend
