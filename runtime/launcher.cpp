// SPDX-License-Identifier: Apache-2.0
#include "runtime/launcher.h"

#include "frontend/semantics/semantics.h"
#include "runtime/cache/reclaim.h"
#include "runtime/fork.h"

#include <bit>

namespace libtile::runtime {

namespace {

using Kind = CallArgument::Kind;

// What a specialisation depends on of one argument, as two words. Tags:
//   bits 0-7   kTypeTag, kTupleTag, or kConstantTag + Kind of the constant
//   bits 8-23  type code or number of items, 32-63 what the value is a multiple of (kTypeTag)
struct ArgumentKey {
  uint64_t tag = 0, bits = 0;
};
enum : uint64_t { kTypeTag = 1, kTupleTag = 2, kConstantTag = 16 };

uint64_t typeTag(uint16_t code, uint64_t divisible) {
  return kTypeTag | (uint64_t{code} << 8) | (divisible << 32);
}

uint64_t multipleOf(uint64_t value, uint8_t flags, uint8_t without) {
  return (flags & without) == 0 && value % 16 == 0 ? 16 : 1;
}

constexpr uint16_t numberCode(ir::Elem elem, bool isSigned) {
  frontend::DType dtype;
  dtype.elem = elem;
  dtype.isSigned = isSigned;
  return encodeType(dtype);
}

uint16_t integerCode(const CallArgument &argument) {
  const auto value = static_cast<int64_t>(argument.bits);
  if (argument.kind == Kind::UInt) {
    return numberCode(ir::Elem::I64, false);
  }
  return numberCode(value >= INT32_MIN && value <= INT32_MAX ? ir::Elem::I32 : ir::Elem::I64, true);
}

// The rule of launcher.h. Constexpr parameters: always the constant.
ArgumentKey classify(const CallArgument &argument, bool isConstexpr, uint8_t flags, uint16_t forced) {
  const ArgumentKey constant = {kConstantTag + static_cast<uint64_t>(argument.kind),
                                argument.kind == Kind::None ? 0 : argument.bits};
  if (isConstexpr) {
    return constant;
  }
  switch (argument.kind) {
  case Kind::None:
  case Kind::Constant:
    return constant;
  case Kind::Bool:
    return {typeTag(forced != 0 ? forced : numberCode(ir::Elem::I1, false), 1), 0};
  case Kind::Int:
    if (argument.bits == 1 && (flags & Launcher::kNoSpecialise) == 0 && forced == 0) {
      return constant;
    }
    [[fallthrough]];
  case Kind::UInt: {
    const uint16_t code = forced != 0 ? forced : integerCode(argument);
    // Only integers are multiples.
    const uint8_t without = Launcher::kNoSpecialise | Launcher::kNoAlignment;
    return {typeTag(code, decodeType(code).isInt() ? multipleOf(argument.bits, flags, without) : 1), 0};
  }
  case Kind::Float:
    return {typeTag(forced != 0 ? forced : numberCode(ir::Elem::F32, true), 1), 0};
  case Kind::Pointer: {
    const auto pointer = static_cast<uint16_t>(argument.dtype + (1U << 12));
    return {typeTag(pointer, multipleOf(argument.bits, flags, Launcher::kNoAlignment)), 0};
  }
  case Kind::Type:
    return {typeTag(forced != 0 && argument.dtype >> 12 == 0 ? forced : argument.dtype, argument.bits), 0};
  case Kind::Tuple:
    return {kTupleTag | uint64_t{argument.dtype} << 8, argument.bits};
  }
  return constant;
}

// Whether the annotation's type is that of an array of this sort, or a number's for a number: how wide the
// number may be is fillSlots' to say. None and other constants have no type.
bool agrees(frontend::DType annotated, const CallArgument &argument) {
  switch (argument.kind) {
  case Kind::None:
  case Kind::Constant:
  case Kind::Tuple:
    return true;
  case Kind::Bool:
  case Kind::Int:
  case Kind::UInt:
  case Kind::Float:
    return !annotated.isPointer();
  case Kind::Pointer:
  case Kind::Type: {
    frontend::DType given = decodeType(argument.dtype);
    given.pointerDepth += argument.kind == Kind::Pointer ? 1 : 0;
    given.isConst = annotated.isConst;
    return annotated.isPointer() ? given == annotated : !given.isPointer();
  }
  }
  return true;
}

// Walks a flat list: which parameter each argument belongs to.
class Walk {
public:
  [[nodiscard]] size_t parameter() const { return parameter_; }
  void step(const CallArgument &argument) {
    open_ += argument.kind == Kind::Tuple ? argument.dtype : 0;
    if (--open_ == 0) {
      ++parameter_;
      open_ = 1;
    }
  }
  [[nodiscard]] bool isBetween() const { return open_ == 1; }

private:
  size_t parameter_ = 0;
  uint64_t open_ = 1; // arguments that the parameter still has
};

// Whether the argument of that index is the one at `at` or an item of it; `at` moves behind those.
bool findPath(std::span<const CallArgument> arguments, size_t &at, size_t index, std::string &path) {
  const CallArgument &here = arguments[at];
  if (at++ == index) {
    return true;
  }
  for (uint16_t i = 0; here.kind == Kind::Tuple && i < here.dtype; ++i) {
    const size_t length = path.size();
    path += "[" + std::to_string(i) + "]";
    if (findPath(arguments, at, index, path)) {
      return true;
    }
    path.resize(length);
  }
  return false;
}

} // namespace

frontend::Value constantOf(const CallArgument &argument) {
  switch (argument.kind) {
  case Kind::None:
    return frontend::Value::none();
  case Kind::Bool:
    return frontend::Value::boolean(argument.bits != 0);
  case Kind::Int:
    return frontend::Value::integer(static_cast<int64_t>(argument.bits));
  case Kind::UInt:
    return frontend::Value::integer(argument.bits);
  case Kind::Float:
    return {frontend::Constant(std::bit_cast<double>(argument.bits))};
  case Kind::Constant:
    return *argument.value;
  case Kind::Pointer:
  case Kind::Type:
  case Kind::Tuple:
    break;
  }
  return {};
}

LaunchDevice &openLaunchDevice(const std::string &name) {
  static auto *mutex = new std::mutex;
  static auto *devices = new std::vector<std::unique_ptr<LaunchDevice>>;
  auto driver = openDriver(name);
  const std::lock_guard lock(*mutex);
  for (const auto &device : *devices) {
    if (device->driver == driver) {
      return *device;
    }
  }
  const ir::Target &target = codegen::findTarget(driver->target());
  std::string given = driver->name();
  devices->push_back(std::unique_ptr<LaunchDevice>(new LaunchDevice{
      std::move(driver), std::move(given), target, static_cast<uint32_t>(devices->size())}));
  return *devices->back();
}

Launcher::Launcher(std::shared_ptr<const frontend::FunctionSource> source)
    : kernels_(std::move(source)), flags_(this->source().params.size()) {
  for (const frontend::ParameterSource &param : this->source().params) {
    // An array has its own type: checkAnnotations compares it.
    const bool isForced = param.forcedType && !param.forcedType->isPointer();
    forced_.push_back(isForced ? encodeType(*param.forcedType) : 0);
    isConstexpr_.push_back(param.isConstexpr);
  }
}

void Launcher::setFlags(std::span<const uint8_t> flags) { flags_.assign(flags.begin(), flags.end()); }

bool Launcher::makeKey(std::span<const CallArgument> arguments, uint32_t device, uint32_t options,
                       Key &key) const noexcept {
  if (arguments.size() > kMaxArguments) {
    return false;
  }
  key.words[0] = device | uint64_t{options} << 32;
  uint64_t *word = key.words + 1;
  Walk walk;
  for (const CallArgument &argument : arguments) {
    const size_t i = walk.parameter();
    if (i == flags_.size()) {
      return false;
    }
    // A type is the whole parameter's.
    const bool isItem = !walk.isBetween();
    const ArgumentKey made = classify(argument, isConstexpr_[i], flags_[i], isItem ? 0 : forced_[i]);
    *word++ = made.tag;
    *word++ = made.bits;
    walk.step(argument);
  }
  key.size = 1 + 2 * arguments.size();
  return walk.parameter() == flags_.size() && walk.isBetween();
}

void Launcher::checkAnnotations(std::span<const CallArgument> arguments) const {
  Walk walk;
  for (size_t at = 0; at < arguments.size(); ++at) {
    const auto &annotated = source().params[walk.parameter()].forcedType;
    if (annotated && walk.isBetween() && !agrees(*annotated, arguments[at])) {
      throw ir::UserError("argument '" + nameOf(arguments, at) + "': " +
                          describeMisfit(*annotated, arguments[at]));
    }
    walk.step(arguments[at]);
  }
}

// The argument at `at` with its items; `at` moves behind them.
frontend::Argument Launcher::argumentFor(std::span<const CallArgument> arguments, const Key &key,
                                         size_t &at) const {
  const CallArgument &given = arguments[at];
  const uint64_t tag = key.words[1 + 2 * at];
  ++at;
  frontend::Argument made;
  if ((tag & 0xFF) == kTypeTag) {
    made.dtype = decodeType(static_cast<uint16_t>(tag >> 8));
    made.divisible = static_cast<int64_t>(tag >> 32);
  } else if ((tag & 0xFF) == kTupleTag) {
    made.constant = given.value != nullptr ? *given.value : frontend::Value();
    made.items.emplace();
    for (uint16_t i = 0; i < given.dtype; ++i) {
      made.items->push_back(argumentFor(arguments, key, at));
    }
    const frontend::Class &cls = *made.itemsClass();
    if (!cls.fields.empty() && cls.fields.size() != made.items->size()) {
      throw ir::UserError("a '" + cls.name + "' has " + std::to_string(made.items->size()) +
                          " items for " + std::to_string(cls.fields.size()) + " fields");
    }
  } else {
    made.constant = constantOf(given);
    if (!made.constant.bound()) {
      throw ir::UserError("parameter '" + nameOf(arguments, at - 1) +
                          "' is a constexpr: it takes a constant, not an array or a type");
    }
  }
  return made;
}

KernelFunction::Result Launcher::compile(std::span<const CallArgument> arguments,
                                         const ir::Target &target, const Options &options,
                                         frontend::Host &host) {
  Key key;
  if (!makeKey(arguments, 0, 0, key)) {
    throw ir::UserError("'" + source().name + "' takes " +
                        frontend::countText(source().params.size(), "argument") + ", of at most " +
                        std::to_string(kMaxArguments) +
                        " numbers and arrays in all");
  }
  checkAnnotations(arguments);
  frontend::Signature signature;
  for (size_t at = 0; at < arguments.size();) {
    signature.arguments.push_back(argumentFor(arguments, key, at));
  }
  return kernels_.compile(signature, target, options, host);
}

void Launcher::insert(const Key &key, std::shared_ptr<Executable> executable,
                      std::shared_ptr<void> user) {
  auto entry = std::make_shared<Specialisation>();
  entry->key.assign(key.words, key.words + key.size);
  entry->executable = std::move(executable);
  entry->user = std::move(user);
  const CompileScope scope; // a fork waits
  table_.insert(std::move(entry));
}

void Launcher::remove(const Specialisation *entry) {
  const CompileScope scope;
  table_.remove(entry);
}

void Launcher::clear() {
  const CompileScope scope;
  kernels_.clear();
  table_.clear();
}

std::string Launcher::nameOf(std::span<const CallArgument> arguments, size_t index) const {
  size_t at = 0;
  for (const frontend::ParameterSource &param : source().params) {
    std::string path;
    if (at < arguments.size() && findPath(arguments, at, index, path)) {
      return param.name + path;
    }
  }
  return "argument " + std::to_string(index);
}

ir::UserError Launcher::refusal(std::span<const CallArgument> arguments,
                                const RuntimeParameter &parameter) const {
  return ir::UserError("argument '" + nameOf(arguments, parameter.argument) + "'" +
                       describeRefusal(parameter, arguments[parameter.argument]));
}

void Launcher::launch(const LaunchDevice &device, std::span<const CallArgument> arguments,
                      const Extent *extents, const Options &options, uint32_t optionsId,
                      const int64_t grid[3], void *stream, frontend::Host &host) {
  Key key;
  if (!makeKey(arguments, device.index, optionsId, key)) {
    throw ir::UserError("'" + source().name + "' takes " +
                        frontend::countText(source().params.size(), "argument"));
  }
  const ReadScope reading;
  std::shared_ptr<Executable> made; // kept if another thread takes it out again at once
  Executable *executable = nullptr;
  if (const Specialisation *found = find(key)) {
    executable = found->executable.get();
  } else {
    made = executableFor(compile(arguments, device.target, options, host).kernel, device.driver);
    insert(key, made, nullptr);
    executable = made.get();
  }
  uint64_t slots[kMaxArguments];
  Extent storage[kMaxArguments];
  const Compiled &kernel = executable->kernel();
  if (const RuntimeParameter *refused = fillSlots(kernel, arguments.data(), slots)) {
    throw refusal(arguments, *refused);
  }
  executable->run({slots, kernel.parameters().size()},
                  gatherExtents(*executable, extents, storage), grid, stream);
}

} // namespace libtile::runtime
