// SPDX-License-Identifier: Apache-2.0
// Folding against the interpreter: every integer op at every width on edge cases and random
// numbers, floats of every format, casts between all of them.
#include "passes/fold_constants.h"

#include "tests/passes/evaluate.h"

#include "ir/builder.h"
#include "ir/float8.h"
#include "ir/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace libtile::test {
namespace {

using ir::AttrValue;
using ir::Elem;
using ir::Function;
using ir::Opcode;
using ir::OpId;
using ir::Type;
using ir::ValueId;

// One op over constants; checks the folded number, if there is one, and tells whether there was.
bool check(Opcode opcode, std::vector<std::pair<Type, AttrValue>> operands, Type result,
           ir::CmpPred predicate = {}, std::optional<ir::Float8> format = {}) {
  Function fn("fold");
  ir::Builder b(fn);
  std::vector<ValueId> values;
  for (const auto &[type, value] : operands) {
    const auto *real = std::get_if<double>(&value);
    values.push_back(real != nullptr ? b.constFloat(type, *real)
                                     : b.constInt(type, std::get<int64_t>(value)));
  }
  const OpId op = b.op(opcode, values, {&result, 1});
  if (opcode == Opcode::Cmp) {
    fn.setAttr(op, ir::Attr::predicate, predicate);
  }
  if (format) {
    fn.setAttr(op, ir::Attr::format, *format);
  }
  const auto folded = passes::foldConstants(fn, op);
  if (!folded) {
    return false;
  }
  b.op(Opcode::Return, {});
  Element seen;
  Machine machine;
  machine.observe = [&](ValueId value, const Elements &elements) {
    seen = value == fn.result(op) ? elements[0] : seen;
  };
  evaluate(fn, {}, machine);
  if (const auto *real = std::get_if<double>(&*folded)) {
    EXPECT_TRUE((std::isnan(*real) && std::isnan(seen.f)) ||
                (*real == seen.f && std::signbit(*real) == std::signbit(seen.f)))
        << fn.str() << *real << " for " << seen.f;
  } else {
    EXPECT_EQ(std::get<int64_t>(*folded), seen.i) << fn.str();
  }
  return true;
}

std::vector<int64_t> interesting(std::mt19937_64 &random) {
  std::vector<int64_t> numbers = {0,     1,      -1,        2,         3,         7,        8,
                                  31,    32,     63,        64,        127,       -128,     255,
                                  32767, -32768, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  for (int i = 0; i < 6; ++i) {
    numbers.push_back(static_cast<int64_t>(random()) >> (random() % 60));
  }
  return numbers;
}

TEST(FoldConstants, IntegerOps) {
  using enum Opcode;
  std::mt19937_64 random(1);
  unsigned folded = 0, all = 0;
  for (Elem elem : {Elem::I8, Elem::I16, Elem::I32, Elem::I64}) {
    const Type type = Type::scalar(elem);
    for (int64_t a : interesting(random)) {
      for (int64_t b : interesting(random)) {
        for (Opcode op : {Add, Sub, Mul, SDiv, UDiv, SRem, URem, And, Or, Xor, Shl, LShr, AShr,
                          SMin, SMax, UMin, UMax}) {
          folded += check(op, {{type, a}, {type, b}}, type) ? 1 : 0;
          ++all;
        }
        for (unsigned p = 0; p < 10; ++p) {
          folded += check(Cmp, {{type, a}, {type, b}}, type.withElement(Elem::I1),
                          static_cast<ir::CmpPred>(p));
          ++all;
        }
      }
    }
  }
  EXPECT_EQ(folded, all) << "all of them fold";
}

// True is 1 unsigned and -1 signed.
TEST(FoldConstants, Booleans) {
  using enum Opcode;
  const Type type = Type::scalar(Elem::I1);
  for (int64_t a : {0, 1}) {
    for (int64_t b : {0, 1}) {
      for (Opcode op : {And, Or, Xor, SMin, SMax, UMin, UMax, Add, Sub, Mul, Shl, LShr}) {
        check(op, {{type, a}, {type, b}}, type);
      }
      for (unsigned p = 0; p < 10; ++p) {
        EXPECT_TRUE(check(Cmp, {{type, a}, {type, b}}, type, static_cast<ir::CmpPred>(p)));
      }
    }
    EXPECT_TRUE(check(SExt, {{type, a}}, Type::scalar(Elem::I32)));
    EXPECT_TRUE(check(ZExt, {{type, a}}, Type::scalar(Elem::I32)));
    EXPECT_TRUE(check(UIToFp, {{type, a}}, Type::scalar(Elem::F16)));
    EXPECT_TRUE(check(SIToFp, {{type, a}}, Type::scalar(Elem::F32)));
  }
}

std::vector<double> floats(std::mt19937_64 &random) {
  std::vector<double> numbers = {
      0.0,  -0.0,  1.0,  -1.0,   0.5,          3.0,           1.0 / 3, 65504,    65520,     1e-8,
      6e-8, 300.7, 1e38, 3.5e38, 2147483648.0, -2147483649.0, 1e19,    INFINITY, -INFINITY, NAN};
  for (int i = 0; i < 6; ++i) {
    numbers.push_back(std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                 static_cast<int>(random() % 80) - 100));
  }
  return numbers;
}

TEST(FoldConstants, FloatOps) {
  using enum Opcode;
  std::mt19937_64 random(2);
  for (Elem elem : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64}) {
    const Type type = Type::scalar(elem);
    for (double a : floats(random)) {
      for (double b : floats(random)) {
        for (Opcode op : {Add, Sub, Mul, FDiv}) {
          EXPECT_TRUE(check(op, {{type, a}, {type, b}}, type));
        }
        check(FMin, {{type, a}, {type, b}}, type);
        check(FMax, {{type, a}, {type, b}}, type);
        for (unsigned p = static_cast<unsigned>(ir::CmpPred::oeq);
             p <= static_cast<unsigned>(ir::CmpPred::une); ++p) {
          EXPECT_TRUE(check(Cmp, {{type, a}, {type, b}}, Type::scalar(Elem::I1),
                            static_cast<ir::CmpPred>(p)));
        }
      }
      EXPECT_TRUE(check(Neg, {{type, a}}, type));
      EXPECT_TRUE(check(Abs, {{type, a}}, type));
      EXPECT_TRUE(check(Sqrt, {{type, a}}, type));
      Function held("held");
      const double x = *held.constantFloat(ir::Builder(held).constFloat(type, a));
      for (Opcode op : {Exp, Exp2, Log, Log2}) {
        const bool isLog = op == Log || op == Log2;
        const bool exact = x == 0 || !std::isfinite(x) || (isLog && x == 1);
        EXPECT_EQ(check(op, {{type, a}}, type), exact) << "else its last bit is the target's";
      }
    }
  }
}

TEST(FoldConstants, Casts) {
  using enum Opcode;
  std::mt19937_64 random(3);
  for (Elem to : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64}) {
    for (Elem from : {Elem::F16, Elem::BF16, Elem::F32, Elem::F64}) {
      for (double a : floats(random)) {
        const bool wider = ir::bitWidth(to) > ir::bitWidth(from);
        EXPECT_TRUE(check(wider ? FpExt : FpTrunc, {{Type::scalar(from), a}}, Type::scalar(to)));
      }
    }
    for (Elem integer : {Elem::I8, Elem::I16, Elem::I32, Elem::I64}) {
      for (double a : floats(random)) {
        EXPECT_TRUE(check(FpToSI, {{Type::scalar(to), a}}, Type::scalar(integer)));
        EXPECT_TRUE(check(FpToUI, {{Type::scalar(to), a}}, Type::scalar(integer)));
      }
      for (int64_t a : interesting(random)) {
        if (ir::bitWidth(integer) < 64 ||
            to == Elem::F64) { // the interpreter goes through a double
          EXPECT_TRUE(check(SIToFp, {{Type::scalar(integer), a}}, Type::scalar(to)));
          EXPECT_TRUE(check(UIToFp, {{Type::scalar(integer), a}}, Type::scalar(to)));
        }
      }
    }
  }
}

TEST(FoldConstants, EightBitFloats) {
  std::mt19937_64 random(5);
  const Type code = Type::scalar(Elem::I8);
  using enum ir::Float8;
  for (const ir::Float8 format : {e5, e4nv, e4b15, e4b8, e5b16}) {
    std::vector<double> numbers = floats(random);
    for (int64_t c = -128; c < 128; ++c) {
      EXPECT_TRUE(check(Opcode::Float8Decode, {{code, c}}, Type::scalar(Elem::F32), {}, format));
      const double x = ir::decodeFloat8(format, static_cast<uint8_t>(c));
      const double next = ir::decodeFloat8(format, static_cast<uint8_t>(c + 1));
      numbers.insert(numbers.end(), {x, (x + next) / 2, std::nextafter((x + next) / 2, 0.0), 1.01 * x});
    }
    for (const double x : numbers) {
      for (const Elem from : {Elem::F32, Elem::F64}) {
        EXPECT_TRUE(check(Opcode::Float8Encode, {{Type::scalar(from), x}}, code, {}, format)) << x;
      }
    }
  }
}

} // namespace
} // namespace libtile::test
