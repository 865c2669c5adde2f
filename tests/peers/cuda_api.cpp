// SPDX-License-Identifier: Apache-2.0
// Compiled, never linked: whether what runtime/drivers/cuda_api.h declares of launches is what NVIDIA's header does.
#include "runtime/drivers/cuda_api.h"

#include <cuda.h>

#include <cstddef>

namespace cuda = libtile::runtime::cuda;

static_assert(cuda::kLaunchCooperative == CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
static_assert(cuda::kLaunchProgrammaticSerialization == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
static_assert(sizeof(cuda::LaunchAttribute) == sizeof(CUlaunchAttribute) && alignof(cuda::LaunchAttribute) == alignof(CUlaunchAttribute));
static_assert(offsetof(cuda::LaunchAttribute, id) == offsetof(CUlaunchAttribute, id));
static_assert(offsetof(cuda::LaunchAttribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(sizeof(cuda::LaunchConfig) == sizeof(CUlaunchConfig));
static_assert(offsetof(cuda::LaunchConfig, grid) == offsetof(CUlaunchConfig, gridDimX));
static_assert(offsetof(cuda::LaunchConfig, block) == offsetof(CUlaunchConfig, blockDimX));
static_assert(offsetof(cuda::LaunchConfig, sharedBytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(cuda::LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(cuda::LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(cuda::LaunchConfig, count) == offsetof(CUlaunchConfig, numAttrs));
