// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of a kind of device. One implementation a driver: cpu, cuda (later hip), each
// opening its library with dlopen. Compiling never comes here.
#pragma once

#include "codegen/codegen.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace libtile::runtime {

// Code loaded on a device.
class Module {
public:
  virtual ~Module() = default;
};

struct LaunchShape {
  int32_t grid[3]; // each >= 1
};

class Driver {
public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual std::string name() const = 0;   // "cpu", "cuda:0"
  [[nodiscard]] virtual std::string target() const = 0; // for codegen::findTarget
  // Loads code; on a GPU the driver's JIT assembles it here.
  [[nodiscard]] virtual std::shared_ptr<Module> load(const codegen::Code &code) = 0;
  // The hot path: no allocation. `args`: one 8-byte slot an argument. `sizes`: bytes of each.
  // Returns nullptr, or a message (static or thread-local storage).
  virtual const char *launch(Module &module, const LaunchShape &shape, const uint64_t *args,
                             size_t numArgs, void *stream) noexcept = 0;

  [[nodiscard]] virtual void *allocate(size_t bytes) = 0;
  virtual void free(void *memory) noexcept = 0;
  virtual void copyToDevice(void *to, const void *from, size_t bytes) = 0;
  virtual void copyToHost(void *to, const void *from, size_t bytes) = 0;
  virtual void synchronize() = 0;
};

// The driver of "cpu", "cuda" or "cuda:N", made on first use and kept. Throws ir::UserError with the
// reason if there is no such device.
[[nodiscard]] std::shared_ptr<Driver> openDriver(const std::string &name);

} // namespace libtile::runtime
