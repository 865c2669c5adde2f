// SPDX-License-Identifier: Apache-2.0
#include "ir/arity.h"

namespace libtile::ir {

bool operandCountFits(const OpInfo &row, size_t count) {
  size_t least = 0;
  bool unbounded = false;
  for (const OperandSpec &spec : row.operands) {
    least += spec.form == OperandSpec::One ? 1 : 0;
    unbounded = unbounded || spec.form == OperandSpec::Any;
  }
  return count >= least && (unbounded || count <= row.operands.size());
}

bool resultCountFits(const OpInfo &row, size_t count) {
  switch (row.rule) {
  case TypeRule::None:
  case TypeRule::Nest:
    return count == 0;
  case TypeRule::Explicit:
  case TypeRule::Same:
  case TypeRule::SameInt:
  case TypeRule::SameFloat:
  case TypeRule::Compare:
  case TypeRule::Select:
  case TypeRule::Cast:
  case TypeRule::PtrAdd:
  case TypeRule::Load:
  case TypeRule::Dot:
    return count == 1;
  case TypeRule::Reduce:
  case TypeRule::Map:
  case TypeRule::Scan:
  case TypeRule::Region:
  case TypeRule::Fold:
    return true;
  }
  return false;
}

} // namespace libtile::ir
