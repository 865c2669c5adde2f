/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of bindings.h that is about the cache on disk (runtime/cache/cache_settings.h).
 */
#pragma once

#include "runtime/bindings/bindings.h"

typedef struct lt_cache {
  int is_on;          /* to set: -1, NULL and -1 are as the environment says */
  const char *folder; /* of lt_cache_get: valid until the next call */
  int64_t max_bytes;
} lt_cache;
LT_API lt_status lt_cache_set(const lt_cache *cache);
LT_API lt_status lt_cache_get(lt_cache *out);
/* Before a compilation and lt_cache_get, with the interpreter's lock: that keeps others from changing the environment. */
LT_API void lt_read_environment(void);
