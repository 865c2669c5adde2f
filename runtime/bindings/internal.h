// SPDX-License-Identifier: Apache-2.0
// What the implementation files of bindings.h share: the handles' contents and the error record.
#pragma once

#include "frontend/semantics/semantics.h"
#include "runtime/bindings/bindings.h"
#include "runtime/errors.h"
#include "runtime/launch.h"

#include <deque>

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

struct lt_device {
  std::shared_ptr<libtile::runtime::Driver> driver;
  std::string name, target;
  const libtile::ir::Target *kernelTarget; // by that name
  uint32_t index; // of lt_device_open, from 0
};

struct lt_kernel {
  std::shared_ptr<const libtile::runtime::Compiled> compiled;
  std::shared_ptr<const std::vector<libtile::frontend::HostAnswer>> answers;
  std::shared_ptr<libtile::runtime::Executable> executable; // null: compiled for a target only
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

// Types as 16-bit codes: element, sign, const, depth.
[[nodiscard]] inline uint16_t encodeType(const frontend::DType &dtype) {
  return static_cast<uint16_t>(static_cast<unsigned>(dtype.elem) | (dtype.isSigned ? 0x100U : 0U) |
                               (dtype.isConst ? 0x200U : 0U) | (unsigned{dtype.pointerDepth} << 12));
}
[[nodiscard]] inline frontend::DType decodeType(uint16_t code) {
  frontend::DType dtype;
  dtype.elem = static_cast<ir::Elem>(code & 0xFF);
  dtype.isSigned = (code & 0x100) != 0;
  dtype.isConst = (code & 0x200) != 0;
  dtype.pointerDepth = static_cast<uint8_t>(code >> 12);
  return dtype;
}

} // namespace libtile::bindings
