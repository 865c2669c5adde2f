// SPDX-License-Identifier: Apache-2.0
// The part of NVIDIA's driver interface (libcuda.so.1) that libtile calls, declared by ourselves: no
// CUDA header or toolkit is needed to build or to run. The interface is stable: names with a version
// suffix keep their meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace libtile::runtime::cuda {

using Result = int; // 0: success
using Device = int;
using Context = struct ContextTag *;
using ModuleHandle = struct ModuleTag *;
using Function = struct FunctionTag *;
using Stream = struct StreamTag *;
using Event = struct EventTag *;
using Address = unsigned long long;

// Values of the enumerations of cuda.h.
enum : int {
  kErrorNotInitialized = 3,
  kErrorAssert = 710,
  kAttributeSharedPerBlockOptin = 97,
  kAttributeWarpSize = 10,
  kAttributeRegistersPerBlock = 12,
  kAttributeClockKhz = 13,
  kAttributeMultiprocessors = 16,
  kAttributeMemoryClockKhz = 36,
  kAttributeMemoryBusBits = 37,
  kAttributeMajor = 75,
  kAttributeMinor = 76,
  kAttributeL2Bytes = 38,
  kFunctionMaxThreads = 0,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
  kPointerDeviceOrdinal = 9,
  kJitErrorLog = 5,
  kJitErrorLogBytes = 6,
  kJitLineInfo = 13,
  kLaunchCooperative = 2,
  kLaunchCluster = 4, // along the axes of the grid
  kLaunchProgrammaticSerialization = 6,
};

// CUlaunchAttribute: a number, or three, whose meaning `id` says, at the start of 64 bytes of room.
struct LaunchAttribute {
  int id;
  alignas(8) int value;
  int room[15];
};

// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid[3], block[3];
  unsigned sharedBytes;
  Stream stream;
  LaunchAttribute *attributes;
  unsigned count;
};

// name, parameter types
#define LIBTILE_CUDA_FUNCTIONS(F)                                                                  \
  F(cuInit, unsigned)                                                                              \
  F(cuDriverGetVersion, int *)                                                                     \
  F(cuDeviceGetCount, int *)                                                                       \
  F(cuDeviceGet, Device *, int)                                                                    \
  F(cuDeviceGetAttribute, int *, int, Device)                                                      \
  F(cuDeviceGetName, char *, int, Device)                                                          \
  F(cuDevicePrimaryCtxRetain, Context *, Device)                                                   \
  F(cuCtxGetCurrent, Context *)                                                                    \
  F(cuCtxSetCurrent, Context)                                                                      \
  F(cuCtxSynchronize)                                                                              \
  F(cuModuleLoadDataEx, ModuleHandle *, const void *, unsigned, int *, void **)                          \
  F(cuModuleUnload, ModuleHandle)                                                                        \
  F(cuModuleGetFunction, Function *, ModuleHandle, const char *)                                         \
  F(cuFuncSetAttribute, Function, int, int)                                                        \
  F(cuFuncGetAttribute, int *, int, Function)                                                      \
  F(cuLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,          \
    unsigned, Stream, void **, void **)                                                            \
  F(cuLaunchCooperativeKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, void **) \
  F(cuLaunchKernelEx, const LaunchConfig *, Function, void **, void **)                              \
  F(cuOccupancyMaxActiveBlocksPerMultiprocessor, int *, Function, int, size_t) \
  F(cuTensorMapEncodeTiled, void *, int, unsigned, void *, const uint64_t *, const uint64_t *,     \
    const uint32_t *, const uint32_t *, int, int, int, int)                                        \
  F(cuStreamSynchronize, Stream)                                                                   \
  F(cuEventCreate, Event *, unsigned)                                                              \
  F(cuEventRecord, Event, Stream)                                                                  \
  F(cuEventSynchronize, Event)                                                                     \
  F(cuEventElapsedTime, float *, Event, Event)                                                     \
  F(cuEventDestroy_v2, Event)                                                                      \
  F(cuMemAlloc_v2, Address *, size_t)                                                              \
  F(cuMemFree_v2, Address)                                                                         \
  F(cuMemcpyHtoD_v2, Address, const void *, size_t)                                                \
  F(cuMemcpyDtoH_v2, void *, Address, size_t)                                                      \
  F(cuMemsetD8_v2, Address, unsigned char, size_t)                                                 \
  F(cuPointerGetAttribute, void *, int, Address)                                                   \
  F(cuGetErrorName, Result, const char **)                                                         \
  F(cuGetErrorString, Result, const char **)

struct Api {
#define LIBTILE_CUDA_MEMBER(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  LIBTILE_CUDA_FUNCTIONS(LIBTILE_CUDA_MEMBER)
#undef LIBTILE_CUDA_MEMBER
  // Why the library cannot be used; empty: it can.
  std::string trouble;
};

// Opened and initialised on the first call.
const Api &api();

} // namespace libtile::runtime::cuda
