// SPDX-License-Identifier: Apache-2.0
// Launches that may start before the one that they follow in their queue has ended: their code waits for it
// (passes/gpu/overlap_launches.h). As nodes of a graph, too.
#pragma once

#include "codegen/codegen.h"
#include "runtime/drivers/cuda_api.h"

namespace libtile::runtime {

// `launch`: the driver's cuLaunchKernelEx. Does not allocate.
[[nodiscard]] cuda::Result launchOverlapping(decltype(cuda::Api::cuLaunchKernelEx) launch, cuda::Function function,
                                             const codegen::KernelInfo &info, const int32_t (&grid)[3], cuda::Stream stream,
                                             void **slots) noexcept;

} // namespace libtile::runtime
