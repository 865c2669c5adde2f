// SPDX-License-Identifier: Apache-2.0
// The part of AMD's HIP runtime (libamdhip64.so, versions 6 and 7) that libtile calls, declared by ourselves: no ROCm is needed to
// build. Types and numbers are those of hip_runtime_api.h; tests/peers/hip_api.cpp compares them with AMD's header.
#pragma once

#include <cstddef>
#include <string>

namespace libtile::runtime::hip {

using Result = int; // hipError_t; 0: success
using Module = struct ModuleTag *;
using Function = struct FunctionTag *;
using Stream = struct StreamTag *;
using Event = struct EventTag *;

// Values of enumerations.
enum : int {
  kErrorNotInitialized = 3,
  kErrorLaunchFailure = 719,
  kAttributeClockKhz = 5,
  kAttributeL2Bytes = 19,
  kAttributeMemoryBusBits = 59,
  kAttributeMemoryClockKhz = 60,
  kAttributeMultiprocessors = 63,
  kAttributeRegistersPerBlock = 71,
  kAttributeSharedPerBlock = 74,
  kAttributeWarpSize = 87,
  kFunctionMaxThreads = 0,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kPointerDeviceOrdinal = 9,
};

// hipDeviceProp_tR0600: its size, and where the name of the architecture is.
constexpr size_t kPropertiesBytes = 1472, kArchitecturePlace = 1160;

// name, parameter types
#define LIBTILE_HIP_FUNCTIONS(F)                                                                   \
  F(hipInit, unsigned)                                                                             \
  F(hipGetDeviceCount, int *)                                                                      \
  F(hipGetDevice, int *)                                                                           \
  F(hipSetDevice, int)                                                                             \
  F(hipDeviceGetAttribute, int *, int, int)                                                        \
  F(hipDeviceGetName, char *, int, int)                                                            \
  F(hipGetDevicePropertiesR0600, void *, int)                                                      \
  F(hipDeviceSynchronize)                                                                          \
  F(hipModuleLoadData, Module *, const void *)                                                     \
  F(hipModuleUnload, Module)                                                                       \
  F(hipModuleGetFunction, Function *, Module, const char *)                                        \
  F(hipModuleGetGlobal, void **, size_t *, Module, const char *)                                   \
  F(hipFuncGetAttribute, int *, int, Function)                                                     \
  F(hipModuleLaunchKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,   \
    unsigned, Stream, void **, void **)                                                            \
  F(hipModuleLaunchCooperativeKernel, Function, unsigned, unsigned, unsigned, unsigned, unsigned,  \
    unsigned, unsigned, Stream, void **)                                                           \
  F(hipStreamSynchronize, Stream)                                                                  \
  F(hipEventCreateWithFlags, Event *, unsigned)                                                    \
  F(hipEventRecord, Event, Stream)                                                                 \
  F(hipEventSynchronize, Event)                                                                    \
  F(hipEventElapsedTime, float *, Event, Event)                                                    \
  F(hipEventDestroy, Event)                                                                        \
  F(hipMalloc, void **, size_t)                                                                    \
  F(hipFree, void *)                                                                               \
  F(hipMemcpyHtoD, void *, const void *, size_t)                                                   \
  F(hipMemcpyDtoH, void *, void *, size_t)                                                         \
  F(hipMemsetD8, void *, unsigned char, size_t)                                                    \
  F(hipPointerGetAttribute, void *, int, void *)

struct Api {
#define LIBTILE_HIP_MEMBER(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  LIBTILE_HIP_FUNCTIONS(LIBTILE_HIP_MEMBER)
#undef LIBTILE_HIP_MEMBER
  const char *(*hipGetErrorString)(Result) = nullptr;
  // Why the library cannot be used; empty: it can.
  std::string trouble;
};

// Opened and initialised on the first call: the library that LIBTILE_HIP names, or ROCm's.
const Api &api();

} // namespace libtile::runtime::hip
