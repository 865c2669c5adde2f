// SPDX-License-Identifier: Apache-2.0
// bindings.h: errors, values, and operations while a specialisation runs.
#include "runtime/bindings/internal.h"

using namespace libtile;
using bindings::guarded;
using frontend::Value;

namespace {

thread_local runtime::ErrorRecord record;
thread_local lt_error_info info;
thread_local std::string kept;

lt_value *make(Value value) noexcept { return new (std::nothrow) lt_value{std::move(value)}; }

lt_status give(lt_value **out, Value value) {
  *out = new lt_value{std::move(value)};
  return LT_OK;
}

struct Operators {
  const char *text;
  frontend::BinaryOp op;
};
constexpr Operators kBinary[] = {
    {"+", frontend::BinaryOp::Add},      {"-", frontend::BinaryOp::Sub},
    {"*", frontend::BinaryOp::Mul},      {"/", frontend::BinaryOp::TrueDiv},
    {"//", frontend::BinaryOp::FloorDiv}, {"%", frontend::BinaryOp::Mod},
    {"**", frontend::BinaryOp::Pow},     {"@", frontend::BinaryOp::MatMul},
    {"&", frontend::BinaryOp::BitAnd},   {"|", frontend::BinaryOp::BitOr},
    {"^", frontend::BinaryOp::BitXor},   {"<<", frontend::BinaryOp::LShift},
    {">>", frontend::BinaryOp::RShift},
};
struct Comparisons {
  const char *text;
  frontend::CompareOp op;
};
constexpr Comparisons kCompare[] = {
    {"==", frontend::CompareOp::Eq}, {"!=", frontend::CompareOp::Ne}, {"<", frontend::CompareOp::Lt},
    {"<=", frontend::CompareOp::Le}, {">", frontend::CompareOp::Gt},  {">=", frontend::CompareOp::Ge},
};

Value applyOperator(frontend::Semantics &semantics, std::string_view text, const Value &a,
                    const Value *b) {
  if (b == nullptr) {
    return semantics.unary(text == "-"     ? frontend::UnaryOp::Neg
                           : text == "~"   ? frontend::UnaryOp::Invert
                           : text == "not" ? frontend::UnaryOp::Not
                                           : frontend::UnaryOp::Pos,
                           a);
  }
  for (const Operators &row : kBinary) {
    if (text == row.text) {
      return semantics.binary(row.op, a, *b);
    }
  }
  for (const Comparisons &row : kCompare) {
    if (text == row.text) {
      return semantics.compare(row.op, a, *b);
    }
  }
  semantics.fail("there is no operator '" + std::string(text) + "'");
}

} // namespace

namespace libtile::bindings {

void setError(const std::exception &error) noexcept {
  try {
    record = runtime::describeError(error);
  } catch (...) {
    record.kind = runtime::ErrorKind::Internal;
  }
}

const char *keepText(std::string text) noexcept {
  kept = std::move(text);
  return kept.c_str();
}

} // namespace libtile::bindings

const char *lt_bindings_version(void) { return LT_BINDINGS_VERSION " " LIBTILE_VERSION; }

const lt_error_info *lt_error(void) {
  info = {static_cast<int>(record.kind), record.text.c_str(),       record.message.c_str(),
          record.file.c_str(),           record.reproducer.c_str(), record.line,
          record.column};
  return &info;
}

void lt_set_error(int kind, const char *message) {
  guarded(0, [&] {
    record = {};
    record.kind = static_cast<runtime::ErrorKind>(kind);
    record.text = record.message = message;
    return 0;
  });
}

lt_value *lt_value_none(void) { return make(Value::none()); }
lt_value *lt_value_bool(int value) { return make(Value::boolean(value != 0)); }
lt_value *lt_value_int(int64_t high, uint64_t low) {
  const auto bits = (static_cast<unsigned __int128>(static_cast<uint64_t>(high)) << 64) | low;
  return make(Value::integer(static_cast<frontend::BigInt>(bits)));
}
lt_value *lt_value_float(double value) { return make(Value(frontend::Constant(value))); }
lt_value *lt_value_string(const char *text, size_t length) {
  return guarded<lt_value *>(nullptr, [&] { return make(Value::string(std::string(text, length))); });
}
lt_value *lt_value_not_implemented(void) {
  return make(Value(frontend::Semantics::notImplemented()));
}
lt_value *lt_value_class(void *object, const char *name, const char *const *fields,
                         const lt_value *const *types, size_t num_fields, int flags) {
  return guarded<lt_value *>(nullptr, [&] {
    auto made = std::make_shared<frontend::Class>();
    made->name = name;
    made->fields.assign(fields, fields + num_fields);
    made->isSequence = (flags & LT_CLASS_SEQUENCE) != 0;
    made->isMadeByHost = (flags & LT_CLASS_MADE_BY_HOST) != 0;
    made->host = bindings::Object::of(object, false);
    for (size_t i = 0; types != nullptr && i < num_fields; ++i) {
      made->types.push_back(types[i]->value);
    }
    return make(Value(std::shared_ptr<const frontend::Class>(std::move(made))));
  });
}
lt_value *lt_value_aggregate(const lt_value *cls, const lt_value *const *fields, size_t count) {
  return guarded<lt_value *>(nullptr, [&] {
    auto made = frontend::Class::tuple();
    if (cls != nullptr) {
      made = *cls->value.as<std::shared_ptr<const frontend::Class>>();
      ir::check(made->fields.size() == count, "an aggregate has the fields of its class");
    }
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) {
      values.push_back(fields[i]->value);
    }
    return make(Value::aggregate(std::move(made), std::move(values)));
  });
}
lt_value *lt_value_descriptor_class(void) {
  return guarded<lt_value *>(nullptr, [] { return make(Value(frontend::Class::tensorDescriptor())); });
}
lt_value *lt_value_slice(const lt_value *const parts[3]) {
  return guarded<lt_value *>(nullptr, [&] {
    return make(Value::aggregate(frontend::Class::slice(),
                                 {parts[0]->value, parts[1]->value, parts[2]->value}));
  });
}
lt_value *lt_value_type(const char *dtype, const int32_t *shape, size_t rank) {
  return guarded<lt_value *>(nullptr, [&]() -> lt_value * {
    const auto found = frontend::DType::byName(dtype);
    if (!found) {
      lt_set_error(0, ("there is no type '" + std::string(dtype) + "'").c_str());
      return nullptr;
    }
    return make(Value(frontend::TypeValue{*found, std::vector<int32_t>(shape, shape + rank)}));
  });
}
lt_value *lt_value_language(const char *name) {
  return guarded<lt_value *>(nullptr, [&]() -> lt_value * {
    Value found = *name == '\0' ? Value(frontend::Semantics::language())
                                : frontend::Semantics::languageName(name);
    if (!found.bound()) {
      lt_set_error(0, ("the language has no name `" + std::string(name) + "`").c_str());
      return nullptr;
    }
    return make(std::move(found));
  });
}
lt_value *lt_value_object(void *object, int is_function) {
  return guarded<lt_value *>(
      nullptr, [&] { return make(Value(bindings::Object::of(object, is_function != 0))); });
}
lt_value *lt_value_copy(const lt_value *value) {
  return guarded<lt_value *>(nullptr, [&] { return make(value->value); });
}
void lt_value_free(lt_value *value) { delete value; }

int lt_value_kind(const lt_value *value) {
  struct Visitor {
    int operator()(std::monostate) const { return LT_V_UNBOUND; }
    int operator()(const frontend::Constant &constant) const {
      return LT_V_NONE + static_cast<int>(constant.index());
    }
    int operator()(const frontend::Tensor &) const { return LT_V_TENSOR; }
    int operator()(const std::shared_ptr<const frontend::Aggregate> &) const {
      return LT_V_AGGREGATE;
    }
    int operator()(const std::shared_ptr<const frontend::Class> &) const { return LT_V_CLASS; }
    int operator()(const frontend::TypeValue &) const { return LT_V_TYPE; }
    int operator()(const std::shared_ptr<const frontend::FunctionSource> &) const {
      return LT_V_FUNCTION;
    }
    int operator()(const frontend::Operation *) const { return LT_V_OPERATION; }
    int operator()(const std::shared_ptr<const frontend::BoundMethod> &) const { return LT_V_METHOD; }
    int operator()(const std::shared_ptr<frontend::HostObject> &) const { return LT_V_OBJECT; }
    int operator()(const frontend::LanguagePart *) const { return LT_V_LANGUAGE; }
  };
  return std::visit(Visitor{}, value->value.data());
}

int lt_value_as_bool(const lt_value *value) {
  const auto *constant = value->value.constant();
  const bool *flag = constant != nullptr ? std::get_if<bool>(constant) : nullptr;
  return flag != nullptr && *flag ? 1 : 0;
}
int64_t lt_value_as_int(const lt_value *value, uint64_t *low) {
  const auto *constant = value->value.constant();
  const auto *number = constant != nullptr ? std::get_if<frontend::BigInt>(constant) : nullptr;
  const frontend::BigInt bits = number != nullptr ? *number : 0;
  *low = static_cast<uint64_t>(bits);
  return static_cast<int64_t>(bits >> 64);
}
double lt_value_as_float(const lt_value *value) {
  const auto *constant = value->value.constant();
  const double *number = constant != nullptr ? std::get_if<double>(constant) : nullptr;
  return number != nullptr ? *number : 0;
}
const char *lt_value_as_string(const lt_value *value, size_t *length) {
  const auto *constant = value->value.constant();
  const auto *text = constant != nullptr ? std::get_if<std::string>(constant) : nullptr;
  *length = text != nullptr ? text->size() : 0;
  return text != nullptr ? text->data() : "";
}
size_t lt_value_num_fields(const lt_value *value) {
  const frontend::Aggregate *aggregate = value->value.aggregate();
  return aggregate != nullptr ? aggregate->fields.size() : 0;
}
lt_value *lt_value_field(const lt_value *value, size_t index) {
  return guarded<lt_value *>(nullptr,
                             [&] { return make(value->value.aggregate()->fields.at(index)); });
}
void *lt_value_as_object(const lt_value *value) {
  if (const auto *fn = value->value.as<std::shared_ptr<const frontend::FunctionSource>>()) {
    return bindings::objectOf((*fn)->host);
  }
  if (const auto *cls = value->value.as<std::shared_ptr<const frontend::Class>>()) {
    return bindings::objectOf((*cls)->host);
  }
  if (const frontend::Aggregate *aggregate = value->value.aggregate()) {
    return bindings::objectOf(aggregate->cls->host);
  }
  const auto *object = value->value.as<std::shared_ptr<frontend::HostObject>>();
  return object != nullptr ? bindings::objectOf(*object) : nullptr;
}
const char *lt_value_as_type(const lt_value *value, int32_t *shape, size_t *rank) {
  return guarded<const char *>("", [&] {
    frontend::TypeValue type;
    if (const auto *tensor = value->value.tensor()) {
      type = tensor->type();
    } else if (const auto *given = value->value.as<frontend::TypeValue>()) {
      type = *given;
    }
    *rank = std::min<size_t>(type.shape.size(), ir::Type::kMaxRank);
    std::copy_n(type.shape.begin(), *rank, shape);
    return bindings::keepText(type.dtype.name());
  });
}
const char *lt_value_describe(const lt_value *value) {
  return guarded<const char *>("", [&] { return bindings::keepText(value->value.describe()); });
}

const char *lt_did_you_mean(const char *name, const char *const *names, size_t count) {
  return guarded<const char *>("", [&] {
    const std::vector<std::string> known(names, names + count);
    return bindings::keepText(frontend::didYouMean(name, known));
  });
}

lt_status lt_call(lt_semantics *semantics, const lt_value *callee, const lt_value *const *arguments,
                  size_t positional, const char *const *keywords, size_t num_keywords,
                  lt_value **out) {
  return guarded(LT_ERROR, [&] {
    frontend::Arguments list;
    for (size_t i = 0; i < positional; ++i) {
      list.positional.push_back(arguments[i]->value);
    }
    for (size_t i = 0; i < num_keywords; ++i) {
      list.keyword.emplace_back(keywords[i], arguments[positional + i]->value);
    }
    return give(out, unwrap(semantics).callFunction(callee->value, list));
  });
}
lt_status lt_operator(lt_semantics *semantics, const char *operation, const lt_value *a,
                      const lt_value *b, lt_value **out) {
  return guarded(LT_ERROR, [&] {
    return give(out, applyOperator(unwrap(semantics), operation, a->value,
                                   b != nullptr ? &b->value : nullptr));
  });
}
lt_status lt_subscript(lt_semantics *semantics, const lt_value *object, const lt_value *index,
                       lt_value **out) {
  return guarded(LT_ERROR,
                 [&] { return give(out, unwrap(semantics).subscript(object->value, index->value)); });
}
lt_status lt_attribute(lt_semantics *semantics, const lt_value *object, const char *name,
                       lt_value **out) {
  return guarded(LT_ERROR,
                 [&] { return give(out, unwrap(semantics).attribute(object->value, name)); });
}
lt_status lt_to_tensor(lt_semantics *semantics, const lt_value *value, lt_value **out) {
  return guarded(LT_ERROR,
                 [&] { return give(out, Value(unwrap(semantics).toTensor(value->value))); });
}
