// SPDX-License-Identifier: Apache-2.0
// What is known of an op and of an attribute, looked up in tables that are made from ops.def.
#pragma once

#include "ir/effects.h"
#include "ir/type.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace libtile::ir {

// Their enumerators, one a row of ops.def, stand in ir/ops.h.
enum class Opcode : uint8_t;
enum class Attr : uint8_t;
enum class AttrKind : uint8_t;
enum class CmpPred : uint8_t;
enum class Float8 : uint8_t;

// int64_t serves Int, Bool and every enumeration; a Scalar is int64_t or double.
using AttrValue = std::variant<int64_t, double, std::vector<int64_t>, std::string>;

[[nodiscard]] const char *attrName(Attr attr);
[[nodiscard]] AttrKind attrKind(Attr attr);
[[nodiscard]] std::optional<Attr> attrByName(std::string_view name);
// Name of the `value`-th enumerator of an enumeration kind; empty if there is none.
[[nodiscard]] std::string_view enumeratorName(AttrKind kind, int64_t value);
[[nodiscard]] std::optional<int64_t> enumeratorByName(AttrKind kind, std::string_view name);

enum class TypeRule : uint8_t {
  None,      // no results
  Explicit,  // the maker states the result; the verifier has a check for each op
  Same,      // numeric operands of one type, which is the result's
  SameInt,   // Same, integers only
  SameFloat, // Same, floats only
  Compare,   // operands of one type; i1 of that shape and layout
  Select,    // i1, T, T -> T, of one shape and layout
  Cast,      // the maker states the result: same shape and layout, other element
  PtrAdd,    // pointer and integer of one shape and layout -> the pointer's type
  Load,      // pointee of the first operand; others have its shape and layout
  Dot,       // the type of acc
  Reduce,    // each input without the axis
  Map,       // operands and results are tiles of one shape and layout, or scalars
  Scan,      // each input
  Region,    // carried values or what the regions yield
  Nest,      // none
  Fold,      // what `element` yields
};

enum class Stage : uint8_t { Tile, LaidOut, Staged, Nested };
[[nodiscard]] const char *stageName(Stage stage);
struct Stages {
  enum Flag : uint8_t { Tile = 1, LaidOut = 2, Staged = 4, Nested = 8 };
};

struct OperandSpec {
  std::string_view name;
  enum Form : uint8_t { One, Optional, Any } form;
};
struct AttrSpec {
  Attr attr;
  bool optional;
};

struct OpInfo {
  Opcode opcode;
  const char *name;     // "PtrAdd"
  const char *mnemonic; // "ptr_add"
  std::vector<OperandSpec> operands;
  std::vector<AttrSpec> attributes;
  std::vector<std::string_view> regions;
  TypeRule rule;
  Effects effects;
  uint8_t stages;
  const char *doc;

  [[nodiscard]] bool legalIn(Stage stage) const { return ((stages >> unsigned(stage)) & 1) != 0; }
  [[nodiscard]] bool isTerminator() const { return effects.has(Effects::Terminator); }
};

[[nodiscard]] const OpInfo &info(Opcode opcode);
[[nodiscard]] std::optional<Opcode> opcodeByMnemonic(std::string_view mnemonic);

// Operands and result have one shape and each element depends on the same element only.
[[nodiscard]] bool isElementwise(Opcode opcode);
// A FUNCTION or CAST_FUNCTION row: what not every target has an instruction for.
[[nodiscard]] bool isFunction(Opcode opcode);

} // namespace libtile::ir
