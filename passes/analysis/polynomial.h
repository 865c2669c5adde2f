// SPDX-License-Identifier: Apache-2.0
// Polynomials with integer coefficients over scalar values of the program, the coefficients of
// affine forms (facts.h): an offset such as `pid * 128 * stride + k` is 128*pid*stride + k.
//
// Value type, canonical: monomials are sorted by their factors, no coefficient is 0, so two
// polynomials are equal as polynomials exactly if they compare equal. Arithmetic is over the
// integers; what would overflow 64 bits, have more than kMaxMonomials terms or more than kMaxDegree
// factors is refused (nullopt), never wrong.
#pragma once

#include "ir/function.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libtile::passes {

// coefficient * factors[0] * factors[1] * ..., factors sorted by id, repeated for powers; at least
// one.
struct Monomial {
  int64_t coefficient = 0;
  llvm::SmallVector<ir::ValueId, 2> factors;
  friend bool operator==(const Monomial &, const Monomial &) = default;
};

class Polynomial {
public:
  static constexpr unsigned kMaxMonomials = 12;
  static constexpr unsigned kMaxDegree = 4;

  Polynomial() = default;
  Polynomial(int64_t constant) : constant_(constant) {}
  static Polynomial symbol(ir::ValueId scalar);

  [[nodiscard]] int64_t constant() const { return constant_; }
  [[nodiscard]] std::span<const Monomial> monomials() const { return monomials_; }
  [[nodiscard]] bool isConstant() const { return monomials_.empty(); }
  [[nodiscard]] bool isZero() const { return isConstant() && constant_ == 0; }
  [[nodiscard]] bool dependsOn(ir::ValueId symbol) const;

  [[nodiscard]] std::optional<Polynomial> plus(const Polynomial &other) const;
  [[nodiscard]] std::optional<Polynomial> minus(const Polynomial &other) const;
  [[nodiscard]] std::optional<Polynomial> times(const Polynomial &other) const;
  // The terms without the symbol.
  [[nodiscard]] Polynomial without(ir::ValueId symbol) const;

  // "128*%3*%7 + %9 + 4", with value ids.
  [[nodiscard]] std::string str() const;
  friend bool operator==(const Polynomial &, const Polynomial &) = default;

private:
  [[nodiscard]] std::optional<Polynomial> plusScaled(const Polynomial &other, int64_t factor) const;
  // Adds a monomial, keeping the form canonical; false if it does not fit.
  bool add(Monomial monomial);

  int64_t constant_ = 0;
  std::vector<Monomial> monomials_;
};

} // namespace libtile::passes
