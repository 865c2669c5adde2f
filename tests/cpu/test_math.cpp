// SPDX-License-Identifier: Apache-2.0
// Errors of the elementary functions of ops.def against long double, in units of the last place: every
// 997th float, random doubles, and the inputs that are special. The files of frontend/prelude/ state the same
// bounds.
#include "tests/cpu/numbers.h"
#include "tests/cpu/run_nested.h"
#include "tests/passes/evaluate.h"

#include "ir/builder.h"
#include "ir/ops.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace libtile::test {
namespace {

using ir::Elem;
using ir::Opcode;
using ir::OpId;
using ir::Type;

constexpr int kBatch = 1 << 16;

std::string kernel(const std::string &op, const std::string &type, unsigned lanes, const std::string &attrs = "") {
  return "func @f stage=nested warps=4 stages=3 (%x: ptr<" + type + ">, %o: ptr<" + type +
         ">) {\n  nest {extents=[" + std::to_string(kBatch) + "], lanes=" + std::to_string(lanes) +
         "} {\n  ^(%i: i32):\n    %p = ptr_add %x, %i : ptr<" + type +
         ">\n    %q = ptr_add %o, %i : ptr<" + type + ">\n    %v = load %p : " + type +
         "\n    %r = " + op + " %v" + attrs + " : " + type + "\n    store %q, %r\n    yield\n  }\n  return\n}\n";
}

// Distance from the exact value in units of the last place of the type.
template <class T> double ulps(T got, long double want) {
  const T nearest = static_cast<T>(want);
  if (std::isnan(want)) {
    return std::isnan(got) ? 0 : 1e9;
  }
  if (got == nearest && (std::isinf(nearest) || nearest == 0)) {
    return 0;
  }
  if (!std::isfinite(got) || std::isinf(nearest)) {
    return 1e9;
  }
  int exponent = 0;
  std::frexp(want, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return double(std::fabs(static_cast<long double>(got) - want) /
                std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits));
}

struct Function {
  const char *name;
  long double (*exact)(long double);
  double bound;
};

const Function kFunctions[] = {
    {"exp", [](long double x) { return std::exp(x); }, 1.1},
    {"exp2", [](long double x) { return std::exp2(x); }, 1.0},
    {"log", [](long double x) { return std::log(x); }, 0.7},
    {"log2", [](long double x) { return std::log2(x); }, 0.8},
    {"rsqrt", [](long double x) { return 1 / std::sqrt(x); }, 1.5},
    {"sin", [](long double x) { return std::sin(x); }, 1.6},
    {"cos", [](long double x) { return std::cos(x); }, 1.6},
    {"erf", [](long double x) { return std::erf(x); }, 1.5},
};

template <class T>
void checkBatch(NestedKernel &code, const Function &function, const std::vector<T> &x) {
  std::vector<T> out(kBatch);
  code.run({slot(x.data()), slot(out.data())});
  for (int i = 0; i < kBatch; ++i) {
    const double error = ulps(out[i], function.exact(x[i]));
    ASSERT_LT(error, function.bound) << function.name << "(" << x[i] << ") = " << out[i];
  }
}

// Of targets with and without an instruction that scales by powers of two.
TEST(Math, Floats) {
  const std::vector<std::string> targets = runnableTargets();
  for (const std::string &target : {targets.front(), targets.back()}) {
    for (const Function &function : kFunctions) {
      NestedKernel code(kernel(function.name, "f32", 16), target);
      std::vector<float> x(kBatch);
      uint64_t bits = 0;
      while (bits < uint64_t{1} << 32) {
        for (float &value : x) {
          const auto word = static_cast<uint32_t>(bits);
          std::memcpy(&value, &word, 4);
          bits += target == targets.back() ? 997 : 1999;
        }
        checkBatch(code, function, x);
      }
      if (targets.size() == 1) {
        return;
      }
    }
  }
}

// Scalars and vectors of any width: the same bits.
TEST(Math, EveryWidth) {
  for (const std::string &target : runnableTargets()) {
    for (const Function &function : kFunctions) {
      for (const char *type : {"f32", "f64"}) {
        const size_t bytes = type[1] == '3' ? 4 : 8;
        std::mt19937_64 random(2);
        std::vector<uint64_t> x(kBatch), want(kBatch), out(kBatch);
        std::ranges::generate(x, std::ref(random));
        NestedKernel(kernel(function.name, type, 4), target).run({slot(x.data()), slot(want.data())});
        for (const unsigned lanes : {1U, 2U, 3U, 8U, 16U, 64U}) {
          std::ranges::fill(out, 0);
          NestedKernel(kernel(function.name, type, lanes), target)
              .run({slot(x.data()), slot(out.data())});
          ASSERT_EQ(std::memcmp(out.data(), want.data(), kBatch * bytes), 0)
              << function.name << " " << type << " by " << lanes << " on " << target;
        }
      }
    }
  }
}

// Of numbers that are known to be at most 0, and of NaN: the same bits as without that.
template <class T> void checkNonpositive(const char *type) {
  for (const std::string &target : runnableTargets()) {
    for (const char *name : {"exp", "exp2"}) {
      NestedKernel any(kernel(name, type, 8), target), falling(kernel(name, type, 8, " {nonpositive=true}"), target);
      std::mt19937_64 random(4);
      std::vector<T> x(kBatch), want(kBatch), out(kBatch);
      for (int i = 0; i < kBatch; ++i) {
        const uint64_t bits = random();
        std::memcpy(&x[i], &bits, sizeof(T));
        // Some anywhere, some about where results are below the least normal number, some halfway between powers.
        const double unit = double(bits >> 11) * 0x1p-53;
        x[i] = -std::fabs(i % 3 == 0 ? x[i] : T(unit * std::numeric_limits<T>::max_exponent * (i % 3 == 1 ? 1.2 : 0.01)));
        x[i] = i % 7 == 0 ? T(std::floor(x[i])) - T(0.5) : x[i];
      }
      x[0] = T(-0.0), x[1] = -std::numeric_limits<T>::infinity(), x[2] = std::numeric_limits<T>::quiet_NaN();
      any.run({slot(x.data()), slot(want.data())});
      falling.run({slot(x.data()), slot(out.data())});
      for (int i = 0; i < kBatch; ++i) {
        ASSERT_EQ(std::memcmp(&out[i], &want[i], sizeof(T)), 0) << name << "(" << x[i] << ") = " << out[i] << " on " << target;
      }
    }
  }
}

TEST(Math, ExponentialsOfNonpositiveNumbers) {
  checkNonpositive<float>("f32");
  checkNonpositive<double>("f64");
}

// a * 2^n for each n that it takes; and some number, without a trap, for others.
template <class T> void checkScale(const char *type, int most) {
  const std::string text = "func @f stage=nested warps=4 stages=3 (%x: ptr<" + std::string(type) +
                           ">, %o: ptr<" + type + ">) {\n  nest {extents=[" + std::to_string(kBatch) +
                           "], lanes=16} {\n  ^(%i: i32):\n    %p = ptr_add %x, %i : ptr<" + type +
                           ">\n    %q = ptr_add %o, %i : ptr<" + type + ">\n    %v = load %p : " + type +
                           "\n    %n = load %q : " + type + "\n    %r = scalb %v, %n : " + type +
                           "\n    store %q, %r\n    yield\n  }\n  return\n}\n";
  for (const std::string &target : runnableTargets()) {
    NestedKernel code(text, target);
    std::mt19937_64 random(3);
    std::vector<T> x(kBatch), n(kBatch);
    for (int i = 0; i < kBatch; ++i) {
      const uint64_t any = random();
      std::memcpy(&x[i], &any, sizeof(T));
      n[i] = static_cast<T>(int(random() % (2 * most + 1)) - most);
      x[i] = std::fabs(x[i]) < std::ldexp(T(1), -100) ? T(1.5) : x[i];
    }
    std::vector<T> out = n;
    code.run({slot(x.data()), slot(out.data())});
    for (int i = 0; i < kBatch; ++i) {
      const T want = std::ldexp(x[i], int(n[i]));
      ASSERT_TRUE(std::isnan(want) ? std::isnan(out[i]) : out[i] == want)
          << x[i] << " * 2^" << n[i] << " = " << out[i] << " on " << target;
    }
    for (int i = 0; i < kBatch; ++i) {
      const uint64_t any = random();
      std::memcpy(&n[i], &any, sizeof(T));
    }
    code.run({slot(x.data()), slot(n.data())});
  }
}

TEST(Math, ScalesByPowersOfTwo) {
  checkScale<float>("f32", 252);
  checkScale<double>("f64", 2044);
}

TEST(Math, Doubles) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::string &target : runnableTargets()) {
    for (const Function &function : kFunctions) {
      NestedKernel code(kernel(function.name, "f64", 8), target);
      std::mt19937_64 random(1);
      std::vector<double> x(kBatch);
      for (int i = 0; i < kBatch; ++i) {
        const double unit = double(int64_t(random())) * 0x1p-63;
        const uint64_t any = random();
        std::memcpy(&x[i], &any, 8);
        x[i] = i % 4 == 0   ? x[i]
               : i % 4 == 1 ? 800 * unit
               : i % 4 == 2 ? 1 + 0.7 * unit
                            : 1 + 1e-6 * unit;
      }
      const double special[] = {0.0,    -0.0,  infinity, -infinity, NAN,     1,      -1,   5e-324,
                                709.78, 709.8, -745.13,  -745.14,   -1074.5, 1023.9, 1024, -1075};
      std::copy(std::begin(special), std::end(special), x.begin());
      checkBatch(code, function, x);
    }
  }
}

// Narrow floats go through f32: one more rounding, so at most half a unit more than f32's share.
void checkEveryHalf(const Function &function, Elem elem, const std::string &target) {
  NestedKernel code(kernel(function.name, ir::elemName(elem), 16), target);
  std::vector<uint16_t> x(kBatch), out(kBatch);
  for (int i = 0; i < kBatch; ++i) {
    x[i] = static_cast<uint16_t>(i);
  }
  code.run({slot(x.data()), slot(out.data())});
  for (int i = 0; i < kBatch; ++i) {
    const long double exact = function.exact(decode(elem, x[i]));
    const uint64_t want = encode(elem, exact);
    // The neighbours, where the exact value is close to the middle between two numbers.
    const bool near = out[i] == want || ((out[i] + 1 == int(want) || out[i] - 1 == int(want)) &&
                                         std::fabs(decode(elem, out[i]) - exact) <=
                                             1.001L * std::fabs(decode(elem, want) - exact));
    ASSERT_TRUE(isNan(elem, want) ? isNan(elem, out[i]) : near)
        << function.name << " on " << target << " of bits " << i;
  }
}

// On some CPUs an instruction whose result lies below the least normal number takes a hundred cycles,
// one that rounds to 0 too. Where e^x is 0 (or a normal number) there is no such instruction.
void checkNothingVanishes(Opcode function, Elem elem, double x) {
  const Type type = Type::scalar(elem);
  ir::Function fn("f");
  ir::Builder b(fn);
  b.make(function, {b.constFloat(type, x)}, type);
  b.op(Opcode::Return, {});
  passes::expandFunctions(fn, contextOf("x86-64-v3"));
  const double least = elem == Elem::F32 ? 0x1p-126 : 0x1p-1022;
  std::vector<Element> seen(fn.numValues());
  Machine machine;
  machine.observe = [&](ir::ValueId value, const Elements &elements) {
    const OpId op = fn.def(value);
    seen.at(value.index) = elements[0];
    if (!fn.type(value).isFloating() || fn.opcode(op) == Opcode::Constant) {
      return;
    }
    const double result = elements[0].f;
    const bool isProduct = fn.opcode(op) == Opcode::Mul;
    const bool vanished = isProduct && result == 0 && seen[fn.operand(op, 0).index].f != 0 &&
                          seen[fn.operand(op, 1).index].f != 0;
    EXPECT_TRUE(!vanished && (result == 0 || !(std::fabs(result) < least)))
        << ir::info(function).mnemonic << "(" << x << "): " << fn.opInfo(op).mnemonic << " gives "
        << result;
  };
  evaluate(fn, {}, machine);
}

TEST(Math, ZerosComeFromNoSmallNumber) {
  const double infinity = std::numeric_limits<double>::infinity();
  std::mt19937_64 random(4);
  const auto between = [&](double low, double high) {
    return low + (high - low) * double(random() >> 11) * 0x1p-53;
  };
  struct Range {
    Opcode function;
    Elem elem;
    double zeroBelow, normalFrom; // of the argument
  };
  for (const Range &range : {Range{Opcode::Exp, Elem::F32, -104, -87},
                             {Opcode::Exp2, Elem::F32, -150, -125},
                             {Opcode::Exp, Elem::F64, -746, -707},
                             {Opcode::Exp2, Elem::F64, -1075, -1021}}) {
    for (const double x : {-infinity, infinity, double(NAN), -1e30, 1e30, 0.0, 1.0, -1.0}) {
      checkNothingVanishes(range.function, range.elem, x);
    }
    const auto check = [&](double x) {
      const double held = range.elem == Elem::F32 ? static_cast<float>(x) : x;
      checkNothingVanishes(range.function, range.elem, held);
    };
    for (int i = 0; i < 300; ++i) {
      check(between(2.5 * range.zeroBelow, range.zeroBelow) - 1e-4);
      check(between(range.normalFrom, 100));
    }
  }
}

TEST(Math, EveryHalf) {
  const std::vector<std::string> targets = runnableTargets();
  for (const Elem elem : {Elem::F16, Elem::BF16}) {
    for (const Function &function : kFunctions) {
      checkEveryHalf(function, elem, targets.front());
      checkEveryHalf(function, elem, targets.back());
    }
  }
}

} // namespace
} // namespace libtile::test
