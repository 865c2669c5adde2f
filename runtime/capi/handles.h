// SPDX-License-Identifier: Apache-2.0
// What the implementation files of libtile_c.h share: the contents of its handles, and how a call begins
// and ends.
#pragma once

#include "runtime/capi/per_device.h"
#include "runtime/errors.h"
#include "runtime/launcher.h"
#include "runtime/libtile_c.h"

#include <cstring>
#include <deque>

namespace libtile::capi {

// Begins with one reference, the caller's.
struct Counted {
  std::atomic<uint32_t> references{1};
};
template <class T> void retain(T *handle) noexcept {
  if (handle != nullptr) {
    handle->references.fetch_add(1, std::memory_order_relaxed);
  }
}
template <class T> void release(T *handle) noexcept {
  if (handle != nullptr && handle->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete handle;
  }
}
struct Release {
  template <class T> void operator()(T *handle) const noexcept { release(handle); }
};
template <class T> using Owned = std::unique_ptr<T, Release>;

// Texts as C takes them; they live as long as this does.
class Texts {
public:
  explicit Texts(std::vector<std::string> given) : texts_(std::move(given)) {
    for (const std::string &text : texts_) {
      pointers_.push_back(text.c_str());
    }
  }
  Texts(const Texts &) = delete;
  Texts &operator=(const Texts &) = delete;
  // Null places are the user's error; `what`: the name of the first.
  void give(const char *const **texts, size_t *count, const char *what) const;

private:
  std::vector<std::string> texts_;
  std::vector<const char *> pointers_;
};

// A parameter as binding needs it.
struct Parameter {
  std::string name;
  frontend::ParameterSource::Kind kind;
  bool isConstexpr = false;
  // Constexpr, and of an option's name.
  std::optional<runtime::Option> option;
  // As a flat list; empty: there is none.
  std::vector<runtime::CallArgument> defaults;
};

} // namespace libtile::capi

struct libtile_options : libtile::capi::Counted {
  libtile::runtime::Options options;
  libtile::capi::PerDevice<uint32_t> ids; // of what the device's target makes of them
};

struct libtile_program : libtile::capi::Counted {
  std::shared_ptr<const libtile::ir::SourceFile> file;
  std::mutex mutex; // of what follows
  std::map<std::string, libtile::frontend::Value> globals;
  std::shared_ptr<libtile::frontend::TableHost> host; // null until the first function is taken
  std::map<std::string, libtile::capi::Owned<libtile_function>> functions;
};

struct libtile_function : libtile::capi::Counted {
  explicit libtile_function(std::shared_ptr<const libtile::frontend::FunctionSource> source,
                            std::shared_ptr<libtile::frontend::TableHost> host);
  std::shared_ptr<libtile::frontend::TableHost> host;
  libtile::runtime::Launcher launcher;
  std::deque<libtile::frontend::Value> kept; // what follows points to these
  libtile::runtime::CallArgument constant;   // the function itself as an argument
  std::vector<libtile::capi::Parameter> parameters;
};

struct libtile_device : libtile::capi::Counted {
  explicit libtile_device(libtile::runtime::LaunchDevice &device) : device(device) {}
  libtile::runtime::LaunchDevice &device;
};

struct libtile_buffer : libtile::capi::Counted {
  libtile_buffer(std::shared_ptr<libtile::runtime::Driver> owner, size_t size)
      : driver(std::move(owner)), data(driver->allocate(size)), bytes(size) {}
  ~libtile_buffer() { driver->free(data); }
  libtile_buffer(const libtile_buffer &) = delete;
  libtile_buffer &operator=(const libtile_buffer &) = delete;
  std::shared_ptr<libtile::runtime::Driver> driver;
  void *data;
  size_t bytes;
};

struct libtile_kernel : libtile::capi::Counted {
  explicit libtile_kernel(std::shared_ptr<const libtile::runtime::Compiled> made);
  std::shared_ptr<const libtile::runtime::Compiled> compiled;
  libtile::capi::PerDevice<libtile::runtime::Executable> executables;
  libtile::capi::Texts lines[4]; // by LIBTILE_STAGES ...
  std::mutex mutex;
  std::map<std::string, std::string> texts; // stages and "state", once asked for
};

namespace libtile::capi {

// ---- a call

void setError(const std::exception &error) noexcept;
[[nodiscard]] libtile_status lastStatus() noexcept;

template <class F> libtile_status guarded(F &&body) noexcept {
  try {
    body();
    return LIBTILE_OK;
  } catch (const std::exception &error) {
    setError(error);
  } catch (...) {
    setError(ir::InternalError("an exception of an unknown kind"));
  }
  return lastStatus();
}

// What a pointer leads to; null is the user's error.
template <class T> T &contentOf(T *handle, const char *what) {
  if (handle == nullptr) {
    throw ir::UserError(std::string("the ") + what + " is an empty handle");
  }
  return *handle;
}
template <class T> T *notNull(T *pointer, const char *what) {
  if (pointer == nullptr) {
    throw ir::UserError(std::string(what) + " is NULL");
  }
  return pointer;
}
template <class T> std::span<const T> listOf(const T *items, size_t count, const char *what) {
  return {count != 0 ? notNull(items, what) : items, count};
}

inline void Texts::give(const char *const **texts, size_t *count, const char *what) const {
  notNull(texts, what);
  *notNull(count, "count") = pointers_.size();
  *texts = pointers_.data();
}

// The size of a struct in the first version of libtile that has it: callers' are not smaller.
template <class T> constexpr size_t kFirstSize = 0;
template <> inline constexpr size_t kFirstSize<libtile_error> = 56;
template <> inline constexpr size_t kFirstSize<libtile_facts> = 88;

// Fills the caller's struct as far as it knows of ours; what ours does not have is 0.
template <class T> void give(T *out, T made) {
  constexpr size_t kMost = 4096; // of any later version: more is no size
  static_assert(kFirstSize<T> != 0 && sizeof(T) >= kFirstSize<T> && sizeof(T) <= kMost);
  const size_t size = notNull(out, "the struct")->size;
  if (size < kFirstSize<T> || size > kMost) {
    throw ir::UserError("the struct's size is " + std::to_string(size) + ": set it to sizeof, which is " +
                        std::to_string(sizeof made) + " here");
  }
  made.size = size;
  std::memset(static_cast<void *>(out), 0, size);
  std::memcpy(static_cast<void *>(out), &made, std::min(size, sizeof made));
}

} // namespace libtile::capi
