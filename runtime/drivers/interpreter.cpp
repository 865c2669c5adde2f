// SPDX-License-Identifier: Apache-2.0
// The interpreter as a device. Its memory is the host's: it takes arrays of the CPU too, and knows of its own which
// bytes were written.
#include "runtime/drivers/driver.h"
#include "runtime/drivers/launch_listener.h"
#include "runtime/drivers/watch.h"
#include "runtime/float_environment.h"
#include "runtime/interpreter/allocations.h"
#include "runtime/interpreter/interpreter.h"
#include "runtime/interpreter/work.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace libtile::runtime {

namespace {

struct LoadedFunction : LoadedCode {
  explicit LoadedFunction(std::shared_ptr<const ir::Function> function) : function(std::move(function)) {}
  std::shared_ptr<const ir::Function> function;
};

// A caller who hears of interruptLaunches() too.
struct Interruptible {
  Caller caller;
  WatchedLaunch watched;
  [[nodiscard]] Caller whole() {
    const auto lasts = [](void *self) {
      const Caller &inner = static_cast<Interruptible *>(self)->caller;
      if (inner.lasts != nullptr) {
        inner.lasts(inner.context);
      }
    };
    const auto isInterrupted = [](void *self) {
      const auto &both = *static_cast<Interruptible *>(self);
      const Caller &inner = both.caller;
      return both.watched.isInterrupted() ||
                     (inner.isInterrupted != nullptr && inner.isInterrupted(inner.context) != 0)
                 ? 1
                 : 0;
    };
    return {lasts, isInterrupted, this};
  }
};

class InterpreterDriver : public Driver {
public:
  explicit InterpreterDriver(std::shared_ptr<Driver> host) : host_(std::move(host)) {}
  [[nodiscard]] std::string name() const override { return codegen::interpreterTarget().name; }
  [[nodiscard]] std::string target() const override { return codegen::interpreterTarget().name; }
  [[nodiscard]] bool runs(const ir::Target &target) const override { return codegen::isInterpreted(target); }
  [[nodiscard]] std::shared_ptr<LoadedCode> load(const codegen::Code &code) override {
    if (code.function == nullptr) {
      throw DeviceError("the kernel is not compiled for the interpreter");
    }
    return std::make_shared<LoadedFunction>(code.function);
  }

  const char *launch(LoadedCode &module, const LaunchShape &shape, const uint64_t *args, size_t numArgs,
                     void *stream, const Caller &caller, Findings *findings) noexcept override {
    const FloatEnvironment standard;
    Interruptible interruptible{caller, {}};
    const interpreter::Launch launch{.fn = *static_cast<LoadedFunction &>(module).function,
                                     .grid = {shape.grid[0], shape.grid[1], shape.grid[2]},
                                     .arguments = {args, numArgs},
                                     .extents = findings != nullptr ? findings->extents : nullptr,
                                     .portable = interpreter::isPortabilityChecked() && !interpreter::isCounting(),
                                     .print = printMessage,
                                     .caller = interruptible.whole()};
    try {
      interpreter::Outcome outcome = interpreter::run(launch);
      if (findings != nullptr) {
        findings->found = std::move(outcome.found);
      }
      return outcome.isInterrupted ? "the launch was interrupted" : nullptr;
    } catch (const std::bad_alloc &) {
      return "there is no memory for the interpreter";
    } catch (const std::exception &error) {
      static thread_local std::string message;
      message = error.what();
      return message.c_str();
    }
  }

  [[nodiscard]] void *allocate(size_t bytes) override {
    void *memory = host_->allocate(bytes);
    interpreter::noteAllocation(reinterpret_cast<uintptr_t>(memory), bytes);
    return memory;
  }
  void free(void *memory) noexcept override {
    interpreter::noteAllocation(reinterpret_cast<uintptr_t>(memory), 0);
    host_->free(memory);
  }
  void copyToDevice(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    interpreter::noteWritten(reinterpret_cast<uintptr_t>(to), bytes);
  }
  void copyToHost(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void *memory, int byte, size_t bytes) override {
    std::memset(memory, byte, bytes);
    interpreter::noteWritten(reinterpret_cast<uintptr_t>(memory), bytes);
  }
  void synchronize(void *stream) override {}

private:
  std::shared_ptr<Driver> host_;
};

} // namespace

std::shared_ptr<Driver> openInterpreterDriver() {
  return std::make_shared<InterpreterDriver>(openCpuDriver());
}

} // namespace libtile::runtime
