// SPDX-License-Identifier: Apache-2.0
// Random operations on random values: each gives a value or a UserError or Unsupported, and what
// was built is valid IR whichever it was. Table-free laws that hold for all operands are checked
// too.
#include "semantics_fixture.h"

#include <array>
#include <limits>
#include <random>

namespace libtile::frontend {
namespace {

constexpr std::array kTypes = {"i1",  "i8",   "i16", "i32", "i64",  "u8",    "u16", "u32", "u64",
                               "f16", "bf16", "f32", "f64", "*f32", "*kf16", "*i1", "**u8"};

class Pool {
public:
  explicit Pool(unsigned seed) : random_(seed) {
    const std::vector<std::vector<int64_t>> shapes = {{},     {1},    {4},    {4, 3},
                                                      {1, 3}, {4, 1}, {3, 4}, {2, 2, 2}};
    for (const char *type : kTypes) {
      for (int i = 0; i < 3; ++i) {
        values_.push_back(
            kernel.call("broadcast_to", {kernel.param(type), Kernel::ints(pick(shapes))}));
      }
      values_.push_back(Kernel::type(type));
    }
    const BigInt big = std::numeric_limits<BigInt>::max();
    for (const BigInt number : {BigInt(0), BigInt(1), BigInt(-1), BigInt(2), BigInt(4), BigInt(300),
                                BigInt(1) << 31, BigInt(1) << 63, BigInt(1) << 64, big, -big - 1}) {
      values_.push_back(Value::integer(number));
    }
    for (const double number :
         {0.0, -0.0, 1.5, 1e300, 1e-320, std::numeric_limits<double>::infinity(),
          std::numeric_limits<double>::quiet_NaN()}) {
      values_.push_back(Kernel::real(number));
    }
    for (const char *text : {"", "ieee", "relaxed", "ALL", ".cg"}) {
      values_.push_back(Value::string(text));
    }
    values_.insert(values_.end(), {Value::none(), Value::boolean(true), Value::boolean(false),
                                   Kernel::ints({}), Kernel::ints({4}), Kernel::ints({1, 0}),
                                   Kernel::ints({2, 6}), Kernel::ints({-1}),
                                   Value(Semantics::find("load")), kernel.s.languageName("math")});
  }

  template <class T> const T &pick(const std::vector<T> &from) {
    return from[random_() % from.size()];
  }
  unsigned below(unsigned bound) { return random_() % bound; }
  // Mostly from the first values, so that what was made is used again but the start stays likely.
  const Value &value() { return pick(values_); }
  void add(const Value &value) {
    if (value.bound() && values_.size() < 400) {
      values_.push_back(value);
    }
  }

  Kernel kernel;

private:
  std::mt19937 random_;
  std::vector<Value> values_;
};

// Not of a function with overloads, whose body the kernel here cannot run (test_prelude.cpp).
const Operation &randomOperation(Pool &pool) {
  const std::span<const Operation> all = Semantics::operations();
  const Operation *operation = nullptr;
  while (operation == nullptr || operation->overloads != nullptr) {
    operation = &all[pool.below(static_cast<unsigned>(all.size()))];
  }
  return *operation;
}

Value randomCall(Pool &pool) {
  const Operation &operation = randomOperation(pool);
  Arguments arguments;
  for (const OperationParam &param : operation.params) {
    const unsigned choice = pool.below(4);
    if (param.form == OperationParam::KeywordOnly || choice == 0) {
      if (choice < 2) {
        arguments.keyword.emplace_back(param.name, pool.value());
      }
    } else if (arguments.keyword.empty()) {
      arguments.positional.push_back(pool.value());
    }
  }
  return pool.kernel.s.call(operation, arguments);
}

Value randomStep(Pool &pool) {
  Semantics &s = pool.kernel.s;
  switch (pool.below(8)) {
  case 0:
    return s.unary(static_cast<UnaryOp>(pool.below(4)), pool.value());
  case 1:
    return s.compare(static_cast<CompareOp>(pool.below(10)), pool.value(), pool.value());
  case 2:
    return s.subscript(pool.value(), pool.value());
  case 3:
    return s.attribute(pool.value(), std::string(pool.below(2) == 0 ? "T" : "element_ty"));
  case 4:
    return s.binary(static_cast<BinaryOp>(pool.below(13)), pool.value(), pool.value());
  case 5:
    return s.logical(pool.below(2) == 0, pool.value(), pool.value());
  default:
    return randomCall(pool);
  }
}

TEST(Random, OnlyUserErrorsAndValidIr) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Pool pool(seed);
    pool.kernel.s.callFunction = [&](const Value &, const Arguments &arguments) {
      const auto count = static_cast<unsigned>(arguments.positional.size());
      return count == 0 ? pool.value() : arguments.positional[pool.below(count)];
    };
    unsigned made = 0;
    for (int step = 0; step < 500; ++step) {
      const ir::BlockId block = pool.kernel.builder.block();
      try {
        const Value result = randomStep(pool);
        pool.add(result);
        ++made;
      } catch (const ir::UserError &error) {
        EXPECT_FALSE(error.message().empty());
      } catch (const ir::Unsupported &error) {
        EXPECT_FALSE(error.message().empty());
      }
      // An error inside a combine function leaves its reduce unfinished, as it ends a compilation.
      if (pool.kernel.builder.block() != block) {
        made = 0;
        break;
      }
    }
    if (made != 0) {
      EXPECT_GT(made, 30U);
      ASSERT_NO_THROW(pool.kernel.text()) << "seed " << seed;
    }
  }
}

// The type of a + b does not depend on the order of two tensors, and compares as it adds.
TEST(Random, PromotionCommutes) {
  for (const char *a : kTypes) {
    for (const char *b : kTypes) {
      Kernel k;
      const Value x = k.param(a);
      const Value y = k.param(b);
      std::string left;
      std::string right;
      const auto error = messageOf<ir::UserError>(
          [&] { left = k.s.binary(BinaryOp::Add, x, y).tensor()->dtype.name(); });
      const auto mirrored = messageOf<ir::UserError>(
          [&] { right = k.s.binary(BinaryOp::Add, y, x).tensor()->dtype.name(); });
      EXPECT_EQ(left, right) << a << " and " << b;
      EXPECT_EQ(error.empty(), mirrored.empty());
    }
  }
}

} // namespace
} // namespace libtile::frontend
