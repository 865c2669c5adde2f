// SPDX-License-Identifier: Apache-2.0
// Facts by brute force: random programs are run, and each value that they compute is held against
// each claim made of it.
#include "passes/analysis/alias.h"
#include "passes/analysis/facts.h"

#include "ir/parser.h"
#include "tests/passes/random_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace libtile::test {
namespace {

using ir::ValueId;
using passes::AffineForm;
using passes::AxisFacts;
using passes::Facts;
using passes::Polynomial;

class ClaimChecker {
public:
  ClaimChecker(const ir::Function &fn, const Facts &facts) : fn_(fn), facts_(facts) {}

  std::string problem;
  bool promiseKept = true; // no index computation has come near its type's limits

  void observe(ValueId value, const Elements &elements) {
    const ir::Type type = fn_.type(value);
    if (type.isScalar()) {
      scalars_.set(value, elements[0].i);
    }
    if (!problem.empty() || (!type.isInteger() && !type.isPointer() && !type.isFloating())) {
      return;
    }
    for (const Element &element : elements) {
      const int64_t limit = int64_t{1} << (type.isPointer() || type.elementBits() == 64 ? 40 : 29);
      if (type.isInteger() && type.elementBits() >= 32 &&
          (element.i > limit || element.i < -limit)) {
        promiseKept = false;
      }
    }
    negative_.set(value, std::ranges::any_of(elements, [](const Element &e) { return e.i < 0; }));
    const auto opcode = fn_.defOpcode(value);
    if (opcode == ir::Opcode::SDiv || opcode == ir::Opcode::SRem) {
      promiseKept = promiseKept && !negative_[fn_.operand(fn_.def(value), 0)];
    }
    checkRange(value, elements);
    checkAffine(value, elements);
    if (promiseKept) {
      checkAxes(value, elements);
    }
  }

private:
  void fail(ValueId value, const std::string &what) {
    problem = "%" + std::to_string(value.index) + ": " + what;
    if (fn_.def(value).valid()) {
      problem += std::string(": ") + fn_.opInfo(fn_.def(value)).mnemonic;
      for (ValueId operand : fn_.operands(fn_.def(value))) {
        problem += " %" + std::to_string(operand.index);
      }
    }
  }

  void checkRange(ValueId value, const Elements &elements) {
    if (!fn_.type(value).isInteger()) {
      return;
    }
    const passes::IntRange range = facts_.range(value);
    for (const Element &element : elements) {
      if (element.i < range.lo || element.i > range.hi) {
        fail(value, "range does not hold " + std::to_string(element.i));
      }
    }
  }

  uint64_t evaluatePolynomial(const Polynomial &polynomial) const {
    auto sum = static_cast<uint64_t>(polynomial.constant());
    for (const passes::Monomial &monomial : polynomial.monomials()) {
      auto product = static_cast<uint64_t>(monomial.coefficient);
      for (ValueId factor : monomial.factors) {
        product *= static_cast<uint64_t>(scalars_[factor]);
      }
      sum += product;
    }
    return sum;
  }

  void checkAffine(ValueId value, const Elements &elements) {
    const AffineForm *form = facts_.affine(value);
    const ir::Type type = fn_.type(value);
    if (form == nullptr || ((form->assumesNoWrap || type.isPointer()) && !promiseKept)) {
      return;
    }
    const unsigned width = type.isPointer() ? 64 : type.elementBits();
    for (size_t i = 0; i < elements.size(); ++i) {
      uint64_t expected = evaluatePolynomial(form->offset);
      expected += form->base.valid() ? static_cast<uint64_t>(scalars_[form->base]) : 0;
      auto rest = static_cast<int64_t>(i);
      for (unsigned axis = type.rank(); axis-- > 0; rest /= type.dim(axis)) {
        expected +=
            evaluatePolynomial(form->strides[axis]) * static_cast<uint64_t>(rest % type.dim(axis));
      }
      const uint64_t difference = expected - static_cast<uint64_t>(elements[i].i);
      if ((width == 64 ? difference : difference & ((uint64_t{1} << width) - 1)) != 0) {
        fail(value, "affine form gives " + std::to_string(static_cast<int64_t>(expected)) +
                        " for " + std::to_string(elements[i].i) + " at " + std::to_string(i));
      }
    }
  }

  static bool same(const Element &a, const Element &b) {
    return a.i == b.i && (a.f == b.f || (std::isnan(a.f) && std::isnan(b.f)));
  }

  void checkAxes(ValueId value, const Elements &elements) {
    const ir::Type type = fn_.type(value);
    if (type.isScalar()) {
      if (!type.isFloating() && elements[0].i % facts_.axis(value, 0).divisible != 0) {
        fail(value, "not a multiple");
      }
      return;
    }
    int64_t inner = 1;
    for (unsigned axis = type.rank(); axis-- > 0; inner *= type.dim(axis)) {
      const AxisFacts claims = facts_.axis(value, axis);
      const int64_t unit = type.isPointer() ? type.pointee().elementBytes() : 1;
      for (int64_t i = 0; i < type.numElements(); ++i) {
        const int64_t k = i / inner % type.dim(axis);
        const auto at = [&](int64_t j) {
          return elements[static_cast<size_t>(i + (j - k) * inner)];
        };
        if (k % claims.constant != 0 && !same(at(k), at(k - 1))) {
          fail(value, "not constant on axis " + std::to_string(axis));
        }
        if (type.isFloating()) {
          continue;
        }
        if (k % claims.contiguous != 0 && at(k).i != at(k - 1).i + unit) {
          fail(value, "not contiguous on axis " + std::to_string(axis));
        }
        if (k % claims.contiguous == 0 && at(k).i % claims.divisible != 0) {
          fail(value, "not divisible on axis " + std::to_string(axis));
        }
      }
    }
  }

  const ir::Function &fn_;
  const Facts &facts_;
  ir::IndexMap<ValueId, int64_t> scalars_;
  ir::IndexMap<ValueId, bool> negative_;
};

TEST(Facts, ClaimsHoldOnRandomPrograms) {
  unsigned kept = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    RandomProgram program =
        randomProgram(seed, {2 + static_cast<unsigned>(seed / 50) % 40, seed % 4 != 0});
    const Facts facts = passes::computeFacts(program.fn);
    ClaimChecker checker(program.fn, facts);
    program.machine.observe = [&](ValueId value, const Elements &elements) {
      checker.observe(value, elements);
    };
    evaluate(program.fn, program.arguments, program.machine);
    ASSERT_EQ(checker.problem, "") << "seed " << seed << "\n"
                                   << program.fn.str() << facts.str(program.fn);
    kept += checker.promiseKept ? 1 : 0;
  }
  EXPECT_GT(kept, 1000U);
}

} // namespace
} // namespace libtile::test
