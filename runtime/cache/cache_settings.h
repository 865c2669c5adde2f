// SPDX-License-Identifier: Apache-2.0
// Whether, where and how much compiled code is kept on disk.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace libtile::runtime {

struct CacheSettings {
  bool isOn = true;
  // Of caches, with other files in it perhaps. "": there is none.
  std::string folder;
  uint64_t maxBytes = 0; // of all that is kept
  friend bool operator==(const CacheSettings &, const CacheSettings &) = default;
};

// What the program says. The rest is as the environment says:
//   isOn      LIBTILE_CACHE, 0 or 1; 1
//   folder    LIBTILE_CACHE_DIR, TRITON_CACHE_DIR, or libtile in the user's folder of caches (XDG_CACHE_HOME,
//             $HOME/.cache): the first that is set and not empty
//   maxBytes  LIBTILE_CACHE_MB, in units of 2^20 bytes; 1024
struct CacheChoice {
  std::optional<bool> isOn;
  std::optional<std::string> folder;
  std::optional<uint64_t> maxBytes;
  friend bool operator==(const CacheChoice &, const CacheChoice &) = default;
};
void chooseCache(CacheChoice choice);
// As C has them: 0 or 1, a text, a number; -1, nullptr and -1: nothing.
void chooseCache(int32_t isOn, const char *folder, int64_t maxBytes);

// The environment as it is now counts from here on; until the first call as it is at the first use. Called where no
// other thread changes the environment.
void readCacheEnvironment();

// Throws UserError for a variable that says what it cannot mean.
[[nodiscard]] CacheSettings cacheSettings();

} // namespace libtile::runtime
