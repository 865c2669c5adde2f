// SPDX-License-Identifier: Apache-2.0
// The table of the language (from language.def), how arguments meet parameters, and where errors
// point. The operations themselves lie in <family>.cpp.
#include "frontend/prelude/prelude.h"
#include "frontend/semantics/operations.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace libtile::frontend {

namespace {

// A default as written in a signature.
Value literal(std::string_view text) {
  if (text == "None") {
    return Value::none();
  }
  if (text == "()") {
    return Value::tuple({});
  }
  if (text == "True" || text == "False") {
    return Value::boolean(text == "True");
  }
  if (text.starts_with('\'')) {
    return Value::string(std::string(text.substr(1, text.size() - 2)));
  }
  if (const std::optional<DType> dtype = DType::byName(text)) {
    return Value(TypeValue{*dtype, {}});
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
#define LIBDEVICE(name, signature, overloads, doc)                                                 \
  Operation{"extra.libdevice." name, Operation::Function, signature, readSignature(signature),     \
            nullptr, doc, overloads},
#include "frontend/language.def"
  };
  return rows;
}

constexpr std::array kDTypes = {
#define DTYPE(name, short) std::pair<std::string_view, std::string_view>{name, short},
#include "frontend/language.def"
};

std::vector<std::string> splitNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    names.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.find_first_not_of(", ", end), text.size()));
  }
  return names;
}

// `tl` itself comes first.
const std::vector<LanguagePart> &parts() {
  static const std::vector<LanguagePart> rows = {
      {"tl", {}, ""},
#define LANGUAGE_MODULE(name) {"tl." name, {}, ""},
#define LANGUAGE_NAMESPACE(name, of) {"tl." name, {}, of "."},
#define LANGUAGE_ENUM(name, members) {"tl." name, splitNames(members), ""},
#include "frontend/language.def"
  };
  return rows;
}

constexpr std::array kConstants = {
#define LANGUAGE_CONSTANT(name, value) std::pair<std::string_view, int64_t>{name, value},
#include "frontend/language.def"
};

constexpr std::array kLater = {
#define LATER(name) std::string_view{name},
#include "frontend/language.def"
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Edits (insert, erase, replace, exchange of neighbours) from a to b; capitals count as small letters.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last, row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j - 1] + (same ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                             lower(a[i - 2]) == lower(b[j - 1]);
      row[j] = exchanged ? std::min(row[j], before[j - 2] + 1) : row[j];
    }
  }
  return row.back();
}

} // namespace

bool Operation::isMemberOf(Receiver receiver) const {
  switch (receiver) {
  case Receiver::Tensor:
    return kind == Member || kind == MemberOnly || kind == PointerMember;
  case Receiver::Type:
    return kind == TypeMember;
  case Receiver::BlockPointer:
    return kind == PointerMember;
  case Receiver::Descriptor:
    return kind == DescriptorMember;
  }
  return false;
}

std::string countText(size_t number, const std::string &what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

std::string didYouMean(std::string_view name, std::span<const std::string> candidates) {
  // Names further away than a third of their length are no help.
  size_t bound = name.size() / 3 + 1;
  std::string best;
  for (const std::string &candidate : candidates) {
    const size_t distance = editDistance(name, candidate);
    // What differs in a capital alone is the other name's own.
    if (distance < bound && candidate != name) {
      bound = distance;
      best = candidate;
    }
  }
  return best.empty() ? "" : "; did you mean `" + best + "`?";
}

void Semantics::setLocation(const ir::Location &location) {
  location_ = location;
  builder.loc = builder.function().internLocation(location);
}

void Semantics::fail(const std::string &message) const { throw ir::UserError(message, location_); }

void Semantics::fail(const Value &argument, const std::string &message) const {
  for (const Place &place : places_) {
    if (isPartOf(argument, *place.argument)) {
      failAt(place.range, message);
    }
  }
  fail(message);
}

void Semantics::failAt(SourceRange range, const std::string &message) const {
  ir::Location at = location_;
  if (range.line != 0) {
    at.line = range.line;
    at.column = range.column;
    at.endColumn = range.endColumn;
  }
  throw ir::UserError(message, at);
}

void Semantics::unsupported(const std::string &message) const {
  throw ir::Unsupported(message, location_);
}

std::span<const Operation> Semantics::operations() { return table(); }

const Operation *Semantics::find(std::string_view name) {
  for (const Operation &row : table()) {
    if (row.name == name && row.isPublic()) {
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

const Operation *Semantics::findMember(std::string_view name, Operation::Receiver receiver) {
  for (const Operation &row : table()) {
    if (row.name == name && row.isMemberOf(receiver)) {
      return &row;
    }
  }
  return nullptr;
}

const Operation *Semantics::notImplemented() {
  static const Operation only{"NotImplemented", Operation::Construct, "", {}, nullptr, ""};
  return &only;
}

const LanguagePart *Semantics::language() { return parts().data(); }

Value Semantics::languageName(std::string_view name) {
  if (const Operation *operation = find(name)) {
    return Value(operation);
  }
  for (const auto &[longName, type] : kDTypes) {
    if (longName == name) {
      return Value(TypeValue{*DType::byName(type), {}});
    }
  }
  for (const auto &[constant, value] : kConstants) {
    if (constant == name) {
      return Value::integer(value);
    }
  }
  constexpr std::string_view prefix = "tl.";
  for (const LanguagePart &part : parts()) {
    if (std::string_view(part.name).starts_with(prefix) &&
        std::string_view(part.name).substr(prefix.size()) == name) {
      return Value(&part);
    }
  }
  return {};
}

Value Semantics::partName(const LanguagePart &part, std::string_view name) {
  if (!part.members.empty()) {
    return std::ranges::count(part.members, name) != 0 ? Value::string(std::string(name)) : Value();
  }
  const bool isPath = name.find('.') != std::string_view::npos;
  return isPath ? Value() : languageName(part.prefix + std::string(name));
}

bool Semantics::isLater(std::string_view name) {
  return std::ranges::find(kLater, name) != kLater.end();
}

void Semantics::unknownName(const std::string &name) const {
  if (isLater(name)) {
    unsupported("tl." + name + " is not there yet");
  }
  std::vector<std::string> names;
  for (const Operation &row : table()) {
    const bool isPath = std::string_view(row.name).find('.') != std::string_view::npos;
    if (find(row.name) == &row && !isPath) {
      names.emplace_back(row.name);
    }
  }
  for (const auto &row : kDTypes) {
    names.emplace_back(row.first);
  }
  const std::string device = "extra.libdevice." + name;
  fail("the language has no name `" + name + "`" +
       (find(device) != nullptr ? "; there is tl." + device : didYouMean(name, names)));
}

namespace {

// Of a name that language.def or another file of the semantics has from the prelude.
Value preludeCallee(const Semantics &s, const char *name) {
  auto function = preludeFunction(name);
  ir::check(function != nullptr && s.callFunction != nullptr,
            "the prelude has what the language says");
  return Value(std::move(function));
}

} // namespace

Value callPrelude(Semantics &s, const char *name, std::vector<Value> arguments) {
  return s.callFunction(preludeCallee(s, name), {std::move(arguments), {}});
}

Value Semantics::call(const Operation &operation, const Arguments &arguments) {
  const BoundArguments bound(*this, operation, arguments);
  if (operation.fn != nullptr) {
    return operation.fn(*this, bound.values());
  }
  const std::span<const Value> values = bound.values();
  const Value function = preludeCallee(*this, operation.name);
  if (operation.overloads != nullptr) {
    return callOverload(*this, operation, function, values);
  }
  Arguments given;
  for (size_t i = 0; i < values.size(); ++i) {
    const OperationParam &param = operation.params[i];
    if (param.form == OperationParam::KeywordOnly) {
      given.keyword.emplace_back(param.name, values[i]);
    } else {
      given.positional.push_back(values[i]);
    }
  }
  return callFunction(function, given);
}

BoundArguments::BoundArguments(Semantics &semantics, const Operation &operation,
                               const Arguments &arguments)
    : semantics_(semantics), outside_(semantics.places_.size()), values_(operation.params.size()) {
  try {
    bindPositional(operation, arguments);
    bindKeywords(operation, arguments);
    for (size_t i = 0; i < values_.size(); ++i) {
      const OperationParam &param = operation.params[i];
      if (!values_[i].bound() && !param.deflt.bound()) {
        semantics.fail(std::string(operation.name) + "() needs a value for parameter `" +
                       param.name + "`");
      }
      values_[i] = values_[i].bound() ? values_[i] : param.deflt;
    }
  } catch (...) {
    semantics.places_.resize(outside_);
    throw;
  }
}

void BoundArguments::bindPositional(const Operation &operation, const Arguments &arguments) {
  const std::vector<Value> &given = arguments.positional;
  size_t next = 0;
  for (size_t i = 0; i < values_.size() && operation.params[i].form != OperationParam::KeywordOnly;
       ++i) {
    if (operation.params[i].form == OperationParam::VarArgs) {
      values_[i] = Value::tuple({given.begin() + static_cast<ptrdiff_t>(next), given.end()});
      for (const Value &item : values_[i].tuple()->fields) {
        semantics_.places_.push_back({&item, arguments.place(next++)});
      }
    } else if (next < given.size()) {
      values_[i] = given[next];
      semantics_.places_.push_back({&values_[i], arguments.place(next++)});
    }
  }
  if (next < given.size()) {
    semantics_.failAt(arguments.place(next), std::string(operation.name) + "() takes " +
                                                 countText(next, "positional argument") + " but " +
                                                 std::to_string(given.size()) + " were given");
  }
}

void BoundArguments::bindKeywords(const Operation &operation, const Arguments &arguments) {
  const std::string name = std::string(operation.name) + "()";
  std::vector<std::string> names;
  for (const OperationParam &param : operation.params) {
    names.push_back(param.name);
  }
  for (size_t k = 0; k < arguments.keyword.size(); ++k) {
    const auto &[keyword, value] = arguments.keyword[k];
    const SourceRange place = arguments.place(arguments.positional.size() + k);
    const auto found = std::ranges::find(names, keyword);
    if (found == names.end()) {
      semantics_.failAt(place,
                        name + " has no parameter `" + keyword + "`" + didYouMean(keyword, names));
    }
    const auto i = static_cast<size_t>(found - names.begin());
    const bool isVarArgs = operation.params[i].form == OperationParam::VarArgs;
    if (values_[i].bound() && !(isVarArgs && values_[i].tuple()->fields.empty())) {
      semantics_.failAt(place, name + " got two values for parameter `" + keyword + "`");
    }
    values_[i] = isVarArgs ? Value::tuple({value}) : value;
    semantics_.places_.push_back({&values_[i], place});
  }
}

} // namespace libtile::frontend
