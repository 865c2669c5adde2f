// SPDX-License-Identifier: Apache-2.0
// libtile_c.h: compiled kernels.
#include "runtime/cache/kernel_state.h"
#include "runtime/capi/arguments.h"

using namespace libtile;
using capi::contentOf;
using capi::guarded;
using capi::notNull;
using runtime::RuntimeParameter;

namespace {

constexpr const char *kState = "state";

// The text of that name, made on first use; it lives as long as the kernel.
template <class F>
void giveText(libtile_kernel &kernel, const std::string &name, F &&make, const char **text, size_t *length) {
  notNull(text, "text");
  notNull(length, "length");
  const runtime::CompileScope scope; // a fork waits
  const std::lock_guard lock(kernel.mutex);
  auto found = kernel.texts.find(name);
  if (found == kernel.texts.end()) {
    found = kernel.texts.emplace(name, make()).first;
  }
  *text = found->second.c_str();
  *length = found->second.size();
}

[[noreturn]] void refuse(const std::string &parameter, const std::string &why) {
  throw ir::UserError("argument '" + parameter + "'" + why);
}

// An argument of a call at the place of its parameter.
void put(const runtime::Compiled &kernel, size_t i, const libtile_argument &given, capi::Call &call) {
  const RuntimeParameter &parameter = kernel.parameters()[i];
  const std::string &name = kernel.tile().params[i].name;
  if (given.name != nullptr) {
    refuse(given.name, ": a compiled kernel takes arguments by position");
  }
  const runtime::CallArgument made = capi::convert(given, capi::Takes::Values, name);
  const bool isTyped = made.kind == runtime::CallArgument::Kind::Pointer && made.dtype != 0;
  frontend::DType pointee = parameter.dtype.isPointer() ? parameter.dtype.pointee() : parameter.dtype;
  pointee.isConst = false;
  if (isTyped && made.dtype != runtime::encodeType(pointee)) {
    refuse(name, ": an array of " + runtime::decodeType(made.dtype).name() + " does not fit " +
                     parameter.dtype.name());
  }
  call.put(parameter.argument, made);
}

void checkMultiples(const runtime::Compiled &kernel, const uint64_t *slots) {
  for (size_t i = 0; i < kernel.parameters().size(); ++i) {
    const int64_t divisible = kernel.parameters()[i].divisible;
    if (static_cast<int64_t>(slots[i]) % divisible != 0) {
      refuse(kernel.tile().params[i].name,
             " is not a multiple of " + std::to_string(divisible) + ", as the kernel was promised");
    }
  }
}

} // namespace

libtile_kernel::libtile_kernel(std::shared_ptr<const runtime::Compiled> made)
    : compiled(std::move(made)),
      lines{capi::Texts(compiled->stages()), capi::Texts(compiled->preferred().fallbacks),
            capi::Texts(compiled->guardTexts()), capi::Texts(compiled->parameterNames())} {}

void libtile_kernel_retain(libtile_kernel *kernel) { capi::retain(kernel); }
void libtile_kernel_release(libtile_kernel *kernel) { capi::release(kernel); }

libtile_status libtile_kernel_facts(libtile_kernel *kernel, libtile_facts *out) {
  return guarded([&] {
    const runtime::Compiled &compiled = *contentOf(kernel, "kernel").compiled;
    const runtime::Variant &variant = compiled.preferred();
    const codegen::KernelInfo &info = variant.code.info;
    capi::give(out, {sizeof *out, compiled.name().c_str(), compiled.target().name.c_str(),
                     compiled.signature().c_str(), info.symbol.c_str(), variant.numWarps,
                     variant.numStages, info.threads, info.sharedBytes, info.scratchBytes,
                     compiled.frontendMs + compiled.backendMs, variant.cache.c_str()});
  });
}

libtile_status libtile_kernel_lines(libtile_kernel *kernel, int32_t which, const char *const **lines,
                                    size_t *count) {
  return guarded([&] {
    const libtile_kernel &content = contentOf(kernel, "kernel");
    if (which < 0 || static_cast<size_t>(which) >= std::size(content.lines)) {
      throw ir::UserError("a kernel has no lines " + std::to_string(which));
    }
    content.lines[which].give(lines, count, "lines");
  });
}

libtile_status libtile_kernel_text(libtile_kernel *kernel, const char *stage, const char **text,
                                   size_t *length) {
  return guarded([&] {
    libtile_kernel &content = contentOf(kernel, "kernel");
    const std::string wanted = notNull(stage, "the stage");
    giveText(content, "stage " + wanted, [&] { return content.compiled->text(wanted); }, text, length);
  });
}

libtile_status libtile_kernel_save(libtile_kernel *kernel, const char **text, size_t *length) {
  return guarded([&] {
    libtile_kernel &content = contentOf(kernel, "kernel");
    giveText(content, kState, [&] { return runtime::saveKernel(*content.compiled); }, text, length);
  });
}
libtile_status libtile_kernel_restore(const char *text, size_t length, libtile_kernel **out) {
  return guarded([&] {
    notNull(out, "the place for the kernel");
    *out = new libtile_kernel(runtime::restoreKernel({notNull(text, "the text"), length}));
  });
}

libtile_status libtile_kernel_launch(libtile_kernel *kernel, libtile_device *device, const int64_t grid[3],
                                     const libtile_argument *arguments, size_t count, void *stream) {
  return guarded([&] {
    libtile_kernel &content = contentOf(kernel, "kernel");
    const runtime::LaunchDevice &on = contentOf(device, "device").device;
    const runtime::Compiled &compiled = *content.compiled;
    const std::vector<RuntimeParameter> &parameters = compiled.parameters();
    notNull(grid, "the grid");
    if (count != parameters.size() || count > runtime::kMaxArguments) {
      throw ir::UserError("the kernel takes " + std::to_string(parameters.size()) +
                          " run-time arguments, not " + std::to_string(count));
    }
    capi::Call call;
    for (size_t i = 0; i < count; ++i) {
      put(compiled, i, notNull(arguments, "the list of arguments")[i], call);
    }
    uint64_t slots[runtime::kMaxArguments];
    if (const RuntimeParameter *refused = runtime::fillSlots(compiled, call.places(), slots)) {
      const size_t i = static_cast<size_t>(refused - parameters.data());
      refuse(compiled.tile().params[i].name, runtime::describeRefusal(*refused, call.places()[refused->argument]));
    }
    checkMultiples(compiled, slots);
    runtime::Executable &executable = content.executables.on(
        on, [&] { return std::make_unique<runtime::Executable>(content.compiled, on.driver); });
    runtime::Extent storage[runtime::kMaxArguments];
    executable.run({slots, count}, runtime::gatherExtents(executable, call.extents(), storage), grid,
                   stream);
  });
}
