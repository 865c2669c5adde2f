// SPDX-License-Identifier: Apache-2.0
// The C++ API over the runtime. Exceptions of the inside (ir::Error) leave as libtile::Error.
#include "runtime/libtile.h"

#include "runtime/errors.h"
#include "runtime/launch.h"
#include "runtime/drivers/thread_pool.h"
#include "runtime/drivers/watch.h"

#include <bit>
#include <fstream>
#include <sstream>

namespace libtile {

namespace {

template <class F> auto translated(F &&body) {
  try {
    return body();
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    const runtime::ErrorRecord record = runtime::describeError(error);
    throw Error(record.kind, record.text, record.file, record.line, record.column);
  }
}

// What a handle holds; one that no call of ours made holds nothing.
template <class Impl> Impl &contentOf(const std::shared_ptr<Impl> &impl, const char *what) {
  if (impl == nullptr) {
    throw Error(Error::Kind::User, std::string("the ") + what + " is an empty handle");
  }
  return *impl;
}

frontend::Value toValue(const Constant &constant) {
  struct Visitor {
    frontend::Value operator()(std::monostate) const { return frontend::Value::none(); }
    frontend::Value operator()(bool value) const { return frontend::Value::boolean(value); }
    frontend::Value operator()(int64_t value) const { return frontend::Value::integer(value); }
    frontend::Value operator()(double value) const { return {frontend::Constant(value)}; }
    frontend::Value operator()(const std::string &value) const { return frontend::Value::string(value); }
  };
  return std::visit(Visitor{}, constant);
}

frontend::Argument toArgument(const frontend::ParameterSource &param,
                              const std::map<std::string, ParameterType> &types,
                              const std::map<std::string, Constant> &constants) {
  const auto type = types.find(param.name);
  const auto constant = constants.find(param.name);
  if (type != types.end() && constant != constants.end()) {
    throw ir::UserError("parameter '" + param.name + "' has both a type and a constant");
  }
  frontend::Argument argument;
  if (type != types.end()) {
    if (param.isConstexpr) {
      throw ir::UserError("parameter '" + param.name + "' is a constexpr: give a constant");
    }
    argument.dtype = frontend::DType::byName(type->second.type);
    if (!argument.dtype) {
      throw ir::UserError("parameter '" + param.name + "': there is no type '" + type->second.type + "'");
    }
    if (param.forcedType && !param.forcedType->isPointer() && !argument.dtype->isPointer()) {
      argument.dtype = param.forcedType;
    }
    argument.divisible = type->second.divisible;
  } else if (constant != constants.end()) {
    argument.constant = toValue(constant->second);
  } else if (!param.hasDefault) { // the front end evaluates it
    throw ir::UserError("parameter '" + param.name + "' has neither a type nor a constant");
  }
  return argument;
}

runtime::Options toOptions(const CompileOptions &given) {
  runtime::Options options;
  options.set(runtime::Option::num_warps, given.numWarps);
  options.set(runtime::Option::num_stages, given.numStages);
  for (const auto &[name, value] : given.others) {
    const auto option = runtime::findOption(name);
    if (!option) {
      throw ir::UserError("there is no option '" + name + "'");
    }
    options.set(*option, value);
  }
  return options;
}

template <class Map>
void refuseUnknown(const Map &given, const frontend::FunctionSource &fn) {
  for (const auto &entry : given) {
    bool known = false;
    for (const frontend::ParameterSource &param : fn.params) {
      known = known || param.name == entry.first;
    }
    if (!known) {
      throw ir::UserError("kernel '" + fn.name + "' has no parameter '" + entry.first + "'");
    }
  }
}

} // namespace

Error::Error(Kind kind, const std::string &what, std::string file, int line, int column)
    : std::runtime_error(what), kind_(kind), file_(std::move(file)), line_(line), column_(column) {}
Error::~Error() = default;

Argument::Argument(const void *pointer, size_t bytes)
    : bits(reinterpret_cast<uintptr_t>(pointer)), bytes(bytes), kind(Kind::Pointer) {}
Argument::Argument(const Buffer &buffer) : Argument(buffer.data(), buffer.bytes()) {}
Argument::Argument(bool value) : bits(value ? 1 : 0), kind(Kind::Bool) {}
Argument::Argument(int32_t value) : bits(static_cast<uint64_t>(int64_t{value})), kind(Kind::Int) {}
Argument::Argument(int64_t value) : bits(static_cast<uint64_t>(value)), kind(Kind::Int) {}
Argument::Argument(float value) : bits(std::bit_cast<uint64_t>(double{value})), kind(Kind::Float32) {}
Argument::Argument(double value) : bits(std::bit_cast<uint64_t>(value)), kind(Kind::Float64) {}

// ---- Device and Buffer

struct [[gnu::visibility("hidden")]] Device::Impl {
  std::shared_ptr<runtime::Driver> driver;
  std::string name, target;
};

struct [[gnu::visibility("hidden")]] Buffer::Impl {
  Impl(std::shared_ptr<runtime::Driver> owner, size_t size)
      : driver(std::move(owner)), data(driver->allocate(size)), bytes(size) {}
  ~Impl() { driver->free(data); }
  Impl(const Impl &) = delete;
  Impl &operator=(const Impl &) = delete;
  std::shared_ptr<runtime::Driver> driver;
  void *data;
  size_t bytes;
};

void *Buffer::data() const { return contentOf(impl, "Buffer").data; }
size_t Buffer::bytes() const { return contentOf(impl, "Buffer").bytes; }

Device Device::open(const std::string &name) {
  return translated([&] {
    auto driver = runtime::openDriver(name);
    Device device;
    device.impl = std::make_shared<Impl>(Impl{driver, driver->name(), driver->target()});
    return device;
  });
}
std::vector<std::string> Device::available() {
  return translated([] { return runtime::availableDrivers(); });
}
const std::string &Device::name() const { return contentOf(impl, "Device").name; }
const std::string &Device::target() const { return contentOf(impl, "Device").target; }
Buffer Device::allocate(size_t bytes) const {
  return translated([&] {
    Buffer buffer;
    buffer.impl = std::make_shared<Buffer::Impl>(contentOf(impl, "Device").driver, bytes);
    return buffer;
  });
}
void Device::copyToDevice(void *device, const void *host, size_t bytes) const {
  translated([&] { contentOf(impl, "Device").driver->copyToDevice(device, host, bytes); });
}
void Device::copyToHost(void *host, const void *device, size_t bytes) const {
  translated([&] { contentOf(impl, "Device").driver->copyToHost(host, device, bytes); });
}
void Device::synchronize() const {
  translated([&] { contentOf(impl, "Device").driver->synchronize(); });
}

// ---- Program and Kernel

struct [[gnu::visibility("hidden")]] Program::Impl {
  std::shared_ptr<const ir::SourceFile> file;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<runtime::KernelFunction>> functions;

  std::shared_ptr<runtime::KernelFunction> function(const std::string &name) {
    const std::lock_guard lock(mutex);
    auto &entry = functions[name];
    if (entry == nullptr) {
      entry = std::make_shared<runtime::KernelFunction>(frontend::parseFunction(file, name));
    }
    return entry;
  }
};

struct [[gnu::visibility("hidden")]] Kernel::Impl {
  std::shared_ptr<const runtime::Compiled> kernel;
  std::string target;
  std::mutex mutex;
  std::map<const runtime::Driver *, std::shared_ptr<runtime::Executable>> executables;

  runtime::Executable &on(const std::shared_ptr<runtime::Driver> &driver) {
    const std::lock_guard lock(mutex);
    auto &entry = executables[driver.get()];
    if (entry == nullptr) {
      entry = std::make_shared<runtime::Executable>(kernel, driver);
    }
    return *entry;
  }
};

Program Program::fromText(const std::string &text, const std::string &name) {
  Program program;
  program.impl = std::make_shared<Impl>();
  program.impl->file = std::make_shared<ir::SourceFile>(ir::SourceFile{name, text, 1});
  return program;
}

Program Program::fromFile(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    throw Error(Error::Kind::User, "cannot read '" + path + "'");
  }
  return fromText(text.str(), path);
}

Kernel Program::compile(const std::string &kernel, const std::string &target,
                        const std::map<std::string, ParameterType> &types,
                        const std::map<std::string, Constant> &constants,
                        const CompileOptions &options,
                        const std::map<std::string, Constant> &globals) const {
  return translated([&] {
    const auto function = contentOf(impl, "Program").function(kernel);
    std::map<std::string, frontend::Value> table;
    for (const auto &[name, value] : globals) {
      table.emplace(name, toValue(value));
    }
    frontend::TableHost host(std::move(table));
    const frontend::FunctionSource &source = function->source();
    refuseUnknown(types, source);
    refuseUnknown(constants, source);
    frontend::Signature signature;
    for (const frontend::ParameterSource &param : source.params) {
      signature.arguments.push_back(toArgument(param, types, constants));
    }
    Kernel result;
    result.impl = std::make_shared<Kernel::Impl>();
    result.impl->kernel = function->compile(signature, codegen::findTarget(target),
                                            toOptions(options), host).kernel;
    result.impl->target = result.impl->kernel->target().name;
    return result;
  });
}

namespace {

runtime::CallArgument toCallArgument(const Argument &argument) {
  using Kind = runtime::CallArgument::Kind;
  runtime::CallArgument made;
  made.bits = argument.bits;
  made.bytes = argument.bytes;
  switch (argument.kind) {
  case Argument::Kind::Pointer:
    made.kind = Kind::Pointer;
    break;
  case Argument::Kind::Bool:
    made.kind = Kind::Bool;
    break;
  case Argument::Kind::Int:
    made.kind = Kind::Int;
    break;
  case Argument::Kind::Float32:
  case Argument::Kind::Float64:
    made.kind = Kind::Float;
    break;
  }
  return made;
}

} // namespace

void Kernel::launch(const Device &device, std::array<int64_t, 3> grid,
                    const std::vector<Argument> &arguments, void *stream) const {
  translated([&] {
    Impl &content = contentOf(impl, "Kernel");
    const auto &parameters = content.kernel->parameters();
    if (arguments.size() != parameters.size()) {
      throw ir::UserError("the kernel takes " + std::to_string(parameters.size()) +
                          " run-time arguments, not " + std::to_string(arguments.size()));
    }
    if (arguments.size() > runtime::kMaxArguments) {
      throw ir::UserError("a launch has at most " + std::to_string(runtime::kMaxArguments) + " arguments");
    }
    uint64_t slots[runtime::kMaxArguments];
    runtime::Extent extents[runtime::kMaxArguments];
    for (size_t i = 0; i < parameters.size(); ++i) {
      const runtime::CallArgument given = toCallArgument(arguments[i]);
      const std::string name = "argument " + std::to_string(i);
      if (!runtime::encodeSlot(parameters[i].dtype, given, slots[i])) {
        throw ir::UserError(name + ": " + runtime::describeMisfit(parameters[i].dtype, given));
      }
      if (static_cast<int64_t>(slots[i]) % parameters[i].divisible != 0) {
        throw ir::UserError(name + " is not a multiple of " + std::to_string(parameters[i].divisible) +
                            ", as the kernel was promised");
      }
      extents[i] = {given.bits, given.bits + given.bytes};
    }
    content.on(contentOf(device.impl, "Device").driver)
        .run({slots, parameters.size()}, {extents, parameters.size()}, grid.data(), stream);
  });
}

std::string Kernel::text(const std::string &stage) const {
  return translated([&] { return contentOf(impl, "Kernel").kernel->text(stage); });
}
std::vector<std::string> Kernel::stages() const {
  return translated([&] { return contentOf(impl, "Kernel").kernel->stages(); });
}
const std::vector<std::string> &Kernel::fallbacks() const {
  return contentOf(impl, "Kernel").kernel->preferred().fallbacks;
}
const std::string &Kernel::target() const { return contentOf(impl, "Kernel").target; }

void interruptLaunches() noexcept { runtime::interruptLaunches(); }
void setNumThreads(int threads) { runtime::setPoolThreads(threads); }
int numThreads() { return runtime::poolThreads(); }
const char *version() { return LIBTILE_VERSION; }

} // namespace libtile
