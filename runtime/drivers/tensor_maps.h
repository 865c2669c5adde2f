// SPDX-License-Identifier: Apache-2.0
// Descriptors of arrays for the machine's copies of boxes, made from a launch's arguments as the kernel's
// tensor maps say (ir/tensor_map.h).
#pragma once

#include "ir/tensor_map.h"
#include "runtime/drivers/cuda_api.h"

namespace libtile::runtime {

struct alignas(ir::TensorMap::kAlign) TensorMapDescriptor {
  uint64_t words[ir::TensorMap::kBytes / 8];
};

// `encode`: the driver's cuTensorMapEncodeTiled. `arguments`: one slot a parameter of the kernel. What a thread has
// asked for last is kept: then this is a comparison. The kernel's guards hold, so the driver's answer is 0 but for
// a fault. Does not allocate.
[[nodiscard]] cuda::Result makeTensorMap(decltype(cuda::Api::cuTensorMapEncodeTiled) encode, const ir::TensorMap &map,
                                         const uint64_t *arguments, TensorMapDescriptor &made) noexcept;

} // namespace libtile::runtime
