// SPDX-License-Identifier: Apache-2.0
// bindings.h: the interpreter as the front end's Host.
//
// A specialisation depends on the answers of the host. Their fingerprints name objects by address:
// the owner of a compiled kernel keeps the objects alive, so an address stands for one object.
#include "runtime/bindings/internal.h"
#include "runtime/fork.h"

namespace libtile::bindings {

namespace {

using frontend::Value;

const lt_host *installed = nullptr;

[[noreturn]] void rethrow() {
  const lt_error_info &error = *lt_error();
  const std::string message = error.message;
  if (error.kind == static_cast<int>(Error::Kind::Unsupported)) {
    throw ir::Unsupported(message);
  }
  if (error.kind == static_cast<int>(Error::Kind::Internal)) {
    throw ir::InternalError(message, {}, error.reproducer);
  }
  throw ir::UserError(message);
}

// Calls a function of the host, which may wait for the interpreter: meanwhile this thread does not compile.
template <class R, class... P, class... A> R ask(R (*lt_host::*function)(P...), A... arguments) {
  const runtime::HostScope scope;
  return (host().*function)(arguments...);
}

// Takes the value over.
Value take(lt_status status, lt_value *out) {
  const std::unique_ptr<lt_value> owner(out);
  if (status != LT_OK) {
    rethrow();
  }
  return owner != nullptr ? owner->value : Value();
}

class Interpreter : public frontend::Host {
public:
  Value global(const frontend::FunctionSource &fn, const std::string &name) override {
    lt_value *out = nullptr;
    void *function = objectOf(fn.host);
    if (function == nullptr) {
      return {};
    }
    const lt_status status = ask(&lt_host::global, function, name.c_str(), &out);
    return take(status, out);
  }
  Value defaultOf(const frontend::FunctionSource &fn, const std::string &parameter) override {
    lt_value *out = nullptr;
    void *function = objectOf(fn.host);
    if (function == nullptr) {
      return {};
    }
    const lt_status status = ask(&lt_host::default_of, function, parameter.c_str(), &out);
    return take(status, out);
  }
  Value attribute(const std::shared_ptr<frontend::HostObject> &object,
                  const std::string &name) override {
    lt_value *out = nullptr;
    if (objectOf(object) == nullptr) {
      return {};
    }
    const lt_status status = ask(&lt_host::attribute, objectOf(object), name.c_str(), &out);
    return take(status, out);
  }

  Value call(const std::shared_ptr<frontend::HostObject> &callee,
             const frontend::Arguments &arguments, frontend::Semantics &semantics) override {
    // A deque: the pointers must not move.
    std::deque<lt_value> values;
    std::vector<lt_value *> pointers;
    std::vector<const char *> keywords;
    for (const Value &value : arguments.positional) {
      pointers.push_back(&values.emplace_back(lt_value{value}));
    }
    for (const auto &[name, value] : arguments.keyword) {
      keywords.push_back(name.c_str());
      pointers.push_back(&values.emplace_back(lt_value{value}));
    }
    lt_value *out = nullptr;
    const lt_status status =
        ask(&lt_host::call, objectOf(callee), wrap(semantics), pointers.data(),
            arguments.positional.size(), keywords.data(), keywords.size(), &out);
    return take(status, out);
  }

  std::string fingerprint(const Value &value) override {
    if (const auto *fn = value.as<std::shared_ptr<const frontend::FunctionSource>>()) {
      return byAddress("function", objectOf((*fn)->host));
    }
    if (const auto *object = value.as<std::shared_ptr<frontend::HostObject>>()) {
      return byAddress("object", objectOf(*object));
    }
    return runtime::constantKey(value);
  }

  bool stillHolds(const frontend::HostAnswer &answer) override {
    void *object = objectOf(answer.object);
    if (object == nullptr) {
      return true;
    }
    try {
      lt_value *out = nullptr;
      const lt_status status = answer.question.starts_with("default")
                                   ? ask(&lt_host::default_of, object, answer.name.c_str(), &out)
                               : answer.question.starts_with("global")
                                   ? ask(&lt_host::global, object, answer.name.c_str(), &out)
                                   : ask(&lt_host::attribute, object, answer.name.c_str(), &out);
      return fingerprint(take(status, out)) == answer.fingerprint;
    } catch (const ir::Error &) {
      return false;
    }
  }

private:
  static std::string byAddress(const char *sort, const void *object) {
    return sort + std::to_string(reinterpret_cast<uintptr_t>(object));
  }
};

} // namespace

Object::Object(void *object) : object_(object) { ask(&lt_host::retain, object); }
Object::~Object() { ask(&lt_host::release, object_); }

std::string Object::describe() const {
  char text[256] = "";
  ask(&lt_host::describe, object_, text, sizeof text);
  return text;
}

const lt_host &host() {
  if (installed == nullptr) {
    throw ir::InternalError("no host is installed");
  }
  return *installed;
}

frontend::Host &hostInterface() {
  static Interpreter interpreter;
  return interpreter;
}

void *objectOf(const std::shared_ptr<frontend::HostObject> &object) {
  const auto *ours = dynamic_cast<const Object *>(object.get());
  return ours != nullptr ? ours->get() : nullptr;
}

} // namespace libtile::bindings

void lt_set_host(const lt_host *host) { libtile::bindings::installed = host; }
