// SPDX-License-Identifier: Apache-2.0
// Compiled, never linked: whether what runtime/drivers/hip_api.h declares is what AMD's header does. Handles have types of our own,
// so that of each parameter the size counts, and whether it is a pointer.
#include "runtime/drivers/hip_api.h"

#include <hip/hip_runtime_api.h>

#include <array>
#include <type_traits>

namespace hip = libtile::runtime::hip;

template <class T> constexpr size_t kindOf() { return 2 * sizeof(T) + (std::is_pointer_v<T> ? 1 : 0); }
template <class R, class... A> constexpr std::array<size_t, sizeof...(A) + 1> kinds(R (*)(A...)) {
  return {kindOf<R>(), kindOf<A>()...};
}
template <class F> constexpr auto kindsOf = kinds(static_cast<F>(nullptr));

namespace functions {
// Those that the header overloads for C++.
constexpr hipError_t (*hipMalloc)(void **, size_t) = ::hipMalloc;

#define CHECK(name, ...) static_assert(kinds(name) == kindsOf<decltype(hip::Api::name)>);
LIBTILE_HIP_FUNCTIONS(CHECK)
#undef CHECK
} // namespace functions

static_assert(hip::kErrorNotInitialized == hipErrorNotInitialized && hip::kErrorLaunchFailure == hipErrorLaunchFailure);
static_assert(hip::kAttributeClockKhz == hipDeviceAttributeClockRate && hip::kAttributeL2Bytes == hipDeviceAttributeL2CacheSize);
static_assert(hip::kAttributeMemoryBusBits == hipDeviceAttributeMemoryBusWidth);
static_assert(hip::kAttributeMemoryClockKhz == hipDeviceAttributeMemoryClockRate);
static_assert(hip::kAttributeMultiprocessors == hipDeviceAttributeMultiprocessorCount);
static_assert(hip::kAttributeRegistersPerBlock == hipDeviceAttributeMaxRegistersPerBlock);
static_assert(hip::kAttributeSharedPerBlock == hipDeviceAttributeMaxSharedMemoryPerBlock);
static_assert(hip::kAttributeWarpSize == hipDeviceAttributeWarpSize);
static_assert(hip::kFunctionMaxThreads == HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(hip::kFunctionLocalBytes == HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES && hip::kFunctionRegisters == HIP_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(hip::kPointerDeviceOrdinal == HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(hip::kPropertiesBytes == sizeof(hipDeviceProp_tR0600));
static_assert(hip::kArchitecturePlace == offsetof(hipDeviceProp_tR0600, gcnArchName));
