// SPDX-License-Identifier: Apache-2.0
// bindings.h: devices, facts about compiled kernels, and the process.
#include "runtime/bindings/internal.h"
#include "runtime/fork.h"
#include "runtime/drivers/thread_pool.h"

#include <algorithm>

using namespace libtile;
using bindings::guarded;
using bindings::keepText;

namespace {

std::string joined(const std::vector<std::string> &items, const char *between) {
  std::string text;
  for (const std::string &item : items) {
    text += (text.empty() ? "" : between) + item;
  }
  return text;
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
  case ir::Guard::Kind::Disjoint:
    return name(guard.param) + " and " + name(guard.value) + " do not overlap";
  }
  return {};
}

std::string guardLines(const runtime::Compiled &kernel) {
  std::vector<std::string> lines;
  for (const ir::Guard &guard : kernel.preferred().guards) {
    lines.push_back(guardText(guard, kernel.parameterNames()));
  }
  return joined(lines, "\n");
}

std::string propertyLines(const lt_kernel &kernel) {
  std::vector<std::string> lines;
  if (kernel.executable != nullptr) {
    for (const auto &[name, value] : kernel.executable->properties()) {
      lines.push_back(name + " " + std::to_string(value));
    }
  }
  return joined(lines, "\n");
}

struct Fact {
  const char *name;
  std::string (*text)(const lt_kernel &kernel);
};
const runtime::Variant &variant(const lt_kernel &kernel) { return kernel.compiled->preferred(); }
const Fact kFacts[] = {
    {"name", [](const lt_kernel &k) { return k.compiled->name(); }},
    {"target", [](const lt_kernel &k) { return k.compiled->target().name; }},
    {"signature", [](const lt_kernel &k) { return k.compiled->signature(); }},
    {"stages", [](const lt_kernel &k) { return joined(k.compiled->stages(), "\n"); }},
    {"fallbacks", [](const lt_kernel &k) { return joined(variant(k).fallbacks, "\n"); }},
    {"guards", [](const lt_kernel &k) { return guardLines(*k.compiled); }},
    {"properties", propertyLines},
    {"symbol", [](const lt_kernel &k) { return variant(k).code.info.symbol; }},
    {"threads", [](const lt_kernel &k) { return std::to_string(variant(k).code.info.threads); }},
    {"num_warps", [](const lt_kernel &k) { return std::to_string(variant(k).numWarps); }},
    {"num_stages", [](const lt_kernel &k) { return std::to_string(variant(k).numStages); }},
    {"shared_bytes", [](const lt_kernel &k) { return std::to_string(variant(k).code.info.sharedBytes); }},
    {"scratch_bytes", [](const lt_kernel &k) { return std::to_string(variant(k).code.info.scratchBytes); }},
    {"frontend_ms", [](const lt_kernel &k) { return std::to_string(k.compiled->frontendMs); }},
    {"backend_ms", [](const lt_kernel &k) { return std::to_string(k.compiled->backendMs); }},
};

} // namespace

// ---- devices

lt_device *lt_device_open(const char *name) {
  return guarded<lt_device *>(nullptr, [&] {
    return reinterpret_cast<lt_device *>(&runtime::openLaunchDevice(name));
  });
}
const char *lt_device_name(const lt_device *device) { return unwrap(device).name.c_str(); }
const char *lt_device_target(const lt_device *device) { return unwrap(device).target.name.c_str(); }
const char *lt_devices(void) {
  return guarded<const char *>("cpu", [] { return keepText(joined(runtime::availableDrivers(), ",")); });
}
const char *lt_targets(void) {
  return guarded<const char *>("", [] { return keepText(joined(codegen::targetNames(), ",")); });
}
lt_status lt_allocate(lt_device *device, size_t bytes, void **out) {
  return guarded(LT_ERROR, [&] {
    *out = unwrap(device).driver->allocate(bytes);
    return LT_OK;
  });
}
void lt_free(lt_device *device, void *memory) { unwrap(device).driver->free(memory); }
lt_status lt_copy(lt_device *device, void *to, const void *from, size_t bytes, int to_device) {
  return guarded(LT_ERROR, [&] {
    if (to_device != 0) {
      unwrap(device).driver->copyToDevice(to, from, bytes);
    } else {
      unwrap(device).driver->copyToHost(to, from, bytes);
    }
    return LT_OK;
  });
}
lt_status lt_synchronize(lt_device *device, void *stream) {
  return guarded(LT_ERROR, [&] {
    unwrap(device).driver->synchronize(stream);
    return LT_OK;
  });
}
lt_status lt_fill(lt_device *device, void *memory, int byte, size_t bytes) {
  return guarded(LT_ERROR, [&] {
    unwrap(device).driver->fill(memory, byte, bytes);
    return LT_OK;
  });
}
int lt_device_of(const void *address) { return runtime::cudaDeviceOf(address); }
size_t lt_cache_bytes(lt_device *device) {
  return guarded<size_t>(0, [&] { return unwrap(device).driver->cacheBytes(); });
}
lt_status lt_record_time(lt_device *device, void *stream, void **out) {
  return guarded(LT_ERROR, [&] {
    *out = unwrap(device).driver->recordTime(stream);
    return LT_OK;
  });
}
lt_status lt_milliseconds(lt_device *device, void *start, void *stop, double *out) {
  return guarded(LT_ERROR, [&] {
    *out = unwrap(device).driver->millisecondsBetween(start, stop);
    return LT_OK;
  });
}
void lt_free_time(lt_device *device, void *time) { unwrap(device).driver->freeTime(time); }

// ---- compiled kernels

void lt_kernel_free(lt_kernel *kernel) { delete kernel; }
const char *lt_kernel_fact(const lt_kernel *kernel, const char *fact) {
  return guarded<const char *>(nullptr, [&]() -> const char * {
    for (const Fact &row : kFacts) {
      if (std::string_view(row.name) == fact) {
        return keepText(row.text(*kernel));
      }
    }
    throw ir::UserError("there is no fact '" + std::string(fact) + "'");
  });
}
const char *lt_kernel_text(const lt_kernel *kernel, const char *stage) {
  return guarded<const char *>(nullptr, [&] { return keepText(kernel->compiled->text(stage)); });
}
size_t lt_kernel_num_answers(const lt_kernel *kernel) { return kernel->answers->size(); }
void *lt_kernel_answer(const lt_kernel *kernel, size_t index, const char **name) {
  const frontend::HostAnswer &answer = (*kernel->answers)[index];
  *name = answer.name.c_str();
  return bindings::objectOf(answer.function != nullptr ? answer.function->host : answer.object);
}

// ---- types and the language

int lt_dtype(const char *name) {
  return guarded(-1, [&] {
    const auto dtype = frontend::DType::byName(name);
    return dtype ? static_cast<int>(runtime::encodeType(*dtype)) : -1;
  });
}
size_t lt_dtype_bytes(int code) {
  return (ir::bitWidth(runtime::decodeType(static_cast<uint16_t>(code)).elem) + 7) / 8;
}
const char *lt_dtype_name(int code) {
  return guarded<const char *>(
      "", [&] { return keepText(runtime::decodeType(static_cast<uint16_t>(code)).name()); });
}

namespace {

struct LanguageRow {
  const char *sort, *name, *kind, *signature, *doc;
};
constexpr LanguageRow kLanguage[] = {
#define OPERATION(name, function, kind, signature, doc) {"operation", name, #kind, signature, doc},
#define LIBRARY(name, kind, signature, doc) {"operation", name, #kind, signature, doc},
#define DTYPE(name, short) {"dtype", name, short, "", ""},
#define LANGUAGE_MODULE(name) {"module", name, "", "", ""},
#define LANGUAGE_ENUM(name, members) {"enum", name, members, "", ""},
#define LATER(name) {"later", name, "", "", ""},
#include "frontend/language.def"
};

// Fields and rows are separated by control characters that no text holds.
std::string languageText() {
  std::string text;
  for (const LanguageRow &row : kLanguage) {
    for (const char *field : {row.sort, row.name, row.kind, row.signature, row.doc}) {
      text += field;
      text += '\x1f';
    }
    text += '\x1e';
  }
  return text;
}

} // namespace

const char *lt_language(void) {
  return guarded<const char *>("", [] { return keepText(languageText()); });
}

// ---- process

void lt_before_fork(void) { runtime::beforeFork(); }
void lt_after_fork(int is_child) { runtime::afterFork(is_child != 0); }
void lt_set_num_threads(int threads) {
  guarded(0, [&] {
    runtime::setPoolThreads(threads);
    return 0;
  });
}
int lt_num_threads(void) { return runtime::poolThreads(); }
