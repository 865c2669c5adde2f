/* SPDX-License-Identifier: Apache-2.0
 *
 * Launches one kernel that is linked to it (codegen/cpu/frame.h), as a program that knows nothing else of libtile does.
 * On standard input, in words of 64 bits: the grid's three extents, the scratch bytes, how many arguments there are; for
 * each argument a word, which is ~0 before the value of a number, else the bytes of an array, which follow. On standard
 * output: what the arrays hold then.
 *
 * An array lies at a multiple of 16 in pages of its own, between two that may not be accessed: it ends at the second of
 * them, or less than 16 bytes before. What is left of its pages must not be written.
 */
#include "codegen/cpu/frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kPoison = 0x5a, kMostArguments = 32, kProgramsACall = 3 };

uint64_t libtile_kernel(const libtile_frame *frame, uint64_t first, uint64_t count, uint8_t *arena);

struct array {
  uint8_t *pages;
  uint64_t room; /* bytes of the pages */
  uint8_t *begin;
  uint64_t bytes;
};

static void fail(const char *why) {
  fprintf(stderr, "launch_kernel: %s\n", why);
  exit(1);
}

static void take(void *to, uint64_t bytes) {
  if (fread(to, 1, bytes, stdin) != bytes) {
    fail("the input ends early");
  }
}

static uint64_t word(void) {
  uint64_t value;
  take(&value, sizeof value);
  return value;
}

static struct array make_array(uint64_t bytes) {
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  struct array array;
  array.bytes = bytes;
  array.room = (bytes + page - 1) / page * page;
  uint8_t *all = mmap(NULL, array.room + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) {
    fail("no memory");
  }
  array.pages = all + page;
  if (array.room != 0 && mprotect(array.pages, array.room, PROT_READ | PROT_WRITE) != 0) {
    fail("no access to the memory");
  }
  memset(array.pages, kPoison, array.room);
  array.begin = array.pages + ((array.room - bytes) & ~(uint64_t)15);
  return array;
}

static void check_rest(const struct array *array) {
  for (uint64_t i = 0; i < array->room; ++i) {
    const uint8_t *at = array->pages + i;
    if ((at < array->begin || at >= array->begin + array->bytes) && *at != kPoison) {
      fail("a byte beside an array was written");
    }
  }
}

int main(void) {
  struct array arrays[kMostArguments], arena;
  uint64_t slots[kMostArguments];
  unsigned made = 0;
  uint32_t status = LIBTILE_RUN;
  libtile_frame frame = {.version = LIBTILE_FRAME_VERSION, .bytes = sizeof frame, .arguments = slots, .status = &status};
  for (int i = 0; i < 3; ++i) {
    frame.grid[i] = (int32_t)word();
  }
  /* The arena begins at a multiple of 64; a cache line behind its end may be read. */
  arena = make_array((word() + 127) / 64 * 64);
  const uint64_t count = word();
  if (count > kMostArguments) {
    fail("too many arguments");
  }
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t bytes = word();
    if (bytes == ~(uint64_t)0) {
      slots[i] = word();
      continue;
    }
    arrays[made] = make_array(bytes);
    take(arrays[made].begin, bytes);
    slots[i] = (uint64_t)(uintptr_t)arrays[made++].begin;
  }
  const uint64_t programs = (uint64_t)frame.grid[0] * (uint64_t)frame.grid[1] * (uint64_t)frame.grid[2];
  for (uint64_t first = 0; first < programs; first += kProgramsACall) {
    const uint64_t rest = programs - first, now = rest < kProgramsACall ? rest : kProgramsACall;
    if (libtile_kernel(&frame, first, now, arena.begin) != now) {
      fail("a program did not run to its end");
    }
  }
  for (unsigned i = 0; i < made; ++i) {
    check_rest(&arrays[i]);
    fwrite(arrays[i].begin, 1, arrays[i].bytes, stdout);
  }
  return 0;
}
