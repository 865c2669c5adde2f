// SPDX-License-Identifier: Apache-2.0
#include "passes/ptx_instructions.h"

#include "ir/ops.h"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace libtile::passes {

using ir::CmpPred;
using ir::Elem;
using ir::Opcode;
using ir::Type;
using ir::ValueId;

namespace {

struct PtxType {
  const char *name;
  Elem elem;
  bool isSigned;
};
constexpr PtxType kTypes[] = {
    {"s8", Elem::I8, true},     {"u8", Elem::I8, false},    {"b8", Elem::I8, false},
    {"s16", Elem::I16, true},   {"u16", Elem::I16, false},  {"b16", Elem::I16, false},
    {"s32", Elem::I32, true},   {"u32", Elem::I32, false},  {"b32", Elem::I32, false},
    {"s64", Elem::I64, true},   {"u64", Elem::I64, false},  {"b64", Elem::I64, false},
    {"f16", Elem::F16, true},   {"bf16", Elem::BF16, true}, {"f32", Elem::F32, true},
    {"f64", Elem::F64, true},   {"pred", Elem::I1, false},
};

const PtxType *typeOf(const std::string &name) {
  const auto *found = std::ranges::find_if(kTypes, [&](const PtxType &row) { return name == row.name; });
  return found == std::end(kTypes) ? nullptr : found;
}

// Instructions that are one op: of signed integers, of others and bits, of floats; kNone: there is none.
constexpr Opcode kNone = Opcode::Return;
struct Row {
  const char *name;
  unsigned operands;
  Opcode forSigned, forUnsigned, forFloat;
};
using enum Opcode;
constexpr Row kRows[] = {
    {"add", 2, Add, Add, Add},      {"sub", 2, Sub, Sub, Sub},      {"mul", 2, Mul, Mul, Mul},
    {"div", 2, SDiv, UDiv, FDiv},   {"rem", 2, SRem, URem, kNone},  {"min", 2, SMin, UMin, FMin},
    {"max", 2, SMax, UMax, FMax},   {"and", 2, kNone, And, kNone},  {"or", 2, kNone, Or, kNone},
    {"xor", 2, kNone, Xor, kNone},  {"shl", 2, kNone, Shl, kNone},  {"shr", 2, AShr, LShr, kNone},
    {"neg", 1, Neg, kNone, Neg},    {"abs", 1, Abs, kNone, Abs},    {"fma", 3, kNone, kNone, Fma},
    {"sqrt", 1, kNone, kNone, Sqrt}, {"rsqrt", 1, kNone, kNone, Rsqrt},
    {"ex2", 1, kNone, kNone, Exp2}, {"lg2", 1, kNone, kNone, Log2},
};

// Parts of a mnemonic that ask for less than the ops give, or for what they do anyway.
constexpr const char *kHarmless[] = {"rn", "lo", "approx", "ftz", "full", "noftz", "wrap"};

struct Compare {
  const char *name;
  CmpPred forSigned, forUnsigned, forFloat;
};
constexpr Compare kCompares[] = {
    {"eq", CmpPred::eq, CmpPred::eq, CmpPred::oeq},    {"ne", CmpPred::ne, CmpPred::ne, CmpPred::one},
    {"lt", CmpPred::slt, CmpPred::ult, CmpPred::olt},  {"le", CmpPred::sle, CmpPred::ule, CmpPred::ole},
    {"gt", CmpPred::sgt, CmpPred::ugt, CmpPred::ogt},  {"ge", CmpPred::sge, CmpPred::uge, CmpPred::oge},
    {"lo", CmpPred::ult, CmpPred::ult, CmpPred::olt},  {"ls", CmpPred::ule, CmpPred::ule, CmpPred::ole},
    {"hi", CmpPred::ugt, CmpPred::ugt, CmpPred::ogt},  {"hs", CmpPred::uge, CmpPred::uge, CmpPred::oge},
    {"neu", CmpPred::ne, CmpPred::ne, CmpPred::une},
};

Elem integerOf(unsigned bits) {
  return bits <= 1 ? Elem::I1 : bits <= 8 ? Elem::I8 : bits <= 16 ? Elem::I16 : bits <= 32 ? Elem::I32 : Elem::I64;
}

// 42, -1, 0x1F, 0f3F800000 and 0d...: the bits. 1.5 is no number of PTX for a typed instruction.
std::optional<int64_t> numberOf(const std::string &text) {
  const bool negative = text.starts_with("-");
  std::string_view digits(text);
  digits.remove_prefix(negative ? 1 : 0);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X") || digits.starts_with("0f") ||
      digits.starts_with("0F") || digits.starts_with("0d") || digits.starts_with("0D")) {
    digits.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  if (digits.ends_with("U")) {
    digits.remove_suffix(1);
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  const bool whole = error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
  return whole ? std::optional(static_cast<int64_t>(negative ? -value : value)) : std::nullopt;
}

class Run {
public:
  Run(PtxRegisters &registers, const PtxInstruction &instruction)
      : r_(registers), i_(instruction), type_(typeOf(instruction.parts.back())) {}

  bool run() {
    struct Special {
      const char *name;
      bool (*run)(Run &);
    };
    static constexpr Special kSpecial[] = {
        {"mov", [](Run &r) { return r.move(); }},      {"cvt", [](Run &r) { return r.convert(); }},
        {"setp", [](Run &r) { return r.compare(); }},  {"selp", [](Run &r) { return r.choose(); }},
        {"not", [](Run &r) { return r.invert(); }},    {"mad", [](Run &r) { return r.multiplyAdd(); }},
        {"mul", [](Run &r) { return r.multiply(); }},  {"rcp", [](Run &r) { return r.reciprocal(); }},
        {"shf", [](Run &r) { return r.funnel(); }},    {"lop3", [](Run &r) { return r.logic(); }},
        {"prmt", [](Run &r) { return r.permute(); }}};
    for (const Special &special : kSpecial) {
      if (i_.parts[0] == special.name) {
        return special.run(*this) && ok_;
      }
    }
    return oneOp() && ok_;
  }

private:
  [[nodiscard]] bool has(const char *part) const {
    return std::ranges::find(i_.parts, part) != i_.parts.end();
  }
  // All parts between the name and so many types are in the list.
  template <class List> [[nodiscard]] bool onlyParts(const List &list, size_t types = 1) const {
    return i_.parts.size() > types &&
           std::all_of(i_.parts.begin() + 1, i_.parts.end() - static_cast<long>(types),
                       [&](const std::string &part) {
                         return std::ranges::any_of(list, [&](const char *name) { return part == name; });
                       });
  }
  [[nodiscard]] bool scalars(size_t count) const {
    return i_.operands.size() == count &&
           std::ranges::none_of(i_.operands, &PtxOperand::isVector);
  }
  ValueId in(size_t operand, Elem elem) {
    const ValueId value = r_.read(i_.operands[operand].names[0], elem);
    ok_ = ok_ && value.valid();
    return value.valid() ? value : r_.constant(elem, 0);
  }
  bool out(ValueId value) { return write(i_.operands[0].names[0], value); }
  bool write(const std::string &name, ValueId value) {
    if (!i_.predicate.empty()) {
      const ValueId on = r_.read(i_.predicate, Elem::I1);
      const ValueId old = r_.read(name, r_.builder().function().type(value).elem());
      if (!on.valid() || !old.valid()) {
        return false;
      }
      value = i_.negated ? r_.make(Select, {on, old, value}) : r_.make(Select, {on, value, old});
    }
    r_.write(name, value);
    return true;
  }

  bool oneOp() {
    const auto *row = std::ranges::find_if(kRows, [&](const Row &each) { return i_.parts[0] == each.name; });
    if (row == std::end(kRows) || type_ == nullptr || !onlyParts(kHarmless) ||
        !scalars(row->operands + 1)) {
      return false;
    }
    const Opcode opcode = isFloat(type_->elem) ? row->forFloat
                          : type_->isSigned    ? row->forSigned
                                               : row->forUnsigned;
    // Elementary functions are there from 32 bits on.
    if (opcode == kNone || (ir::isFunction(opcode) && ir::bitWidth(type_->elem) < 32)) {
      return false;
    }
    const ValueId a = in(1, type_->elem);
    if (row->operands == 1) {
      return out(r_.make(opcode, {a}));
    }
    const bool shift = opcode == Shl || opcode == LShr || opcode == AShr;
    const ValueId b = shift ? amount(2) : in(2, type_->elem);
    return out(row->operands == 2 ? r_.make(opcode, {a, b}) : r_.make(opcode, {a, b, in(3, type_->elem)}));
  }

  // Of 32 bits, at most the width.
  ValueId amount(size_t operand) {
    const ValueId limit = r_.constant(Elem::I32, ir::bitWidth(type_->elem));
    return r_.bitsAs(r_.make(UMin, {in(operand, Elem::I32), limit}), type_->elem);
  }

  bool move() {
    if (type_ == nullptr || i_.parts.size() != 2 || i_.operands.size() != 2) {
      return false;
    }
    const PtxOperand &to = i_.operands[0], &from = i_.operands[1];
    if (!to.isVector && !from.isVector) {
      return out(in(1, type_->elem));
    }
    const std::vector<std::string> &pieces = (to.isVector ? to : from).names;
    const unsigned width = ir::bitWidth(type_->elem), each = width / unsigned(pieces.size());
    if (to.isVector == from.isVector || (each != 8 && each != 16 && each != 32)) {
      return false;
    }
    const Elem whole = integerOf(width), piece = integerOf(each);
    ValueId word = to.isVector ? in(1, whole) : r_.constant(whole, 0);
    for (size_t k = 0; k < pieces.size(); ++k) {
      const ValueId shift = r_.constant(whole, int64_t(k * each));
      if (to.isVector) {
        if (!write(pieces[k], r_.bitsAs(r_.make(LShr, {word, shift}), piece))) {
          return false;
        }
        continue;
      }
      const ValueId part = r_.read(pieces[k], piece);
      if (!part.valid()) {
        return false;
      }
      word = r_.make(Or, {word, r_.make(Shl, {r_.bitsAs(part, whole), shift})});
    }
    return to.isVector || out(word);
  }

  bool convert() {
    const PtxType *to = i_.parts.size() > 2 ? typeOf(i_.parts[i_.parts.size() - 2]) : nullptr;
    static constexpr const char *kNearest[] = {"rn", "ftz"}, *kTowardsZero[] = {"rzi", "ftz"}, *kPlain[] = {"ftz"};
    if (type_ != nullptr && has("f16x2") && scalars(3)) {
      return convertPair(Elem::F16);
    }
    if (type_ != nullptr && has("bf16x2") && scalars(3)) {
      return convertPair(Elem::BF16);
    }
    if (to == nullptr || type_ == nullptr || !scalars(2)) {
      return false;
    }
    const ValueId x = in(1, type_->elem);
    const unsigned from = ir::bitWidth(type_->elem), width = ir::bitWidth(to->elem);
    if (!isFloat(type_->elem) && !isFloat(to->elem)) {
      const bool extends = type_->isSigned && width > from;
      return onlyParts(kPlain, 2) && out(extends ? r_.cast(SExt, x, to->elem) : r_.bitsAs(x, to->elem));
    }
    if (!isFloat(type_->elem)) {
      return onlyParts(kNearest, 2) && out(r_.cast(type_->isSigned ? SIToFp : UIToFp, x, to->elem));
    }
    if (!isFloat(to->elem)) {
      return onlyParts(kTowardsZero, 2) && has("rzi") &&
             out(r_.cast(to->isSigned ? FpToSI : FpToUI, x, to->elem));
    }
    if (width > from) {
      return onlyParts(kPlain, 2) && out(r_.cast(FpExt, x, to->elem));
    }
    return onlyParts(kNearest, 2) && width < from && out(r_.cast(FpTrunc, x, to->elem));
  }

  // cvt.rn.f16x2.f32 d, high, low
  bool convertPair(Elem elem) {
    if (!has("rn") || type_->elem != Elem::F32) {
      return false;
    }
    const auto bits = [&](size_t operand) {
      return r_.bitsAs(r_.cast(FpTrunc, in(operand, Elem::F32), elem), Elem::I32);
    };
    const ValueId high = r_.make(Shl, {bits(1), r_.constant(Elem::I32, 16)});
    return out(r_.make(Or, {high, bits(2)}));
  }

  bool compare() {
    const auto *row = std::ranges::find_if(
        kCompares, [&](const Compare &each) { return i_.parts.size() >= 3 && i_.parts[1] == each.name; });
    if (row == std::end(kCompares) || type_ == nullptr || !scalars(3)) {
      return false;
    }
    const CmpPred predicate = isFloat(type_->elem) ? row->forFloat
                              : type_->isSigned    ? row->forSigned
                                                   : row->forUnsigned;
    return out(r_.builder().cmp(predicate, in(1, type_->elem), in(2, type_->elem)));
  }

  bool choose() {
    return type_ != nullptr && i_.parts.size() == 2 && scalars(4) &&
           out(r_.make(Select, {in(3, Elem::I1), in(1, type_->elem), in(2, type_->elem)}));
  }

  bool invert() {
    return type_ != nullptr && !isFloat(type_->elem) && scalars(2) &&
           out(r_.make(Xor, {in(1, type_->elem), r_.constant(type_->elem, -1)}));
  }

  // mul.lo, mul.hi and mul.wide of integers; floats are one op.
  bool multiply() {
    if (type_ == nullptr || isFloat(type_->elem) || has("lo")) {
      return oneOp();
    }
    const unsigned width = ir::bitWidth(type_->elem);
    if (!scalars(3) || width > 32 || i_.parts.size() != 3 || (!has("hi") && !has("wide"))) {
      return false;
    }
    const Elem wide = integerOf(2 * width);
    const auto widened = [&](size_t operand) {
      return r_.cast(type_->isSigned ? SExt : ZExt, in(operand, type_->elem), wide);
    };
    const ValueId product = r_.make(Mul, {widened(1), widened(2)});
    return out(has("wide") ? product
                           : r_.bitsAs(r_.make(LShr, {product, r_.constant(wide, width)}), type_->elem));
  }

  bool multiplyAdd() {
    if (type_ == nullptr || !scalars(4)) {
      return false;
    }
    const ValueId a = in(1, type_->elem), b = in(2, type_->elem), c = in(3, type_->elem);
    if (isFloat(type_->elem)) {
      return onlyParts(kHarmless) && out(r_.make(Fma, {a, b, c}));
    }
    return i_.parts.size() == 3 && has("lo") && out(r_.make(Add, {r_.make(Mul, {a, b}), c}));
  }

  bool reciprocal() {
    if (type_ == nullptr || !isFloat(type_->elem) || !onlyParts(kHarmless) || !scalars(2)) {
      return false;
    }
    const ValueId one = r_.bitsAs(r_.builder().constFloat(
        r_.builder().function().type(r_.constant(type_->elem, 0)), 1.0), type_->elem);
    return out(r_.make(FDiv, {one, in(1, type_->elem)}));
  }

  // shf.l and shf.r of (high, low), by the amount modulo 32.
  bool funnel() {
    if (type_ == nullptr || type_->elem != Elem::I32 || !has("wrap") || !scalars(4) ||
        has("l") == has("r")) {
      return false;
    }
    const Elem word = Elem::I32;
    const ValueId by = r_.make(And, {in(3, word), r_.constant(word, 31)});
    const ValueId rest = r_.make(Sub, {r_.constant(word, 32), by});
    const ValueId low = in(1, word), high = in(2, word);
    return out(has("l") ? r_.make(Or, {r_.make(Shl, {high, by}), r_.make(LShr, {low, rest})})
                        : r_.make(Or, {r_.make(Shl, {high, rest}), r_.make(LShr, {low, by})}));
  }

  // The bit of the table for each combination of three bits.
  bool logic() {
    const auto table = i_.operands.size() == 5 ? numberOf(i_.operands[4].names[0]) : std::nullopt;
    if (!table || type_ == nullptr || type_->elem != Elem::I32) {
      return false;
    }
    const ValueId ones = r_.constant(Elem::I32, -1);
    const ValueId inputs[] = {in(1, Elem::I32), in(2, Elem::I32), in(3, Elem::I32)};
    ValueId result = r_.constant(Elem::I32, 0);
    for (unsigned term = 0; term < 8; ++term) {
      if ((*table >> term & 1) == 0) {
        continue;
      }
      ValueId all = ones;
      for (unsigned k = 0; k < 3; ++k) {
        const bool plain = (term >> (2 - k) & 1) != 0;
        all = r_.make(And, {all, plain ? inputs[k] : r_.make(Xor, {inputs[k], ones})});
      }
      result = r_.make(Or, {result, all});
    }
    return out(result);
  }

  // Bytes of (b, a) that the digits of a known selector name; digits from 8 on repeat the byte's sign.
  bool permute() {
    const auto selector = i_.operands.size() == 4 ? numberOf(i_.operands[3].names[0]) : std::nullopt;
    if (!selector || i_.parts.size() != 2 || type_ == nullptr || type_->elem != Elem::I32) {
      return false;
    }
    const ValueId words[] = {in(1, Elem::I32), in(2, Elem::I32)};
    ValueId result = r_.constant(Elem::I32, 0);
    for (unsigned k = 0; k < 4; ++k) {
      const auto digit = static_cast<unsigned>(*selector >> (4 * k) & 15);
      const ValueId shift = r_.constant(Elem::I32, 8 * (digit & 3));
      ValueId byte = r_.bitsAs(r_.make(LShr, {words[digit >> 2 & 1], shift}), Elem::I8);
      if (digit >= 8) {
        byte = r_.make(AShr, {byte, r_.constant(Elem::I8, 7)});
      }
      const ValueId placed = r_.make(Shl, {r_.bitsAs(byte, Elem::I32), r_.constant(Elem::I32, 8 * k)});
      result = r_.make(Or, {result, placed});
    }
    return out(result);
  }

  PtxRegisters &r_;
  const PtxInstruction &i_;
  const PtxType *type_;
  bool ok_ = true;
};

} // namespace

ValueId PtxRegisters::cast(Opcode opcode, ValueId value, Elem elem) {
  return builder_.make(opcode, {value}, like_.withElement(elem));
}

ValueId PtxRegisters::bitsAs(ValueId value, Elem elem) {
  const Type type = builder_.function().type(value);
  if (!type.isPointer() && type.elem() == elem) {
    return value;
  }
  const unsigned from = type.elementBits(), to = ir::bitWidth(elem);
  if (type.isPointer()) {
    value = cast(PtrToInt, value, Elem::I64);
  } else if (type.isFloating()) {
    value = cast(Bitcast, value, integerOf(from));
  }
  if (from != to) {
    value = cast(from > to ? Trunc : ZExt, value, integerOf(to));
  }
  return isFloat(elem) ? cast(Bitcast, value, elem) : value;
}

ValueId PtxRegisters::constant(Elem elem, int64_t bits) {
  const Elem integer = integerOf(ir::bitWidth(elem));
  return bitsAs(builder_.constInt(like_.withElement(integer), bits), elem);
}

ValueId PtxRegisters::read(const std::string &name, Elem elem) {
  if (const auto known = values_.find(name); known != values_.end()) {
    return bitsAs(known->second, elem);
  }
  const auto number = numberOf(name);
  return number ? constant(elem, *number) : ValueId{};
}

bool runPtx(PtxRegisters &registers, const PtxInstruction &instruction) {
  return Run(registers, instruction).run();
}

} // namespace libtile::passes
