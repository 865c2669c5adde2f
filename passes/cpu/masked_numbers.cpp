// SPDX-License-Identifier: Apache-2.0
#include "passes/cpu/masked_numbers.h"

#include "ir/builder.h"
#include "ir/ops.h"
#include "passes/fold_constants.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace libtile::passes {

using namespace ir;

namespace {

// Numbers that a value is followed as; more are any.
constexpr size_t kMostCandidates = 4;
// Choices of the elements of one fold that are tried.
constexpr size_t kMostChoices = 16;

// Where one operand is this number, the result depends on nothing of the other one but its class: below
// 0, 0, above, infinite, NaN.
bool leavesClassAlone(Opcode opcode, const Number &number) {
  if (!number.isFloat) {
    return false;
  }
  if (opcode == Opcode::Add || opcode == Opcode::Sub) {
    return !std::isfinite(number.real);
  }
  return (opcode == Opcode::Mul || opcode == Opcode::FDiv) &&
         (!std::isfinite(number.real) || number.real == 0);
}

// One of each class.
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kClasses[] = {-kInfinity, -1, -0.0, 0.0, 1, kInfinity,
                               std::numeric_limits<double>::quiet_NaN()};

} // namespace

// ---- numbers

Number Number::of(const AttrValue &value) {
  const double *real = std::get_if<double>(&value);
  return real != nullptr ? Number{true, 0, *real} : Number{false, std::get<int64_t>(value), 0};
}

AttrValue Number::attr() const { return isFloat ? AttrValue(real) : AttrValue(integer); }

bool operator==(const Number &a, const Number &b) {
  const bool sameReal = (std::isnan(a.real) && std::isnan(b.real)) ||
                        std::bit_cast<uint64_t>(a.real) == std::bit_cast<uint64_t>(b.real);
  return a.isFloat == b.isFloat && a.integer == b.integer && sameReal;
}

bool MaskedNumbers::join(Candidates &into, const Candidates &from) {
  for (const Number &number : from.known) {
    if (std::ranges::find(into.known, number) == into.known.end()) {
      into.known.push_back(number);
    }
  }
  return into.known.size() <= kMostCandidates;
}

void MaskedNumbers::setFalse(ValueId compare) { false_[compare] = Number(); }

// nullopt: the elements may differ.
std::optional<MaskedNumbers::Candidates> MaskedNumbers::candidates(ValueId value) const {
  if (const auto found = numbers_.find(value); found != numbers_.end()) {
    return found->second;
  }
  if (const OpId op = fn_.def(value); op.valid() && fn_.opcode(op) == Opcode::Constant) {
    return Candidates{{Number::of(*fn_.findAttr(op, Attr::value))}};
  }
  return fn_.isDefinedOutside(value, body_) ? std::optional(Candidates()) : std::nullopt;
}

void MaskedNumbers::set(ValueId value, std::optional<Candidates> numbers) {
  numbers_.erase(value);
  if (numbers) {
    numbers_.emplace(value, std::move(*numbers));
  }
}

bool MaskedNumbers::isFalse(ValueId value) const {
  const auto numbers = candidates(value);
  return numbers && numbers->known.size() == 1 && numbers->known[0] == Number();
}

// ---- evaluation

void MaskedNumbers::evaluate() {
  numbers_.clear();
  evaluate(body_);
}

void MaskedNumbers::evaluate(BlockId block) {
  for (OpId op : fn_.opsIn(block)) {
    const Opcode opcode = fn_.opcode(op);
    if (opcode == Opcode::For) {
      evaluateLoop(op);
    } else if (opcode == Opcode::Load) {
      evaluateLoad(op);
    } else if (isElementwise(opcode)) {
      evaluateElementwise(op);
    }
  }
}

// What is carried is one of the numbers that it begins with or that an iteration makes of those. All
// elements run the same iterations, or else only numbers that no iteration changes are known.
void MaskedNumbers::evaluateLoop(OpId loop) {
  const BlockId body = fn_.region(loop);
  const unsigned stop = fn_.getBool(loop, Attr::stop) ? 1 : 0;
  const unsigned count = fn_.results(loop).size();
  bool alike = stop == 0;
  for (unsigned i = 0; i < 3; ++i) {
    alike = alike && candidates(fn_.operand(loop, i)).has_value();
  }
  for (unsigned i = 0; i < count; ++i) {
    set(fn_.arg(body, i + 1), candidates(fn_.operand(loop, i + 3)));
  }
  for (bool stable = false; !stable;) {
    stable = true;
    evaluate(body);
    for (unsigned i = 0; i < count; ++i) {
      const ValueId arg = fn_.arg(body, i + 1);
      const auto before = candidates(arg);
      const auto next = candidates(fn_.operand(fn_.last(body), i + stop));
      if (!before) {
        continue;
      }
      Candidates both = *before;
      const bool known = next && !next->known.empty() && !before->known.empty() &&
                         join(both, *next) && (alike || both == *before);
      if (!known || both != *before) {
        set(arg, known ? std::optional(both) : std::nullopt);
        stable = false;
      }
    }
  }
  for (unsigned i = 0; i < count; ++i) {
    set(fn_.result(loop, i), candidates(fn_.arg(body, i + 1)));
  }
}

void MaskedNumbers::evaluateLoad(OpId load) {
  const ValueId result = fn_.result(load);
  const bool masked = fn_.numOperands(load) > 1 && isFalse(fn_.operand(load, 1));
  if (masked && fn_.numOperands(load) > 2) {
    set(result, candidates(fn_.operand(load, 2)));
  } else if (masked && !fn_.type(result).isPointer()) {
    set(result, Candidates{{Number{fn_.type(result).isFloating()}}});
  } else {
    set(result, std::nullopt);
  }
}

void MaskedNumbers::evaluateElementwise(OpId op) {
  const ValueId result = fn_.result(op);
  if (const auto compare = false_.find(result); compare != false_.end()) {
    set(result, Candidates{{compare->second}});
    return;
  }
  if (fn_.opcode(op) == Opcode::Select) {
    const auto condition = candidates(fn_.operand(op, 0));
    if (condition && condition->known.size() == 1) {
      set(result, candidates(fn_.operand(op, isFalse(fn_.operand(op, 0)) ? 2 : 1)));
      return;
    }
  }
  std::vector<Candidates> operands;
  for (ValueId operand : fn_.operands(op)) {
    auto numbers = candidates(operand);
    if (!numbers) {
      set(result, std::nullopt);
      return;
    }
    operands.push_back(std::move(*numbers));
  }
  set(result, image(op, std::move(operands)));
}

// The same op on the same operands gives one number for all elements: any, if nothing else is known.
std::optional<MaskedNumbers::Candidates>
MaskedNumbers::image(OpId op, std::vector<Candidates> operands) {
  for (unsigned i = 0; i < operands.size(); ++i) {
    if (!operands[i].known.empty()) {
      continue;
    }
    const auto &other = operands[operands.size() - 1 - i].known;
    const bool byClass =
        operands.size() == 2 && !other.empty() && std::ranges::all_of(other, [&](const Number &n) {
          return leavesClassAlone(fn_.opcode(op), n);
        });
    if (!byClass) {
      return Candidates();
    }
    for (const double number : kClasses) {
      operands[i].known.push_back(Number{true, 0, number});
    }
  }
  std::vector<std::vector<Number>> choices = {{}};
  for (const Candidates &operand : operands) {
    std::vector<std::vector<Number>> longer;
    for (const auto &choice : choices) {
      for (const Number &number : operand.known) {
        longer.push_back(choice);
        longer.back().push_back(number);
      }
    }
    choices = std::move(longer);
  }
  Candidates result;
  for (const auto &choice : choices) {
    const auto number = fold(op, choice);
    if (!number || !join(result, Candidates{{*number}})) {
      return Candidates();
    }
  }
  return result;
}

std::optional<Number> MaskedNumbers::fold(OpId op, const std::vector<Number> &operands) {
  Builder builder(fn_, position_);
  Values values;
  for (unsigned i = 0; i < operands.size(); ++i) {
    const OpId made =
        builder.op(Opcode::Constant, {}, std::array{fn_.type(fn_.operand(op, i))});
    fn_.setAttr(made, Attr::value, operands[i].attr());
    values.push_back(fn_.result(made));
  }
  const OpId copy = builder.op(fn_.opcode(op), values, std::array{fn_.type(fn_.result(op))});
  fn_.copyAttrs(op, copy);
  const auto number = foldConstants(fn_, copy);
  fn_.erase(copy);
  for (ValueId value : values) {
    fn_.erase(fn_.def(value));
  }
  return number ? std::optional(Number::of(*number)) : std::nullopt;
}

// ---- folds

bool MaskedNumbers::combineKeeps(BlockId combine) {
  const OpId elements = fn_.last(body_);
  const unsigned count = fn_.numOperands(elements);
  std::vector<Candidates> yielded;
  size_t choices = 1;
  for (unsigned i = 0; i < count; ++i) {
    const auto numbers = candidates(fn_.operand(elements, i));
    if (!numbers || numbers->known.empty() ||
        (choices *= numbers->known.size()) > kMostChoices) {
      return false;
    }
    yielded.push_back(*numbers);
  }
  for (size_t choice = 0; choice < choices; ++choice) {
    std::vector<Candidates> element;
    size_t rest = choice;
    for (unsigned i = 0; i < count; ++i) {
      element.push_back({{yielded[i].known[rest % yielded[i].known.size()]}});
      rest /= yielded[i].known.size();
      set(fn_.arg(combine, i), element[i]);
      set(fn_.arg(combine, count + i), element[i]);
    }
    evaluate(combine);
    for (unsigned i = 0; i < count; ++i) {
      const auto both = candidates(fn_.operand(fn_.last(combine), i));
      if (!both || *both != element[i]) {
        return false;
      }
    }
  }
  return true;
}

} // namespace libtile::passes
