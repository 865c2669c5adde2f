// SPDX-License-Identifier: Apache-2.0
// libtile_c.h: errors, the library as a whole, options, devices and their memory.
#include "runtime/cache/cache_settings.h"
#include "runtime/capi/handles.h"
#include "runtime/drivers/launch_listener.h"
#include "runtime/drivers/thread_pool.h"
#include "runtime/drivers/watch.h"

using namespace libtile;
using capi::contentOf;
using capi::guarded;
using capi::notNull;

namespace {

#define LIBTILE_TEXT(x) #x
#define LIBTILE_VERSION_TEXT(major, minor, patch)                                                  \
  LIBTILE_TEXT(major) "." LIBTILE_TEXT(minor) "." LIBTILE_TEXT(patch)
static_assert(std::string_view(LIBTILE_VERSION) ==
              LIBTILE_VERSION_TEXT(LIBTILE_VERSION_MAJOR, LIBTILE_VERSION_MINOR, LIBTILE_VERSION_PATCH));
// What stays as it is.
static_assert(sizeof(libtile_argument) == 32 && sizeof(libtile_option) == 16);

struct LastError {
  libtile_status status = LIBTILE_OK;
  runtime::ErrorRecord record;
};
LastError &lastError() {
  static thread_local LastError error;
  return error;
}

libtile_status statusOf(runtime::ErrorKind kind) {
  switch (kind) {
  case runtime::ErrorKind::User:
    return LIBTILE_ERROR_USER;
  case runtime::ErrorKind::Unsupported:
    return LIBTILE_ERROR_UNSUPPORTED;
  case runtime::ErrorKind::Internal:
    return LIBTILE_ERROR_INTERNAL;
  case runtime::ErrorKind::Device:
    return LIBTILE_ERROR_DEVICE;
  }
  return LIBTILE_ERROR_INTERNAL;
}

} // namespace

// ---- errors

void capi::setError(const std::exception &error) noexcept {
  LastError &last = lastError();
  last.status = LIBTILE_ERROR_INTERNAL;
  try {
    last.record = runtime::describeError(error);
    last.status = statusOf(last.record.kind);
  } catch (...) { // no memory for the text: that of the error before stays
  }
}
libtile_status capi::lastStatus() noexcept { return lastError().status; }

libtile_status libtile_last_error(libtile_error *out) {
  return guarded([&] {
    const LastError &last = lastError();
    const runtime::ErrorRecord &record = last.record;
    capi::give(out, {sizeof *out, last.status, record.line, record.column, record.text.c_str(),
                     record.message.c_str(), record.file.c_str(), record.reproducer.c_str()});
  });
}

// ---- the library

const char *libtile_version(void) { return LIBTILE_VERSION; }
libtile_status libtile_devices(const char *const **names, size_t *count) {
  return guarded([&] {
    static const auto &all = *new capi::Texts(runtime::availableDrivers());
    all.give(names, count, "names");
  });
}
libtile_status libtile_targets(const char *const **names, size_t *count) {
  return guarded([&] {
    static const auto &all = *new capi::Texts(codegen::targetNames());
    all.give(names, count, "names");
  });
}
void libtile_interrupt_launches(void) { runtime::interruptLaunches(); }
libtile_status libtile_set_num_threads(int32_t threads) {
  return guarded([&] { runtime::setPoolThreads(threads); });
}
int32_t libtile_num_threads(void) {
  int32_t threads = 1;
  (void)guarded([&] { threads = runtime::poolThreads(); });
  return threads;
}

libtile_status libtile_set_printer(const libtile_printer *printer) {
  return guarded([&] {
    if (printer != nullptr) {
      notNull(printer->print, "the printer's function");
    }
    runtime::setPrinter(printer);
  });
}

libtile_status libtile_set_cache(int32_t is_on, const char *folder, int64_t max_bytes) {
  return guarded([&] {
    if (is_on < -1 || is_on > 1) {
      throw ir::UserError("a cache is on (1), off (0), or as the environment says (-1), not " + std::to_string(is_on));
    }
    runtime::chooseCache(is_on, folder, max_bytes);
  });
}

// ---- options

libtile_status libtile_options_create(const libtile_option *options, size_t count, libtile_options **out) {
  return guarded([&] {
    notNull(out, "the place for the options");
    auto made = std::make_unique<libtile_options>();
    for (const libtile_option &each : capi::listOf(options, count, "the list of options")) {
      const std::string name = notNull(each.name, "the option's name");
      const auto option = runtime::findOption(name);
      if (!option) {
        throw ir::UserError("there is no option '" + name + "'");
      }
      made->options.set(*option, each.value);
    }
    *out = made.release();
  });
}
void libtile_options_retain(libtile_options *options) { capi::retain(options); }
void libtile_options_release(libtile_options *options) { capi::release(options); }

// ---- devices

libtile_status libtile_device_open(const char *name, libtile_device **out) {
  return guarded([&] {
    notNull(out, "the place for the device");
    *out = new libtile_device(runtime::openLaunchDevice(notNull(name, "the device's name")));
  });
}
void libtile_device_retain(libtile_device *device) { capi::retain(device); }
void libtile_device_release(libtile_device *device) { capi::release(device); }
libtile_status libtile_device_name(libtile_device *device, const char **name) {
  return guarded([&] { *notNull(name, "name") = contentOf(device, "device").device.name.c_str(); });
}
libtile_status libtile_device_target(libtile_device *device, const char **target) {
  return guarded(
      [&] { *notNull(target, "target") = contentOf(device, "device").device.target.name.c_str(); });
}
libtile_status libtile_device_synchronize(libtile_device *device, void *stream) {
  return guarded([&] { contentOf(device, "device").device.driver->synchronize(stream); });
}
libtile_status libtile_copy_to_device(libtile_device *device, void *to, const void *from, size_t bytes) {
  return guarded([&] {
    runtime::Driver &driver = *contentOf(device, "device").device.driver;
    if (bytes != 0) {
      driver.copyToDevice(notNull(to, "to"), notNull(from, "from"), bytes);
    }
  });
}
libtile_status libtile_copy_to_host(libtile_device *device, void *to, const void *from, size_t bytes) {
  return guarded([&] {
    runtime::Driver &driver = *contentOf(device, "device").device.driver;
    if (bytes != 0) {
      driver.copyToHost(notNull(to, "to"), notNull(from, "from"), bytes);
    }
  });
}

// ---- buffers

libtile_status libtile_buffer_create(libtile_device *device, size_t bytes, libtile_buffer **out) {
  return guarded([&] {
    notNull(out, "the place for the buffer");
    *out = new libtile_buffer(contentOf(device, "device").device.driver, bytes);
  });
}
void libtile_buffer_retain(libtile_buffer *buffer) { capi::retain(buffer); }
void libtile_buffer_release(libtile_buffer *buffer) { capi::release(buffer); }
libtile_status libtile_buffer_data(libtile_buffer *buffer, void **address) {
  return guarded([&] { *notNull(address, "address") = contentOf(buffer, "buffer").data; });
}
libtile_status libtile_buffer_bytes(libtile_buffer *buffer, size_t *bytes) {
  return guarded([&] { *notNull(bytes, "bytes") = contentOf(buffer, "buffer").bytes; });
}
