// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/arguments.h"

#include "frontend/semantics/semantics.h"
#include "ir/ops.h"
#include "runtime/capi/constants.h"

#include <bit>

namespace libtile::capi {

namespace {

using frontend::DType;
using frontend::Value;
using runtime::CallArgument;
using Kind = CallArgument::Kind;

[[noreturn]] void refuse(std::string_view parameter, const std::string &why) {
  throw ir::UserError("argument '" + std::string(parameter) + "': " + why);
}

constexpr DType float8(ir::Float8 format) { return {.elem = ir::Elem::I8, .float8 = format}; }

// By LIBTILE_INT1 - 1 ...; the language's names.
constexpr DType kElements[] = {
    {ir::Elem::I1, false},  {ir::Elem::I8, true},   {ir::Elem::I16, true},  {ir::Elem::I32, true},
    {ir::Elem::I64, true},  {ir::Elem::I8, false},  {ir::Elem::I16, false}, {ir::Elem::I32, false},
    {ir::Elem::I64, false}, {ir::Elem::F16, true},  {ir::Elem::BF16, true}, {ir::Elem::F32, true},
    {ir::Elem::F64, true},
    float8(ir::Float8::e5), float8(ir::Float8::e4nv), float8(ir::Float8::e4b15),
    float8(ir::Float8::e4b8), float8(ir::Float8::e5b16),
};
static_assert(std::size(kElements) == LIBTILE_FP8E5B16);

// 0: untyped.
uint16_t elementCode(libtile_type type, std::string_view parameter) {
  const unsigned element = type % LIBTILE_POINTER;
  const unsigned depth = type / LIBTILE_POINTER;
  if (type == LIBTILE_UNTYPED) {
    return 0;
  }
  if (element == 0 || element > std::size(kElements) || depth > 3) {
    refuse(parameter, "there is no type " + std::to_string(type));
  }
  DType dtype = kElements[element - 1];
  dtype.pointerDepth = static_cast<uint8_t>(depth);
  return runtime::encodeType(dtype);
}

CallArgument arrayArgument(const libtile_argument &given, std::string_view parameter) {
  CallArgument made;
  made.kind = Kind::Pointer;
  made.flags = (given.flags & LIBTILE_READ_ONLY) != 0 ? CallArgument::kReadOnly : 0;
  made.dtype = elementCode(given.type, parameter);
  made.bits = reinterpret_cast<uintptr_t>(given.value.address);
  made.bytes = given.bytes;
  return made;
}

CallArgument textArgument(const libtile_argument &given, Takes takes, std::string_view parameter) {
  if (given.value.text == nullptr) {
    refuse(parameter, "the text is NULL");
  }
  const std::string_view text = given.value.text;
  if (given.kind == LIBTILE_STRING) {
    return constant(ConstantSort::String, text, [&] { return Value::string(std::string(text)); });
  }
  if (given.kind == LIBTILE_LANGUAGE) {
    return constant(ConstantSort::Language, text, [&] {
      Value found = frontend::Semantics::languageName(text);
      if (!found.bound()) {
        refuse(parameter, "the language has no name `" + std::string(text) + "`");
      }
      return found;
    });
  }
  if (takes == Takes::Values) {
    refuse(parameter, "a type is for a compilation; this takes a value");
  }
  CallArgument made;
  if (const std::string why = runtime::readTypeText(text, made); !why.empty()) {
    refuse(parameter, why);
  }
  return made;
}

CallArgument number(Kind kind, uint64_t bits) {
  CallArgument made;
  made.kind = kind;
  made.bits = bits;
  return made;
}

// The index behind the tuple at `at` and its items.
size_t skipTuple(std::span<const libtile_argument> given, size_t at) {
  const size_t first = at;
  uint64_t open = 1;
  for (; open != 0 && at < given.size(); ++at) {
    open += given[at].kind == LIBTILE_TUPLE ? given[at].count : 0;
    --open;
    if (at != first && given[at].name != nullptr) {
      throw ir::UserError("argument " + std::to_string(at + 1) + " is an item of a tuple and has a name, '" +
                          given[at].name + "'");
    }
  }
  if (open != 0) {
    throw ir::UserError("argument " + std::to_string(first + 1) + " is a tuple of more items than follow it");
  }
  return at;
}

inline size_t skip(std::span<const libtile_argument> given, size_t at) {
  return given[at].kind == LIBTILE_TUPLE ? skipTuple(given, at) : at + 1;
}

// The value of the arguments from `at` on, which moves behind it.
Value constantAt(std::span<const CallArgument> arguments, size_t &at, std::string_view parameter) {
  const CallArgument &here = arguments[at++];
  if (here.kind != Kind::Tuple) {
    Value value = runtime::constantOf(here);
    if (!value.bound()) {
      refuse(parameter, "an array or a type is no constant");
    }
    return value;
  }
  std::vector<Value> items;
  for (uint16_t i = 0; i < here.dtype; ++i) {
    items.push_back(constantAt(arguments, at, parameter));
  }
  return Value::tuple(std::move(items));
}

class Binder {
public:
  Binder(const libtile_function &function, std::span<const libtile_argument> given,
         const runtime::Options &options, Takes takes, Call &call)
      : function_(function), parameters_(function.parameters), given_(given), options_(options),
        takes_(takes), call_(call) {}

  void run() {
    assign();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      add(i);
    }
  }

private:
  static constexpr uint16_t kNone = UINT16_MAX;

  // Finds out where the argument of each parameter begins.
  void assign() {
    if (given_.size() > runtime::kMaxArguments) {
      throw ir::UserError("'" + function_.launcher.source().name + "' is given " +
                          std::to_string(given_.size()) + " arguments; a call has at most " +
                          std::to_string(runtime::kMaxArguments));
    }
    std::fill_n(first_, parameters_.size(), kNone);
    size_t next = 0; // parameter by position
    for (size_t at = 0; at < given_.size();) {
      const size_t end = skip(given_, at);
      if (given_[at].name != nullptr) {
        named_ = true;
        takeNamed(at);
      } else {
        takePositional(at, next);
      }
      at = end;
    }
  }

  void takePositional(size_t at, size_t &next) {
    if (named_) {
      throw ir::UserError("argument " + std::to_string(at + 1) + " is given by position, behind one by name");
    }
    if (next == parameters_.size() || parameters_[next].kind == frontend::ParameterSource::KeywordOnly) {
      throw ir::UserError("'" + function_.launcher.source().name + "' takes " +
                          frontend::countText(next, "argument") + " by position, and more are given");
    }
    if (first_[next] == kNone) {
      first_[next] = static_cast<uint16_t>(at);
    }
    if (parameters_[next].kind == frontend::ParameterSource::VarArgs) {
      ++variadic_; // and takes all that follow
    } else {
      ++next;
    }
  }

  void takeNamed(size_t at) {
    const std::string_view name = given_[at].name;
    const auto found = std::ranges::find(parameters_, name, &Parameter::name);
    if (found == parameters_.end() || found->kind == frontend::ParameterSource::VarArgs) {
      refuseName(name);
    }
    uint16_t &first = first_[found - parameters_.begin()];
    if (first != kNone) {
      refuse(name, "it is given twice");
    }
    first = static_cast<uint16_t>(at);
    if (found->option) {
      setOption(*found->option, given_[at]);
    }
  }

  // A parameter of an option's name leaves its value to the option as well.
  void setOption(runtime::Option option, const libtile_argument &value) {
    if (value.kind == LIBTILE_INT || value.kind == LIBTILE_BOOL) {
      call_.setOption(options_, option, value.value.integer);
    } else if (value.kind != LIBTILE_NONE) {
      refuse(value.name, "an option is an integer, a bool or None");
    }
  }

  [[noreturn]] void refuseName(std::string_view name) const {
    std::vector<std::string> known;
    for (const Parameter &parameter : parameters_) {
      known.push_back(parameter.name);
    }
    const std::string hint = runtime::findOption(name) ? "; options are given by libtile_options"
                                                       : frontend::didYouMean(name, known);
    throw ir::UserError("'" + function_.launcher.source().name + "' has no parameter '" +
                        std::string(name) + "'" + hint);
  }

  void add(size_t i) {
    const Parameter &parameter = parameters_[i];
    size_t at = first_[i];
    if (parameter.kind == frontend::ParameterSource::VarArgs) {
      CallArgument tuple;
      tuple.kind = Kind::Tuple;
      tuple.dtype = static_cast<uint16_t>(variadic_);
      tuple.value = nullptr;
      put(parameter, tuple);
      for (size_t item = 0; item < variadic_; ++item) {
        addFrom(parameter, at);
      }
    } else if (at != kNone) {
      const size_t first = call_.arguments().size();
      addFrom(parameter, at);
      if (parameter.isConstexpr && call_.arguments()[first].kind == Kind::Tuple) {
        foldTuple(parameter, first);
      }
    } else if (parameter.option && isSet(*parameter.option)) {
      put(parameter, number(Kind::Int, static_cast<uint64_t>(options_[*parameter.option])));
    } else if (!parameter.defaults.empty()) {
      for (const CallArgument &argument : parameter.defaults) {
        put(parameter, argument);
      }
    } else {
      throw ir::UserError("'" + function_.launcher.source().name + "' is given no argument for '" +
                          parameter.name + "'");
    }
  }

  // Adds the argument at `at` with its items; `at` moves behind them.
  void addFrom(const Parameter &parameter, size_t &at) {
    const size_t end = skip(given_, at);
    for (; at < end; ++at) {
      CallArgument made;
      if (given_[at].kind == LIBTILE_TUPLE) {
        made.kind = Kind::Tuple;
        made.dtype = static_cast<uint16_t>(given_[at].count); // as many follow, so below 256
        made.value = nullptr;
      } else {
        made = convert(given_[at], takes_, parameter.name);
      }
      if (made.kind == Kind::Pointer && made.dtype == 0) {
        refuse(parameter.name, "the type of the array's elements is not given");
      }
      if (given_[at].kind == LIBTILE_FUNCTION && given_[at].value.function->host != function_.host) {
        throw ir::Unsupported("argument '" + parameter.name + "': a function of another program");
      }
      put(parameter, made);
    }
  }

  void put(const Parameter &parameter, const CallArgument &argument) {
    if (call_.isFull()) {
      refuse(parameter.name, "with its items the call has more than " +
                                 std::to_string(runtime::kMaxArguments) + " arguments");
    }
    call_.add(argument);
  }

  // A tuple for a constexpr parameter is one constant.
  void foldTuple(const Parameter &parameter, size_t first) {
    const auto items = call_.arguments().subspan(first);
    uint64_t words[2 * runtime::kMaxArguments];
    for (size_t i = 0; i < items.size(); ++i) {
      words[2 * i] = static_cast<uint64_t>(items[i].kind) | uint64_t{items[i].dtype} << 8;
      words[2 * i + 1] = items[i].bits;
    }
    const std::string_view bytes(reinterpret_cast<const char *>(words), items.size() * 2 * sizeof(uint64_t));
    call_.replace(first, constant(ConstantSort::Tuple, bytes, [&] {
                    size_t at = 0;
                    return constantAt(items, at, parameter.name);
                  }));
  }

  [[nodiscard]] bool isSet(runtime::Option option) const {
    return options_[option] != runtime::row(option).standard;
  }

  const libtile_function &function_;
  const std::vector<Parameter> &parameters_;
  std::span<const libtile_argument> given_;
  const runtime::Options &options_;
  const Takes takes_;
  Call &call_;
  uint16_t first_[runtime::kMaxArguments];
  size_t variadic_ = 0; // items of the parameter that takes all that follow
  bool named_ = false;
};

void append(const Value &value, bool isConstexpr, std::vector<CallArgument> &list,
            std::deque<Value> &kept) {
  CallArgument made;
  const frontend::Constant *scalar = value.constant();
  const auto *whole = scalar != nullptr ? std::get_if<frontend::BigInt>(scalar) : nullptr;
  if (const frontend::Aggregate *tuple = value.tuple(); tuple != nullptr && !isConstexpr) {
    made.kind = Kind::Tuple;
    made.dtype = static_cast<uint16_t>(tuple->fields.size());
    made.value = nullptr;
    list.push_back(made);
    for (const Value &item : tuple->fields) {
      append(item, isConstexpr, list, kept);
    }
    return;
  }
  if (value.isNone()) {
    made.kind = Kind::None;
  } else if (scalar != nullptr && std::holds_alternative<bool>(*scalar)) {
    made = number(Kind::Bool, std::get<bool>(*scalar) ? 1 : 0);
  } else if (whole != nullptr && *whole >= INT64_MIN && *whole <= INT64_MAX) {
    made = number(Kind::Int, static_cast<uint64_t>(static_cast<int64_t>(*whole)));
  } else if (whole != nullptr && *whole >= 0 && *whole <= UINT64_MAX) {
    made = number(Kind::UInt, static_cast<uint64_t>(*whole));
  } else if (scalar != nullptr && std::holds_alternative<double>(*scalar)) {
    made = number(Kind::Float, std::bit_cast<uint64_t>(std::get<double>(*scalar)));
  } else {
    made.kind = Kind::Constant;
    made.bits = nextConstant();
    made.value = &kept.emplace_back(value);
  }
  list.push_back(made);
}

} // namespace

void Call::put(size_t at, const CallArgument &argument) {
  std::construct_at(arguments_ + at, argument);
  const bool isArray = argument.kind == Kind::Pointer;
  extents_[at] = isArray ? runtime::Extent::of(argument.bits, argument.bytes) : runtime::Extent{0, 0};
}

CallArgument convert(const libtile_argument &given, Takes takes, std::string_view parameter) {
  if ((given.flags & ~LIBTILE_READ_ONLY) != 0) {
    refuse(parameter, "there is no flag " + std::to_string(given.flags));
  }
  switch (given.kind) {
  case LIBTILE_NONE:
    return number(Kind::None, 0);
  case LIBTILE_BOOL:
    return number(Kind::Bool, given.value.integer != 0 ? 1 : 0);
  case LIBTILE_INT:
    return number(Kind::Int, given.value.natural);
  case LIBTILE_UINT:
    return number(given.value.natural <= INT64_MAX ? Kind::Int : Kind::UInt, given.value.natural);
  case LIBTILE_FLOAT:
    return number(Kind::Float, given.value.natural);
  case LIBTILE_ARRAY:
    return arrayArgument(given, parameter);
  case LIBTILE_STRING:
  case LIBTILE_LANGUAGE:
  case LIBTILE_TYPE:
    return textArgument(given, takes, parameter);
  case LIBTILE_FUNCTION:
    return contentOf(given.value.function, "function").constant;
  case LIBTILE_TUPLE:
    refuse(parameter, "a tuple stands where one value is wanted");
  default:
    refuse(parameter, "there is no kind of argument " + std::to_string(given.kind));
  }
}

void bind(const libtile_function &function, std::span<const libtile_argument> given,
          const runtime::Options &options, Takes takes, Call &call) {
  Binder(function, given, options, takes, call).run();
}

Value constantOf(std::span<const libtile_argument> given, std::string_view name) {
  if (given.empty() || given.size() > runtime::kMaxArguments || skip(given, 0) != given.size()) {
    throw ir::UserError("'" + std::string(name) + "' is given " + std::to_string(given.size()) +
                        " arguments that are not one constant");
  }
  std::vector<CallArgument> list;
  for (const libtile_argument &each : given) {
    CallArgument tuple;
    tuple.kind = Kind::Tuple;
    tuple.dtype = static_cast<uint16_t>(each.count);
    list.push_back(each.kind == LIBTILE_TUPLE ? tuple : convert(each, Takes::Values, name));
  }
  size_t at = 0;
  return constantAt(list, at, name);
}

std::vector<CallArgument> argumentsFor(const Value &value, bool isConstexpr, std::deque<Value> &kept) {
  std::vector<CallArgument> list;
  append(value, isConstexpr, list, kept);
  return list;
}

} // namespace libtile::capi
