// SPDX-License-Identifier: Apache-2.0
// AMD's GPUs through the HIP runtime, opened with dlopen. Memory and streams are those of torch and of anything else in the process
// that uses HIP. Each call is for a device of its own; the one that a thread had chosen before is chosen again.
#include "codegen/amd/records.h"
#include "runtime/drivers/device_records.h"
#include "runtime/drivers/driver.h"
#include "runtime/drivers/hip_api.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

namespace libtile::runtime {

namespace hip {

namespace {

// The library, or null and why.
void *openLibrary(std::string &trouble) {
  const char *named = std::getenv("LIBTILE_HIP");
  if (named != nullptr && named[0] != 0) {
    void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
    trouble = library == nullptr ? std::string("LIBTILE_HIP names no library: ") + dlerror() : "";
    return library;
  }
  for (const char *name : {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so"}) {
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
      return library;
    }
  }
  trouble = "no HIP runtime: libamdhip64.so is not on this machine";
  return nullptr;
}

Api openApi() {
  Api api;
  void *library = openLibrary(api.trouble);
  if (library == nullptr) {
    return api;
  }
#define LIBTILE_HIP_LOAD(name, ...)                                                                \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name));                          \
  if (api.name == nullptr) {                                                                       \
    api.trouble = "the HIP runtime is too old, libtile needs HIP 6: it has no " #name;             \
    return api;                                                                                    \
  }
  LIBTILE_HIP_FUNCTIONS(LIBTILE_HIP_LOAD)
  LIBTILE_HIP_LOAD(hipGetErrorString)
#undef LIBTILE_HIP_LOAD
  if (const Result result = api.hipInit(0)) {
    api.trouble = std::string("the HIP runtime does not start: ") + api.hipGetErrorString(result);
  }
  return api;
}

} // namespace

const Api &api() {
  static const Api *opened = new Api(openApi());
  return *opened;
}

} // namespace hip

namespace {

using hip::api;

// What the library says, in memory of the thread.
const char *describe(hip::Result result, const char *doing) noexcept {
  thread_local std::string text;
  try {
    text = std::string(doing) + ": " + api().hipGetErrorString(result);
    if (result == hip::kErrorNotInitialized) {
      text += "; a process forked after the GPU was used cannot use it: start it by 'spawn'";
    }
    return text.c_str();
  } catch (...) {
    return "the HIP runtime refuses, and there is no memory to say why";
  }
}

void require(hip::Result result, const char *doing) {
  if (result != 0) {
    throw DeviceError(describe(result, doing));
  }
}

// Makes a device the thread's for as long as it lives.
class Use {
public:
  explicit Use(int device) {
    result_ = api().hipGetDevice(&before_);
    if (result_ == 0 && before_ != device) {
      result_ = api().hipSetDevice(device);
      changed_ = result_ == 0;
    }
  }
  ~Use() {
    if (changed_) {
      api().hipSetDevice(before_);
    }
  }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;
  [[nodiscard]] hip::Result result() const { return result_; }
  void orThrow() const { require(result_, "choosing the GPU"); }

private:
  int before_ = 0;
  hip::Result result_ = 0;
  bool changed_ = false;
};

// The records that kernels of one device write; its memory is there from the first kernel on that has something to say.
class Records {
public:
  ~Records() = delete; // as drivers, for ever
  // Tells code where its records go. The device is the thread's.
  void attach(hip::Module module, const std::vector<codegen::DeviceLine> &lines) {
    const std::lock_guard lock(mutex_);
    if (buffer_ == nullptr) {
      require(api().hipMalloc(&buffer_, sizeof(Head) + kCapacity), "allocating memory for what kernels print");
      const Head empty = {0, kCapacity};
      require(api().hipMemcpyHtoD(buffer_, &empty, sizeof empty), "copying to the GPU");
    }
    void *variable = nullptr;
    size_t bytes = 0;
    require(api().hipModuleGetGlobal(&variable, &bytes, module, codegen::amd::kRecordsVariable), "finding where records go");
    const codegen::amd::RecordsVariable value = {reinterpret_cast<uint64_t>(buffer_), lines_.add(lines), 0};
    require(api().hipMemcpyHtoD(variable, &value, sizeof value), "copying to the GPU");
  }
  // Writes out what there is, when the device has been waited for. Throws DeviceError if an assertion did not hold.
  void tell() {
    const std::lock_guard lock(mutex_);
    if (buffer_ == nullptr) {
      return;
    }
    Head head = {};
    require(api().hipMemcpyDtoH(&head, buffer_, sizeof head), "copying from the GPU");
    if (head.used == 0) {
      return;
    }
    std::vector<uint8_t> records(std::min(head.used, head.capacity));
    require(api().hipMemcpyDtoH(records.data(), static_cast<uint8_t *>(buffer_) + sizeof head, records.size()), "copying from the GPU");
    const uint32_t none = 0;
    require(api().hipMemcpyHtoD(buffer_, &none, sizeof none), "copying to the GPU");
    if (const std::string failure = lines_.tell(records, head.used); !failure.empty()) {
      throw DeviceError(failure);
    }
  }

private:
  using Head = codegen::amd::RecordBuffer;
  static constexpr uint32_t kCapacity = 1 << 20;

  std::mutex mutex_;
  void *buffer_ = nullptr;
  DeviceLines lines_;
};

class HipModule : public LoadedCode {
public:
  HipModule(int device, const codegen::Code &code, Records &records) : info(code.info), device_(device) {
    const Use use(device);
    use.orThrow();
    require(api().hipModuleLoadData(&module_, code.object.data()), ("loading " + info.symbol).c_str());
    try {
      require(api().hipModuleGetFunction(&function, module_, info.symbol.c_str()), "finding the kernel");
      if (!info.records.empty()) {
        records.attach(module_, info.records);
      }
      api().hipFuncGetAttribute(&registers_, hip::kFunctionRegisters, function);
      api().hipFuncGetAttribute(&localBytes_, hip::kFunctionLocalBytes, function);
      api().hipFuncGetAttribute(&maxThreads_, hip::kFunctionMaxThreads, function);
    } catch (...) {
      api().hipModuleUnload(module_);
      throw;
    }
  }
  ~HipModule() override {
    const Use use(device_);
    if (use.result() == 0) {
      api().hipModuleUnload(module_);
    }
  }
  HipModule(const HipModule &) = delete;
  HipModule &operator=(const HipModule &) = delete;
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const override {
    return {{"registers", registers_}, {"local_bytes", localBytes_}, {"max_threads", maxThreads_}};
  }

  const codegen::KernelInfo info;
  hip::Function function = nullptr;

private:
  int device_;
  hip::Module module_ = nullptr;
  int registers_ = 0, localBytes_ = 0, maxThreads_ = 0;
};

class HipDriver : public Driver {
public:
  explicit HipDriver(int device) : device_(device) {
    std::vector<char> properties(hip::kPropertiesBytes);
    require(api().hipGetDevicePropertiesR0600(properties.data(), device), "asking what GPU it is");
    const std::string architecture = properties.data() + hip::kArchitecturePlace; // "gfx942:sramecc+:xnack-"
    target_ = codegen::findTarget(architecture.substr(0, architecture.find(':'))).name;
  }

  [[nodiscard]] std::string name() const override { return "hip:" + std::to_string(device_); }
  [[nodiscard]] std::string target() const override { return target_; }
  [[nodiscard]] bool runs(const ir::Target &target) const override { return target.name == target_; }
  [[nodiscard]] std::shared_ptr<LoadedCode> load(const codegen::Code &code) override {
    return std::make_shared<HipModule>(device_, code, records_);
  }

  const char *launch(LoadedCode &module, const LaunchShape &shape, const uint64_t *args, size_t numArgs, void *stream,
                     const Caller &caller, Findings *) noexcept override {
    constexpr size_t kMaxArgs = 512;
    auto &loaded = static_cast<HipModule &>(module);
    if (numArgs > kMaxArgs) {
      return "a kernel has at most 512 arguments";
    }
    void *slots[kMaxArgs];
    for (size_t i = 0; i < numArgs; ++i) {
      slots[i] = const_cast<uint64_t *>(&args[i]);
    }
    const Use use(device_);
    if (use.result() != 0) {
      return describe(use.result(), "choosing the GPU");
    }
    if (caller.lasts != nullptr) {
      caller.lasts(caller.context); // the queue may be full
    }
    const codegen::KernelInfo &info = loaded.info;
    const auto x = static_cast<unsigned>(shape.grid[0]), y = static_cast<unsigned>(shape.grid[1]), z = static_cast<unsigned>(shape.grid[2]);
    const auto threads = static_cast<unsigned>(info.threads);
    const auto queue = static_cast<hip::Stream>(stream);
    // The shared memory is the kernel's own.
    const hip::Result result =
        info.cooperative ? api().hipModuleLaunchCooperativeKernel(loaded.function, x, y, z, threads, 1, 1, 0, queue, slots)
                         : api().hipModuleLaunchKernel(loaded.function, x, y, z, threads, 1, 1, 0, queue, slots, nullptr);
    return result == 0 ? nullptr : describe(result, "launching");
  }

  [[nodiscard]] void *allocate(size_t bytes) override {
    const Use use(device_);
    use.orThrow();
    void *memory = nullptr;
    require(api().hipMalloc(&memory, bytes != 0 ? bytes : 1), "allocating GPU memory");
    return memory;
  }
  void free(void *memory) noexcept override {
    const Use use(device_);
    if (use.result() == 0) {
      api().hipFree(memory);
    }
  }
  void copyToDevice(void *to, const void *from, size_t bytes) override {
    const Use use(device_);
    use.orThrow();
    require(api().hipMemcpyHtoD(to, from, bytes), "copying to the GPU");
  }
  void copyToHost(void *to, const void *from, size_t bytes) override {
    const Use use(device_);
    use.orThrow();
    require(api().hipMemcpyDtoH(to, const_cast<void *>(from), bytes), "copying from the GPU");
    records_.tell();
  }
  void fill(void *memory, int byte, size_t bytes) override {
    const Use use(device_);
    use.orThrow();
    require(api().hipMemsetD8(memory, static_cast<unsigned char>(byte), bytes), "filling GPU memory");
  }
  void synchronize(void *stream) override {
    const Use use(device_);
    use.orThrow();
    require(stream != nullptr ? api().hipStreamSynchronize(static_cast<hip::Stream>(stream)) : api().hipDeviceSynchronize(),
            "waiting for the GPU");
    records_.tell();
  }
  [[nodiscard]] size_t cacheBytes() const override { return static_cast<size_t>(attribute(hip::kAttributeL2Bytes)); }

  [[nodiscard]] std::string model() const override {
    char name[256] = "";
    require(api().hipDeviceGetName(name, sizeof name - 1, device_), "asking for a GPU's name");
    return name;
  }
  // The names are those of Triton's driver.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const override {
    return {{"max_shared_mem", attribute(hip::kAttributeSharedPerBlock)},
            {"max_num_regs", attribute(hip::kAttributeRegistersPerBlock)},
            {"multiprocessor_count", attribute(hip::kAttributeMultiprocessors)},
            {"warpSize", attribute(hip::kAttributeWarpSize)},
            {"sm_clock_rate", attribute(hip::kAttributeClockKhz)},
            {"mem_clock_rate", attribute(hip::kAttributeMemoryClockKhz)},
            {"mem_bus_width", attribute(hip::kAttributeMemoryBusBits)}};
  }

  [[nodiscard]] void *recordTime(void *stream) override {
    const Use use(device_);
    use.orThrow();
    hip::Event event = nullptr;
    require(api().hipEventCreateWithFlags(&event, 0), "making an event");
    require(api().hipEventRecord(event, static_cast<hip::Stream>(stream)), "recording an event");
    return event;
  }
  [[nodiscard]] double millisecondsBetween(void *start, void *stop) override {
    const Use use(device_);
    use.orThrow();
    float milliseconds = 0;
    require(api().hipEventSynchronize(static_cast<hip::Event>(stop)), "waiting for an event");
    require(api().hipEventElapsedTime(&milliseconds, static_cast<hip::Event>(start), static_cast<hip::Event>(stop)), "reading an event");
    return milliseconds;
  }
  void freeTime(void *time) noexcept override {
    const Use use(device_);
    if (use.result() == 0) {
      api().hipEventDestroy(static_cast<hip::Event>(time));
    }
  }

private:
  [[nodiscard]] int attribute(int which) const {
    int value = 0;
    require(api().hipDeviceGetAttribute(&value, which, device_), "reading a GPU's attribute");
    return value;
  }

  int device_;
  std::string target_;
  Records &records_ = *new Records;
};

} // namespace

int hipDeviceOf(const void *address) noexcept {
  int device = -1;
  const bool isKnown = api().trouble.empty() &&
                       api().hipPointerGetAttribute(&device, hip::kPointerDeviceOrdinal, const_cast<void *>(address)) == 0;
  return isKnown ? device : -1;
}

int hipDeviceCount() noexcept {
  int count = 0;
  return api().trouble.empty() && api().hipGetDeviceCount(&count) == 0 ? count : 0;
}

std::shared_ptr<Driver> openHipDriver(int device) {
  if (!api().trouble.empty()) {
    throw DeviceError(api().trouble);
  }
  const int count = hipDeviceCount();
  if (device >= count) {
    throw DeviceError("there is no hip:" + std::to_string(device) + ": the machine has " + std::to_string(count) + " of AMD's GPUs");
  }
  return std::make_shared<HipDriver>(device);
}

} // namespace libtile::runtime
