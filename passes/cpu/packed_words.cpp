// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/packed_words.h"

#include "ir/ops.h"

namespace libtile::passes {

using namespace ir;

namespace {

Type wordOf(unsigned bits) {
  return Type::scalar(bits == 8 ? Elem::I8 : bits == 16 ? Elem::I16 : Elem::I32);
}

} // namespace

ValueId widen(Builder &builder, ValueId value, Elem elem) {
  const Type type = builder.function().type(value);
  if (type.elem() == elem) {
    return value;
  }
  return builder.make(isFloat(elem) ? Opcode::FpExt : Opcode::SExt, {value}, Type::scalar(elem));
}

// Halves are joined, so that vectors stay narrow.
ValueId groupWord(Builder &builder, std::span<const ValueId> group) {
  if (group.size() == 1) {
    const Type type = builder.function().type(group[0]);
    const Type bits = wordOf(bitWidth(type.elem()));
    return type == bits ? group[0] : builder.make(Opcode::Bitcast, {group[0]}, bits);
  }
  const auto half = [&](std::span<const ValueId> numbers) {
    const ValueId word = groupWord(builder, numbers);
    const Type type = builder.function().type(word);
    return builder.make(Opcode::ZExt, {word}, wordOf(2 * bitWidth(type.elem())));
  };
  const size_t middle = group.size() / 2;
  const ValueId high = half(group.subspan(middle));
  const Type type = builder.function().type(high);
  const ValueId shift = builder.constInt(type, int64_t(bitWidth(type.elem())) / 2);
  const ValueId upper = builder.make(Opcode::Shl, {high, shift});
  return builder.make(Opcode::Or, {half(group.first(middle)), upper});
}

} // namespace libtile::passes
