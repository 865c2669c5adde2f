// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/variant_cache.h"

#include "ir/printer.h"
#include "runtime/cache/build_id.h"
#include "runtime/cache/cache_settings.h"
#include "runtime/cache/disk_cache.h"
#include "runtime/cache/variant_bytes.h"

namespace libtile::runtime {

namespace {

// What a variant is called by: with places in the source, or without.
enum class Places : uint8_t { Without, With };

CacheKey keyOf(const VariantSource &source, Places places) {
  ir::PrintOptions print;
  print.locations = places == Places::With;
  const std::string tile = ir::print(source.tile, print), options = source.options.text();
  const ir::Target &target = source.target;
  const std::string relies = std::to_string(static_cast<int>(source.relies));
  const std::string_view parts[] = {buildId(),       target.name,           target.triple,
                                    target.cpu,      target.features,       options,
                                    source.disabledPasses, relies, tile};
  return makeCacheKey(parts);
}

bool namesPlaces(const Variant &variant) {
  const codegen::KernelInfo &info = variant.code.info;
  return !variant.fallbacks.empty() || !info.accesses.empty() || !info.messages.empty() || info.asserts || info.lines;
}

std::optional<Variant> find(const DiskCache &cache, const CacheKey &key) {
  const std::optional<std::string> bytes = cache.find(key);
  return bytes ? decodeVariant(*bytes) : std::nullopt;
}

} // namespace

Variant findOrCompile(const VariantSource &source, const std::function<Variant()> &compile) {
  const CacheSettings settings = cacheSettings();
  const char *unusable = !settings.isOn            ? "off"
                         : settings.folder.empty() ? "not stored: there is no folder for caches"
                         : buildId().empty()       ? "not stored: this build of libtile has no build id"
                                                   : nullptr;
  if (unusable != nullptr) {
    Variant made = compile();
    made.cache = unusable;
    return made;
  }
  const DiskCache cache(settings.folder, settings.maxBytes);
  const CacheKey without = keyOf(source, Places::Without);
  std::optional<Variant> found = find(cache, without);
  if (found) {
    found->cache = "hit";
    return std::move(*found);
  }
  const CacheKey with = keyOf(source, Places::With);
  if (found = find(cache, with); found) {
    found->cache = "hit";
    return std::move(*found);
  }
  Variant made = compile();
  const std::string why = cache.store(namesPlaces(made) ? with : without, encodeVariant(made));
  made.cache = why.empty() ? "stored" : "not stored: " + why;
  return made;
}

} // namespace libtile::runtime
