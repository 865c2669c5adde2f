// SPDX-License-Identifier: Apache-2.0
// What the attributes `sem` and `scope` of an atomic access say.
#pragma once

#include "ir/function.h"
#include "ir/ops.h"

#include <string>

namespace libtile::codegen::nvidia {

// ".gpu"
inline std::string scopeOf(const ir::Function &fn, ir::OpId op) {
  return "." + std::string(ir::enumeratorName(ir::AttrKind::MemScope, fn.getInt(op, ir::Attr::scope)));
}

inline bool releases(ir::MemOrder sem) {
  return sem == ir::MemOrder::release || sem == ir::MemOrder::acq_rel;
}
inline bool acquires(ir::MemOrder sem) {
  return sem == ir::MemOrder::acquire || sem == ir::MemOrder::acq_rel;
}

} // namespace libtile::codegen::nvidia
