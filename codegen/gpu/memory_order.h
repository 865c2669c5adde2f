// SPDX-License-Identifier: Apache-2.0
// What the attributes `sem` and `scope` of an atomic access say.
#pragma once

#include "ir/ops.h"

namespace libtile::codegen::gpu {

inline bool releases(ir::MemOrder sem) {
  return sem == ir::MemOrder::release || sem == ir::MemOrder::acq_rel;
}
inline bool acquires(ir::MemOrder sem) {
  return sem == ir::MemOrder::acquire || sem == ir::MemOrder::acq_rel;
}

} // namespace libtile::codegen::gpu
