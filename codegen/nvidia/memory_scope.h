// SPDX-License-Identifier: Apache-2.0
// What the attribute `scope` of an atomic access is in PTX.
#pragma once

#include "codegen/gpu/memory_order.h"
#include "ir/function.h"

#include <string>

namespace libtile::codegen::nvidia {

using gpu::acquires;
using gpu::releases;

// ".gpu"
inline std::string scopeOf(const ir::Function &fn, ir::OpId op) {
  return "." + std::string(ir::enumeratorName(ir::AttrKind::MemScope, fn.getInt(op, ir::Attr::scope)));
}

} // namespace libtile::codegen::nvidia
