// SPDX-License-Identifier: Apache-2.0
// A libamdhip64 whose GPU is the emulator: the part of HIP's interface (hip_runtime_api.h) that drivers of kernels call. There is
// one device, of the target that LIBTILE_EMULATED_GPU names (gfx942 if it is not set). Everything is done when a call returns, so
// that streams and events have nothing to wait for; times are the host's.
#include "tests/amd/program.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace emulator;

// hipError_t
enum Result : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kNoBinaryForGpu = 209,
  kNotFound = 500,
  kLaunchFailure = 719,
};

// hipDeviceAttribute_t
enum Attribute : int {
  kClockKhz = 5,
  kCooperativeLaunch = 10,
  kL2Bytes = 19,
  kMemoryBusBits = 59,
  kMemoryClockKhz = 60,
  kMultiprocessors = 63,
  kRegistersPerBlock = 71,
  kSharedPerBlock = 74,
  kSharedPerBlockOptin = 75,
  kWarpSize = 87,
};

// hipDeviceProp_tR0600: what is filled in, by its place.
constexpr size_t kPropertiesBytes = 1472, kArchitecturePlace = 1160, kWarpPlace = 308, kMultiprocessorPlace = 388, kSharedPlace = 296;

constexpr int kVersion = 70125424; // of HIP 7.1

struct Module {
  std::unique_ptr<Program> program;
};
struct Function {
  Program *program;
  const Kernel *kernel;
};
struct Event {
  std::chrono::steady_clock::time_point time;
};

struct Runtime {
  std::mutex mutex;
  Memory memory;
  std::unordered_map<void *, size_t> allocations;
  std::unordered_map<const Kernel *, std::unique_ptr<Function>> functions;
  std::string failure; // what the last fault said
};

Runtime &runtime() {
  static auto *made = new Runtime;
  return *made;
}

std::string target() {
  const char *name = std::getenv("LIBTILE_EMULATED_GPU");
  return name != nullptr && name[0] != 0 ? name : "gfx942";
}
bool hasWave32() { return !target().starts_with("gfx9"); }

Result fail(Result result, const std::string &why) {
  runtime().failure = why;
  return result;
}

std::vector<uint8_t> argumentsOf(const Kernel &kernel, void **parameters) {
  std::vector<uint8_t> bytes(kernel.argumentBytes);
  size_t next = 0;
  for (const Argument &argument : kernel.arguments) {
    if (!argument.kind.starts_with("hidden_")) {
      std::memcpy(&bytes[argument.offset], parameters[next++], argument.bytes);
    }
  }
  return bytes;
}

Result launch(const Function &function, const Program::Shape &shape, void **parameters) {
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (threads == 0 || threads > function.kernel->maxThreads || std::ranges::count(shape.grid, 0U) != 0) {
    return fail(kInvalidValue, "the kernel takes 1 to " + std::to_string(function.kernel->maxThreads) + " threads, and no empty grid");
  }
  const std::lock_guard lock(runtime().mutex);
  try {
    function.program->run(*function.kernel, shape, argumentsOf(*function.kernel, parameters), runtime().memory);
    return kSuccess;
  } catch (const Fault &fault) {
    return fail(kLaunchFailure, function.kernel->name + ": " + fault.what());
  }
}

} // namespace

EXPORT int hipInit(unsigned) { return kSuccess; }
EXPORT int hipDriverGetVersion(int *version) {
  *version = kVersion;
  return kSuccess;
}
EXPORT int hipRuntimeGetVersion(int *version) { return hipDriverGetVersion(version); }
EXPORT int hipGetDeviceCount(int *count) {
  *count = 1;
  return kSuccess;
}
EXPORT int hipSetDevice(int device) { return device == 0 ? kSuccess : kInvalidDevice; }
EXPORT int hipGetDevice(int *device) {
  *device = 0;
  return kSuccess;
}
EXPORT int hipDeviceGetName(char *name, int bytes, int) {
  std::snprintf(name, static_cast<size_t>(bytes), "emulated %s", target().c_str());
  return kSuccess;
}
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int) {
  constexpr std::pair<int, int> kValues[] = {{kClockKhz, 1000000},      {kCooperativeLaunch, 1},     {kL2Bytes, 4 << 20},
                                             {kMemoryBusBits, 1024},    {kMemoryClockKhz, 1000000},  {kMultiprocessors, 4},
                                             {kRegistersPerBlock, 65536}, {kSharedPerBlock, 65536}, {kSharedPerBlockOptin, 65536}};
  if (attribute == kWarpSize) {
    *value = hasWave32() ? 32 : 64;
    return kSuccess;
  }
  for (const auto &[known, number] : kValues) {
    if (attribute == known) {
      *value = target() == "gfx950" && (known == kSharedPerBlock || known == kSharedPerBlockOptin) ? 163840 : number;
      return kSuccess;
    }
  }
  return kInvalidValue;
}
EXPORT int hipGetDevicePropertiesR0600(void *properties, int) {
  auto *bytes = static_cast<char *>(properties);
  std::memset(bytes, 0, kPropertiesBytes);
  hipDeviceGetName(bytes, 256, 0);
  std::snprintf(bytes + kArchitecturePlace, 256, "%s%s", target().c_str(), hasWave32() ? "" : ":sramecc+:xnack-");
  const std::pair<size_t, int> numbers[] = {{kWarpPlace, kWarpSize}, {kMultiprocessorPlace, kMultiprocessors}};
  for (const auto &[place, attribute] : numbers) {
    int value = 0;
    hipDeviceGetAttribute(&value, attribute, 0);
    std::memcpy(bytes + place, &value, sizeof value);
  }
  int shared = 0;
  hipDeviceGetAttribute(&shared, kSharedPerBlock, 0);
  const auto sharedBytes = static_cast<size_t>(shared);
  std::memcpy(bytes + kSharedPlace, &sharedBytes, sizeof sharedBytes);
  return kSuccess;
}

// `image`: an ELF file, whose header says how long it is: section headers are its last part.
EXPORT int hipModuleLoadData(Module **module, const void *image) {
  const auto *bytes = static_cast<const char *>(image);
  uint64_t sections = 0;
  uint16_t size = 0, count = 0;
  std::memcpy(&sections, bytes + 40, 8);
  std::memcpy(&size, bytes + 58, 2);
  std::memcpy(&count, bytes + 60, 2);
  try {
    CodeObject object = readCodeObject({bytes, sections + uint64_t{size} * count});
    if (object.target != target()) {
      return fail(kNoBinaryForGpu, "code for " + object.target + ", where the GPU is a " + target());
    }
    *module = new Module{std::make_unique<Program>(std::move(object))};
    return kSuccess;
  } catch (const Fault &fault) {
    return fail(kInvalidImage, fault.what());
  }
}
EXPORT int hipModuleUnload(Module *module) {
  const std::lock_guard lock(runtime().mutex);
  for (const auto &[name, kernel] : module->program->object().kernels) {
    runtime().functions.erase(&kernel);
  }
  delete module;
  return kSuccess;
}
EXPORT int hipModuleGetFunction(Function **function, Module *module, const char *name) {
  const auto &kernels = module->program->object().kernels;
  const auto found = kernels.find(name);
  if (found == kernels.end()) {
    return fail(kNotFound, std::string("the code has no kernel ") + name);
  }
  const std::lock_guard lock(runtime().mutex);
  std::unique_ptr<Function> &known = runtime().functions[&found->second];
  if (known == nullptr) {
    known = std::make_unique<Function>(Function{module->program.get(), &found->second});
  }
  *function = known.get();
  return kSuccess;
}
EXPORT int hipModuleGetGlobal(void **address, size_t *bytes, Module *module, const char *name) {
  const CodeObject &object = module->program->object();
  const auto found = object.variables.find(name);
  if (found == object.variables.end()) {
    return fail(kNotFound, std::string("the code has no variable ") + name);
  }
  *address = const_cast<uint8_t *>(object.image.data()) + found->second.first;
  *bytes = found->second.second;
  return kSuccess;
}
EXPORT int hipFuncGetAttribute(int *value, int attribute, Function *function) {
  const Kernel &kernel = *function->kernel;
  const uint32_t values[] = {kernel.maxThreads, kernel.sharedBytes, 0, kernel.scratchBytes, kernel.vgprs};
  if (attribute < 0 || attribute > 4) {
    return kInvalidValue;
  }
  *value = static_cast<int>(values[attribute]);
  return kSuccess;
}
EXPORT int hipFuncSetAttribute(const void *, int, int) { return kSuccess; }
EXPORT int hipModuleLaunchKernel(Function *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                                 unsigned blockZ, unsigned sharedBytes, void *, void **parameters, void **) {
  return launch(*function, {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, false}, parameters);
}
EXPORT int hipModuleLaunchCooperativeKernel(Function *function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                                            unsigned blockY, unsigned blockZ, unsigned sharedBytes, void *, void **parameters) {
  return launch(*function, {{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, true}, parameters);
}

// Bytes of no array behind each: what an instruction's offset adds to an address of one does not lead into another.
constexpr size_t kBehindArrays = 4096;
EXPORT int hipMalloc(void **memory, size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + kBehindArrays + 255) / 256 * 256);
  if (*memory == nullptr) {
    return kOutOfMemory;
  }
  const std::lock_guard lock(runtime().mutex);
  // Atomics of fewer bits than a word take the whole one, which an allocation of any GPU has.
  runtime().memory.add(reinterpret_cast<uint64_t>(*memory), (bytes + 3) / 4 * 4);
  runtime().allocations[*memory] = bytes;
  return kSuccess;
}
EXPORT int hipFree(void *memory) {
  const std::lock_guard lock(runtime().mutex);
  if (memory != nullptr && runtime().allocations.erase(memory) == 0) {
    return kInvalidValue;
  }
  runtime().memory.remove(reinterpret_cast<uint64_t>(memory));
  std::free(memory);
  return kSuccess;
}
EXPORT int hipMemcpyHtoD(void *to, const void *from, size_t bytes) {
  std::memcpy(to, from, bytes);
  return kSuccess;
}
EXPORT int hipMemcpyDtoH(void *to, const void *from, size_t bytes) { return hipMemcpyHtoD(to, from, bytes); }
EXPORT int hipMemsetD8(void *memory, unsigned char value, size_t bytes) {
  std::memset(memory, value, bytes);
  return kSuccess;
}
EXPORT int hipPointerGetAttribute(void *data, int attribute, void *pointer) {
  constexpr int kDeviceOrdinal = 9;
  const std::lock_guard lock(runtime().mutex);
  if (attribute != kDeviceOrdinal || !runtime().memory.holds(reinterpret_cast<uint64_t>(pointer), 1)) {
    return kInvalidValue;
  }
  *static_cast<int *>(data) = 0;
  return kSuccess;
}

EXPORT int hipDeviceSynchronize() { return kSuccess; }
EXPORT int hipStreamSynchronize(void *) { return kSuccess; }
EXPORT int hipStreamCreateWithFlags(void **stream, unsigned) {
  *stream = new char;
  return kSuccess;
}
EXPORT int hipStreamDestroy(void *stream) {
  delete static_cast<char *>(stream);
  return kSuccess;
}
EXPORT int hipEventCreateWithFlags(Event **event, unsigned) {
  *event = new Event;
  return kSuccess;
}
EXPORT int hipEventRecord(Event *event, void *) {
  event->time = std::chrono::steady_clock::now();
  return kSuccess;
}
EXPORT int hipEventSynchronize(Event *) { return kSuccess; }
EXPORT int hipEventElapsedTime(float *milliseconds, Event *start, Event *stop) {
  *milliseconds = std::chrono::duration<float, std::milli>(stop->time - start->time).count();
  return kSuccess;
}
EXPORT int hipEventDestroy(Event *event) {
  delete event;
  return kSuccess;
}

EXPORT const char *hipGetErrorName(int result) {
  constexpr std::pair<int, const char *> kNames[] = {{kSuccess, "hipSuccess"},
                                                     {kInvalidValue, "hipErrorInvalidValue"},
                                                     {kOutOfMemory, "hipErrorOutOfMemory"},
                                                     {kInvalidDevice, "hipErrorInvalidDevice"},
                                                     {kInvalidImage, "hipErrorInvalidImage"},
                                                     {kNoBinaryForGpu, "hipErrorNoBinaryForGpu"},
                                                     {kNotFound, "hipErrorNotFound"},
                                                     {kLaunchFailure, "hipErrorLaunchFailure"}};
  for (const auto &[known, name] : kNames) {
    if (result == known) {
      return name;
    }
  }
  return "hipErrorUnknown";
}
// Of what the emulator found, its own words.
EXPORT const char *hipGetErrorString(int result) {
  const bool isOurs = result == kLaunchFailure || result == kInvalidImage || result == kNoBinaryForGpu || result == kNotFound;
  return isOurs ? runtime().failure.c_str() : hipGetErrorName(result);
}
