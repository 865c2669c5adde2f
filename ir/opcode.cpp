// SPDX-License-Identifier: Apache-2.0
// The tables behind opcode.h: the text columns of ops.def are split once, on first use.
#include "ir/opcode.h"

#include "ir/ops.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/ADT/StringMap.h>
#include <llvm/ADT/StringRef.h>

#include <array>

namespace libtile::ir {

namespace {

std::string_view view(llvm::StringRef text) { return {text.data(), text.size()}; }
llvm::StringRef ref(std::string_view text) { return {text.data(), text.size()}; }

std::vector<llvm::StringRef> words(const char *text, char separator) {
  llvm::SmallVector<llvm::StringRef, 16> parts;
  llvm::StringRef(text).split(parts, separator, -1, /*KeepEmpty=*/false);
  std::vector<llvm::StringRef> out;
  for (llvm::StringRef part : parts) {
    out.push_back(part.trim());
  }
  return out;
}

struct AttrRow {
  const char *name;
  AttrKind kind;
};
constexpr AttrRow kAttrs[] = {
#define ATTR(name, kind) {#name, AttrKind::kind},
#include "ir/ops.def"
};

using Enumerators = std::vector<std::string_view>;

const std::vector<Enumerators> &enumerations() {
  static const std::vector<Enumerators> table = [] {
    std::vector<Enumerators> out(unsigned(AttrKind::Text) + 1);
    for (const char *list : {
#define ENUM(Name, ...) #__VA_ARGS__,
#include "ir/ops.def"
         }) {
      Enumerators names;
      for (llvm::StringRef name : words(list, ',')) {
        name.consume_back("_");
        names.push_back(view(name));
      }
      out.push_back(std::move(names));
    }
    return out;
  }();
  return table;
}

OpInfo makeInfo(Opcode opcode, const char *name, const char *mnemonic, const char *operands,
                const char *attributes, const char *regions, TypeRule rule, unsigned effects,
                unsigned stages, const char *doc) {
  OpInfo out{opcode, name, mnemonic, {}, {}, {}, rule, Effects(effects), uint8_t(stages), doc};
  for (llvm::StringRef word : words(operands, ' ')) {
    OperandSpec::Form form = word.consume_back("?")   ? OperandSpec::Optional
                             : word.consume_back("*") ? OperandSpec::Any
                                                      : OperandSpec::One;
    out.operands.push_back({view(word), form});
  }
  for (llvm::StringRef word : words(attributes, ' ')) {
    const bool optional = word.consume_back("?");
    out.attributes.push_back({attrByName(view(word)).value(), optional});
  }
  if ((stages & Stages::Tile) != 0) {
    for (const Attr pin : {Attr::keep, Attr::lane_axis, Attr::lanes, Attr::unroll}) {
      out.attributes.push_back({pin, true});
    }
  }
  for (llvm::StringRef word : words(regions, ' ')) {
    out.regions.push_back(view(word));
  }
  return out;
}

const std::array<OpInfo, kNumOpcodes> &table() {
  static const std::array<OpInfo, kNumOpcodes> rows = {
#define OP(Name, mnemonic, operands, attributes, regions, rule, effects, stages, doc)              \
  makeInfo(Opcode::Name, #Name, mnemonic, operands, attributes, regions, TypeRule::rule, effects,  \
           stages, doc),
#include "ir/ops.def"
  };
  return rows;
}

} // namespace

const char *attrName(Attr attr) { return kAttrs[unsigned(attr)].name; }
AttrKind attrKind(Attr attr) { return kAttrs[unsigned(attr)].kind; }

std::optional<Attr> attrByName(std::string_view name) {
  unsigned index = 0;
  for (const AttrRow &row : kAttrs) {
    if (name == row.name) {
      return static_cast<Attr>(index);
    }
    ++index;
  }
  return std::nullopt;
}

std::string_view enumeratorName(AttrKind kind, int64_t value) {
  const Enumerators &names = enumerations()[unsigned(kind)];
  return value >= 0 && uint64_t(value) < names.size() ? names[value] : std::string_view();
}

std::optional<int64_t> enumeratorByName(AttrKind kind, std::string_view name) {
  int64_t value = 0;
  for (std::string_view candidate : enumerations()[unsigned(kind)]) {
    if (candidate == name) {
      return value;
    }
    ++value;
  }
  return std::nullopt;
}

const char *stageName(Stage stage) {
  constexpr const char *kNames[] = {"tile", "laid-out", "staged", "nested"};
  return kNames[unsigned(stage)];
}

const OpInfo &info(Opcode opcode) {
  static const OpInfo *const rows = table().data();
  return rows[unsigned(opcode)];
}

std::optional<Opcode> opcodeByMnemonic(std::string_view mnemonic) {
  static const llvm::StringMap<Opcode> byName = [] {
    llvm::StringMap<Opcode> out;
    for (const OpInfo &row : table()) {
      out[row.mnemonic] = row.opcode;
    }
    return out;
  }();
  const auto it = byName.find(ref(mnemonic));
  return it == byName.end() ? std::nullopt : std::optional(it->second);
}

bool isElementwise(Opcode opcode) {
  switch (info(opcode).rule) {
  case TypeRule::Same:
  case TypeRule::SameInt:
  case TypeRule::SameFloat:
  case TypeRule::Compare:
  case TypeRule::Select:
  case TypeRule::Cast:
  case TypeRule::PtrAdd:
    return true;
  case TypeRule::None:
  case TypeRule::Explicit:
  case TypeRule::Load:
  case TypeRule::Dot:
  case TypeRule::Reduce:
  case TypeRule::Map:
  case TypeRule::Scan:
  case TypeRule::Region:
  case TypeRule::Nest:
  case TypeRule::Fold:
    return false;
  }
  return false;
}

bool isFunction(Opcode opcode) {
  switch (opcode) {
#define FUNCTION(Name, ...) case Opcode::Name:
#define CAST_FUNCTION(Name, ...) case Opcode::Name:
#define ARITHMETIC(...)
#define OP(...)
#include "ir/ops.def"
    return true;
#define FUNCTION(...)
#define CAST_FUNCTION(...)
#define OP(Name, ...) case Opcode::Name:
#include "ir/ops.def"
    return false;
  }
  return false;
}

} // namespace libtile::ir
