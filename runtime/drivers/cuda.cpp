// SPDX-License-Identifier: Apache-2.0
// NVIDIA GPUs through the driver's own library, opened with dlopen; its JIT assembles our PTX. While it does, PTX of
// other threads goes to ptxas, if there is one: the JIT holds a lock.
//
// Every call works in the device's primary context, the one that torch and the CUDA runtime use, so
// memory and streams are shared with them. The context that was current before is restored: a thread
// that works on another device does not notice.
#include "runtime/drivers/cuda_api.h"
#include "runtime/drivers/driver.h"
#include "runtime/drivers/extended_launch.h"
#include "runtime/drivers/machine_code.h"
#include "runtime/drivers/ptxas.h"
#include "runtime/drivers/tensor_maps.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>

namespace libtile::runtime {

namespace cuda {

namespace {

Api openApi() {
  Api api;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    api.trouble = "no NVIDIA driver: libcuda.so.1 is not on this machine";
    return api;
  }
#define LIBTILE_CUDA_LOAD(name, ...)                                                               \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name));                          \
  if (api.name == nullptr) {                                                                       \
    api.trouble = "the NVIDIA driver is too old: it has no " #name;                                \
    return api;                                                                                    \
  }
  LIBTILE_CUDA_FUNCTIONS(LIBTILE_CUDA_LOAD)
#undef LIBTILE_CUDA_LOAD
  if (const Result result = api.cuInit(0)) {
    const char *text = nullptr;
    api.cuGetErrorString(result, &text);
    api.trouble = std::string("the NVIDIA driver does not start: ") +
                  (text != nullptr ? text : "unknown error");
  }
  return api;
}

} // namespace

const Api &api() {
  static const Api *opened = new Api(openApi());
  return *opened;
}

} // namespace cuda

namespace {

using cuda::api;

// The kernels that were loaded and may end with an assertion: the error does not say which one did.
class AssertingKernels {
public:
  static AssertingKernels &all() {
    static auto *made = new AssertingKernels;
    return *made;
  }
  void add(const std::string &symbol) {
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(symbols_, symbol) == symbols_.end()) {
      symbols_.push_back(symbol);
      text_ += (text_.empty() ? "" : " or ") + symbol;
    }
  }
  // "scale or copy", cut off where there are many.
  void copyTo(char *text, size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    std::snprintf(text, bytes, "%s", text_.c_str());
  }

private:
  std::mutex mutex_;
  std::vector<std::string> symbols_;
  std::string text_;
};

// Why what has failed will go on failing, or how to do it right; "" where nobody knows.
const char *explain(cuda::Result result) noexcept {
  thread_local char text[512];
  text[0] = 0;
  if (result == cuda::kErrorNotInitialized) {
    return "; a process forked after the GPU was used cannot use it: start it by 'spawn'";
  }
  if (result == cuda::kErrorAssert) {
    char kernels[256];
    AssertingKernels::all().copyTo(kernels, sizeof kernels);
    std::snprintf(text, sizeof text,
                  "; what %s asserts did not hold (stderr has the message), and the GPU serves no more calls "
                  "of this process",
                  kernels[0] != 0 ? kernels : "a kernel");
  }
  return text;
}

const char *describe(cuda::Result result, const char *doing) noexcept {
  thread_local char text[1024];
  const char *name = nullptr;
  const char *meaning = nullptr;
  api().cuGetErrorName(result, &name);
  api().cuGetErrorString(result, &meaning);
  std::snprintf(text, sizeof text, "%s failed: %s (%s)%s", doing,
                meaning != nullptr ? meaning : "unknown error", name != nullptr ? name : "?",
                explain(result));
  return text;
}

void require(cuda::Result result, const char *doing) {
  if (result != 0) {
    throw DeviceError(describe(result, doing));
  }
}

// Makes the context current for a scope.
class Use {
public:
  explicit Use(cuda::Context context) noexcept : context_(context) {
    result_ = api().cuCtxGetCurrent(&before_);
    if (result_ == 0 && before_ != context) {
      result_ = api().cuCtxSetCurrent(context);
    }
  }
  ~Use() {
    if (before_ != nullptr && before_ != context_) {
      api().cuCtxSetCurrent(before_);
    }
  }
  Use(const Use &) = delete;
  Use &operator=(const Use &) = delete;
  [[nodiscard]] cuda::Result result() const { return result_; }
  const Use &orThrow() const {
    require(result_, "making the GPU's context current");
    return *this;
  }

private:
  cuda::Context context_;
  cuda::Context before_ = nullptr;
  cuda::Result result_ = 0;
};

// Threads in which the driver assembles, or would.
std::atomic<int> assembling;
struct Assembling {
  const bool isAlone = assembling++ == 0;
  ~Assembling() { --assembling; }
};

// The driver's version and the program that the user names.
std::string assemblerName() {
  int version = 0;
  api().cuDriverGetVersion(&version);
  const char *program = std::getenv("LIBTILE_PTXAS");
  return std::to_string(version) + (program != nullptr ? std::string(" ") + program : "");
}

class CudaModule : public LoadedCode {
public:
  // `architecture`: the device's, as ptxas names it.
  CudaModule(cuda::Context context, const codegen::Code &code, const std::string &architecture, int multiprocessors)
      : info(code.info), context_(context) {
    const Use use(context);
    use.orThrow();
    if (info.asserts) {
      AssertingKernels::all().add(info.symbol);
    }
    load(code.assembly, architecture);
    try {
      require(api().cuModuleGetFunction(&function, module_, info.symbol.c_str()), "finding the kernel");
      if (info.sharedBytes > 0) {
        require(api().cuFuncSetAttribute(function, cuda::kFunctionMaxDynamicShared,
                                         static_cast<int>(info.sharedBytes)),
                ("asking for " + std::to_string(info.sharedBytes) + " bytes of shared memory").c_str());
      }
      if (info.sharesBlocks) {
        require(api().cuOccupancyMaxActiveBlocksPerMultiprocessor(&workers, function, info.threads, static_cast<size_t>(info.sharedBytes)),
                "asking how many blocks run at once");
        workers *= multiprocessors;
      }
      api().cuFuncGetAttribute(&registers_, cuda::kFunctionRegisters, function);
      api().cuFuncGetAttribute(&localBytes_, cuda::kFunctionLocalBytes, function);
      api().cuFuncGetAttribute(&maxThreads_, cuda::kFunctionMaxThreads, function);
    } catch (...) {
      api().cuModuleUnload(module_);
      throw;
    }
  }
  ~CudaModule() override {
    const Use use(context_);
    if (use.result() == 0) {
      api().cuModuleUnload(module_);
    }
  }
  CudaModule(const CudaModule &) = delete;
  CudaModule &operator=(const CudaModule &) = delete;
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const override {
    return {{"registers", registers_}, {"local_bytes", localBytes_}, {"max_threads", maxThreads_}};
  }

  const codegen::KernelInfo info;
  cuda::Function function = nullptr;
  int workers = 0; // blocks that the device runs at once, of code whose programs share them

private:
  void load(const std::string &ptx, const std::string &architecture) {
    const std::string assembler = assemblerName();
    std::optional<Assembling> scope; // until the code is loaded: the driver assembles what it loads as text
    const std::string code = findOrAssemble({.text = ptx, .architecture = architecture, .assembler = assembler, .lines = info.lines},
                                            [&] { return scope.emplace().isAlone ? "" : assembledBesides(ptx, architecture); });
    if (code.empty() || api().cuModuleLoadDataEx(&module_, code.data(), 0, nullptr, nullptr) != 0) {
      loadPtx(ptx, architecture);
    }
  }
  // "": the driver is to load the text, which it keeps in a cache of its own. It is never asked to link the text into code that
  // could be kept here: its assembler takes that for one unit of several, and gives wrong code (docs/decisions.md, 74).
  std::string assembledBesides(const std::string &ptx, const std::string &architecture) const {
    const std::string ptxas = findPtxas();
    const auto code = ptxas.empty() ? std::nullopt : assemble(ptxas, ptx, architecture, info.lines);
    return code.value_or("");
  }
  void loadPtx(const std::string &ptx, const std::string &architecture) {
    char log[8192] = "";
    int options[] = {cuda::kJitErrorLog, cuda::kJitErrorLogBytes, cuda::kJitLineInfo};
    void *values[] = {log, reinterpret_cast<void *>(sizeof log), reinterpret_cast<void *>(size_t{info.lines})};
    const cuda::Result result = api().cuModuleLoadDataEx(&module_, ptx.c_str(), 3, options, values);
    if (const auto need = result != 0 ? registerNeed(log) : std::nullopt) {
      throw ir::Unsupported("the kernel needs " + std::to_string(need->needed) + " registers of a thread at least; " + architecture + " has " +
                            std::to_string(need->limit) + " for as many warps: take smaller tiles or other num_warps");
    }
    if (result != 0) {
      std::string message = describe(result, ("assembling " + info.symbol).c_str());
      throw DeviceError(log[0] != 0 ? message + ":\n" + log : message);
    }
  }

  cuda::Context context_;
  cuda::ModuleHandle module_ = nullptr;
  int registers_ = 0, localBytes_ = 0, maxThreads_ = 0;
};

class CudaDriver : public Driver {
public:
  explicit CudaDriver(int ordinal) : ordinal_(ordinal) {
    require(api().cuDeviceGet(&device_, ordinal), "opening the GPU");
    require(api().cuDevicePrimaryCtxRetain(&context_, device_), "making the GPU's context");
    capability_ = attribute(cuda::kAttributeMajor) * 10 + attribute(cuda::kAttributeMinor);
    target_ = bestTarget();
  }

  [[nodiscard]] std::string name() const override { return "cuda:" + std::to_string(ordinal_); }
  [[nodiscard]] std::string target() const override { return target_; }
  // PTX runs on its own and on newer GPUs, that of an "a" target on its own alone.
  [[nodiscard]] bool runs(const ir::Target &target) const override {
    if (!target.name.starts_with("sm_")) {
      return false;
    }
    const int wanted = std::atoi(target.name.c_str() + 3);
    return target.name.ends_with("a") ? wanted == capability_ : wanted <= capability_;
  }
  [[nodiscard]] std::shared_ptr<LoadedCode> load(const codegen::Code &code) override {
    // Kernels that only one architecture runs are those of the best target.
    const char *suffix = target_.ends_with("a") ? "a" : "";
    return std::make_shared<CudaModule>(context_, code, "sm_" + std::to_string(capability_) + suffix,
                                        attribute(cuda::kAttributeMultiprocessors));
  }

  const char *launch(LoadedCode &module, const LaunchShape &shape, const uint64_t *args, size_t numArgs,
                     void *stream, const Caller &caller, Findings *) noexcept override {
    constexpr size_t kMaxArgs = 512; // of the hardware: 4 KiB
    auto &loaded = static_cast<CudaModule &>(module);
    if (numArgs > kMaxArgs) {
      return "a kernel has at most 512 arguments";
    }
    if (shape.grid[1] > 65535 || shape.grid[2] > 65535) {
      return "the second and third extent of a grid are at most 65535 on this device";
    }
    void *slots[kMaxArgs + ir::TensorMap::kMost + 3];
    for (size_t i = 0; i < numArgs; ++i) {
      slots[i] = const_cast<uint64_t *>(&args[i]);
    }
    const Use use(context_);
    if (use.result() != 0) {
      return describe(use.result(), "making the GPU's context current");
    }
    TensorMapDescriptor maps[ir::TensorMap::kMost];
    const size_t numMaps = loaded.info.maps.size();
    for (size_t i = 0; i < numMaps; ++i) {
      slots[numArgs + i] = &maps[i];
      if (const auto result = makeTensorMap(api().cuTensorMapEncodeTiled, loaded.info.maps[i], args, maps[i])) {
        return describe(result, "describing an array to the GPU");
      }
    }
    if (caller.lasts != nullptr) {
      caller.lasts(caller.context); // the queue may be full
    }
    const codegen::KernelInfo &info = loaded.info;
    int32_t grid[] = {shape.grid[0], shape.grid[1], shape.grid[2]};
    if (info.sharesBlocks) {
      for (size_t axis = 0; axis < 3; ++axis) {
        slots[numArgs + numMaps + axis] = const_cast<int32_t *>(&shape.grid[axis]);
      }
      const int64_t programs = int64_t{grid[0]} * grid[1] * grid[2];
      if (programs > INT32_MAX - loaded.workers) {
        return "programs that share blocks are fewer than 2^31: more of them take the option share_blocks=False";
      }
      grid[0] = static_cast<int32_t>(std::min<int64_t>(programs, loaded.workers));
      grid[1] = grid[2] = 1;
    }
    const auto [x, y, z] = grid;
    const auto queue = static_cast<cuda::Stream>(stream);
    const cuda::Result result =
        isExtended(info) ? launchExtended(api().cuLaunchKernelEx, loaded.function, info, grid, queue, slots)
        : info.cooperative
            ? api().cuLaunchCooperativeKernel(loaded.function, x, y, z, info.threads, 1, 1, info.sharedBytes, queue, slots)
            : api().cuLaunchKernel(loaded.function, x, y, z, info.threads, 1, 1, info.sharedBytes, queue, slots, nullptr);
    return result == 0 ? nullptr : describe(result, "launching");
  }

  [[nodiscard]] void *allocate(size_t bytes) override {
    const Use use(context_);
    use.orThrow();
    cuda::Address address = 0;
    require(api().cuMemAlloc_v2(&address, bytes != 0 ? bytes : 1), "allocating GPU memory");
    return reinterpret_cast<void *>(address);
  }
  void free(void *memory) noexcept override {
    const Use use(context_);
    if (use.result() == 0) {
      api().cuMemFree_v2(reinterpret_cast<cuda::Address>(memory));
    }
  }
  void copyToDevice(void *to, const void *from, size_t bytes) override {
    const Use use(context_);
    use.orThrow();
    require(api().cuMemcpyHtoD_v2(reinterpret_cast<cuda::Address>(to), from, bytes),
            "copying to the GPU");
  }
  void copyToHost(void *to, const void *from, size_t bytes) override {
    const Use use(context_);
    use.orThrow();
    require(api().cuMemcpyDtoH_v2(to, reinterpret_cast<cuda::Address>(from), bytes),
            "copying from the GPU");
  }
  void fill(void *memory, int byte, size_t bytes) override {
    const Use use(context_);
    use.orThrow();
    require(api().cuMemsetD8_v2(reinterpret_cast<cuda::Address>(memory), static_cast<unsigned char>(byte),
                                bytes),
            "filling GPU memory");
  }
  void synchronize(void *stream) override {
    const Use use(context_);
    use.orThrow();
    require(stream != nullptr ? api().cuStreamSynchronize(static_cast<cuda::Stream>(stream))
                              : api().cuCtxSynchronize(),
            "waiting for the GPU");
  }
  [[nodiscard]] size_t cacheBytes() const override { return attribute(cuda::kAttributeL2Bytes); }

  [[nodiscard]] std::string model() const override {
    char name[256] = "";
    require(api().cuDeviceGetName(name, sizeof name - 1, device_), "asking for a GPU's name");
    return name;
  }
  // The names are those of Triton's driver.
  [[nodiscard]] std::vector<std::pair<std::string, int64_t>> properties() const override {
    return {{"max_shared_mem", attribute(cuda::kAttributeSharedPerBlockOptin)},
            {"max_num_regs", attribute(cuda::kAttributeRegistersPerBlock)},
            {"multiprocessor_count", attribute(cuda::kAttributeMultiprocessors)},
            {"warpSize", attribute(cuda::kAttributeWarpSize)},
            {"sm_clock_rate", attribute(cuda::kAttributeClockKhz)},
            {"mem_clock_rate", attribute(cuda::kAttributeMemoryClockKhz)},
            {"mem_bus_width", attribute(cuda::kAttributeMemoryBusBits)}};
  }

  [[nodiscard]] void *recordTime(void *stream) override {
    const Use use(context_);
    use.orThrow();
    cuda::Event event = nullptr;
    require(api().cuEventCreate(&event, 0), "making an event");
    require(api().cuEventRecord(event, static_cast<cuda::Stream>(stream)), "recording an event");
    return event;
  }
  [[nodiscard]] double millisecondsBetween(void *start, void *stop) override {
    const Use use(context_);
    use.orThrow();
    float milliseconds = 0;
    require(api().cuEventSynchronize(static_cast<cuda::Event>(stop)), "waiting for an event");
    require(api().cuEventElapsedTime(&milliseconds, static_cast<cuda::Event>(start),
                                     static_cast<cuda::Event>(stop)),
            "reading an event");
    return milliseconds;
  }
  void freeTime(void *time) noexcept override {
    const Use use(context_);
    if (use.result() == 0) {
      api().cuEventDestroy_v2(static_cast<cuda::Event>(time));
    }
  }

private:
  [[nodiscard]] int attribute(int which) const {
    int value = 0;
    require(api().cuDeviceGetAttribute(&value, which, device_), "reading a GPU's attribute");
    return value;
  }

  // What the device runs, the newest first: PTX for an older target is assembled for the device too, except for the
  // architecture-specific ones ("a").
  [[nodiscard]] std::vector<std::string> ownTargets() const {
    const std::string own = "sm_" + std::to_string(capability_);
    std::vector<std::string> found;
    if (capability_ >= 90) {
      found.push_back(own + "a");
    }
    found.push_back(own);
    for (const int older : {120, 100, 90, 89, 86, 80, 75}) {
      if (older < capability_) {
        found.push_back("sm_" + std::to_string(older));
      }
    }
    return found;
  }

  // The newest that this LLVM has, too, or an older one that LIBTILE_CUDA_TARGET names.
  [[nodiscard]] std::string bestTarget() const {
    const std::string own = "sm_" + std::to_string(capability_);
    const std::vector<std::string> candidates = ownTargets();
    if (const char *wanted = std::getenv("LIBTILE_CUDA_TARGET"); wanted != nullptr && *wanted != 0) {
      if (std::ranges::find(candidates, wanted) == candidates.end()) {
        throw DeviceError("LIBTILE_CUDA_TARGET is '" + std::string(wanted) + "'; the GPU is an " + own + ", which runs its own target and older ones");
      }
      return codegen::findTarget(wanted).name;
    }
    for (const std::string &candidate : candidates) {
      try {
        return codegen::findTarget(candidate).name;
      } catch (const ir::Error &) {
        continue; // not in this LLVM, or not a target of ours
      }
    }
    throw DeviceError("the GPU is an " + own + ": libtile needs sm_75 or newer");
  }

  int ordinal_;
  int capability_ = 0; // 90 for 9.0
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  std::string target_;
};

} // namespace

int cudaDeviceOf(const void *address) noexcept {
  int ordinal = -1;
  if (!api().trouble.empty() ||
      api().cuPointerGetAttribute(&ordinal, cuda::kPointerDeviceOrdinal,
                                  reinterpret_cast<cuda::Address>(address)) != 0) {
    return -1;
  }
  return ordinal;
}

int cudaDeviceCount() noexcept {
  int count = 0;
  if (!api().trouble.empty() || api().cuDeviceGetCount(&count) != 0) {
    return 0;
  }
  return count;
}

std::shared_ptr<Driver> openCudaDriver(int ordinal) {
  if (!api().trouble.empty()) {
    throw DeviceError(api().trouble);
  }
  const int count = cudaDeviceCount();
  if (ordinal >= count) {
    throw DeviceError("there is no cuda:" + std::to_string(ordinal) + ": the machine has " +
                      std::to_string(count) + " GPUs");
  }
  return std::make_shared<CudaDriver>(ordinal);
}

} // namespace libtile::runtime
