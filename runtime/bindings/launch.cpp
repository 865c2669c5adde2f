// SPDX-License-Identifier: Apache-2.0
// bindings.h: functions, the specialisation key, compiling and launching.
//
// What a call's arguments specialise on, for parameters that are not constexpr:
//   None, strings, tuples, functions, types   the constant itself
//   bool                                      int1
//   int      1 is the constant 1; else int32, int64 or uint64 by size, and whether 16 divides it
//   float    fp32
//   array    the element type, and whether 16 divides the address
// do_not_specialize drops the special values of integers, do_not_specialize_on_alignment the 16. A
// type annotation on the parameter replaces the argument's own type.
#include "runtime/bindings/internal.h"
#include "runtime/cache/specialisation_table.h"
#include "runtime/fork.h"

using namespace libtile;
using bindings::guarded;
using runtime::ArgumentKey;

struct lt_function {
  std::shared_ptr<runtime::KernelFunction> kernels;
  std::vector<lt_param> params;
  std::deque<std::string> names; // what params points to
  std::vector<uint8_t> flags;
  std::vector<uint16_t> forced; // type codes; 0: none
  runtime::SpecialisationTable table;
};

namespace {

constexpr size_t kMaxKey = 1 + 2 * LT_MAX_ARGUMENTS;

uint64_t typeTag(uint16_t code, uint64_t divisible) {
  return runtime::kTypeTag | (uint64_t{code} << 8) | (divisible << 32);
}

uint64_t multipleOf(uint64_t value, uint8_t flags, uint8_t without) {
  return (flags & without) == 0 && value % 16 == 0 ? 16 : 1;
}

// A number as a parameter of that type; only integers are multiples.
uint64_t numberTag(uint16_t code, const lt_arg &arg, uint8_t flags) {
  return typeTag(code, bindings::decodeType(code).isInt()
                           ? multipleOf(arg.bits, flags, LT_NO_SPECIALIZE | LT_NO_ALIGNMENT)
                           : 1);
}

uint16_t intCode(const lt_arg &arg) {
  const auto value = static_cast<int64_t>(arg.bits);
  frontend::DType dtype;
  dtype.elem = arg.kind == LT_ARG_INT && value >= INT32_MIN && value <= INT32_MAX ? ir::Elem::I32
                                                                                 : ir::Elem::I64;
  dtype.isSigned = arg.kind == LT_ARG_INT;
  return bindings::encodeType(dtype);
}

uint16_t simpleCode(ir::Elem elem, bool isSigned) {
  frontend::DType dtype;
  dtype.elem = elem;
  dtype.isSigned = isSigned;
  return bindings::encodeType(dtype);
}

// The rule above. Constexpr parameters: always the constant.
ArgumentKey classify(const lt_function &fn, size_t index, const lt_arg &arg) {
  const ArgumentKey constant = {runtime::kConstantTag + arg.kind, arg.kind == LT_ARG_NONE ? 0 : arg.bits};
  if (fn.params[index].is_constexpr != 0) {
    return constant;
  }
  const uint8_t flags = fn.flags[index];
  const uint16_t forced = fn.forced[index];
  switch (static_cast<lt_arg_kind>(arg.kind)) {
  case LT_ARG_NONE:
  case LT_ARG_CONSTANT:
    return constant;
  case LT_ARG_BOOL:
    return {typeTag(forced != 0 ? forced : simpleCode(ir::Elem::I1, false), 1), 0};
  case LT_ARG_INT:
    if (arg.bits == 1 && (flags & LT_NO_SPECIALIZE) == 0 && forced == 0) {
      return constant;
    }
    [[fallthrough]];
  case LT_ARG_UINT:
    return {numberTag(forced != 0 ? forced : intCode(arg), arg, flags), 0};
  case LT_ARG_FLOAT:
    return {typeTag(forced != 0 ? forced : simpleCode(ir::Elem::F32, true), 1), 0};
  case LT_ARG_POINTER: {
    const auto pointer = static_cast<uint16_t>(arg.dtype + (1U << 12));
    return {typeTag(pointer, multipleOf(arg.bits, flags, LT_NO_ALIGNMENT)), 0};
  }
  case LT_ARG_TYPE:
    return {typeTag(forced != 0 && arg.dtype >> 12 == 0 ? forced : arg.dtype, arg.bits), 0};
  }
  return constant;
}

runtime::Options toOptions(const lt_options &given) {
  runtime::Options options;
  for (uint32_t i = 0; i < given.count; ++i) {
    options.set(static_cast<runtime::Option>(given.option[i]), given.value[i]);
  }
  return options;
}

// Words of the key; 0 with an error set: too many arguments.
size_t makeKey(const lt_function &fn, uint32_t device, const lt_arg *arguments, size_t count,
               uint32_t options, uint64_t *key) noexcept {
  if (count != fn.params.size() || count > LT_MAX_ARGUMENTS) {
    lt_set_error(0, count > LT_MAX_ARGUMENTS ? "a kernel has at most 256 parameters"
                                             : "wrong number of arguments");
    return 0;
  }
  key[0] = device | uint64_t{options} << 32;
  for (size_t i = 0; i < count; ++i) {
    const ArgumentKey word = classify(fn, i, arguments[i]);
    key[1 + 2 * i] = word.tag;
    key[2 + 2 * i] = word.bits;
  }
  return 1 + 2 * count;
}

frontend::Value constantOf(const lt_param &param, const lt_arg &arg) {
  switch (static_cast<lt_arg_kind>(arg.kind)) {
  case LT_ARG_NONE:
    return frontend::Value::none();
  case LT_ARG_BOOL:
    return frontend::Value::boolean(arg.bits != 0);
  case LT_ARG_INT:
    return frontend::Value::integer(static_cast<int64_t>(arg.bits));
  case LT_ARG_UINT:
    return frontend::Value::integer(arg.bits);
  case LT_ARG_FLOAT:
    return {frontend::Constant(std::bit_cast<double>(arg.bits))};
  case LT_ARG_CONSTANT:
    return reinterpret_cast<const lt_value *>(arg.bits)->value;
  case LT_ARG_POINTER:
  case LT_ARG_TYPE:
    break;
  }
  throw ir::UserError("parameter '" + std::string(param.name) +
                      "' is a constexpr: it takes a constant, not an array or a type");
}

frontend::Signature makeSignature(const lt_function &fn, const lt_arg *arguments, size_t count) {
  frontend::Signature signature;
  for (size_t i = 0; i < count; ++i) {
    const ArgumentKey key = classify(fn, i, arguments[i]);
    frontend::Argument argument;
    if ((key.tag & 0xFF) == runtime::kTypeTag) {
      argument.dtype = bindings::decodeType(static_cast<uint16_t>(key.tag >> 8));
      argument.divisible = static_cast<int64_t>(key.tag >> 32);
    } else {
      argument.constant = constantOf(fn.params[i], arguments[i]);
    }
    signature.arguments.push_back(std::move(argument));
  }
  return signature;
}

runtime::ArgumentValue valueOf(const lt_arg &arg) {
  using Kind = runtime::ArgumentValue::Kind;
  switch (static_cast<lt_arg_kind>(arg.kind)) {
  case LT_ARG_BOOL:
    return {Kind::Bool, arg.bits};
  case LT_ARG_INT:
    return {Kind::Int, arg.bits};
  case LT_ARG_UINT:
    return {Kind::UInt, arg.bits};
  case LT_ARG_FLOAT:
    return {Kind::Float, arg.bits};
  case LT_ARG_POINTER:
    return {Kind::Pointer, arg.bits};
  case LT_ARG_NONE:
  case LT_ARG_CONSTANT:
  case LT_ARG_TYPE:
    break;
  }
  return {};
}

// Off the hot path, so that the hot path's frame stays small.
[[gnu::noinline]] lt_status refuse(const lt_function &fn, const runtime::RecipeSlot &slot,
                                   const lt_arg &arg, bool isMisfit) noexcept {
  return guarded(LT_ERROR, [&]() -> lt_status {
    const std::string name = "argument '" + std::string(fn.params[slot.argument].name) + "'";
    throw ir::UserError(isMisfit ? name + ": " + runtime::describeMisfit(slot.dtype, valueOf(arg))
                                 : name + " is a read-only array, and the kernel stores to it");
  });
}

lt_status fillSlots(const lt_function &fn, const lt_entry &entry, const lt_arg *arguments,
                    lt_plan &plan) noexcept {
  const runtime::Compiled &kernel = entry.executable->kernel();
  const auto &recipe = kernel.recipe();
  plan.count = static_cast<uint32_t>(recipe.size());
  for (size_t i = 0; i < recipe.size(); ++i) {
    const lt_arg &arg = arguments[recipe[i].argument];
    if (!runtime::encodeSlot(recipe[i].dtype, valueOf(arg), plan.slots[i])) {
      return refuse(fn, recipe[i], arg, true);
    }
    if ((arg.flags & LT_ARG_READ_ONLY) != 0 && kernel.written()[i]) {
      return refuse(fn, recipe[i], arg, false);
    }
  }
  return LT_OK;
}

// Extents by slot, in `storage`, if the kernel asks for them and the caller has them.
std::span<const runtime::Extent> gather(const lt_plan &plan, const lt_extent *extents,
                                        runtime::Extent *storage) {
  if (plan.needs_extents == 0 || extents == nullptr) {
    return {};
  }
  const auto &recipe = plan.entry->executable->kernel().recipe();
  for (size_t i = 0; i < recipe.size(); ++i) {
    const lt_extent &extent = extents[recipe[i].argument];
    storage[i] = {extent.begin, extent.end};
  }
  return {storage, recipe.size()};
}

} // namespace

// ---- functions

lt_function *lt_function_parse(const char *text, size_t length, const char *file, int first_line,
                               const char *name, void *object) {
  return guarded<lt_function *>(nullptr, [&] {
    auto source = std::make_shared<ir::SourceFile>(ir::SourceFile{
        file, std::string(text, length), static_cast<uint32_t>(first_line)});
    auto made = std::make_unique<lt_function>();
    made->kernels = std::make_shared<runtime::KernelFunction>(
        frontend::parseFunction(std::move(source), name, bindings::Object::of(object, true)));
    for (const frontend::ParameterSource &param : made->kernels->source().params) {
      lt_param row{};
      row.name = made->names.emplace_back(param.name).c_str();
      if (param.forcedType) {
        row.forced_type = made->names.emplace_back(param.forcedType->name()).c_str();
      }
      row.is_constexpr = param.isConstexpr ? 1 : 0;
      row.has_default = param.hasDefault ? 1 : 0;
      row.keyword_only = param.kind == frontend::ParameterSource::KeywordOnly ? 1 : 0;
      row.variadic = param.kind == frontend::ParameterSource::VarArgs ? 1 : 0;
      made->params.push_back(row);
      // The front end leaves the types of pointers alone.
      made->forced.push_back(param.forcedType && !param.forcedType->isPointer()
                                 ? bindings::encodeType(*param.forcedType) : 0);
    }
    made->flags.resize(made->params.size());
    return made.release();
  });
}
void lt_function_free(lt_function *function) { delete function; }
const char *lt_function_name(const lt_function *function) {
  return function->kernels->source().name.c_str();
}
const lt_param *lt_function_params(const lt_function *function, size_t *count) {
  *count = function->params.size();
  return function->params.data();
}
void lt_function_clear(lt_function *function) {
  const runtime::CompileScope scope;
  function->kernels->clear();
  function->table.forEach([](lt_entry &entry) { entry.retired.store(true); });
}
void lt_function_set_flags(lt_function *function, const uint8_t *flags) {
  std::copy_n(flags, function->flags.size(), function->flags.begin());
}
lt_value *lt_value_function(const lt_function *function) {
  return guarded<lt_value *>(nullptr, [&] {
    return new lt_value{frontend::Value(function->kernels->sourcePtr())};
  });
}

// ---- options

const lt_option *lt_option_rows(size_t *count) {
  static_assert(runtime::kNumOptions <= LT_MAX_OPTIONS);
  static const auto rows = [] {
    std::array<lt_option, runtime::kNumOptions> made{};
    for (size_t i = 0; i < made.size(); ++i) {
      const runtime::OptionRow &row = runtime::optionRows()[i];
      made[i] = {row.name, static_cast<int>(row.kind), row.standard, row.low, row.high, row.doc};
    }
    return made;
  }();
  *count = rows.size();
  return rows.data();
}

// ---- compiling

lt_status lt_compile_for(lt_function *function, const char *target, const lt_arg *arguments,
                         size_t count, const lt_options *options, lt_kernel **out) {
  return guarded(LT_ERROR, [&] {
    const runtime::CompileScope scope;
    uint64_t key[kMaxKey];
    if (makeKey(*function, 0, arguments, count, 0, key) == 0) {
      return LT_ERROR;
    }
    const auto result = function->kernels->compile(makeSignature(*function, arguments, count),
                                                   codegen::findTarget(target), toOptions(*options),
                                                   bindings::hostInterface());
    *out = new lt_kernel{result.kernel, result.answers, nullptr};
    return LT_OK;
  });
}

lt_status lt_compile(lt_function *function, lt_device *device, const lt_arg *arguments, size_t count,
                     const lt_options *options, void *(*make_user)(lt_kernel *kernel)) {
  return guarded(LT_ERROR, [&] {
    const runtime::CompileScope scope;
    const runtime::Options wanted = toOptions(*options).normalised(*device->kernelTarget);
    uint64_t key[kMaxKey];
    const size_t words = makeKey(*function, device->index, arguments, count, wanted.id(), key);
    if (words == 0) {
      return LT_ERROR;
    }
    const auto result = function->kernels->compile(makeSignature(*function, arguments, count),
                                                   *device->kernelTarget, wanted,
                                                   bindings::hostInterface());
    auto entry = std::make_unique<lt_entry>();
    entry->key.assign(key, key + words);
    entry->executable = std::make_shared<runtime::Executable>(result.kernel, device->driver);
    {
      const runtime::HostScope host;
      entry->user = make_user(new lt_kernel{result.kernel, result.answers, entry->executable});
    }
    if (entry->user == nullptr) {
      return LT_ERROR;
    }
    function->table.insert(std::move(entry));
    return LT_OK;
  });
}

void lt_function_users(const lt_function *function, void (*visit)(void *user, void *context),
                       void *context) {
  function->table.forEach([&](const lt_entry &entry) { visit(entry.user, context); });
}

// ---- launch

lt_status lt_find(lt_function *function, lt_device *device, const lt_arg *arguments, size_t count,
                  const lt_options *options, lt_plan *plan) {
  uint32_t id = 0;
  if (options->count != 0 && guarded(LT_ERROR, [&] {
        id = toOptions(*options).normalised(*device->kernelTarget).id();
        return LT_OK;
      }) != LT_OK) {
    return LT_ERROR;
  }
  uint64_t key[kMaxKey];
  const size_t words = makeKey(*function, device->index, arguments, count, id, key);
  if (words == 0) {
    return LT_ERROR;
  }
  plan->entry = function->table.find({key, words});
  if (plan->entry == nullptr) {
    return LT_COMPILE;
  }
  plan->user = plan->entry->user;
  plan->needs_extents = plan->entry->executable->needsExtents() ? 1 : 0;
  return fillSlots(*function, *plan->entry, arguments, *plan);
}

void lt_retire(lt_function *function, const lt_plan *plan) { plan->entry->retired.store(true); }

lt_status lt_select(lt_plan *plan, const int64_t grid[3], const lt_extent *extents) {
  return guarded(LT_ERROR, [&] {
    runtime::LaunchShape shape{};
    plan->module = nullptr;
    if (!runtime::checkGrid(grid, shape)) {
      return LT_OK; // lt_launch has nothing to run
    }
    std::copy_n(shape.grid, 3, plan->grid);
    runtime::Extent storage[LT_MAX_ARGUMENTS];
    const runtime::Executable &executable = *plan->entry->executable;
    runtime::LoadedCode *module =
        executable.select({plan->slots, plan->count}, gather(*plan, extents, storage));
    if (module == nullptr) {
      return LT_COMPILE;
    }
    plan->module = module;
    return LT_OK;
  });
}

lt_status lt_launch(const lt_plan *plan, void *stream, const lt_caller *caller) {
  if (plan->module == nullptr) {
    return LT_OK;
  }
  runtime::LaunchShape shape{};
  std::copy_n(plan->grid, 3, shape.grid);
  const char *message = plan->entry->executable->driver().launch(
      *static_cast<runtime::LoadedCode *>(plan->module), shape, plan->slots, plan->count, stream,
      {caller->lasts, caller->is_interrupted, caller->context});
  if (message != nullptr) {
    lt_set_error(static_cast<int>(Error::Kind::Device), message);
    return LT_ERROR;
  }
  return LT_OK;
}

lt_status lt_prepare(const lt_plan *plan, const lt_extent *extents) {
  return guarded(LT_ERROR, [&] {
    runtime::Extent storage[LT_MAX_ARGUMENTS];
    plan->entry->executable->prepare({plan->slots, plan->count}, gather(*plan, extents, storage));
    return LT_OK;
  });
}
