// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/machine_code.h"

#include "runtime/cache/cache_settings.h"
#include "runtime/cache/disk_cache.h"

namespace libtile::runtime {

std::string findOrAssemble(const AssemblySource &source, const std::function<std::string()> &assemble) {
  const CacheSettings settings = cacheSettings();
  if (!settings.isOn || settings.folder.empty()) {
    return assemble();
  }
  const DiskCache cache(settings.folder, settings.maxBytes);
  const std::string_view parts[] = {"machine code of a whole program", source.text, source.architecture, source.assembler,
                                    source.lines ? "lines" : ""};
  const CacheKey key = makeCacheKey(parts);
  if (std::optional<std::string> found = cache.find(key)) {
    return std::move(*found);
  }
  std::string made = assemble();
  if (!made.empty()) {
    static_cast<void>(cache.store(key, made)); // a cache that cannot is as good as none
  }
  return made;
}

} // namespace libtile::runtime
