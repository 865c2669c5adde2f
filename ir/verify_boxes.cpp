// SPDX-License-Identifier: Apache-2.0
// Invariant 40: boxes are those of the function's maps, and arrive at counters (the list is in
// verifier.cpp).
#include "ir/ops.h"
#include "ir/verifier_impl.h"

namespace libtile::ir {

void verifyArrivalsInit(Checker &c, OpId op) {
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.elem() == Elem::I64 && c.fn.getInt(op, Attr::count) >= 1, 40, op,
            "arrivals are a buffer of i64, and at least one is counted");
}

void verifyCopyBox(Checker &c, OpId op) {
  const Type buffer = c.operandType(op, 0), arrivals = c.operandType(op, 1);
  const int64_t number = c.fn.getInt(op, Attr::map);
  if (!c.require(number >= 0 && number < static_cast<int64_t>(c.fn.maps.size()), 40, op, "there is no such map")) {
    return;
  }
  const TensorMap &map = c.fn.maps[static_cast<size_t>(number)];
  bool ok = buffer.isBuffer() && buffer.elem() == map.elem && buffer.rank() <= map.dims.size() &&
            arrivals.isBuffer() && arrivals.elem() == Elem::I64 && arrivals.numElements() == 1 &&
            c.operandType(op, 2) == Type::scalar(Elem::I1) && c.fn.numOperands(op) == 3 + map.dims.size();
  for (unsigned i = 3; i < c.fn.numOperands(op); ++i) {
    ok = ok && c.operandType(op, i) == Type::scalar(Elem::I32);
  }
  c.require(ok, 40, op, "a buffer of the map's element, one counter, an i1 and an i32 for each of its dimensions");
}

void verifyArrivalsWait(Checker &c, OpId op) {
  const Type buffer = c.operandType(op, 0);
  c.require(buffer.isBuffer() && buffer.elem() == Elem::I64 && buffer.numElements() == 1 &&
                c.operandType(op, 1) == Type::scalar(Elem::I32),
            40, op, "one counter, an i64, and an i32");
}

} // namespace libtile::ir
