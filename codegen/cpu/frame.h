/* SPDX-License-Identifier: Apache-2.0
 *
 * The ABI of a CPU kernel: what compiled code and the program that calls it know of each other. This
 * header is its single source; it is C, so that whoever links a kernel's object can include it.
 *
 * A launch has one frame, which all threads share and none writes. Each call runs a range of programs
 * of the launch's grid, program = x + grid[0] * (y + grid[1] * z), in ascending order; the range and
 * the scratch of the calling thread go in registers:
 *
 *     libtile_frame frame = {.version = LIBTILE_FRAME_VERSION, .bytes = sizeof frame,
 *                            .arguments = slots, .grid = {x, y, z}, .status = &status};
 *     done = kernel(&frame, first, count, arena);
 *
 * The status word is how a launch ends early, from either side. Code looks at it after each program,
 * and returns if it is not RUN; and at each turn of a loop that may be long, where from ATTEND on it
 * asks poll(), and leaves the program if that says so. So whoever launches can take programs back for
 * other threads, and can end an endless loop. Higher values are more urgent.
 *
 * Code that checks its accesses compares each with the extents of the arrays that it may lie in. One that
 * lies in none of them is not made: code calls out_of_bounds(), raises the status word to STOP, and leaves
 * the program. What the program and others have written by then stays written.
 *
 * What a program prints it gives to message(), a record at a time. An assertion that fails is a record, too;
 * then code raises the status word to STOP, and leaves the program.
 *
 * Stores may go past the caches where a launch makes so many that these keep none of it; how much that is the
 * launcher says. Code returns when they are done.
 *
 * A program may leave something in its arena for the next one of the launch that runs in the same thread. Who
 * says so in the frame gives a thread the same arena at each call of a launch, the first time with zeros in its
 * first 8 bytes, and lets nobody else write to it in between.
 *
 * Fields are appended only. The version rises with each change of what stands; code runs under the
 * version that it was made for.
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LIBTILE_FRAME_VERSION 4

/* The values of the status word. */
enum {
  LIBTILE_RUN = 0,
  LIBTILE_RETURN = 1, /* come back after this program */
  LIBTILE_ATTEND = 2, /* and ask poll() within it */
  LIBTILE_STOP = 3    /* and above: the launch ends; programs that have not begun do not begin */
};

/* The bytes of an array: begin <= address < end. Both 0: not known, and not checked. */
typedef struct libtile_extent {
  uint64_t begin, end;
} libtile_extent;

/* The head of a record. Behind it stands one address for each value that is printed, of the value's elements
   in row-major order; these, and the record, are there as long as the call lasts. */
typedef struct libtile_record {
  uint32_t kind;
  uint32_t message; /* its index in KernelInfo::messages */
  uint64_t program;
} libtile_record;
enum { LIBTILE_PRINT = 0, LIBTILE_ASSERT = 1 }; /* of `kind` */

typedef struct libtile_frame libtile_frame;
struct libtile_frame {
  uint32_t version; /* LIBTILE_FRAME_VERSION */
  uint32_t bytes;   /* of the frame */
  /* One 8-byte slot an argument, its value in the low bytes. */
  const uint64_t *arguments;
  int32_t grid[3]; /* each >= 1 */
  uint32_t reserved;
  /* Written by several threads: read and written atomically. A program that gives up sets STOP. */
  uint32_t *status;
  /* Asked from ATTEND on; not 0: leave the program. NULL: only where nobody sets that. */
  uint32_t (*poll)(const libtile_frame *frame);
  void *launcher; /* poll's own */
  /* Takes what programs print and assert, a libtile_record of so many bytes, from any thread. NULL: nobody
     listens. */
  void (*message)(void *context, const void *record, uint64_t bytes);
  void *message_context;
  /* One an argument, for code that checks its accesses. NULL: none is known. */
  const libtile_extent *extents;
  /* Told of an access that is out of bounds, by any thread: which of the code's accesses it is (its index
     in KernelInfo::accesses); how many consecutive elements of that it was about to touch from `address` on,
     one of which is out of bounds at least; and in which program. NULL only where `extents` is. */
  void (*out_of_bounds)(void *context, uint32_t access, uint32_t elements, uint64_t address,
                        uint64_t program);
  void *out_of_bounds_context;
  /* Of what a launch writes in so many bytes or more, caches keep too little to be written to first. 0: not known,
     and all stores go there. */
  uint64_t uncached_bytes;
  /* Not 0: the first 8 bytes of a thread's arena are 0 at its first call of the launch, and at later ones the arena is
     as the last call left it. 0: no call leaves anything for the next one. */
  uint64_t keeps_arenas;
};

/* Runs the programs first .. first + count - 1; returns how many ran to their end: fewer than `count`
   only where the status word is not RUN, and then at least one where poll() keeps none from it.
   `arena`: the scratch bytes that the kernel asks for, 64-byte aligned, during the call of nobody else. */
typedef uint64_t (*libtile_entry)(const libtile_frame *frame, uint64_t first, uint64_t count,
                                  uint8_t *arena);

#ifdef __cplusplus
}
#endif
