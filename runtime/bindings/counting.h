/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of bindings.h that is about what the interpreter counts (runtime/interpreter/work.h).
 */
#pragma once

#include "runtime/bindings/bindings.h"

/* Launches of this thread that are interpreted from here on are counted. */
LT_API void lt_begin_counting(int64_t most_programs);
/* What was counted since, a line each: "programs N"; "array LOADED STORED EXTENT", first of pointers of no parameter;
   "operations TYPE N". */
LT_API const char *lt_end_counting(void);
