// SPDX-License-Identifier: Apache-2.0
// Aliasing by brute force: random pairs of address tiles over one base, in a loop, are run, and the
// bytes that they touch held against what mayAlias, mayAliasAcross and sameElements claim.
#include "passes/analysis/alias.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "tests/passes/evaluate.h"

#include <gtest/gtest.h>

#include <random>

namespace libtile::test {
namespace {

using ir::AttrValue;
using ir::BlockId;
using ir::Builder;
using ir::Elem;
using ir::Opcode;
using ir::Type;
using ir::ValueId;

struct Pair {
  ir::Function fn{"pair"};
  BlockId body;
  ValueId a, b;
};

// base + (start + i0 * s0 + i1 * s1 + iv * step + n * scale) for both, with small numbers.
Pair randomPair(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(random() % static_cast<uint64_t>(hi - lo + 1));
  };
  Pair pair;
  const ValueId x = pair.fn.addParam(Type::pointer(Elem::F32), {"x", 4});
  const ValueId n = pair.fn.addParam(Type::scalar(Elem::I32), {"n", 1});
  Builder b(pair.fn);
  const ValueId bounds[] = {b.i32(0), b.i32(static_cast<int32_t>(pick(1, 40))),
                            b.i32(static_cast<int32_t>(pick(1, 16)))};
  const ir::OpId loop = b.op(Opcode::For, bounds);
  pair.body = pair.fn.region(loop);
  const ValueId iv = pair.fn.addArg(pair.body, Type::scalar(Elem::I32));
  b.setEnd(pair.body);
  const bool twoAxes = pick(0, 1) == 1;
  const auto scaled = [&](ValueId value, int64_t factor) {
    return b.make(Opcode::Mul, {value, b.constInt(pair.fn.type(value), factor)});
  };
  const int64_t scale = pick(0, 2), step = pick(0, 3) == 0 ? 0 : pick(0, 16);
  const auto pointer = [&] {
    ValueId scalar =
        b.make(Opcode::Add, {scaled(iv, step), scaled(n, pick(0, 4) == 0 ? 1 : scale)});
    scalar = b.make(Opcode::Add, {scalar, b.i32(static_cast<int32_t>(pick(-40, 40)))});
    const auto extent = static_cast<int32_t>(pick(1, 2) * 4);
    ValueId index = b.make(Opcode::Arange, {}, Type::tile({extent}, Type::scalar(Elem::I32)));
    pair.fn.setAttr(pair.fn.def(index), ir::Attr::start, AttrValue(int64_t{0}));
    index = scaled(index, pick(-1, 3));
    if (twoAxes) {
      const Type column = Type::tile({extent, 1}, Type::scalar(Elem::I32));
      const Type row = Type::tile({1, 4}, Type::scalar(Elem::I32));
      const Type whole = Type::tile({extent, 4}, Type::scalar(Elem::I32));
      ValueId inner = b.make(Opcode::Arange, {}, Type::tile({4}, Type::scalar(Elem::I32)));
      pair.fn.setAttr(pair.fn.def(inner), ir::Attr::start, AttrValue(int64_t{0}));
      inner = b.make(Opcode::Reshape, {inner}, row);
      index = b.make(Opcode::Reshape, {scaled(index, pick(1, 8))}, column);
      index = b.make(Opcode::Add, {b.make(Opcode::Broadcast, {index}, whole),
                                   b.make(Opcode::Broadcast, {inner}, whole)});
    }
    const auto shape = pair.fn.type(index).shape();
    index = b.make(Opcode::Add, {index, b.splat(scalar, shape)});
    return b.make(Opcode::PtrAdd, {b.splat(x, shape), index});
  };
  pair.a = pointer();
  pair.b = pick(0, 4) == 0 ? pair.a : pointer();
  b.yield({});
  b.setEnd(pair.fn.body());
  b.op(Opcode::Return, {});
  return pair;
}

bool overlap(const Elements &a, const Elements &b) {
  for (const Element &x : a) {
    for (const Element &y : b) {
      if (x.i < y.i + 4 && y.i < x.i + 4) {
        return true;
      }
    }
  }
  return false;
}

TEST(Alias, ClaimsHoldOnRandomPairs) {
  unsigned apart = 0, apartAcross = 0, equal = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const Pair pair = randomPair(seed);
    const passes::Facts facts = passes::computeFacts(pair.fn);
    const bool may = passes::mayAlias(pair.fn, pair.a, pair.b, facts);
    const bool mayAcross = passes::mayAliasAcross(pair.fn, pair.body, pair.a, pair.b, facts);
    const bool same = passes::sameElements(pair.fn, pair.a, pair.b, facts);
    apart += may ? 0 : 1;
    apartAcross += mayAcross ? 0 : 1;
    equal += same ? 1 : 0;
    ASSERT_TRUE(may || !same);
    for (int64_t n : {0, 1, 7, -9}) {
      std::vector<Elements> as, bs;
      Machine machine;
      machine.observe = [&](ValueId value, const Elements &elements) {
        if (value == pair.a) {
          as.push_back(elements);
        }
        if (value == pair.b) {
          bs.push_back(elements);
        }
      };
      evaluate(pair.fn, {{4096, 0}, {n, 0}}, machine);
      for (size_t i = 0; i < as.size(); ++i) {
        ASSERT_TRUE(may || !overlap(as[i], bs[i])) << "seed " << seed << "\n" << pair.fn.str();
        for (size_t j = 0; j < bs.size(); ++j) {
          ASSERT_TRUE(mayAcross || !overlap(as[i], bs[j])) << "seed " << seed << "\n"
                                                           << pair.fn.str();
        }
        for (size_t k = 0; same && k < as[i].size(); ++k) {
          ASSERT_EQ(as[i][k].i, bs[i][k].i) << "seed " << seed;
          for (size_t m = 0; m < k; ++m) {
            ASSERT_FALSE(overlap({as[i][k]}, {bs[i][m]})) << "seed " << seed << "\n"
                                                          << pair.fn.str();
          }
        }
      }
    }
  }
  EXPECT_GT(apart, 300U);
  EXPECT_GT(apartAcross, 20U);
  EXPECT_GT(equal, 100U);
}

} // namespace
} // namespace libtile::test
