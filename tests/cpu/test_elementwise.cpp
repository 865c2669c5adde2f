// SPDX-License-Identifier: Apache-2.0
// Every elementwise op, on every type, in lanes and as scalars, against exact arithmetic on the
// bits.
#include "tests/cpu/numbers.h"
#include "tests/cpu/run_nested.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>

namespace libtile::test {
namespace {

using ir::Elem;

constexpr int kCount = 1003; // not a multiple of any number of lanes

std::string kernel(const std::string &mnemonic, const std::string &attributes, Elem from, Elem to,
                   unsigned arity, unsigned lanes) {
  const std::string in = ir::elemName(from), out = ir::elemName(to);
  std::string text = "func @f stage=nested warps=4 stages=3 (";
  for (unsigned i = 0; i < arity; ++i) {
    text += "%p" + std::to_string(i) + ": ptr<" + in + ">, ";
  }
  text += "%o: ptr<" + out + ">) {\n  nest {extents=[" + std::to_string(kCount) +
          "], lanes=" + std::to_string(lanes) + "} {\n  ^(%i: i32):\n";
  std::string operands;
  for (unsigned i = 0; i < arity; ++i) {
    const std::string n = std::to_string(i);
    text += "    %q" + n + " = ptr_add %p" + n + ", %i : ptr<" + in + ">\n    %v" + n +
            " = load %q" + n + " : " + in + "\n";
    operands += (i == 0 ? "%v" : ", %v") + n;
  }
  return text + "    %r = " + mnemonic + " " + operands + " " + attributes + " : " + out +
         "\n    %s = ptr_add %o, %i : ptr<" + out +
         ">\n    store %s, %r\n    yield\n  }\n  return\n}\n";
}

using Reference = std::function<uint64_t(const uint64_t *)>;

uint64_t readBits(const std::vector<uint8_t> &data, Elem elem, int i) {
  uint64_t bits = 0;
  std::memcpy(&bits, data.data() + size_t(i) * ir::byteSize(elem), ir::byteSize(elem));
  return bits;
}

void check(const std::string &mnemonic, Elem from, Elem to, unsigned arity,
           const Reference &reference, const std::string &attributes = "") {
  std::mt19937_64 random(7);
  std::vector<std::vector<uint8_t>> inputs(arity, std::vector<uint8_t>(kCount * 8));
  for (auto &input : inputs) {
    for (int i = 0; i < kCount; ++i) {
      const uint64_t bits = randomBits(from, random);
      std::memcpy(input.data() + size_t(i) * ir::byteSize(from), &bits, ir::byteSize(from));
    }
  }
  for (const std::string &target : runnableTargets()) {
    for (unsigned lanes : {1u, 8u, 32u}) {
      NestedKernel kernel_(kernel(mnemonic, attributes, from, to, arity, lanes), target);
      std::vector<uint8_t> output(kCount * 8 + 64, 0xcd);
      std::vector<uint64_t> args;
      for (auto &input : inputs) {
        args.push_back(slot(input.data()));
      }
      args.push_back(slot(output.data()));
      kernel_.run(args);
      int failures = 0;
      for (int i = 0; i < kCount && failures < 3; ++i) {
        uint64_t operands[3] = {};
        for (unsigned k = 0; k < arity; ++k) {
          operands[k] = readBits(inputs[k], from, i);
        }
        const uint64_t want = reference(operands);
        const uint64_t got = readBits(output, to, i);
        const bool same = ir::isFloat(to) && isNan(to, want) ? isNan(to, got) : want == got;
        if (!same) {
          ++failures;
          ADD_FAILURE() << target << " lanes=" << lanes << " " << mnemonic << attributes << " "
                        << ir::elemName(from) << "->" << ir::elemName(to) << std::hex << " of "
                        << operands[0] << ", " << operands[1] << ", " << operands[2] << ": " << got
                        << ", not " << want;
        }
      }
      EXPECT_EQ(output[size_t(kCount) * ir::byteSize(to)], 0xcd) << "wrote past the end";
    }
  }
}

const Elem kInts[] = {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64};
const Elem kFloats[] = {Elem::F16, Elem::BF16, Elem::F32, Elem::F64};

using Unsigned = std::function<uint64_t(uint64_t, uint64_t, unsigned)>;

void checkInts(const std::string &mnemonic, unsigned arity, const Unsigned &reference,
               const std::string &attributes = "", bool toBool = false) {
  for (Elem elem : kInts) {
    const unsigned width = ir::bitWidth(elem);
    check(
        mnemonic, elem, toBool ? Elem::I1 : elem, arity,
        [&](const uint64_t *v) {
          return truncate(toBool ? 1 : width, reference(v[0], v[1], width));
        },
        attributes);
  }
}

using Real = std::function<long double(long double, long double)>;

void checkFloats(const std::string &mnemonic, unsigned arity, const Real &reference,
                 const std::string &attributes = "") {
  for (Elem elem : kFloats) {
    check(
        mnemonic, elem, elem, arity,
        [&](const uint64_t *v) {
          return encode(elem, reference(decode(elem, v[0]), decode(elem, v[1])));
        },
        attributes);
  }
}

TEST(Elementwise, IntegerArithmetic) {
  checkInts("add", 2, [](uint64_t a, uint64_t b, unsigned) { return a + b; });
  checkInts("sub", 2, [](uint64_t a, uint64_t b, unsigned) { return a - b; });
  checkInts("mul", 2, [](uint64_t a, uint64_t b, unsigned) { return a * b; });
  checkInts("neg", 1, [](uint64_t a, uint64_t, unsigned) { return -a; });
  checkInts("abs", 1,
            [](uint64_t a, uint64_t, unsigned w) { return signExtend(w, a) < 0 ? -a : a; });
  checkInts("and", 2, [](uint64_t a, uint64_t b, unsigned) { return a & b; });
  checkInts("or", 2, [](uint64_t a, uint64_t b, unsigned) { return a | b; });
  checkInts("xor", 2, [](uint64_t a, uint64_t b, unsigned) { return a ^ b; });
  checkInts("smin", 2, [](uint64_t a, uint64_t b, unsigned w) {
    return signExtend(w, a) < signExtend(w, b) ? a : b;
  });
  checkInts("smax", 2, [](uint64_t a, uint64_t b, unsigned w) {
    return signExtend(w, a) > signExtend(w, b) ? a : b;
  });
  checkInts("umin", 2, [](uint64_t a, uint64_t b, unsigned) { return std::min(a, b); });
  checkInts("umax", 2, [](uint64_t a, uint64_t b, unsigned) { return std::max(a, b); });
}

TEST(Elementwise, HighProductsAndBits) {
  checkInts("umulhi", 2, [](uint64_t a, uint64_t b, unsigned w) {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> w);
  });
  checkInts("smulhi", 2, [](uint64_t a, uint64_t b, unsigned w) {
    return static_cast<uint64_t>(static_cast<__int128>(signExtend(w, a)) * signExtend(w, b) >> w);
  });
  checkInts("popc", 1, [](uint64_t a, uint64_t, unsigned) { return uint64_t(std::popcount(a)); });
  checkInts("clz", 1,
            [](uint64_t a, uint64_t, unsigned w) { return uint64_t(std::countl_zero(a)) - 64 + w; });
  checkInts("brev", 1, [](uint64_t a, uint64_t, unsigned w) {
    uint64_t reversed = 0;
    for (unsigned bit = 0; bit < w; ++bit) {
      reversed |= (a >> bit & 1) << (w - 1 - bit);
    }
    return reversed;
  });
}

TEST(Elementwise, RoundsToIntegers) {
  checkFloats("floor", 1, [](long double a, long double) { return std::floor(a); });
  checkFloats("ceil", 1, [](long double a, long double) { return std::ceil(a); });
  checkFloats("chop", 1, [](long double a, long double) { return std::trunc(a); });
  checkFloats("rint", 1, [](long double a, long double) { return std::nearbyint(a); });
}

TEST(Elementwise, DivisionNeverTraps) {
  const auto divide = [](uint64_t a, uint64_t b, unsigned w) -> int64_t {
    const int64_t x = signExtend(w, a), y = signExtend(w, b);
    return y == 0 ? 0 : y == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x / y;
  };
  checkInts("sdiv", 2,
            [&](uint64_t a, uint64_t b, unsigned w) { return uint64_t(divide(a, b, w)); });
  checkInts("srem", 2,
            [&](uint64_t a, uint64_t b, unsigned w) { return a - uint64_t(divide(a, b, w)) * b; });
  checkInts("udiv", 2, [](uint64_t a, uint64_t b, unsigned) { return b == 0 ? 0 : a / b; });
  checkInts("urem", 2, [](uint64_t a, uint64_t b, unsigned) { return b == 0 ? a : a % b; });
}

TEST(Elementwise, ShiftsByAnyAmount) {
  checkInts("shl", 2, [](uint64_t a, uint64_t b, unsigned w) { return b >= w ? 0 : a << b; });
  checkInts("lshr", 2, [](uint64_t a, uint64_t b, unsigned w) { return b >= w ? 0 : a >> b; });
  checkInts("ashr", 2, [](uint64_t a, uint64_t b, unsigned w) {
    return uint64_t(signExtend(w, a) >> std::min<uint64_t>(b, w - 1));
  });
}

TEST(Elementwise, IntegerComparisons) {
  const auto checkPredicate = [](const char *name, const Unsigned &reference) {
    checkInts("cmp", 2, reference, std::string("{predicate=") + name + "}", true);
  };
  checkPredicate("eq", [](uint64_t a, uint64_t b, unsigned) { return a == b; });
  checkPredicate("ne", [](uint64_t a, uint64_t b, unsigned) { return a != b; });
  checkPredicate("slt", [](uint64_t a, uint64_t b, unsigned w) {
    return signExtend(w, a) < signExtend(w, b);
  });
  checkPredicate("sle", [](uint64_t a, uint64_t b, unsigned w) {
    return signExtend(w, a) <= signExtend(w, b);
  });
  checkPredicate("sgt", [](uint64_t a, uint64_t b, unsigned w) {
    return signExtend(w, a) > signExtend(w, b);
  });
  checkPredicate("sge", [](uint64_t a, uint64_t b, unsigned w) {
    return signExtend(w, a) >= signExtend(w, b);
  });
  checkPredicate("ult", [](uint64_t a, uint64_t b, unsigned) { return a < b; });
  checkPredicate("ule", [](uint64_t a, uint64_t b, unsigned) { return a <= b; });
  checkPredicate("ugt", [](uint64_t a, uint64_t b, unsigned) { return a > b; });
  checkPredicate("uge", [](uint64_t a, uint64_t b, unsigned) { return a >= b; });
}

TEST(Elementwise, FloatComparisons) {
  const auto checkPredicate = [](const char *name, auto reference) {
    for (Elem elem : kFloats) {
      check(
          "cmp", elem, Elem::I1, 2,
          [&](const uint64_t *v) {
            return uint64_t(reference(decode(elem, v[0]), decode(elem, v[1])));
          },
          std::string("{predicate=") + name + "}");
    }
  };
  using L = long double;
  checkPredicate("oeq", [](L a, L b) { return a == b; });
  checkPredicate("one", [](L a, L b) { return a < b || a > b; });
  checkPredicate("une", [](L a, L b) { return a != b; });
  checkPredicate("olt", [](L a, L b) { return a < b; });
  checkPredicate("ole", [](L a, L b) { return a <= b; });
  checkPredicate("ogt", [](L a, L b) { return a > b; });
  checkPredicate("oge", [](L a, L b) { return a >= b; });
}

// long double rounds these itself, to 64 bits; that is harmless for results of at most 31 bits, and
// for f64 it is compared with the double operation.
TEST(Elementwise, FloatArithmetic) {
  using L = long double;
  const auto checkBoth = [](const char *name, unsigned arity, auto operation) {
    for (Elem elem : kFloats) {
      check(name, elem, elem, arity, [&](const uint64_t *v) {
        const L a = decode(elem, v[0]), b = decode(elem, v[1]);
        return elem == Elem::F64 ? encode(elem, operation(double(a), double(b)))
                                 : encode(elem, operation(a, b));
      });
    }
  };
  checkBoth("add", 2, [](auto a, auto b) { return a + b; });
  checkBoth("sub", 2, [](auto a, auto b) { return a - b; });
  checkBoth("mul", 2, [](auto a, auto b) { return a * b; });
  checkBoth("fdiv", 2, [](auto a, auto b) { return a / b; });
  checkBoth("sqrt", 1, [](auto a, auto) { return std::sqrt(a); });
  checkFloats("frem", 2, [](L a, L b) { return std::fmod(a, b); });
  checkFloats("neg", 1, [](L a, L) { return -a; });
  checkFloats("abs", 1, [](L a, L) { return std::fabs(a); });
}

TEST(Elementwise, FusedMultiplyAddRoundsOnce) {
  for (Elem elem : kFloats) {
    check("fma", elem, elem, 3, [&](const uint64_t *v) {
      const long double a = decode(elem, v[0]), b = decode(elem, v[1]), c = decode(elem, v[2]);
      if (elem == Elem::F64) {
        return encode(elem, std::fma(double(a), double(b), double(c)));
      }
      if (elem == Elem::F32) {
        return encode(elem, std::fma(float(a), float(b), float(c)));
      }
      // The product is exact; what the sum loses decides only where the sum is a tie.
      const long double product = a * b, sum = product + c;
      const long double part = sum - product;
      const long double lost = (product - (sum - part)) + (c - part);
      if (!std::isfinite(sum) || lost == 0) {
        return encode(elem, sum);
      }
      const long double beyond = std::nextafter(sum, lost > 0 ? HUGE_VALL : -HUGE_VALL);
      const uint64_t near = encode(elem, sum), far = encode(elem, beyond);
      const bool isTie = near != far && (decode(elem, near) + decode(elem, far)) / 2 == sum;
      return isTie ? far : near;
    });
  }
}

TEST(Elementwise, MinimumAndMaximum) {
  const auto checkKind = [](bool isMax, bool nan) {
    for (Elem elem : kFloats) {
      check(
          isMax ? "fmax" : "fmin", elem, elem, 2,
          [&](const uint64_t *v) {
            const long double a = decode(elem, v[0]), b = decode(elem, v[1]);
            if (std::isnan(a) || std::isnan(b)) {
              return nan ? encode(elem, NAN) : std::isnan(a) ? v[1] : v[0];
            }
            // Zeros of either sign are equal: the second one is taken.
            return (isMax ? a > b : a < b) ? v[0] : v[1];
          },
          nan ? "{nan=true}" : "");
    }
  };
  for (bool isMax : {false, true}) {
    checkKind(isMax, false);
    checkKind(isMax, true);
  }
}

TEST(Elementwise, IntegerCasts) {
  for (Elem from : {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64}) {
    for (Elem to : {Elem::I1, Elem::I8, Elem::I16, Elem::I32, Elem::I64}) {
      const unsigned a = ir::bitWidth(from), b = ir::bitWidth(to);
      if (b > a) {
        check("sext", from, to, 1,
              [&](const uint64_t *v) { return truncate(b, signExtend(a, v[0])); });
        check("zext", from, to, 1, [&](const uint64_t *v) { return v[0]; });
      } else if (b < a) {
        check("trunc", from, to, 1, [&](const uint64_t *v) { return truncate(b, v[0]); });
      }
    }
  }
}

TEST(Elementwise, FloatCasts) {
  for (Elem from : kFloats) {
    for (Elem to : kFloats) {
      if (from != to) {
        check(ir::bitWidth(to) > ir::bitWidth(from) ? "fpext" : "fptrunc", from, to, 1,
              [&](const uint64_t *v) { return encode(to, decode(from, v[0])); });
      }
    }
  }
}

TEST(Elementwise, IntegersToFloatsAndBack) {
  for (Elem integer : kInts) {
    const unsigned width = ir::bitWidth(integer);
    for (Elem real : kFloats) {
      check("sitofp", integer, real, 1, [&](const uint64_t *v) {
        return encode(real, static_cast<long double>(signExtend(width, v[0])));
      });
      check("uitofp", integer, real, 1,
            [&](const uint64_t *v) { return encode(real, static_cast<long double>(v[0])); });
      const auto saturated = [&](const uint64_t *v, bool isSigned) -> uint64_t {
        const long double value = std::trunc(decode(real, v[0]));
        const long double high = std::ldexp(1.0L, int(width) - isSigned) - 1;
        const long double low = isSigned ? -high - 1 : 0;
        if (std::isnan(value)) {
          return 0;
        }
        const long double inside = std::min(std::max(value, low), high);
        return truncate(width, inside < 0 ? uint64_t(int64_t(inside)) : uint64_t(inside));
      };
      check("fptosi", real, integer, 1, [&](const uint64_t *v) { return saturated(v, true); });
      check("fptoui", real, integer, 1, [&](const uint64_t *v) { return saturated(v, false); });
    }
  }
}

TEST(Elementwise, Bitcasts) {
  const std::pair<Elem, Elem> pairs[] = {{Elem::F32, Elem::I32},
                                         {Elem::I64, Elem::F64},
                                         {Elem::BF16, Elem::I16},
                                         {Elem::I16, Elem::F16}};
  for (auto [from, to] : pairs) {
    check("bitcast", from, to, 1, [](const uint64_t *v) { return v[0]; });
  }
}

} // namespace
} // namespace libtile::test
