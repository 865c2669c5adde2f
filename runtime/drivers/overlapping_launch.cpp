// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/overlapping_launch.h"

namespace libtile::runtime {

cuda::Result launchOverlapping(decltype(cuda::Api::cuLaunchKernelEx) launch, cuda::Function function, const codegen::KernelInfo &info,
                               const int32_t (&grid)[3], cuda::Stream stream, void **slots) noexcept {
  cuda::LaunchAttribute attributes[] = {{cuda::kLaunchProgrammaticSerialization, 1, {}}, {cuda::kLaunchCooperative, 1, {}}};
  cuda::LaunchConfig config = {};
  for (int axis = 0; axis < 3; ++axis) {
    config.grid[axis] = static_cast<unsigned>(grid[axis]);
    config.block[axis] = axis == 0 ? static_cast<unsigned>(info.threads) : 1;
  }
  config.sharedBytes = static_cast<unsigned>(info.sharedBytes);
  config.stream = stream;
  config.attributes = attributes;
  config.count = info.cooperative ? 2 : 1;
  return launch(&config, function, slots, nullptr);
}

} // namespace libtile::runtime
