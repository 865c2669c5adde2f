// SPDX-License-Identifier: Apache-2.0
// What the runtime asks of a kind of device. One implementation a driver: cpu, cuda, hip, each
// opening its library with dlopen. Compiling never comes here.
#pragma once

#include "codegen/codegen.h"
#include "runtime/drivers/caller.h"
#include "runtime/findings.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace libtile::runtime {

// No such device, or the device refused: what the device's library says.
class DeviceError : public ir::UserError {
public:
  explicit DeviceError(std::string message) : UserError(std::move(message)) {}
};

// Code loaded on a device; unloaded with the last handle.
class LoadedCode {
public:
  virtual ~LoadedCode() = default;
  // What loading found out, of a thread: {"registers", 32}, {"local_bytes", 0}, and {"max_threads", 1024} of a program.
  [[nodiscard]] virtual std::vector<std::pair<std::string, int64_t>> properties() const { return {}; }
};

struct LaunchShape {
  int32_t grid[3]; // each >= 1
};

class Driver {
public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual std::string name() const = 0;   // "cpu", "interpreter", "cuda:0", "hip:0"
  [[nodiscard]] virtual std::string target() const = 0; // for codegen::findTarget
  // Whether code for that target runs here.
  [[nodiscard]] virtual bool runs(const ir::Target &target) const = 0;
  // Loads code; on a GPU the driver's JIT assembles it here.
  [[nodiscard]] virtual std::shared_ptr<LoadedCode> load(const codegen::Code &code) = 0;
  // The hot path: no allocation. `args`: one 8-byte slot an argument, its value in the low bytes.
  // Every extent of the grid is >= 1. Returns nullptr, or a message (static or thread-local storage).
  // `caller` hears of a launch that may last, and may end one on a CPU: that is a message, too. `findings`
  // serves code that reports (Compiled::reports()); what is found ends a launch with a message.
  virtual const char *launch(LoadedCode &module, const LaunchShape &shape, const uint64_t *args,
                             size_t numArgs, void *stream, const Caller &caller,
                             Findings *findings) noexcept = 0;

  [[nodiscard]] virtual void *allocate(size_t bytes) = 0;
  virtual void free(void *memory) noexcept = 0;
  virtual void copyToDevice(void *to, const void *from, size_t bytes) = 0;
  virtual void copyToHost(void *to, const void *from, size_t bytes) = 0;
  virtual void fill(void *memory, int byte, size_t bytes) = 0;
  // Waits for `stream`, or for everything on the device.
  virtual void synchronize(void *stream = nullptr) = 0;
  // Bytes of the last-level cache, for benchmarks that must not measure it; 0: unknown.
  [[nodiscard]] virtual size_t cacheBytes() const { return 0; }

  // The device's own name ("NVIDIA H200"), and what its library says of it: {"multiprocessor_count", 132}. Empty on
  // the CPU.
  [[nodiscard]] virtual std::string model() const { return {}; }
  [[nodiscard]] virtual std::vector<std::pair<std::string, int64_t>> properties() const { return {}; }

  // ---- time on the device's own clock: start, work, stop; then the milliseconds between.
  // nullptr where the host's clock serves (CPU).
  [[nodiscard]] virtual void *recordTime(void *stream) { return nullptr; }
  [[nodiscard]] virtual double millisecondsBetween(void *start, void *stop) { return 0; }
  virtual void freeTime(void *time) noexcept {}
};

// The driver of "cpu", "interpreter", "cuda", "cuda:N", "hip" or "hip:N", made on first use and kept. Throws DeviceError with the
// reason if there is no such device.
[[nodiscard]] std::shared_ptr<Driver> openDriver(const std::string &name);
// The names of this machine's devices: "cpu", then "cuda:0", ..., "hip:0", ...; the interpreter is everywhere.
[[nodiscard]] std::vector<std::string> availableDrivers();

// The implementations, <kind>.cpp.
[[nodiscard]] std::shared_ptr<Driver> openCpuDriver(); // throws as preparePool() does
[[nodiscard]] std::shared_ptr<Driver> openInterpreterDriver();
[[nodiscard]] std::shared_ptr<Driver> openCudaDriver(int ordinal);
[[nodiscard]] std::shared_ptr<Driver> openHipDriver(int ordinal);
// The device whose memory the address is in; -1: none.
[[nodiscard]] int hipDeviceOf(const void *address) noexcept;
[[nodiscard]] int cudaDeviceOf(const void *address) noexcept;
// 0 without a driver or a GPU.
[[nodiscard]] int hipDeviceCount() noexcept;
[[nodiscard]] int cudaDeviceCount() noexcept;

} // namespace libtile::runtime
