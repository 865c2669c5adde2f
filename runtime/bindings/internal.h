// SPDX-License-Identifier: Apache-2.0
// What the implementation files of bindings.h share: the handles' contents and the error record.
#pragma once

#include "frontend/semantics/semantics.h"
#include "runtime/bindings/bindings.h"
#include "runtime/errors.h"
#include "runtime/launcher.h"

#include <deque>
#include <mutex>

struct lt_value {
  libtile::frontend::Value value;
};

// A specialisation is named by its Semantics: the handle has no content of its own.
inline libtile::frontend::Semantics &unwrap(lt_semantics *semantics) {
  return *reinterpret_cast<libtile::frontend::Semantics *>(semantics);
}
inline lt_semantics *wrap(libtile::frontend::Semantics &semantics) {
  return reinterpret_cast<lt_semantics *>(&semantics);
}

// Likewise runtime's LaunchDevice.
inline libtile::runtime::LaunchDevice &unwrap(lt_device *device) {
  return *reinterpret_cast<libtile::runtime::LaunchDevice *>(device);
}
inline const libtile::runtime::LaunchDevice &unwrap(const lt_device *device) {
  return *reinterpret_cast<const libtile::runtime::LaunchDevice *>(device);
}

struct lt_kernel {
  std::shared_ptr<const libtile::runtime::Compiled> compiled;
  std::shared_ptr<libtile::runtime::Executable> executable; // null: compiled for a target only
  std::mutex mutex{};                                       // of `executable`

  [[nodiscard]] std::shared_ptr<libtile::runtime::Executable> loaded() {
    const std::lock_guard lock(mutex);
    return executable;
  }
};

namespace libtile::bindings {

// An object of the interpreter.
class Object : public frontend::HostObject {
public:
  // The one Object of that object.
  [[nodiscard]] static std::shared_ptr<frontend::HostObject> of(void *object, bool isFunction);
  ~Object() override;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] bool isFunction() const override { return isFunction_; }
  [[nodiscard]] void *get() const { return object_; }

private:
  Object(void *object, bool isFunction);

  void *object_;
  bool isFunction_;
};

[[nodiscard]] const lt_host &host();
[[nodiscard]] frontend::Host &hostInterface();
// nullptr for null and for objects of another host.
[[nodiscard]] void *objectOf(const std::shared_ptr<frontend::HostObject> &object);

void setError(const std::exception &error) noexcept;
// Text that stays valid until the next call in this thread.
const char *keepText(std::string text) noexcept;

// Runs the body; an exception becomes the thread's error and `failure` the result.
template <class R, class F> R guarded(R failure, F &&body) noexcept {
  try {
    return body();
  } catch (const std::exception &error) {
    setError(error);
  } catch (...) {
    lt_set_error(2, "unknown exception");
  }
  return failure;
}

} // namespace libtile::bindings
