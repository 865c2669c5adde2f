// SPDX-License-Identifier: Apache-2.0
#include "passes/polynomial_code.h"

#include "ir/ops.h"

namespace libtile::passes {

using ir::Opcode;
using ir::ValueId;

ValueId makeNumber(ir::Builder &builder, const Polynomial &polynomial, llvm::function_ref<ValueId(ValueId)> mapped) {
  const ir::Type wide = ir::Type::scalar(ir::Elem::I64);
  if (polynomial.isConstant()) {
    return builder.constInt(wide, polynomial.constant());
  }
  const auto join = [&](Opcode opcode, ValueId a, ValueId b) { return a.valid() ? builder.make(opcode, {b, a}) : b; };
  const auto number = [&](int64_t value, int64_t nothing) {
    return value == nothing ? ValueId{} : builder.constInt(wide, value);
  };
  ValueId sum = number(polynomial.constant(), 0);
  for (const Monomial &monomial : polynomial.monomials()) {
    ValueId product = number(monomial.coefficient, 1);
    for (const ValueId factor : monomial.factors) {
      const ValueId value = mapped(factor);
      const bool isWide = builder.function().type(value).elementBits() == 64;
      product = join(Opcode::Mul, product, isWide ? value : builder.make(Opcode::SExt, {value}, wide));
    }
    sum = join(Opcode::Add, sum, product);
  }
  return sum;
}

} // namespace libtile::passes
