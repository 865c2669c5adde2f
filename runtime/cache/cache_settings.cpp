// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/cache_settings.h"

#include "ir/diagnostic.h"
#include "runtime/environment.h"

#include <atomic>
#include <climits>
#include <cstdlib>

namespace libtile::runtime {

namespace {

constexpr int kStandardMegabytes = 1024;

bool isSet(const char *variable) {
  const char *text = std::getenv(variable);
  return text != nullptr && *text != 0;
}

std::string folderOfEnvironment() {
  for (const char *variable : {"LIBTILE_CACHE_DIR", "TRITON_CACHE_DIR"}) {
    if (isSet(variable)) {
      return std::getenv(variable);
    }
  }
  if (isSet("XDG_CACHE_HOME")) {
    return std::string(std::getenv("XDG_CACHE_HOME")) + "/libtile";
  }
  return isSet("HOME") ? std::string(std::getenv("HOME")) + "/.cache/libtile" : std::string();
}

CacheSettings settingsOfEnvironment() {
  CacheSettings read;
  read.isOn = environmentNumber("LIBTILE_CACHE", 1, 1) != 0;
  read.folder = folderOfEnvironment();
  const int megabytes = environmentNumber("LIBTILE_CACHE_MB", INT_MAX, kStandardMegabytes);
  read.maxBytes = static_cast<uint64_t>(megabytes) << 20;
  return read;
}

// What the environment says, or what is wrong with it.
struct Environment {
  CacheSettings settings;
  std::string trouble;
  friend bool operator==(const Environment &, const Environment &) = default;
};

Environment readEnvironment() {
  Environment read;
  try {
    read.settings = settingsOfEnvironment();
  } catch (const ir::UserError &error) {
    read.trouble = error.message();
  }
  return read;
}

// The value that counts, without a lock: one could be held at a fork, or wait for one. Values that counted before stay,
// since threads may still read them; a process has a few.
template <class T> class Latest {
public:
  [[nodiscard]] const T *get() const { return value_.load(std::memory_order_acquire); }
  void set(T value) {
    const T *last = get();
    if (last == nullptr || !(*last == value)) {
      value_.store(new T(std::move(value)), std::memory_order_release);
    }
  }

private:
  std::atomic<const T *> value_{nullptr};
};

Latest<Environment> environment;
Latest<CacheChoice> chosen;

} // namespace

void chooseCache(CacheChoice choice) { chosen.set(std::move(choice)); }

void chooseCache(int32_t isOn, const char *folder, int64_t maxBytes) {
  CacheChoice choice;
  choice.isOn = isOn >= 0 ? std::optional(isOn != 0) : std::nullopt;
  choice.folder = folder != nullptr ? std::optional<std::string>(folder) : std::nullopt;
  choice.maxBytes = maxBytes >= 0 ? std::optional(static_cast<uint64_t>(maxBytes)) : std::nullopt;
  chooseCache(std::move(choice));
}

void readCacheEnvironment() { environment.set(readEnvironment()); }

CacheSettings cacheSettings() {
  if (environment.get() == nullptr) {
    readCacheEnvironment();
  }
  const Environment &read = *environment.get();
  if (!read.trouble.empty()) {
    throw ir::UserError(read.trouble);
  }
  CacheSettings settings = read.settings;
  if (const CacheChoice *choice = chosen.get()) {
    settings.isOn = choice->isOn.value_or(settings.isOn);
    settings.folder = choice->folder.value_or(settings.folder);
    settings.maxBytes = choice->maxBytes.value_or(settings.maxBytes);
  }
  return settings;
}

} // namespace libtile::runtime
