// SPDX-License-Identifier: Apache-2.0
// Launches that say more than their shape: that they may start before the one that they follow in their queue has ended, and wait for
// it (passes/gpu/overlap_launches.h); that neighbouring programs are clusters (passes/gpu/plan_cluster.h). As nodes of a graph, too.
#pragma once

#include "codegen/codegen.h"
#include "runtime/drivers/cuda_api.h"

namespace libtile::runtime {

[[nodiscard]] inline bool isExtended(const codegen::KernelInfo &info) { return info.overlaps || info.cluster > 1; }

// `launch`: the driver's cuLaunchKernelEx. Does not allocate. A grid that is no multiple of the cluster has none, nor has one
// whose programs all run at once: how many those are was counted without.
[[nodiscard]] cuda::Result launchExtended(decltype(cuda::Api::cuLaunchKernelEx) launch, cuda::Function function,
                                          const codegen::KernelInfo &info, const int32_t (&grid)[3], cuda::Stream stream,
                                          void **slots) noexcept;

} // namespace libtile::runtime
