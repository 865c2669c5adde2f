// SPDX-License-Identifier: Apache-2.0
// bindings.h: the interpreter as the front end's Host.
//
// An object of the interpreter has one Object while some value refers to it, which keeps the object
// alive: the table below finds it by the address, which stands for no other object as long.
#include "runtime/bindings/internal.h"
#include "runtime/fork.h"

#include <mutex>
#include <unordered_map>

namespace libtile::bindings {

namespace {

using frontend::Value;

const lt_host *installed = nullptr;

[[noreturn]] void rethrow() {
  const lt_error_info &error = *lt_error();
  const std::string message = error.message;
  if (error.kind == static_cast<int>(runtime::ErrorKind::Unsupported)) {
    throw ir::Unsupported(message);
  }
  if (error.kind == static_cast<int>(runtime::ErrorKind::Internal)) {
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
    return answer(&lt_host::global, fn.host, name);
  }
  Value defaultOf(const std::shared_ptr<frontend::HostObject> &callee,
                  const std::string &name) override {
    return answer(&lt_host::default_of, callee, name);
  }
  Value attribute(const std::shared_ptr<frontend::HostObject> &object,
                  const std::string &name) override {
    return answer(&lt_host::attribute, object, name);
  }
  std::vector<std::string> names(const std::shared_ptr<frontend::HostObject> &object) override {
    std::vector<std::string> all;
    if (void *asked = objectOf(object)) {
      ask(
          &lt_host::names, asked,
          [](const char *name, void *context) {
            static_cast<std::vector<std::string> *>(context)->emplace_back(name);
          },
          &all);
    }
    return all;
  }

  void ended(frontend::Semantics &semantics) noexcept override { host().ended(wrap(semantics)); }
  void print(const std::string &text) override {
    take(ask(&lt_host::print, text.data(), text.size()), nullptr);
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

private:
  using Question = lt_status (*lt_host::*)(void *object, const char *name, lt_value **out);
  static Value answer(Question question, const std::shared_ptr<frontend::HostObject> &object,
                      const std::string &name) {
    lt_value *out = nullptr;
    void *asked = objectOf(object);
    if (asked == nullptr) {
      return {};
    }
    const lt_status status = ask(question, asked, name.c_str(), &out);
    return take(status, out);
  }
};

struct Objects {
  std::mutex mutex;
  std::unordered_map<void *, std::weak_ptr<frontend::HostObject>> known;
};
Objects &objects() {
  // Never destroyed: values may outlive the statics.
  static auto &only = *new Objects;
  return only;
}

} // namespace

std::shared_ptr<frontend::HostObject> Object::of(void *object, bool isFunction) {
  Objects &all = objects();
  const auto find = [&]() -> std::shared_ptr<frontend::HostObject> {
    const auto it = all.known.find(object);
    return it != all.known.end() ? it->second.lock() : nullptr;
  };
  {
    const std::lock_guard lock(all.mutex);
    if (auto found = find()) {
      return found;
    }
  }
  // Outside of our lock: it takes the interpreter's.
  std::shared_ptr<frontend::HostObject> made(new Object(object, isFunction));
  const std::lock_guard lock(all.mutex);
  if (auto found = find()) {
    return found;
  }
  all.known[object] = made;
  return made;
}

Object::Object(void *object, bool isFunction) : object_(object), isFunction_(isFunction) {
  host().retain(object);
}

Object::~Object() {
  {
    Objects &all = objects();
    const std::lock_guard lock(all.mutex);
    // Another one may have been made since nobody refers to this one.
    if (const auto it = all.known.find(object_); it != all.known.end() && it->second.expired()) {
      all.known.erase(it);
    }
  }
  host().release(object_);
}

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
