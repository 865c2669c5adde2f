// SPDX-License-Identifier: Apache-2.0
// The enumerators that ops.def makes: opcodes, attributes, and the values of attributes. Who names
// one includes this file; who passes them on includes opcode.h, and is not compiled again when a row
// changes.
#pragma once

#include "ir/opcode.h"

namespace libtile::ir {

enum class Opcode : uint8_t {
#define OP(Name, ...) Name,
#include "ir/ops.def"
};
inline constexpr unsigned kNumOpcodes = 0
#define OP(...) +1
#include "ir/ops.def"
    ;

enum class Attr : uint8_t {
#define ATTR(name, kind) name,
#include "ir/ops.def"
};

// The enumerations that attributes take their values from: CmpPred, AtomicKind, MemOrder, ...
#define ENUM(Name, ...) enum class Name : uint8_t { __VA_ARGS__ };
#include "ir/ops.def"

enum class AttrKind : uint8_t {
  Int,
  Bool,
  Ints,
  Scalar,
  Text,
#define ENUM(Name, ...) Name,
#include "ir/ops.def"
};

} // namespace libtile::ir
