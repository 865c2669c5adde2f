// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: objects are loaded into this process, programs run on the thread pool.
#include "codegen/cpu/jit.h"
#include "runtime/drivers/driver.h"
#include "runtime/drivers/launch_listener.h"
#include "runtime/drivers/thread_pool.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unistd.h>

namespace libtile::runtime {

namespace {

struct LoadedKernel : LoadedCode {
  explicit LoadedKernel(const codegen::Code &code)
      : code(code), info(code.info) {}
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const override {
    return {{"code_bytes", static_cast<int64_t>(code.bytes())}};
  }
  codegen::cpu::CpuModule code;
  codegen::KernelInfo info;
  JobCost cost;
};

uint64_t programs(const LaunchShape &shape) {
  return static_cast<uint64_t>(shape.grid[0]) * static_cast<uint64_t>(shape.grid[1]) *
         static_cast<uint64_t>(shape.grid[2]);
}

// Of the last cache that the first core has, by the kernel's account; 0: it gives none. (C libraries make a socket's
// sum of it.)
uint64_t lastCacheBytes() {
  uint64_t bytes = 0;
  for (int level = 0;; ++level) {
    const std::string path = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level) + "/size";
    const std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path.c_str(), "r"), &std::fclose);
    uint64_t kilobytes = 0;
    if (file == nullptr || std::fscanf(file.get(), "%" SCNu64 "K", &kilobytes) != 1) {
      return bytes;
    }
    bytes = std::max(bytes, kilobytes * 1024);
  }
}

class CpuDriver : public Driver {
public:
  [[nodiscard]] std::string name() const override { return "cpu"; }
  [[nodiscard]] std::string target() const override { return codegen::hostTarget().name; }
  [[nodiscard]] bool runs(const ir::Target &target) const override { return codegen::runsHere(target); }
  [[nodiscard]] std::shared_ptr<LoadedCode> load(const codegen::Code &code) override {
    if (code.object.empty()) {
      throw DeviceError("the kernel is not compiled for a CPU");
    }
    return std::make_shared<LoadedKernel>(code);
  }

  const char *launch(LoadedCode &module, const LaunchShape &shape, const uint64_t *args, size_t numArgs,
                     void *stream, const Caller &caller, Findings *findings) noexcept override {
    auto &loaded = static_cast<LoadedKernel &>(module);
    codegen::cpu::Frame frame = codegen::cpu::makeFrame(args, shape.grid, nullptr);
    frame.uncached_bytes = uncachedBytes_;
    frame.keeps_arenas = 1;
    return findings == nullptr ? run(loaded, shape, frame, caller)
                               : runHeard(loaded, shape, frame, caller, *findings);
  }

  // Apart, so that other launches have nothing to do with it.
  [[gnu::noinline]] static const char *runHeard(LoadedKernel &loaded, const LaunchShape &shape,
                                                codegen::cpu::Frame &frame, const Caller &caller,
                                                Findings &findings) noexcept {
    LaunchListener listener(loaded.info, shape, findings);
    listener.listen(frame);
    return run(loaded, shape, frame, caller);
  }

  static const char *run(LoadedKernel &loaded, const LaunchShape &shape, codegen::cpu::Frame &frame,
                         const Caller &caller) noexcept {
    const Job job = {loaded.code.entry(), &frame, programs(shape),
                     static_cast<size_t>(loaded.info.scratchBytes), loaded.info.inOrder};
    switch (runJob(job, loaded.cost, caller)) {
    case JobEnd::Done:
      return nullptr;
    case JobEnd::NoMemory:
      return "there is no memory for the kernel's scratch";
    case JobEnd::Stopped:
      return "the launch was interrupted";
    }
    return nullptr;
  }

  [[nodiscard]] void *allocate(size_t bytes) override {
    const size_t rounded = (bytes + 63) / 64 * 64;
    void *memory = bytes <= SIZE_MAX - 63 ? std::aligned_alloc(64, rounded != 0 ? rounded : 64) : nullptr;
    if (memory == nullptr) {
      throw DeviceError("there is no memory for " + std::to_string(bytes) + " bytes");
    }
    return memory;
  }
  void free(void *memory) noexcept override { std::free(memory); }
  void copyToDevice(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copyToHost(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void *memory, int byte, size_t bytes) override { std::memset(memory, byte, bytes); }
  void synchronize(void *stream) override {}
  [[nodiscard]] size_t cacheBytes() const override {
    const long bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return bytes > 0 ? static_cast<size_t>(bytes) : 0;
  }

private:
  // A kernel mostly reads as much as it writes.
  uint64_t uncachedBytes_ = lastCacheBytes() / 2;
};

} // namespace

std::shared_ptr<Driver> openCpuDriver() {
  preparePool();
  return std::make_shared<CpuDriver>();
}

} // namespace libtile::runtime
