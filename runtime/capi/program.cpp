// SPDX-License-Identifier: Apache-2.0
// libtile_c.h: programs, their functions, and launches by arguments.
#include "runtime/capi/arguments.h"
#include "runtime/capi/constants.h"
#include "runtime/float_environment.h"

#include <fstream>
#include <sstream>

using namespace libtile;
using capi::contentOf;
using capi::guarded;
using capi::notNull;

namespace {

void makeProgram(std::string text, std::string name, libtile_program **out) {
  auto made = std::make_unique<libtile_program>();
  made->file = std::make_shared<ir::SourceFile>(ir::SourceFile{std::move(name), std::move(text), 1});
  *notNull(out, "the place for the program") = made.release();
}

std::vector<capi::Parameter> parametersOf(const frontend::FunctionSource &source, frontend::Host &host,
                                          std::deque<frontend::Value> &kept) {
  if (source.params.size() > runtime::kMaxArguments) {
    throw ir::UserError("'" + source.name + "' has more than " + std::to_string(runtime::kMaxArguments) +
                        " parameters");
  }
  std::vector<capi::Parameter> made;
  for (const frontend::ParameterSource &param : source.params) {
    capi::Parameter row{param.name, param.kind, param.isConstexpr, {}, {}};
    if (param.isConstexpr) {
      row.option = runtime::findOption(param.name);
    }
    if (param.hasDefault) {
      row.defaults = capi::argumentsFor(frontend::defaultValue(source, made.size(), host),
                                        param.isConstexpr, kept);
    }
    made.push_back(std::move(row));
  }
  return made;
}

// With the program's mutex held.
libtile_function *findOrMake(libtile_program &program, const std::string &name) {
  if (const auto known = program.functions.find(name); known != program.functions.end()) {
    return known->second.get();
  }
  const runtime::FloatEnvironment standard; // for the text's numbers
  auto source = frontend::parseFunction(program.file, name);
  if (source->name != name) { // "": the only one
    return findOrMake(program, source->name);
  }
  auto host = program.host;
  if (host == nullptr) {
    host = std::make_shared<frontend::TableHost>(program.globals);
  }
  capi::Owned<libtile_function> made(new libtile_function(std::move(source), host));
  program.host = std::move(host);
  return program.functions.emplace(name, std::move(made)).first->second.get();
}

const runtime::Options &optionsOf(const libtile_options *options) {
  static const runtime::Options standard;
  return options != nullptr ? options->options : standard;
}

uint32_t idOf(const runtime::Options &options, const runtime::LaunchDevice &device) {
  return options.normalised(device.target).id();
}

// Of the options that a call has: those given, or what its keywords make of them.
uint32_t optionsId(const capi::Call &call, libtile_options *given, const runtime::LaunchDevice &device) {
  if (call.options() != nullptr) {
    return idOf(*call.options(), device);
  }
  if (given == nullptr) {
    return 0;
  }
  return given->ids.on(device, [&] { return std::make_unique<uint32_t>(idOf(given->options, device)); });
}

} // namespace

libtile_function::libtile_function(std::shared_ptr<const frontend::FunctionSource> source,
                                   std::shared_ptr<frontend::TableHost> host)
    : host(std::move(host)), launcher(source),
      parameters(parametersOf(*source, *this->host, kept)) {
  constant.kind = runtime::CallArgument::Kind::Constant;
  constant.bits = capi::nextConstant();
  constant.value = &kept.emplace_back(std::move(source));
}

// ---- programs

libtile_status libtile_program_from_text(const char *text, size_t length, const char *name,
                                         libtile_program **out) {
  return guarded([&] {
    makeProgram(std::string(notNull(text, "the text"), length), name != nullptr ? name : "<text>", out);
  });
}
libtile_status libtile_program_from_file(const char *path, libtile_program **out) {
  return guarded([&] {
    std::ifstream stream(notNull(path, "the path"), std::ios::binary);
    std::ostringstream text;
    if (!stream || !(text << stream.rdbuf())) {
      throw ir::UserError("cannot read '" + std::string(path) + "'");
    }
    makeProgram(text.str(), path, out);
  });
}
void libtile_program_retain(libtile_program *program) { capi::retain(program); }
void libtile_program_release(libtile_program *program) { capi::release(program); }

libtile_status libtile_program_set_global(libtile_program *program, const char *name,
                                          const libtile_argument *value, size_t count) {
  return guarded([&] {
    libtile_program &content = contentOf(program, "program");
    const std::string wanted = notNull(name, "the global's name");
    frontend::Value made = capi::constantOf(capi::listOf(value, count, "the global's value"), wanted);
    const runtime::CompileScope scope; // a fork waits
    const std::lock_guard lock(content.mutex);
    if (content.host != nullptr) {
      throw ir::UserError("'" + wanted + "' comes too late: globals are given before the program's first "
                          "function is taken");
    }
    content.globals.insert_or_assign(wanted, std::move(made));
  });
}

libtile_status libtile_program_function(libtile_program *program, const char *name, libtile_function **out) {
  return guarded([&] {
    libtile_program &content = contentOf(program, "program");
    notNull(out, "the place for the function");
    const std::string wanted = notNull(name, "the function's name");
    const runtime::CompileScope scope; // a fork waits
    const std::lock_guard lock(content.mutex);
    libtile_function *found = findOrMake(content, wanted);
    capi::retain(found);
    *out = found;
  });
}

// ---- functions

void libtile_function_retain(libtile_function *function) { capi::retain(function); }
void libtile_function_release(libtile_function *function) { capi::release(function); }
libtile_status libtile_function_clear(libtile_function *function) {
  return guarded([&] { contentOf(function, "function").launcher.clear(); });
}

libtile_status libtile_launch(libtile_function *function, libtile_device *device, const int64_t grid[3],
                              const libtile_argument *arguments, size_t count, libtile_options *options,
                              void *stream) {
  return guarded([&] {
    libtile_function &content = contentOf(function, "function");
    const runtime::LaunchDevice &on = contentOf(device, "device").device;
    const runtime::Options &given = optionsOf(options);
    notNull(grid, "the grid");
    capi::Call call;
    capi::bind(content, capi::listOf(arguments, count, "the list of arguments"), given,
               capi::Takes::Values, call);
    content.launcher.launch(on, call.arguments(), call.extents(),
                            call.options() != nullptr ? *call.options() : given,
                            optionsId(call, options, on), grid, stream, *content.host);
  });
}

libtile_status libtile_function_compile(libtile_function *function, const char *target,
                                        const libtile_argument *arguments, size_t count,
                                        libtile_options *options, libtile_kernel **out) {
  return guarded([&] {
    libtile_function &content = contentOf(function, "function");
    const runtime::Options &given = optionsOf(options);
    notNull(out, "the place for the kernel");
    const ir::Target &wanted = codegen::findTarget(notNull(target, "the target's name"));
    capi::Call call;
    capi::bind(content, capi::listOf(arguments, count, "the list of arguments"), given,
               capi::Takes::Types, call);
    *out = new libtile_kernel(content.launcher
                                  .compile(call.arguments(), wanted,
                                           call.options() != nullptr ? *call.options() : given,
                                           *content.host)
                                  .kernel);
  });
}
