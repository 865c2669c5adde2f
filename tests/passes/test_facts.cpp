// SPDX-License-Identifier: Apache-2.0
// Facts by brute force: random programs are run, and each value that they compute is held against
// each claim made of it.
#include "passes/analysis/alias.h"
#include "passes/analysis/facts.h"

#include "ir/ops.h"
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

// What is proved is held against every program, what is promised against those that keep the promises.
class ClaimChecker {
public:
  ClaimChecker(const ir::Function &fn, const Facts &facts) : fn_(fn), facts_(facts) {}

  std::string problem;
  // No index computation has come near its type's limits, and none has divided a negative number.
  bool promiseKept = true;

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
    checkClaims(value, elements, facts_);
    if (promiseKept) {
      checkClaims(value, elements, facts_.access());
      checkVectors(value, elements);
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

  // `known`: Facts or AccessFacts.
  void checkClaims(ValueId value, const Elements &elements, const auto &known) {
    checkAffine(value, elements, known.affine(value));
    checkAxes(value, elements, known);
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

  // Equal as numbers of the type.
  static bool agree(const ir::Type &type, uint64_t a, uint64_t b) {
    const unsigned width = type.isPointer() ? 64 : type.elementBits();
    return (width == 64 ? a - b : (a - b) & ((uint64_t{1} << width) - 1)) == 0;
  }

  void checkAffine(ValueId value, const Elements &elements, const AffineForm *form) {
    if (form == nullptr) {
      return;
    }
    const ir::Type type = fn_.type(value);
    for (size_t i = 0; i < elements.size(); ++i) {
      uint64_t expected = evaluatePolynomial(form->offset);
      expected += form->base.valid() ? static_cast<uint64_t>(scalars_[form->base]) : 0;
      auto rest = static_cast<int64_t>(i);
      for (unsigned axis = type.rank(); axis-- > 0; rest /= type.dim(axis)) {
        expected +=
            evaluatePolynomial(form->strides[axis]) * static_cast<uint64_t>(rest % type.dim(axis));
      }
      if (!agree(type, expected, static_cast<uint64_t>(elements[i].i))) {
        fail(value, "affine form gives " + std::to_string(static_cast<int64_t>(expected)) +
                        " for " + std::to_string(elements[i].i) + " at " + std::to_string(i));
      }
    }
  }

  static bool same(const Element &a, const Element &b) {
    return a.i == b.i && (a.f == b.f || (std::isnan(a.f) && std::isnan(b.f)));
  }

  // Calls check(k, at) for each element of a tile along each axis: its index there, and the elements
  // of its line.
  static void alongAxis(const ir::Type &type, unsigned axis, const Elements &elements,
                        const auto &check) {
    int64_t inner = 1;
    for (unsigned i = axis + 1; i < type.rank(); ++i) {
      inner *= type.dim(i);
    }
    for (int64_t i = 0; i < type.numElements(); ++i) {
      const int64_t k = i / inner % type.dim(axis);
      check(k, [&](int64_t j) -> const Element & {
        return elements[static_cast<size_t>(i + (j - k) * inner)];
      });
    }
  }

  void checkAxes(ValueId value, const Elements &elements, const auto &known) {
    const ir::Type type = fn_.type(value);
    if (type.isScalar()) {
      if (!type.isFloating() && elements[0].i % known.axis(value, 0).divisible != 0) {
        fail(value, "not a multiple");
      }
      return;
    }
    for (unsigned axis = 0; axis < type.rank(); ++axis) {
      const AxisFacts claims = known.axis(value, axis);
      const int64_t group = known.equalGroup(value, axis);
      const uint64_t unit = type.isPointer() ? type.pointee().elementBytes() : 1;
      alongAxis(type, axis, elements, [&](int64_t k, const auto &at) {
        const auto fails = [&](const char *what) {
          fail(value, what + (" on axis " + std::to_string(axis)));
        };
        if (k % claims.constant != 0 && !same(at(k), at(k - 1))) {
          fails("not constant");
        }
        if ((group & (group - 1)) != 0 || !same(at(k), at(k - k % group))) {
          fails("a group is not equal");
        }
        if (type.isFloating()) {
          return;
        }
        const auto number = [&](int64_t j) { return static_cast<uint64_t>(at(j).i); };
        if (k % claims.contiguous != 0 && !agree(type, number(k), number(k - 1) + unit)) {
          fails("not contiguous");
        }
        if (k % claims.contiguous == 0 && at(k).i % claims.divisible != 0) {
          fails("not divisible");
        }
      });
    }
  }

  // What one access may take: consecutive, and aligned to its size.
  void checkVectors(ValueId value, const Elements &elements) {
    const ir::Type type = fn_.type(value);
    for (unsigned axis = 0; type.isPointer() && axis < type.rank(); ++axis) {
      const int64_t bytes = type.pointee().elementBytes();
      const int64_t vector = facts_.access().maxVectorElements(value, axis);
      alongAxis(type, axis, elements, [&](int64_t k, const auto &at) {
        const int64_t first = at(k - k % vector).i;
        if ((vector & (vector - 1)) != 0 || type.dim(axis) % vector != 0 || first % (vector * bytes) != 0 ||
            at(k).i != first + k % vector * bytes) {
          fail(value, "no vectors of " + std::to_string(vector) + " on axis " + std::to_string(axis));
        }
      });
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
