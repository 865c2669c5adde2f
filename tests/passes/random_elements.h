// SPDX-License-Identifier: Apache-2.0
// What a generator of random programs makes of values element by element: arithmetic, casts, comparisons.
#pragma once

#include "tests/passes/random_values.h"

namespace libtile::test {

class RandomElements : public RandomValues {
public:
  using RandomValues::RandomValues;

protected:
  using CmpPred = ir::CmpPred;

  void binary() {
    const ValueId a = any([](Type t) { return t.isInteger() && !t.isBool(); });
    using enum Opcode;
    const Opcode op = options_.indexLike ? oneOf({Add, Add, Add, Sub, Mul, SDiv, SRem, URem, UDiv,
                                                  And, Shl, LShr, AShr, SMin, SMax, Or})
                                         : oneOf({Add, Sub, Mul, SDiv, UDiv, SRem, URem, And, Or,
                                                  Xor, Shl, LShr, AShr, SMin, SMax, UMin, UMax,
                                                  SMulHi, UMulHi});
    ValueId b = operandOf(type(a));
    if (options_.indexLike && (op == Mul || op == Shl)) {
      b = b_.constInt(type(a), pick(5));
    }
    pool_.push_back(chance(80) || op == Shl ? b_.make(op, {a, b}) : b_.make(op, {b, a}));
  }

  void floating() {
    const ValueId a = any([](Type t) { return t.isFloating(); });
    if (!a.valid()) {
      return cast();
    }
    using enum Opcode;
    const Opcode op = oneOf({Add, Sub, Mul, FDiv, FMin, FMax, Neg, Abs, Floor, Ceil, Chop, Rint});
    const bool isUnary = ir::info(op).operands.size() == 1;
    pool_.push_back(isUnary ? b_.make(op, {a}) : b_.make(op, {a, operandOf(type(a))}));
  }

  void unary() {
    const ValueId a = any([](Type t) { return t.isInteger() && !t.isBool(); });
    using enum Opcode;
    pool_.push_back(b_.make(oneOf({Neg, Neg, Abs, Abs, Popc, Clz, Brev}), {a}));
  }

  void cast() {
    const ValueId a = any([](Type t) { return t.isInteger() || t.isFloating(); });
    const Type from = type(a);
    Opcode op = Opcode::SIToFp;
    Elem to = Elem::F32;
    if (from.isFloating()) {
      op = chance(50) ? Opcode::FpToSI : Opcode::FpToUI;
      to = oneOf({Elem::I32, Elem::I64, Elem::I16, Elem::I8});
    } else if (!from.isBool() || chance(50)) {
      to = oneOf({Elem::I8, Elem::I16, Elem::I32, Elem::I64, Elem::F32});
      const unsigned width = ir::bitWidth(to), have = from.elementBits();
      if (to == Elem::F32) {
        op = chance(50) ? Opcode::SIToFp : Opcode::UIToFp;
      } else if (width == have) {
        return;
      } else {
        op = width < have ? Opcode::Trunc : chance(60) ? Opcode::SExt : Opcode::ZExt;
      }
    } else {
      op = Opcode::UIToFp;
    }
    pool_.push_back(b_.make(op, {a}, from.withElement(to)));
  }

  void compareOrSelect() {
    const ValueId a = any([](Type t) { return t.isInteger() || t.isFloating(); });
    const Type t = type(a);
    if (t.isBool()) {
      pool_.push_back(b_.make(oneOf({Opcode::And, Opcode::Or, Opcode::Xor}), {a, operandOf(t)}));
      return;
    }
    const Type mask = t.withElement(Elem::I1);
    const ValueId known = any([&](Type x) { return x == mask; });
    if (known.valid() && chance(50)) {
      pool_.push_back(b_.make(Opcode::Select, {known, a, operandOf(t)}));
      return;
    }
    const unsigned first = static_cast<unsigned>(t.isFloating() ? CmpPred::oeq : CmpPred::eq);
    const unsigned count = t.isFloating() ? 7 : 10;
    pool_.push_back(b_.cmp(static_cast<CmpPred>(first + pick(count)), a, operandOf(t)));
  }
};

} // namespace libtile::test
