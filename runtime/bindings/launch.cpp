// SPDX-License-Identifier: Apache-2.0
// bindings.h: functions, compiling and launching, over runtime/launcher.h.
#include "frontend/syntax/ast.h"
#include "runtime/bindings/internal.h"

#include "frontend/syntax/lexer.h"
#include "runtime/cache/reclaim.h"
#include "runtime/float_environment.h"
#include "runtime/fork.h"

#include <algorithm>
#include <array>

using namespace libtile;
using bindings::guarded;
using runtime::CallArgument;
using runtime::Launcher;

struct lt_function {
  explicit lt_function(std::shared_ptr<const frontend::FunctionSource> source)
      : launcher(std::move(source)) {}
  Launcher launcher;
  std::vector<lt_param> params;
  std::deque<std::string> names; // what params points to
};

namespace {

static_assert(sizeof(lt_arg) == sizeof(CallArgument) && alignof(lt_arg) == alignof(CallArgument));
static_assert(offsetof(lt_arg, dtype) == offsetof(CallArgument, dtype) &&
              offsetof(lt_arg, bits) == offsetof(CallArgument, bits) &&
              offsetof(lt_arg, bytes) == offsetof(CallArgument, bytes));
static_assert(static_cast<int>(CallArgument::Kind::Tuple) == LT_ARG_TUPLE);
static_assert(std::is_standard_layout_v<lt_value>); // its address is that of the value
static_assert(LT_MAX_ARGUMENTS == runtime::kMaxArguments);
static_assert(sizeof(lt_extent) == sizeof(runtime::Extent));
static_assert(static_cast<int>(Launcher::kNoSpecialise) == LT_NO_SPECIALIZE &&
              static_cast<int>(Launcher::kNoAlignment) == LT_NO_ALIGNMENT);

std::span<const CallArgument> unwrap(const lt_arg *arguments, size_t count) {
  return {reinterpret_cast<const CallArgument *>(arguments), count};
}
runtime::Specialisation *unwrap(lt_entry *entry) {
  return reinterpret_cast<runtime::Specialisation *>(entry);
}

runtime::Options toOptions(const lt_options &given) {
  runtime::Options options;
  for (uint32_t i = 0; i < given.count; ++i) {
    if (given.value[i] != LT_STANDARD_VALUE) {
      options.set(static_cast<runtime::Option>(given.option[i]), given.value[i]);
    }
  }
  return options;
}

lt_status makeKey(const lt_function &function, const lt_device *device, const lt_arg *arguments,
                  size_t count, const lt_options &given, Launcher::Key &key) noexcept {
  const runtime::LaunchDevice &on = unwrap(device);
  uint32_t options = 0;
  if (given.count != 0) {
    const lt_status status = guarded(LT_ERROR, [&] {
      options = toOptions(given).normalised(on.target).id();
      return LT_OK;
    });
    if (status != LT_OK) {
      return status;
    }
  }
  if (!function.launcher.makeKey(unwrap(arguments, count), on.index, options, key)) {
    lt_set_error(0, "a kernel takes at most 256 arguments, items of tuples included");
    return LT_ERROR;
  }
  return LT_OK;
}

// Off the hot path, so that the hot path's frame stays small.
[[gnu::noinline]] lt_status refuse(const lt_function &function, std::span<const CallArgument> arguments,
                                   const runtime::RuntimeParameter &parameter) noexcept {
  return guarded(LT_ERROR, [&]() -> lt_status { throw function.launcher.refusal(arguments, parameter); });
}

std::span<const runtime::Extent> extentsOf(const lt_plan &plan, const lt_extent *extents,
                                           runtime::Extent *storage) {
  return runtime::gatherExtents(*unwrap(plan.entry)->executable,
                                reinterpret_cast<const runtime::Extent *>(extents), storage);
}

} // namespace

// ---- functions

size_t lt_count_block_lines(const char *text, size_t length) {
  return guarded<size_t>(0, [&] { return frontend::countBlockLines({text, length}); });
}
lt_function *lt_function_parse(const char *text, size_t length, const char *file, int first_line,
                               const char *name, void *object) {
  return guarded<lt_function *>(nullptr, [&] {
    const runtime::FloatEnvironment standard; // for the text's numbers
    auto source = std::make_shared<ir::SourceFile>(ir::SourceFile{
        file, std::string(text, length), static_cast<uint32_t>(first_line)});
    auto made = std::make_unique<lt_function>(
        frontend::parseFunction(std::move(source), name, bindings::Object::of(object, true)));
    for (const frontend::ParameterSource &param : made->launcher.source().params) {
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
    }
    return made.release();
  });
}
void lt_function_free(lt_function *function) { delete function; }
const char *lt_function_name(const lt_function *function) {
  return function->launcher.source().name.c_str();
}
const lt_param *lt_function_params(const lt_function *function, size_t *count) {
  *count = function->params.size();
  return function->params.data();
}
void lt_function_clear(lt_function *function) {
  guarded(0, [&] {
    function->launcher.clear();
    return 0;
  });
}
lt_status lt_function_set_flags(lt_function *function, const uint8_t *flags) {
  return guarded(LT_ERROR, [&] {
    const frontend::FunctionSource &source = function->launcher.source();
    const frontend::AstFunction &tree = *source.ast->find(source.name);
    for (size_t i = 0; i < source.params.size(); ++i) {
      if (source.params[i].isConstexpr && flags[i] != 0) {
        throw ir::UserError("`" + source.params[i].name + "` is constexpr and listed in do_not_specialize",
                            source.ast->location(tree.params[i].range));
      }
    }
    function->launcher.setFlags({flags, source.params.size()});
    return LT_OK;
  });
}
lt_value *lt_value_function(const lt_function *function) {
  return guarded<lt_value *>(nullptr, [&] {
    auto &launcher = const_cast<lt_function *>(function)->launcher;
    return new lt_value{frontend::Value(launcher.kernels().sourcePtr())};
  });
}

// ---- arguments

const char *lt_read_type(const char *text, lt_arg *out) {
  return guarded<const char *>("there is no memory for it", [&] {
    return bindings::keepText(runtime::readTypeText(text, reinterpret_cast<CallArgument &>(*out)));
  });
}

// ---- options

const lt_option *lt_option_rows(size_t *count) {
  static_assert(runtime::kNumOptions <= LT_MAX_OPTIONS);
  static const auto takes = [] {
    std::array<std::string, runtime::kNumOptions> made;
    std::ranges::transform(runtime::optionRows(), made.begin(), runtime::describeValues);
    return made;
  }();
  static const auto rows = [] {
    std::array<lt_option, runtime::kNumOptions> made{};
    for (size_t i = 0; i < made.size(); ++i) {
      const runtime::OptionRow &row = runtime::optionRows()[i];
      made[i] = {row.name, static_cast<int>(row.kind), row.standard, row.low, row.high, takes[i].c_str(),
                 row.doc};
    }
    return made;
  }();
  *count = rows.size();
  return rows.data();
}

int64_t lt_option_value(size_t option, const char *text) {
  return runtime::valueOfText(runtime::optionRows()[option], text).value_or(-1);
}
int lt_option_fits(size_t option, int64_t value) {
  return runtime::fits(runtime::optionRows()[option], value) ? 1 : 0;
}

// ---- compiling

lt_status lt_compile_for(lt_function *function, const char *target, const lt_arg *arguments,
                         size_t count, const lt_options *options, lt_kernel **out) {
  return guarded(LT_ERROR, [&] {
    const runtime::CompileScope scope;
    const auto result =
        function->launcher.compile(unwrap(arguments, count), codegen::findTarget(target),
                                   toOptions(*options), bindings::hostInterface());
    *out = new lt_kernel{result.kernel, nullptr};
    return LT_OK;
  });
}

lt_status lt_compile(lt_function *function, lt_device *device, const lt_arg *arguments, size_t count,
                     const lt_options *options, void *(*make_user)(lt_kernel *kernel),
                     void (*free_user)(void *user)) {
  return guarded(LT_ERROR, [&] {
    const runtime::CompileScope scope;
    Launcher::Key key;
    if (makeKey(*function, device, arguments, count, *options, key) != LT_OK) {
      return LT_ERROR;
    }
    const runtime::LaunchDevice &on = unwrap(device);
    const auto result = function->launcher.compile(unwrap(arguments, count), on.target,
                                                   toOptions(*options), bindings::hostInterface());
    auto executable = runtime::executableFor(result.kernel, on.driver);
    auto kernel = std::unique_ptr<lt_kernel>(new lt_kernel{result.kernel, executable});
    void *user = nullptr;
    {
      const runtime::HostScope host; // it may wait for the interpreter
      user = make_user(kernel.release());
    }
    if (user == nullptr) {
      return LT_ERROR;
    }
    function->launcher.insert(key, std::move(executable),
                              std::shared_ptr<void>(user, [free_user](void *freed) {
                                const runtime::HostScope host; // it may wait for the interpreter
                                free_user(freed);
                              }));
    return LT_OK;
  });
}

void lt_function_users(const lt_function *function, void (*visit)(void *user, void *context),
                       void *context) {
  function->launcher.forEach(
      [&](const runtime::Specialisation &entry) { visit(entry.user.get(), context); });
}

// ---- launch

lt_status lt_find(lt_function *function, lt_device *device, const lt_arg *arguments, size_t count,
                  const lt_options *options, lt_plan *plan) {
  plan->entry = nullptr;
  plan->user = nullptr;
  Launcher::Key key;
  if (makeKey(*function, device, arguments, count, *options, key) != LT_OK) {
    return LT_ERROR;
  }
  runtime::beginReading();
  runtime::Specialisation *found = function->launcher.find(key);
  if (found == nullptr) {
    runtime::endReading();
    return LT_COMPILE;
  }
  plan->entry = reinterpret_cast<lt_entry *>(found);
  plan->user = found->user.get();
  const runtime::Compiled &kernel = found->executable->kernel();
  plan->needs_extents = kernel.checksAccesses()               ? LT_EXTENTS_OF_MEMORY
                        : found->executable->needsExtents() ? LT_EXTENTS_OF_ARRAYS
                                                            : LT_NO_EXTENTS;
  plan->reports = kernel.reports() ? 1 : 0;
  plan->count = static_cast<uint32_t>(kernel.parameters().size());
  const auto given = unwrap(arguments, count);
  const runtime::RuntimeParameter *refused = runtime::fillSlots(kernel, given.data(), plan->slots);
  return refused == nullptr ? LT_OK : refuse(*function, given, *refused);
}

void lt_release(lt_plan *plan) {
  if (plan->entry != nullptr) {
    plan->entry = nullptr;
    runtime::endReading();
  }
}

void lt_retire(lt_function *function, lt_plan *plan) {
  const runtime::Specialisation *entry = unwrap(plan->entry);
  lt_release(plan); // this thread keeps nothing then; the address is compared alone
  guarded(0, [&] {
    function->launcher.remove(entry);
    return 0;
  });
}

size_t lt_num_retired(void) {
  return guarded<size_t>(0, [] { return runtime::numRetired(); });
}

lt_status lt_select(lt_plan *plan, const int64_t grid[3], const lt_extent *extents) {
  return guarded(LT_ERROR, [&] {
    runtime::LaunchShape shape{};
    plan->module = nullptr;
    if (!runtime::checkGrid(grid, shape)) {
      return LT_OK; // lt_launch has nothing to run
    }
    std::copy_n(shape.grid, 3, plan->grid);
    runtime::Extent storage[LT_MAX_ARGUMENTS];
    const runtime::Executable &executable = *unwrap(plan->entry)->executable;
    runtime::LoadedCode *module =
        executable.select({plan->slots, plan->count}, extentsOf(*plan, extents, storage));
    if (module == nullptr) {
      return LT_COMPILE;
    }
    plan->module = module;
    return LT_OK;
  });
}

namespace {

// nullptr, or a message.
const char *launch(const lt_plan &plan, void *stream, const lt_caller &caller,
                   runtime::Findings *findings) noexcept {
  runtime::LaunchShape shape{};
  std::copy_n(plan.grid, 3, shape.grid);
  return unwrap(plan.entry)->executable->driver().launch(
      *static_cast<runtime::LoadedCode *>(plan.module), shape, plan.slots, plan.count, stream,
      {caller.lasts, caller.is_interrupted, caller.context}, findings);
}

lt_status statusOf(const runtime::Findings &findings) {
  using Kind = runtime::Finding::Kind;
  if (!findings.found) {
    return LT_OK;
  }
  return findings.found->kind == Kind::OutOfBounds ? LT_OUT_OF_BOUNDS
         : findings.found->kind == Kind::Assertion ? LT_ASSERTION_FAILED
                                                   : LT_KERNEL_FAULT;
}

// Off the hot path, for its table.
[[gnu::noinline]] lt_status launchHeard(const lt_plan &plan, void *stream, const lt_caller &caller,
                                        const lt_extent *extents, const char *&message) noexcept {
  runtime::Extent storage[LT_MAX_ARGUMENTS];
  runtime::Findings findings{extentsOf(plan, extents, storage).data()};
  message = launch(plan, stream, caller, &findings);
  return guarded(statusOf(findings), [&] {
    const runtime::Compiled &kernel = unwrap(plan.entry)->executable->kernel();
    runtime::throwFindings(kernel, {plan.slots, plan.count}, findings);
    return LT_OK;
  });
}

} // namespace

lt_status lt_launch(const lt_plan *plan, void *stream, const lt_caller *caller, const lt_extent *extents) {
  if (plan->module == nullptr) {
    return LT_OK;
  }
  const char *message = nullptr;
  if (plan->reports == 0) [[likely]] {
    message = launch(*plan, stream, *caller, nullptr);
  } else if (const lt_status found = launchHeard(*plan, stream, *caller, extents, message); found != LT_OK) {
    return found;
  }
  if (message != nullptr) {
    lt_set_error(static_cast<int>(runtime::ErrorKind::Device), message);
    return LT_ERROR;
  }
  return LT_OK;
}

lt_status lt_prepare(const lt_plan *plan, const lt_extent *extents) {
  return guarded(LT_ERROR, [&] {
    runtime::Extent storage[LT_MAX_ARGUMENTS];
    unwrap(plan->entry)->executable->prepare({plan->slots, plan->count},
                                             extentsOf(*plan, extents, storage));
    return LT_OK;
  });
}
