// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/extended_launch.h"

namespace libtile::runtime {

cuda::Result launchExtended(decltype(cuda::Api::cuLaunchKernelEx) launch, cuda::Function function, const codegen::KernelInfo &info,
                            const int32_t (&grid)[3], cuda::Stream stream, void **slots) noexcept {
  cuda::LaunchAttribute attributes[3];
  cuda::LaunchConfig config = {};
  if (info.overlaps) {
    attributes[config.count++] = {cuda::kLaunchProgrammaticSerialization, 1, {}};
  }
  if (info.cooperative) {
    attributes[config.count++] = {cuda::kLaunchCooperative, 1, {}};
  }
  if (info.cluster > 1 && grid[0] % info.cluster == 0 && !info.cooperative) {
    attributes[config.count++] = {cuda::kLaunchCluster, info.cluster, {1, 1}};
  }
  for (int axis = 0; axis < 3; ++axis) {
    config.grid[axis] = static_cast<unsigned>(grid[axis]);
    config.block[axis] = axis == 0 ? static_cast<unsigned>(info.threads) : 1;
  }
  config.sharedBytes = static_cast<unsigned>(info.sharedBytes);
  config.stream = stream;
  config.attributes = attributes;
  return launch(&config, function, slots, nullptr);
}

} // namespace libtile::runtime
