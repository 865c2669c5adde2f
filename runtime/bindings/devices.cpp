// SPDX-License-Identifier: Apache-2.0
// bindings.h: devices, facts about compiled kernels, and the process.
#include "runtime/bindings/cache.h"
#include "runtime/bindings/counting.h"
#include "runtime/bindings/internal.h"
#include "runtime/cache/cache_settings.h"
#include "runtime/cache/kernel_state.h"
#include "runtime/drivers/ptxas.h"
#include "runtime/drivers/thread_pool.h"
#include "runtime/fork.h"
#include "runtime/interpreter/interpreter.h"
#include "runtime/interpreter/work.h"

#include <algorithm>

using namespace libtile;
using bindings::guarded;
using bindings::keepText;

namespace {

const runtime::Variant &variant(const lt_kernel &kernel) { return kernel.compiled->preferred(); }

const char *textAt(const std::vector<std::string> &texts, size_t index) {
  return index < texts.size() ? keepText(texts[index]) : nullptr;
}

} // namespace

// ---- devices

lt_device *lt_device_open(const char *name) {
  return guarded<lt_device *>(nullptr, [&] {
    return reinterpret_cast<lt_device *>(&runtime::openLaunchDevice(name));
  });
}
const char *lt_device_name(const lt_device *device) { return unwrap(device).name.c_str(); }
const char *lt_device_target(const lt_device *device) { return unwrap(device).target.name.c_str(); }
const char *lt_device_at(size_t index) {
  return guarded<const char *>(nullptr, [&] { return textAt(runtime::availableDrivers(), index); });
}
const char *lt_target_at(size_t index) {
  return guarded<const char *>(nullptr, [&] { return textAt(codegen::targetNames(), index); });
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
int lt_device_of(const void *address) {
  if (const int cuda = runtime::cudaDeviceOf(address); cuda >= 0) {
    return LT_CUDA + cuda;
  }
  const int hip = runtime::hipDeviceOf(address);
  return hip < 0 ? -1 : LT_HIP + hip;
}
size_t lt_cache_bytes(lt_device *device) {
  return guarded<size_t>(0, [&] { return unwrap(device).driver->cacheBytes(); });
}
const char *lt_device_model(lt_device *device) {
  return guarded<const char *>(nullptr, [&] { return keepText(unwrap(device).driver->model()); });
}
const char *lt_device_property(lt_device *device, size_t index, int64_t *value) {
  return guarded<const char *>(nullptr, [&]() -> const char * {
    const auto properties = unwrap(device).driver->properties();
    if (index >= properties.size()) {
      return nullptr;
    }
    *value = properties[index].second;
    return keepText(properties[index].first);
  });
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
void lt_kernel_facts_of(const lt_kernel *kernel, lt_kernel_facts *out) {
  const runtime::Compiled &compiled = *kernel->compiled;
  const runtime::Variant &code = variant(*kernel);
  *out = {compiled.name().c_str(),
          compiled.target().name.c_str(),
          compiled.signature().c_str(),
          code.code.info.symbol.c_str(),
          code.cache.c_str(),
          code.numWarps,
          code.numStages,
          code.code.info.threads,
          code.code.info.sharedBytes,
          code.code.info.scratchBytes,
          compiled.frontendMs + compiled.backendMs};
}
const char *lt_kernel_stage(const lt_kernel *kernel, size_t index) {
  return guarded<const char *>(nullptr, [&] { return textAt(kernel->compiled->stages(), index); });
}
const char *lt_kernel_fallback(const lt_kernel *kernel, size_t index) {
  return guarded<const char *>(nullptr, [&] { return textAt(variant(*kernel).fallbacks, index); });
}
const char *lt_kernel_guard(const lt_kernel *kernel, size_t index) {
  return guarded<const char *>(nullptr, [&] { return textAt(kernel->compiled->guardTexts(), index); });
}
const char *lt_kernel_property(lt_kernel *kernel, size_t index, int64_t *value) {
  return guarded<const char *>(nullptr, [&]() -> const char * {
    const auto executable = kernel->loaded();
    if (executable == nullptr) {
      return nullptr;
    }
    const auto properties = executable->properties();
    if (index >= properties.size()) {
      return nullptr;
    }
    *value = properties[index].second;
    return keepText(properties[index].first);
  });
}
lt_status lt_kernel_load(lt_kernel *kernel, lt_device *device) {
  return guarded(LT_ERROR, [&] {
    auto executable = kernel->loaded();
    if (executable == nullptr) {
      executable = runtime::executableFor(kernel->compiled, unwrap(device).driver);
    }
    executable->load();
    const std::lock_guard lock(kernel->mutex);
    kernel->executable = std::move(executable);
    return LT_OK;
  });
}
const char *lt_kernel_state(const lt_kernel *kernel, size_t *length) {
  return guarded<const char *>(nullptr, [&] {
    std::string text = runtime::saveKernel(*kernel->compiled);
    *length = text.size();
    return keepText(std::move(text));
  });
}
lt_kernel *lt_kernel_restore(const char *state, size_t length) {
  return guarded<lt_kernel *>(nullptr, [&] {
    return new lt_kernel{runtime::restoreKernel({state, length}), nullptr};
  });
}
const char *lt_kernel_text(const lt_kernel *kernel, const char *stage) {
  return guarded<const char *>(nullptr, [&] { return keepText(kernel->compiled->text(stage)); });
}
const char *lt_kernel_code(const lt_kernel *kernel, size_t *length) {
  const std::vector<char> &code = kernel->compiled->preferred().code.object;
  *length = code.size();
  return code.data();
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

constexpr lt_language_row kLanguage[] = {
#define OPERATION(name, function, kind, signature, doc) {"operation", name, #kind, signature, doc},
#define LIBRARY(name, kind, signature, doc) {"operation", name, #kind, signature, doc},
#define LIBDEVICE(name, signature, overloads, doc)                                                 \
  {"operation", "extra.libdevice." name, "Function", signature, doc},
#define DTYPE(name, short) {"dtype", name, short, "", ""},
#define LANGUAGE_MODULE(name) {"module", name, "", "", ""},
#define LANGUAGE_NAMESPACE(name, of) {"namespace", name, of, "", ""},
#define LANGUAGE_ENUM(name, members) {"enum", name, members, "", ""},
#define LANGUAGE_CONSTANT(name, value) {"constant", name, #value, "", ""},
#define LATER(name) {"later", name, "", "", ""},
#include "frontend/language.def"
};

} // namespace

const lt_language_row *lt_language_rows(size_t *count) {
  *count = std::size(kLanguage);
  return kLanguage;
}

// ---- the cache on disk

lt_status lt_cache_set(const lt_cache *cache) {
  return guarded(LT_ERROR, [&] {
    runtime::chooseCache(cache->is_on, cache->folder, cache->max_bytes);
    return LT_OK;
  });
}
lt_status lt_cache_get(lt_cache *out) {
  return guarded(LT_ERROR, [&] {
    runtime::CacheSettings settings = runtime::cacheSettings();
    *out = {settings.isOn ? 1 : 0, keepText(std::move(settings.folder)), static_cast<int64_t>(settings.maxBytes)};
    return LT_OK;
  });
}
void lt_read_environment(void) {
  guarded(0, [] {
    runtime::readCacheEnvironment();
    return 0;
  });
}

// ---- process

void lt_before_fork(void) { runtime::beforeFork(); }
void lt_after_fork(int is_child) { runtime::afterFork(is_child != 0); }
void lt_offer_ptxas(const char *path) { runtime::offerPtxas(path); }
lt_status lt_set_num_threads(int64_t threads) {
  return guarded(LT_ERROR, [&] {
    runtime::setPoolThreads(threads);
    return LT_OK;
  });
}
int lt_check_portability(int wanted) {
  const bool before = runtime::interpreter::isPortabilityChecked();
  runtime::interpreter::checkPortability(wanted < 0 ? before : wanted != 0);
  return before ? 1 : 0;
}
void lt_begin_counting(int64_t most_programs) {
  runtime::interpreter::beginCounting(static_cast<uint64_t>(most_programs));
}
const char *lt_end_counting(void) {
  return guarded<const char *>(nullptr, [] {
    const runtime::interpreter::Work work = runtime::interpreter::endCounting();
    std::string text = "programs " + std::to_string(work.programs) + "\n";
    for (const auto &array : work.arrays) {
      text += "array " + std::to_string(array.loaded) + " " + std::to_string(array.stored) + " " + std::to_string(array.extent) + "\n";
    }
    for (const auto &[type, count] : work.operations) {
      text += "operations " + type + " " + std::to_string(count) + "\n";
    }
    return keepText(text);
  });
}
int lt_num_threads(void) {
  return guarded(-1, [] { return runtime::poolThreads(); });
}
