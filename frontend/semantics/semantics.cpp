// SPDX-License-Identifier: Apache-2.0
// The table of the language (from language.def), how arguments meet parameters, and where errors
// point. The operations themselves lie in <family>.cpp.
#include "frontend/prelude/prelude.h"
#include "frontend/semantics/operations.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace libtile::frontend {

namespace {

// A default as written in a signature.
Value literal(std::string_view text) {
  if (text == "None") {
    return Value::none();
  }
  if (text == "True" || text == "False") {
    return Value::boolean(text == "True");
  }
  if (text.starts_with('\'')) {
    return Value::string(std::string(text.substr(1, text.size() - 2)));
  }
  return Value::integer(std::strtoll(std::string(text).c_str(), nullptr, 10));
}

// Reads "pointer, mask=None, *, volatile=False" and "input, *shape, can_reorder=False".
std::vector<OperationParam> readSignature(std::string_view text) {
  std::vector<OperationParam> params;
  auto form = OperationParam::Normal;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = begin;
    for (bool quoted = false; end < text.size() && (quoted || text[end] != ','); ++end) {
      quoted = quoted != (text[end] == '\'');
    }
    std::string_view part = text.substr(begin, end - begin);
    part.remove_prefix(std::min(part.find_first_not_of(' '), part.size()));
    begin = end + 1;
    if (part.starts_with('*')) {
      form = OperationParam::KeywordOnly;
      if (part.size() > 1) {
        params.push_back({std::string(part.substr(1)), Value(), OperationParam::VarArgs});
      }
      continue;
    }
    const size_t equals = part.find('=');
    const bool hasDefault = equals != std::string_view::npos;
    params.push_back({std::string(part.substr(0, equals)),
                      hasDefault ? literal(part.substr(equals + 1)) : Value(), form});
  }
  return params;
}

const std::vector<Operation> &table() {
  static const std::vector<Operation> rows = {
#define OPERATION(name, function, kind, signature, doc)                                            \
  Operation{name, Operation::kind, signature, readSignature(signature), operations::function, doc},
#define LIBRARY(name, kind, signature, doc)                                                        \
  Operation{name, Operation::kind, signature, readSignature(signature), nullptr, doc},
#define INTERNAL(name, function, signature, doc)                                                   \
  Operation{name, Operation::Internal, signature, readSignature(signature), operations::function, doc},
#include "frontend/language.def"
  };
  return rows;
}

constexpr std::array kDTypes = {
#define DTYPE(name, short) std::pair<std::string_view, std::string_view>{name, short},
#include "frontend/language.def"
};
constexpr std::array kModules = {
#define LANGUAGE_MODULE(name) std::string_view{name},
#include "frontend/language.def"
};
constexpr std::array kLater = {
#define LATER(name) std::string_view{name},
#include "frontend/language.def"
};

// Edits (insert, erase, replace) from a to b.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string plural(size_t count, const std::string &word) {
  return std::to_string(count) + " " + word + (count == 1 ? "" : "s");
}

} // namespace

std::string nearestName(std::string_view name, std::span<const std::string> candidates) {
  std::string best;
  // Names further away than a third of their length are no help.
  size_t bound = name.size() / 3 + 1;
  for (const std::string &candidate : candidates) {
    const size_t distance = editDistance(name, candidate);
    if (distance < bound || (distance == bound && best.empty())) {
      bound = distance;
      best = candidate;
    }
  }
  return best;
}

void Semantics::setLocation(const ir::Location &location) {
  location_ = location;
  builder.loc = builder.function().internLocation(location);
}

void Semantics::fail(const std::string &message) const { throw ir::UserError(message, location_); }

void Semantics::unsupported(const std::string &message) const {
  throw ir::Unsupported(message, location_);
}

std::span<const Operation> Semantics::operations() { return table(); }

const Operation *Semantics::find(std::string_view name) {
  for (const Operation &row : table()) {
    if (row.name == name && row.kind != Operation::MemberOnly &&
        row.kind != Operation::TypeMember && row.kind != Operation::Internal) {
      return &row;
    }
  }
  return nullptr;
}

const Operation *Semantics::findInternal(std::string_view name) {
  for (const Operation &row : table()) {
    if (row.name == name && row.kind == Operation::Internal) {
      return &row;
    }
  }
  return nullptr;
}

const Operation *Semantics::findMember(std::string_view name, bool ofType) {
  for (const Operation &row : table()) {
    if (row.name == name && (ofType ? row.kind == Operation::TypeMember : row.isMember())) {
      return &row;
    }
  }
  return nullptr;
}

Value Semantics::languageName(const std::string &name) {
  if (const Operation *operation = find(name)) {
    return Value(operation);
  }
  for (const auto &[longName, type] : kDTypes) {
    if (longName == name) {
      return Value(TypeValue{*DType::byName(type), {}});
    }
  }
  if (std::ranges::find(kModules, name) != kModules.end()) {
    return Value(Module{"tl." + name, nullptr});
  }
  // The members of PropagateNan.
  if (name == "ALL" || name == "NONE") {
    return Value::string(name);
  }
  if (isLater(name)) {
    unsupported("tl." + name + " is not there yet");
  }
  return {};
}

bool Semantics::isLater(std::string_view name) {
  return std::ranges::find(kLater, name) != kLater.end();
}

void Semantics::unknownName(const std::string &name) const {
  std::vector<std::string> names;
  for (const Operation &row : table()) {
    if (find(row.name) == &row) {
      names.emplace_back(row.name);
    }
  }
  for (const auto &row : kDTypes) {
    names.emplace_back(row.first);
  }
  const std::string nearest = nearestName(name, names);
  fail("the language has no name '" + name + "'" +
       (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
}

std::vector<Value> Semantics::bind(const Operation &operation, const Arguments &arguments) const {
  const std::string name = std::string(operation.name) + "()";
  std::vector<Value> bound(operation.params.size());
  size_t next = 0;
  for (size_t i = 0; i < bound.size() && operation.params[i].form != OperationParam::KeywordOnly;
       ++i) {
    if (operation.params[i].form == OperationParam::VarArgs) {
      bound[i] = Value::tuple({arguments.positional.begin() + static_cast<ptrdiff_t>(next),
                               arguments.positional.end()});
      next = arguments.positional.size();
    } else if (next < arguments.positional.size()) {
      bound[i] = arguments.positional[next++];
    }
  }
  if (next < arguments.positional.size()) {
    fail(name + " takes " + plural(next, "positional argument") + " but " +
         std::to_string(arguments.positional.size()) + " were given");
  }
  std::vector<std::string> names;
  for (const OperationParam &param : operation.params) {
    names.push_back(param.name);
  }
  for (const auto &[keyword, value] : arguments.keyword) {
    const auto found = std::ranges::find(names, keyword);
    if (found == names.end()) {
      const std::string nearest = nearestName(keyword, names);
      fail(name + " has no parameter '" + keyword + "'" +
           (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
    }
    const auto i = static_cast<size_t>(found - names.begin());
    const bool isVarArgs = operation.params[i].form == OperationParam::VarArgs;
    if (bound[i].bound() && !(isVarArgs && bound[i].tuple()->items.empty())) {
      fail(name + " got two values for parameter '" + keyword + "'");
    }
    bound[i] = isVarArgs ? Value::tuple({value}) : value;
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    if (!bound[i].bound()) {
      if (!operation.params[i].deflt.bound()) {
        fail(name + " needs a value for parameter '" + operation.params[i].name + "'");
      }
      bound[i] = operation.params[i].deflt;
    }
  }
  return bound;
}

Value Semantics::call(const Operation &operation, const Arguments &arguments) {
  std::vector<Value> bound = bind(operation, arguments);
  if (operation.fn != nullptr) {
    return operation.fn(*this, bound);
  }
  auto function = preludeFunction(operation.name);
  ir::check(function != nullptr && callFunction != nullptr, "the prelude has what language.def says");
  return callFunction(Value(std::move(function)), {std::move(bound), {}});
}

} // namespace libtile::frontend
