// SPDX-License-Identifier: Apache-2.0
#include "passes/analysis/polynomial.h"

#include <algorithm>

namespace libtile::passes {

using ir::ValueId;

namespace {

bool lessFactors(const Monomial &a, const Monomial &b) {
  if (a.factors.size() != b.factors.size()) {
    return a.factors.size() < b.factors.size();
  }
  return std::lexicographical_compare(a.factors.begin(), a.factors.end(), b.factors.begin(),
                                      b.factors.end());
}

} // namespace

Polynomial Polynomial::symbol(ValueId scalar) {
  Polynomial result;
  result.monomials_.push_back({1, {scalar}});
  return result;
}

bool Polynomial::dependsOn(ValueId symbol) const {
  return std::ranges::any_of(monomials_, [&](const Monomial &monomial) {
    return std::ranges::find(monomial.factors, symbol) != monomial.factors.end();
  });
}

bool Polynomial::add(Monomial monomial) {
  if (monomial.coefficient == 0) {
    return true;
  }
  if (monomial.factors.empty()) {
    return !__builtin_add_overflow(constant_, monomial.coefficient, &constant_);
  }
  auto at = std::ranges::lower_bound(monomials_, monomial, lessFactors);
  if (at == monomials_.end() || at->factors != monomial.factors) {
    if (monomials_.size() >= kMaxMonomials || monomial.factors.size() > kMaxDegree) {
      return false;
    }
    monomials_.insert(at, std::move(monomial));
    return true;
  }
  if (__builtin_add_overflow(at->coefficient, monomial.coefficient, &at->coefficient)) {
    return false;
  }
  if (at->coefficient == 0) {
    monomials_.erase(at);
  }
  return true;
}

std::optional<Polynomial> Polynomial::plusScaled(const Polynomial &other, int64_t factor) const {
  Polynomial result = *this;
  int64_t constant = 0;
  if (__builtin_mul_overflow(other.constant_, factor, &constant) ||
      __builtin_add_overflow(result.constant_, constant, &result.constant_)) {
    return std::nullopt;
  }
  for (Monomial monomial : other.monomials_) {
    if (__builtin_mul_overflow(monomial.coefficient, factor, &monomial.coefficient) ||
        !result.add(std::move(monomial))) {
      return std::nullopt;
    }
  }
  return result;
}

std::optional<Polynomial> Polynomial::plus(const Polynomial &other) const {
  return plusScaled(other, 1);
}

std::optional<Polynomial> Polynomial::minus(const Polynomial &other) const {
  return plusScaled(other, -1);
}

std::optional<Polynomial> Polynomial::times(const Polynomial &other) const {
  std::optional<Polynomial> result = Polynomial().plusScaled(other, constant_);
  for (const Monomial &mine : monomials_) {
    if (!result) {
      return std::nullopt;
    }
    Monomial scaled = mine;
    if (__builtin_mul_overflow(mine.coefficient, other.constant_, &scaled.coefficient) ||
        !result->add(std::move(scaled))) {
      return std::nullopt;
    }
    for (const Monomial &theirs : other.monomials_) {
      Monomial product = mine;
      product.factors.append(theirs.factors.begin(), theirs.factors.end());
      std::sort(product.factors.begin(), product.factors.end());
      if (__builtin_mul_overflow(mine.coefficient, theirs.coefficient, &product.coefficient) ||
          !result->add(std::move(product))) {
        return std::nullopt;
      }
    }
  }
  return result;
}

Polynomial Polynomial::without(ValueId symbol) const {
  Polynomial result;
  result.constant_ = constant_;
  for (const Monomial &monomial : monomials_) {
    if (std::ranges::find(monomial.factors, symbol) == monomial.factors.end()) {
      result.monomials_.push_back(monomial);
    }
  }
  return result;
}

std::string Polynomial::str() const {
  std::string text;
  for (const Monomial &monomial : monomials_) {
    text += text.empty() ? "" : " + ";
    if (monomial.coefficient != 1) {
      text += std::to_string(monomial.coefficient) + "*";
    }
    for (size_t i = 0; i < monomial.factors.size(); ++i) {
      text += (i == 0 ? "%" : "*%") + std::to_string(monomial.factors[i].index);
    }
  }
  if (constant_ != 0 || text.empty()) {
    text += (text.empty() ? "" : " + ") + std::to_string(constant_);
  }
  return text;
}

} // namespace libtile::passes
