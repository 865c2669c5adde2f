// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/compile.h"

#include "ir/ops.h"
#include "passes/pipeline.h"
#include "runtime/fork.h"
#include "runtime/cache/function_library.h"
#include "runtime/cache/variant_cache.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace libtile::runtime {

namespace {

using Clock = std::chrono::steady_clock;
double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string hex(uint64_t bits) {
  char text[24];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(bits));
  return text;
}

std::string key(const frontend::Constant &constant) {
  struct Visitor {
    std::string operator()(frontend::None) const { return "None"; }
    std::string operator()(bool value) const { return value ? "True" : "False"; }
    std::string operator()(frontend::BigInt value) const {
      if (value >= INT64_MIN && value <= INT64_MAX) {
        return std::to_string(static_cast<int64_t>(value));
      }
      return "0x" + hex(static_cast<uint64_t>(value >> 64)) + "_" + hex(static_cast<uint64_t>(value));
    }
    // By bits: -0.0 and 0.0 differ, each NaN is itself.
    std::string operator()(double value) const { return "f" + hex(std::bit_cast<uint64_t>(value)); }
    std::string operator()(const std::string &value) const {
      return "'" + std::to_string(value.size()) + ":" + value + "'";
    }
  };
  return std::visit(Visitor{}, constant);
}

std::string address(const void *pointer) { return "@" + hex(reinterpret_cast<uintptr_t>(pointer)); }

std::string typeKey(const frontend::DType &dtype) {
  return (dtype.isConst ? "const " : "") + dtype.name();
}

std::string classKey(const frontend::Class &cls) {
  return cls.name + (cls.host != nullptr ? address(cls.host.get()) : "");
}

// Shown to users, or told apart by: classes of one name differ in their address.
enum class TextFor : uint8_t { Reader, Key };

std::string argumentText(const frontend::Argument &argument, TextFor purpose) {
  if (argument.items) {
    const frontend::Class &cls = *argument.itemsClass();
    const bool isPlain = cls.is(*frontend::Class::tuple());
    std::string text = purpose == TextFor::Key ? classKey(cls) : isPlain ? "" : cls.name;
    text += "(";
    for (size_t i = 0; i < argument.items->size(); ++i) {
      text += (i < cls.fields.size() ? cls.fields[i] + "=" : "") +
              argumentText((*argument.items)[i], purpose) + ",";
    }
    return text + ")";
  }
  if (!argument.dtype) {
    return purpose == TextFor::Key ? constantKey(argument.constant) : argument.constant.quoted();
  }
  std::string text = "<" + typeKey(*argument.dtype);
  if (argument.divisible != 1) {
    text += ":" + std::to_string(argument.divisible);
  }
  return text + ">";
}

std::string signatureText(const frontend::FunctionSource &fn, const frontend::Signature &signature) {
  std::string text;
  for (size_t i = 0; i < signature.arguments.size(); ++i) {
    text += (i != 0 ? ", " : "") + (i < fn.params.size() ? fn.params[i].name : std::string("?")) + "=" +
            argumentText(signature.arguments[i], TextFor::Reader);
  }
  return text;
}

std::string fullKey(const frontend::Signature &signature, const ir::Target &target,
                    const Options &options) {
  std::string text = target.name + "|" + target.cpu + "|" + target.features + "|" + options.text();
  for (const frontend::Argument &argument : signature.arguments) {
    text += "|" + argumentText(argument, TextFor::Key);
  }
  return text;
}

// `at`: the index of the argument in the call's flat list.
void addParameters(const frontend::Argument &argument, uint32_t &at,
                   std::vector<RuntimeParameter> &parameters) {
  const uint32_t own = at++;
  if (argument.items) {
    for (const frontend::Argument &item : *argument.items) {
      addParameters(item, at, parameters);
    }
  } else if (argument.dtype) {
    parameters.push_back({own, *argument.dtype, argument.divisible});
  }
}

// The arguments with a type, in order.
std::vector<RuntimeParameter> makeParameters(const ir::Function &tile,
                                             const frontend::Signature &signature) {
  std::vector<RuntimeParameter> parameters;
  uint32_t at = 0;
  for (const frontend::Argument &argument : signature.arguments) {
    addParameters(argument, at, parameters);
  }
  ir::check(parameters.size() == tile.params.size(), "one parameter for each run-time argument");
  return parameters;
}

std::string guardText(const ir::Guard &guard, const std::vector<std::string> &names) {
  const auto name = [&](int64_t param) {
    const auto index = static_cast<size_t>(param);
    return index < names.size() ? names[index] : "argument " + std::to_string(param);
  };
  switch (guard.kind) {
  case ir::Guard::Kind::Divisible:
    return name(guard.param) + " % " + std::to_string(guard.value) + " == 0";
  case ir::Guard::Kind::Below:
    return name(guard.param) + " < " + std::to_string(guard.value);
  case ir::Guard::Kind::Above:
    return name(guard.param) + " > " + std::to_string(guard.value);
  case ir::Guard::Kind::Disjoint:
    return name(guard.param) + " and " + name(guard.value) + " do not overlap";
  case ir::Guard::Kind::Positive:
    return "2^-64 <= " + name(guard.param) + " <= 2^64";
  case ir::Guard::Kind::Within:
    return "0 < " + name(guard.param) + " <= " + std::to_string(guard.value);
  }
  return {};
}

// What passes ask for with Reliance::Numbers alone.
bool isOfNumbers(const ir::Guard &guard) {
  switch (guard.kind) {
  case ir::Guard::Kind::Divisible:
  case ir::Guard::Kind::Positive:
  case ir::Guard::Kind::Within:
    return true;
  case ir::Guard::Kind::Below:
  case ir::Guard::Kind::Above:
  case ir::Guard::Kind::Disjoint:
    return false;
  }
  return false;
}

bool hasMessages(const ir::Function &fn) {
  return std::ranges::any_of(fn.walk(), [&](ir::OpId op) {
    return fn.opcode(op) == ir::Opcode::Print || fn.opcode(op) == ir::Opcode::Assert;
  });
}

// LIBTILE_DISABLE_PASSES=a,b leaves out these passes, to find the one at fault. One process has one value of it.
const std::string &disabledPasses() {
  static const std::string names = [] {
    const char *given = std::getenv("LIBTILE_DISABLE_PASSES");
    return std::string(given != nullptr ? given : "");
  }();
  return names;
}

} // namespace

std::string constantKey(const frontend::Value &value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "unbound"; }
    std::string operator()(const frontend::Constant &constant) const { return key(constant); }
    std::string operator()(const frontend::Tensor &) const { return "tensor"; }
    std::string operator()(const std::shared_ptr<const frontend::Aggregate> &aggregate) const {
      std::string text = classKey(*aggregate->cls) + "(";
      for (const frontend::Value &field : aggregate->fields) {
        text += constantKey(field) + ",";
      }
      return text + ")";
    }
    std::string operator()(const std::shared_ptr<const frontend::Class> &cls) const {
      return "class " + classKey(*cls);
    }
    std::string operator()(const frontend::TypeValue &type) const {
      std::string text = "type " + typeKey(type.dtype);
      for (const int32_t extent : type.shape) {
        text += "x" + std::to_string(extent);
      }
      return text;
    }
    std::string operator()(const std::shared_ptr<const frontend::FunctionSource> &fn) const {
      return "function " + fn->name + address(fn.get());
    }
    std::string operator()(const frontend::Operation *operation) const {
      return "operation " + address(operation);
    }
    std::string operator()(const std::shared_ptr<const frontend::BoundMethod> &method) const {
      return "method " + address(method.get());
    }
    std::string operator()(const std::shared_ptr<frontend::HostObject> &object) const {
      return "object " + address(object.get());
    }
    std::string operator()(const frontend::LanguagePart *part) const {
      return "module " + address(part);
    }
  };
  return std::visit(Visitor{}, value.data());
}

Compiled::Compiled(ir::Function tile, std::vector<RuntimeParameter> parameters, std::string signature,
                   const ir::Target &target, const Options &options)
    : tile_(std::move(tile)), parameters_(std::move(parameters)), signature_(std::move(signature)),
      target_(target), options_(options), written_(writtenParameters(tile_)),
      reports_(checksAccesses() || (!target.laysOut && hasMessages(tile_))), preferred_(makeVariant(passes::Reliance::Numbers)) {}

const passes::PipelineOptions &Compiled::pipelineOptions() {
  static const passes::PipelineOptions options = [] {
    passes::PipelineOptions made;
    std::stringstream stream(disabledPasses());
    for (std::string name; std::getline(stream, name, ',');) {
      if (passes::findPass(name.substr(0, name.find(':'))) == nullptr) {
        throw ir::UserError("LIBTILE_DISABLE_PASSES: there is no pass named '" + name + "'");
      }
      made.disabled.push_back(name);
    }
    return made;
  }();
  return options;
}

passes::PassContext Compiled::passContext(passes::Reliance relies) const {
  return {target_, options_.number(Option::num_warps), options_.number(Option::num_stages), relies,
          &functionLibrary(), checksAccesses(), options_[Option::copy_boxes] != 0, options_[Option::warp_specialize] != 0 && options_.number(Option::maxnreg) == 0,
          options_[Option::share_blocks] != 0 && options_[Option::launch_cooperative_grid] == 0,
          options_[Option::spread_warps] != 0 && options_[Option::launch_cooperative_grid] == 0 && options_.number(Option::maxnreg) == 0,
          options_[Option::narrow_boxes] != 0, options_[Option::store_boxes] != 0, options_[Option::launch_pdl] != 0, options_.number(Option::matrix_instr_nonkdim),
          options_.number(Option::kpack), options_.number(Option::num_ctas)};
}

codegen::CodeOptions Compiled::codeOptions() const {
  codegen::CodeOptions options;
  options.contracts = options_[Option::enable_fp_fusion] != 0;
  options.flushes = options_[Option::enable_reflect_ftz] != 0;
  options.maxRegisters = options_.number(Option::maxnreg);
  options.waves = options_.number(Option::waves_per_eu);
  options.lines = options_[Option::line_info] != 0;
  options.cooperative = options_[Option::launch_cooperative_grid] != 0;
  options.overlaps = options_[Option::launch_pdl] != 0;
  options.reuse = true;
  return options;
}

std::vector<RecipeSlot> Compiled::recipe(size_t maps) const {
  std::vector<RecipeSlot> slots;
  for (uint32_t i = 0; i < parameters_.size(); ++i) {
    slots.push_back({RecipeSlot::Kind::Argument, i});
  }
  for (uint32_t i = 0; i < maps; ++i) {
    slots.push_back({RecipeSlot::Kind::TensorMap, i});
  }
  return slots;
}

// What the front end made, with bodies in place of what the interpreter has no case for.
Variant Compiled::makeInterpreted() const {
  auto fn = std::make_shared<ir::Function>(tile_.clone());
  for (const char *name : {"expand_assembly", "expand_functions"}) {
    passes::runPass(*passes::findPass(name), *fn, passContext(passes::Reliance::Nothing));
  }
  Variant variant;
  variant.code.info.symbol = fn->name;
  variant.numWarps = fn->numWarps;
  variant.numStages = fn->numStages;
  variant.code.function = std::move(fn);
  variant.recipe = recipe(0);
  return variant;
}

Variant Compiled::makeVariant(passes::Reliance relies) const {
  const CompileScope scope;
  Variant variant = codegen::isInterpreted(target_)
                        ? makeInterpreted()
                        : findOrCompile({tile_, target_, options_, disabledPasses(), relies},
                                        [&] { return compileVariant(relies); });
  for (std::string &line : options_.unheeded(target_)) {
    variant.fallbacks.push_back(std::move(line));
  }
  return variant;
}

Variant Compiled::compileVariant(passes::Reliance relies) const {
  ir::Function fn = tile_.clone();
  passes::runPipeline(fn, passContext(relies), pipelineOptions());
  Variant variant;
  variant.code = codegen::generate(fn, target_, codeOptions());
  variant.recipe = recipe(variant.code.info.maps.size());
  variant.guards = fn.guards;
  variant.fallbacks = fn.fallbacks;
  variant.numWarps = fn.numWarps;
  variant.numStages = fn.numStages;
  ir::check(relies != passes::Reliance::Nothing || variant.guards.empty(), "the general variant has no guards");
  return variant;
}

bool Compiled::maySpare(const ir::Guard &guard, passes::Reliance relies) const {
  switch (relies) {
  case passes::Reliance::Nothing:
    return true;
  case passes::Reliance::Inputs:
    return isOfNumbers(guard) || (guard.kind == ir::Guard::Kind::Disjoint && written_[guard.param] && written_[static_cast<size_t>(guard.value)]);
  case passes::Reliance::Arguments:
    return isOfNumbers(guard);
  case passes::Reliance::Numbers:
    return false;
  }
  return false;
}

const Variant &Compiled::variant(passes::Reliance relies) const {
  using passes::Reliance;
  const auto spared = [&](Reliance by) {
    return std::ranges::count_if(preferred_.guards, [&](const ir::Guard &guard) { return maySpare(guard, by); });
  };
  if (spared(relies) == 0) {
    return preferred_;
  }
  if (relies == Reliance::Inputs && spared(Reliance::Inputs) == spared(Reliance::Arguments)) {
    relies = Reliance::Arguments;
  }
  const CompileScope scope;
  const std::lock_guard lock(othersMutex_);
  std::unique_ptr<const Variant> &other = others_[static_cast<size_t>(relies)];
  if (other == nullptr) {
    other = std::make_unique<const Variant>(makeVariant(relies));
  }
  return *other;
}

std::vector<std::string> Compiled::parameterNames() const {
  std::vector<std::string> names;
  for (const ir::Param &param : tile_.params) {
    names.push_back(param.name);
  }
  return names;
}

std::vector<std::string> Compiled::guardTexts() const {
  std::vector<std::string> texts;
  for (const ir::Guard &guard : preferred_.guards) {
    texts.push_back(guardText(guard, parameterNames()));
  }
  return texts;
}

void KernelFunction::clear() {
  codegen::forgetRecentCode();
  std::map<std::string, std::vector<Result>> dropped; // freed without the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(cache_);
  keys_.clear();
}

KernelFunction::Result KernelFunction::compile(const frontend::Signature &signature,
                                               const ir::Target &target, const Options &given,
                                               frontend::Host &host) {
  const CompileScope scope;
  const Options options = given.normalised(target);
  if (const int32_t warps = options.number(Option::num_warps); warps > std::max(target.maxWarps, 1)) {
    throw ir::Unsupported("the kernel needs " + std::to_string(warps * target.warpSize) + " threads; " + target.name +
                          " has " + std::to_string(target.maxWarps * target.warpSize) + " a program: take fewer warps");
  }
  const std::string wanted = fullKey(signature, target, options);
  std::vector<Result> known;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = cache_.find(wanted); found != cache_.end()) {
      known = found->second;
    }
  }
  // Outside the lock: the host may wait for its interpreter.
  for (const Result &result : known) {
    bool holds = true;
    for (const frontend::HostAnswer &answer : *result.answers) {
      holds = holds && frontend::stillHolds(host, answer);
    }
    if (holds) {
      return result;
    }
  }
  const auto start = Clock::now();
  frontend::Signature full = signature;
  if (const int32_t warps = options.number(Option::num_warps); warps > 0) {
    full.numWarps = warps;
  }
  if (const int32_t stages = options.number(Option::num_stages); stages > 0) {
    full.numStages = stages;
  }
  full.target = target.name;
  // The interpreter looks for what the kernel asserts, and by itself for overflows that matter.
  const bool isDebugged = options[Option::debug] != 0;
  full.debug = isDebugged || codegen::isInterpreted(target);
  full.sanitizesOverflow = isDebugged && options[Option::sanitize_overflow] != 0;
  full.portable = options[Option::portable] != 0;
  if (const int64_t precision = options[Option::default_dot_input_precision]; precision > 0) {
    full.dotPrecision = static_cast<ir::Precision>(precision - 1);
  }
  full.impreciseSums = options[Option::max_num_imprecise_acc_default];
  std::vector<frontend::HostAnswer> answers;
  ir::Function tile = frontend::specialise(*source_, full, host, &answers);
  const double frontendMs = millisecondsSince(start);
  Options used = options;
  if (std::ranges::count(answers, frontend::HostAnswer::Warps, &frontend::HostAnswer::kind) != 0) {
    used.set(Option::num_warps, full.numWarps);
    used.set(Option::spread_warps, 0); // what the kernel was told stays so
  }
  if (std::ranges::count(source_->params, "num_warps", &frontend::ParameterSource::name) != 0) {
    used.set(Option::spread_warps, 0);
  }
  std::vector<RuntimeParameter> parameters = makeParameters(tile, full);
  auto kernel = std::make_shared<Compiled>(std::move(tile), std::move(parameters),
                                           signatureText(*source_, full), target, used);
  kernel->frontendMs = frontendMs;
  kernel->backendMs = millisecondsSince(start) - frontendMs;
  Result result{std::move(kernel),
                std::make_shared<const std::vector<frontend::HostAnswer>>(std::move(answers)),
                std::make_shared<const frontend::Signature>(std::move(full))};
  keep(wanted, result);
  return result;
}

void KernelFunction::keep(const std::string &key, const Result &result) {
  Result dropped; // freed without the lock: that may take the interpreter's
  std::vector<Result> forgotten;
  const std::lock_guard lock(mutex_);
  const auto [entry, isNew] = cache_.try_emplace(key);
  std::vector<Result> &results = entry->second;
  if (results.size() == kMostAnswers) {
    dropped = std::move(results.front());
    results.erase(results.begin());
  }
  results.push_back(result);
  if (!isNew) {
    return;
  }
  keys_.push_back(key);
  if (keys_.size() > kMostKeys) {
    const auto oldest = cache_.find(keys_.front());
    forgotten = std::move(oldest->second);
    cache_.erase(oldest);
    keys_.pop_front();
  }
}

} // namespace libtile::runtime
