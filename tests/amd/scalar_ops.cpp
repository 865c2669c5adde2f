// SPDX-License-Identifier: Apache-2.0
#include "tests/amd/float_ops.h"
#include "tests/amd/scalar_step.h"

#include <sstream>
#include <unordered_map>

namespace emulator {

namespace {

using U32 = uint32_t;
using I32 = int32_t;
using U64 = uint64_t;
using I64 = int64_t;

// Reads two numbers and SCC; gives a number, and may set SCC.
using Function = std::function<U64(U64 a, U64 b, bool &scc)>;
struct ScalarOp {
  unsigned result, a, b; // bits; 0: there is none
  Function f;
};
using Table = std::unordered_map<std::string, ScalarOp>;

void add(Table &table, const std::string &names, unsigned result, unsigned a, unsigned b, const Function &f) {
  std::istringstream words(names);
  for (std::string name; words >> name;) {
    table["s_" + name] = {result, a, b, f};
  }
}

I64 extend(U64 value, unsigned bits) { return static_cast<I64>(value << (64 - bits)) >> (64 - bits); }
U64 low(unsigned bits) { return bits == 64 ? ~U64{0} : (U64{1} << bits) - 1; }
float number(U64 bits) { return fromBits<float>(bits); }

void addSums(Table &t) {
  add(t, "add_u32 add_co_u32", 32, 32, 32, [](U64 a, U64 b, bool &scc) { return scc = (a + b) >> 32 != 0, a + b; });
  add(t, "sub_u32 sub_co_u32", 32, 32, 32, [](U64 a, U64 b, bool &scc) { return scc = a < b, a - b; });
  add(t, "addc_u32 add_co_ci_u32", 32, 32, 32, [](U64 a, U64 b, bool &scc) {
    const U64 sum = a + b + (scc ? 1 : 0);
    return scc = sum >> 32 != 0, sum;
  });
  add(t, "subb_u32 sub_co_ci_u32", 32, 32, 32, [](U64 a, U64 b, bool &scc) {
    const U64 taken = b + (scc ? 1 : 0);
    return scc = a < taken, a - taken;
  });
  add(t, "add_i32 add_co_i32 addk_i32 addk_co_i32", 32, 32, 32, [](U64 a, U64 b, bool &scc) {
    const I64 sum = extend(a, 32) + extend(b, 32);
    return scc = sum != static_cast<I32>(sum), static_cast<U64>(sum);
  });
  add(t, "sub_i32 sub_co_i32", 32, 32, 32, [](U64 a, U64 b, bool &scc) {
    const I64 rest = extend(a, 32) - extend(b, 32);
    return scc = rest != static_cast<I32>(rest), static_cast<U64>(rest);
  });
  add(t, "absdiff_i32", 32, 32, 32, [](U64 a, U64 b, bool &scc) {
    const I64 rest = extend(a, 32) - extend(b, 32);
    return scc = rest != 0, static_cast<U64>(rest < 0 ? -rest : rest);
  });
  add(t, "mul_i32 mulk_i32", 32, 32, 32, [](U64 a, U64 b, bool &) { return a * b; });
  add(t, "mul_hi_u32", 32, 32, 32, [](U64 a, U64 b, bool &) { return a * b >> 32; });
  add(t, "mul_hi_i32", 32, 32, 32, [](U64 a, U64 b, bool &) { return static_cast<U64>(extend(a, 32) * extend(b, 32) >> 32); });
  add(t, "mul_u64", 64, 64, 64, [](U64 a, U64 b, bool &) { return a * b; });
  add(t, "add_nc_u64 add_u64", 64, 64, 64, [](U64 a, U64 b, bool &) { return a + b; });
  add(t, "sub_nc_u64 sub_u64", 64, 64, 64, [](U64 a, U64 b, bool &) { return a - b; });
  for (unsigned i = 1; i <= 4; ++i) {
    add(t, "lshl" + std::to_string(i) + "_add_u32", 32, 32, 32,
        [i](U64 a, U64 b, bool &scc) { return scc = ((a << i) + b) >> 32 != 0, (a << i) + b; });
  }
  add(t, "min_i32", 32, 32, 32, [](U64 a, U64 b, bool &scc) { return scc = extend(a, 32) < extend(b, 32), scc ? a : b; });
  add(t, "max_i32", 32, 32, 32, [](U64 a, U64 b, bool &scc) { return scc = extend(a, 32) >= extend(b, 32), scc ? a : b; });
  add(t, "min_u32", 32, 32, 32, [](U64 a, U64 b, bool &scc) { return scc = a < b, scc ? a : b; });
  add(t, "max_u32", 32, 32, 32, [](U64 a, U64 b, bool &scc) { return scc = a >= b, scc ? a : b; });
  add(t, "abs_i32", 32, 32, 0, [](U64 a, U64, bool &scc) {
    return scc = a != 0, extend(a, 32) < 0 ? 0 - a : a;
  });
}

// Of 32 and 64 bits; SCC: the result is not 0.
void addLogic(Table &t) {
  for (const unsigned bits : {32U, 64U}) {
    const std::string size = std::to_string(bits);
    const auto logic = [&](const std::string &names, U64 (*f)(U64, U64)) {
      std::istringstream words(names);
      for (std::string name; words >> name;) {
        add(t, name + "_b" + size, bits, bits, bits, [f, bits](U64 a, U64 b, bool &scc) {
          const U64 out = f(a, b) & low(bits);
          return scc = out != 0, out;
        });
      }
    };
    logic("and", [](U64 a, U64 b) { return a & b; });
    logic("or", [](U64 a, U64 b) { return a | b; });
    logic("xor", [](U64 a, U64 b) { return a ^ b; });
    logic("andn2 and_not1", [](U64 a, U64 b) { return a & ~b; });
    logic("orn2 or_not1", [](U64 a, U64 b) { return a | ~b; });
    logic("nand", [](U64 a, U64 b) { return ~(a & b); });
    logic("nor", [](U64 a, U64 b) { return ~(a | b); });
    logic("xnor", [](U64 a, U64 b) { return ~(a ^ b); });
    const auto shift = [&](const std::string &name, U64 (*f)(U64, U64, unsigned)) {
      add(t, name + size, bits, bits, 32, [f, bits](U64 a, U64 b, bool &scc) {
        const U64 out = f(a, b & (bits - 1), bits) & low(bits);
        return scc = out != 0, out;
      });
    };
    shift("lshl_b", [](U64 a, U64 b, unsigned) { return a << b; });
    shift("lshr_b", [](U64 a, U64 b, unsigned) { return a >> b; });
    shift("ashr_i", [](U64 a, U64 b, unsigned n) { return static_cast<U64>(extend(a, n) >> b); });
    for (const bool isSigned : {false, true}) {
      add(t, (isSigned ? "bfe_i" : "bfe_u") + size, bits, bits, 32, [bits, isSigned](U64 a, U64 b, bool &scc) {
        const auto width = static_cast<unsigned>(std::min<U64>(b >> 16 & 127, bits));
        const U64 field = width == 0 ? 0 : (a >> (b & (bits - 1))) & low(width);
        const U64 out = (isSigned && width != 0 ? static_cast<U64>(extend(field, width)) : field) & low(bits);
        return scc = out != 0, out;
      });
    }
    add(t, "bfm_b" + size, bits, 32, 32, [bits](U64 a, U64 b, bool &) { return low(a & (bits - 1)) << (b & (bits - 1)); });
    add(t, "not_b" + size, bits, bits, 0, [bits](U64 a, U64, bool &scc) { return scc = (~a & low(bits)) != 0, ~a; });
    add(t, "mov_b" + size, bits, bits, 0, [](U64 a, U64, bool &) { return a; });
    add(t, "cselect_b" + size, bits, bits, bits, [](U64 a, U64 b, bool &scc) { return scc ? a : b; });
    add(t, "ff1_i32_b" + size + " ctz_i32_b" + size, 32, bits, 0,
        [](U64 a, U64, bool &) { return a == 0 ? ~U64{0} : static_cast<U64>(std::countr_zero(a)); });
    add(t, "flbit_i32_b" + size + " clz_i32_u" + size, 32, bits, 0, [bits](U64 a, U64, bool &) {
      return a == 0 ? ~U64{0} : static_cast<U64>(std::countl_zero(a)) - (64 - bits);
    });
    add(t, "flbit_i32" + std::string(bits == 64 ? "_i64" : "") + " cls_i32" + (bits == 64 ? "_i64" : ""), 32, bits, 0, [bits](U64 a, U64, bool &) {
      const I64 value = extend(a, bits);
      const U64 other = static_cast<U64>(value < 0 ? ~value : value);
      return other == 0 ? ~U64{0} : static_cast<U64>(std::countl_zero(other)) - (64 - bits);
    });
    add(t, "bcnt1_i32_b" + size, 32, bits, 0, [](U64 a, U64, bool &scc) {
      const auto count = static_cast<U64>(std::popcount(a));
      return scc = count != 0, count;
    });
    add(t, "brev_b" + size, bits, bits, 0, [bits](U64 a, U64, bool &) {
      U64 out = 0;
      for (unsigned i = 0; i < bits; ++i) {
        out |= (a >> i & 1) << (bits - 1 - i);
      }
      return out;
    });
  }
}

void addPieces(Table &t) {
  const auto pack = [&](const std::string &name, unsigned first, unsigned second) {
    add(t, name, 32, 32, 32, [=](U64 a, U64 b, bool &) { return (a >> first & 0xffff) | (b >> second & 0xffff) << 16; });
  };
  pack("pack_ll_b32_b16", 0, 0);
  pack("pack_lh_b32_b16", 0, 16);
  pack("pack_hh_b32_b16", 16, 16);
  pack("pack_hl_b32_b16", 16, 0);
  add(t, "sext_i32_i8", 32, 32, 0, [](U64 a, U64, bool &) { return static_cast<U64>(extend(a, 8)); });
  add(t, "sext_i32_i16", 32, 32, 0, [](U64 a, U64, bool &) { return static_cast<U64>(extend(a, 16)); });
  add(t, "movk_i32", 32, 32, 0, [](U64 a, U64, bool &) { return static_cast<U64>(extend(a, 16)); });
}

void addFloats(Table &t) {
  const auto binary = [&](const std::string &names, float (*f)(float, float)) {
    add(t, names, 32, 32, 32, [f](U64 a, U64 b, bool &) { return toBits(f(number(a), number(b))); });
  };
  binary("add_f32", [](float a, float b) { return a + b; });
  binary("sub_f32", [](float a, float b) { return a - b; });
  binary("mul_f32", [](float a, float b) { return a * b; });
  binary("min_f32 min_num_f32", [](float a, float b) { return lesser(a, b); });
  binary("max_f32 max_num_f32", [](float a, float b) { return greater(a, b); });
  const auto unary = [&](const std::string &name, U64 (*f)(U64)) {
    add(t, name, 32, 32, 0, [f](U64 a, U64, bool &) { return f(a); });
  };
  unary("cvt_f32_i32", [](U64 a) { return toBits(static_cast<float>(static_cast<I32>(a))); });
  unary("cvt_f32_u32", [](U64 a) { return toBits(static_cast<float>(static_cast<U32>(a))); });
  unary("cvt_f32_f16", [](U64 a) { return toBits(static_cast<float>(fromHalf(static_cast<uint16_t>(a)))); });
  unary("cvt_f16_f32", [](U64 a) { return U64{toHalf(number(a))}; });
  unary("floor_f32", [](U64 a) { return toBits(std::floor(number(a))); });
  unary("ceil_f32", [](U64 a) { return toBits(std::ceil(number(a))); });
  unary("trunc_f32", [](U64 a) { return toBits(std::trunc(number(a))); });
  unary("rndne_f32", [](U64 a) { return toBits(static_cast<float>(roundEven(number(a)))); });
  unary("cvt_i32_f32", [](U64 a) {
    const double x = number(a);
    return static_cast<U64>(std::isnan(x) ? 0 : static_cast<I64>(std::max(-2147483648.0, std::min(x, 2147483647.0))));
  });
  unary("cvt_u32_f32", [](U64 a) {
    const double x = number(a);
    return static_cast<U64>(std::isnan(x) ? 0 : std::max(0.0, std::min(x, 4294967295.0)));
  });
}

const Table &table() {
  static const Table *made = [] {
    auto *t = new Table;
    addSums(*t);
    addLogic(*t);
    addPieces(*t);
    addFloats(*t);
    return t;
  }();
  return *made;
}

// s_cmp_lt_i32, s_cmpk_eq_u32, s_cmp_lt_f32: SCC alone.
Step makeCompare(const Instruction &in) {
  const size_t from = in.name.starts_with("s_cmpk_") ? 7 : 6, end = in.name.find('_', from);
  const std::string condition = in.name.substr(from, end - from), type = in.name.substr(end + 1);
  const unsigned bits = type.ends_with("64") ? 64 : 32;
  const bool isFloat = type == "f32", isSigned = type[0] == 'i';
  const bool isShort = in.name.starts_with("s_cmpk_") && isSigned; // a constant of 16 bits, whose sign is extended
  return [=, a = ScalarSource(in.operands[0], bits), b = ScalarSource(in.operands[1], bits)](Wave &wave) {
    const U64 x = a.read(wave), second = b.read(wave), y = isShort ? static_cast<uint32_t>(extend(second, 16)) : second;
    const double p = isFloat ? number(x) : 0, q = isFloat ? number(y) : 0;
    const bool isLess = isFloat ? p < q : isSigned ? extend(x, bits) < extend(y, bits) : x < y;
    const bool isMore = isFloat ? p > q : isSigned ? extend(x, bits) > extend(y, bits) : x > y;
    const bool isEqual = isFloat ? p == q : x == y, isUnordered = isFloat && (p != p || q != q);
    const std::string_view c = condition;
    wave.scc = c == "lt"    ? isLess
               : c == "gt"  ? isMore
               : c == "eq"  ? isEqual
               : c == "le"  ? isLess || isEqual
               : c == "ge"  ? isMore || isEqual
               : c == "lg" || c == "ne" ? (isFloat ? isLess || isMore : !isEqual)
               : c == "neq" ? !isEqual
               : c == "nlt" ? !isLess
               : c == "ngt" ? !isMore
               : c == "nle" ? !(isLess || isEqual)
               : c == "nge" ? !(isMore || isEqual)
               : c == "nlg" ? !(isLess || isMore)
               : c == "u"   ? isUnordered
                            : !isUnordered;
  };
}

// EXEC becomes a function of it and a mask; what it was is kept.
Step makeSaveExec(const Instruction &in, unsigned bits) {
  const std::string kind = in.name.substr(2, in.name.rfind("_saveexec") - 2);
  using Masks = Mask (*)(Mask source, Mask exec);
  const Masks f = kind == "and"   ? Masks([](Mask s, Mask e) { return s & e; })
                  : kind == "or"  ? Masks([](Mask s, Mask e) { return s | e; })
                  : kind == "xor" ? Masks([](Mask s, Mask e) { return s ^ e; })
                  : kind == "andn2" || kind == "and_not1" ? Masks([](Mask s, Mask e) { return s & ~e; })
                  : kind == "andn1" || kind == "and_not0" ? Masks([](Mask s, Mask e) { return ~s & e; })
                  : kind == "orn2" || kind == "or_not1"   ? Masks([](Mask s, Mask e) { return s | ~e; })
                  : kind == "orn1" || kind == "or_not0"   ? Masks([](Mask s, Mask e) { return ~s | e; })
                                                          : nullptr;
  if (f == nullptr) {
    return {};
  }
  return [f, source = ScalarSource(in.operands[1], bits), saved = ScalarDestination(in.operands[0], bits)](Wave &wave) {
    const Mask mask = source.read(wave), before = wave.exec;
    saved.write(wave, before);
    wave.setExec(f(mask, before));
    wave.scc = wave.exec != 0;
  };
}

Step makeBitTest(const Instruction &in) {
  const bool wanted = in.name.starts_with("s_bitcmp1");
  const unsigned bits = in.name.ends_with("64") ? 64 : 32;
  return [=, a = ScalarSource(in.operands[0], bits), b = ScalarSource(in.operands[1], 32)](Wave &wave) {
    wave.scc = ((a.read(wave) >> (b.read(wave) & (bits - 1)) & 1) != 0) == wanted;
  };
}

Step makeBitSet(const Instruction &in) {
  const bool sets = in.name.starts_with("s_bitset1");
  const unsigned bits = in.name.ends_with("64") ? 64 : 32;
  return [=, old = ScalarSource(in.operands[0], bits), which = ScalarSource(in.operands[1], 32),
          destination = ScalarDestination(in.operands[0], bits)](Wave &wave) {
    const U64 bit = U64{1} << (which.read(wave) & (bits - 1)), before = old.read(wave);
    destination.write(wave, sets ? before | bit : before & ~bit);
  };
}

// a * b + c: the addend is the destination (fmac), the last operand (fmaak), or behind the constant (fmamk).
Step makeMultiplyAdd(const Instruction &in) {
  const std::string addend = in.name == "s_fmac_f32" ? in.operands[0] : in.operands[3];
  return [a = ScalarSource(in.operands[1], 32), b = ScalarSource(in.operands[2], 32), c = ScalarSource(addend, 32),
          destination = ScalarDestination(in.operands[0], 32)](Wave &wave) {
    destination.write(wave, toBits(std::fma(number(a.read(wave)), number(b.read(wave)), number(c.read(wave)))));
  };
}

Step makeMoveIf(const Instruction &in) {
  const unsigned bits = in.name.ends_with("64") ? 64 : 32;
  return [source = ScalarSource(in.operands[1], bits), destination = ScalarDestination(in.operands[0], bits)](Wave &wave) {
    if (wave.scc) {
      destination.write(wave, source.read(wave));
    }
  };
}

} // namespace

Step makeScalarStep(const Instruction &in) {
  const std::string &name = in.name;
  if (name.find("_saveexec_b") != name.npos) {
    return makeSaveExec(in, name.ends_with("64") ? 64 : 32);
  }
  if (name.starts_with("s_cmp_") || name.starts_with("s_cmpk_")) {
    return makeCompare(in);
  }
  if (name.starts_with("s_bitcmp")) {
    return makeBitTest(in);
  }
  if (name.starts_with("s_bitset")) {
    return makeBitSet(in);
  }
  if (name == "s_fmac_f32" || name == "s_fmaak_f32" || name == "s_fmamk_f32") {
    return makeMultiplyAdd(in);
  }
  if (name.starts_with("s_cmov_b")) {
    return makeMoveIf(in);
  }
  const auto found = table().find(name);
  if (found == table().end()) {
    return {};
  }
  const ScalarOp &op = found->second;
  // The first source of s_addk and s_mulk is the destination.
  const bool isInPlace = name.starts_with("s_addk_") || name.starts_with("s_mulk_");
  const std::string a = in.operands[isInPlace ? 0 : 1], b = op.b == 0 ? "0" : in.operands[isInPlace ? 1 : 2];
  const bool isShortConstant = isInPlace;
  return [op = &op, isShortConstant, a = ScalarSource(a, op.a), b = ScalarSource(b, op.b == 0 ? 32 : op.b),
          destination = ScalarDestination(in.operands[0], op.result)](Wave &wave) {
    const U64 second = b.read(wave);
    destination.write(wave, op->f(a.read(wave), isShortConstant ? static_cast<U32>(extend(second, 16)) : second, wave.scc));
  };
}

} // namespace emulator
