// SPDX-License-Identifier: Apache-2.0
// The cache on disk: bytes that one process makes and later ones find, each under a key. What the bytes are
// is the affair of who stores them (variant_cache.h).
//
// The key is a strong hash of all that the bytes depend on, so that an entry is never out of date and
// never changed. An entry is one file:
//
//     FOLDER/kernels/ab/cdef...    the key in hexadecimal digits, of which two name a folder of entries
//
//     bytes  0- 7  "libtile\n"
//            8-15  version of this format
//           16-23  bytes of the content; these numbers are little-endian
//           24-55  the key
//           56-    the content
//     last   32    BLAKE3 of all that stands before
//
// Who finds an entry gets what was stored under that key, whole, or nothing. No call throws, ends the process or waits
// for another: a folder that is full, gone, read-only or somebody else's is as one without entries.
//   - An entry is written to a file of its own, "new-...", which is renamed when it is whole. One that a killed
//     process leaves behind is removed an hour later.
//   - FOLDER/kernels is made with mode 0700. One that is a link, another user's, or open to other users is
//     ignored. Nothing else in FOLDER is looked at.
//   - A folder of entries holds a 256th of the size that the cache may have. Who stores removes what was used
//     longest ago there; a use is seen in the file's time, which finding sets again after a minute. An entry that
//     is larger than such a folder may be is not stored.
//
// There is no state but the files: any number of threads and processes, forked ones too, may find and store at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace libtile::runtime {

using CacheKey = std::array<uint8_t, 32>;
// BLAKE3 of the parts, each with its length.
[[nodiscard]] CacheKey makeCacheKey(std::span<const std::string_view> parts) noexcept;

class DiskCache {
public:
  // Bytes of all entries together.
  DiskCache(std::string folder, uint64_t maxBytes) : folder_(std::move(folder) + "/kernels"), maxBytes_(maxBytes) {}

  // The content; nothing, for whatever reason.
  [[nodiscard]] std::optional<std::string> find(const CacheKey &key) const noexcept;
  // "", or why the content is not kept.
  [[nodiscard]] std::string store(const CacheKey &key, std::string_view content) const noexcept;
  // Where the entry of the key is, or would be.
  [[nodiscard]] std::string pathOf(const CacheKey &key) const;

private:
  std::string folder_;
  uint64_t maxBytes_;
};

} // namespace libtile::runtime
