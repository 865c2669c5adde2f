/* SPDX-License-Identifier: Apache-2.0
 * host_unload libtile.so: loads the library, keeps its threads busy, closes it, goes on, loads it again,
 * and ends while its threads live. */
#include <libtile_c.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const kText =
    "@libtile.jit\n"
    "def work(out, rounds, BLOCK: tl.constexpr = 256):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    a = i.to(tl.float32)\n"
    "    for k in range(rounds):\n"
    "        a = a * 0.5 + 1.0\n"
    "    tl.store(out + i, a)\n";
enum { PROGRAMS = 64, N = PROGRAMS * 256 };
static float out[N];

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

/* Functions of the library by name; void pointers and functions have one size here. */
static void *find(void *library, const char *name, void *place) {
  void *found = dlsym(library, name);
  CHECK(found != NULL);
  memcpy(place, &found, sizeof found);
  return found;
}

static struct {
  libtile_status (*from_text)(const char *, size_t, const char *, libtile_program **);
  libtile_status (*function)(libtile_program *, const char *, libtile_function **);
  libtile_status (*open)(const char *, libtile_device **);
  libtile_status (*launch)(libtile_function *, libtile_device *, const int64_t *, const libtile_argument *,
                           size_t, libtile_options *, void *);
  libtile_status (*last_error)(libtile_error *);
  libtile_status (*set_num_threads)(int32_t);
} lib;

static void *load(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  find(library, "libtile_program_from_text", &lib.from_text);
  find(library, "libtile_program_function", &lib.function);
  find(library, "libtile_device_open", &lib.open);
  find(library, "libtile_launch", &lib.launch);
  find(library, "libtile_last_error", &lib.last_error);
  find(library, "libtile_set_num_threads", &lib.set_num_threads);
  return library;
}

static libtile_function *work;
static libtile_device *cpu;

static libtile_status launch(int64_t rounds) {
  const int64_t grid[3] = {PROGRAMS, 1, 1};
  libtile_argument arguments[2];
  arguments[0] = libtile_array(LIBTILE_FP32, out, sizeof out);
  arguments[1] = libtile_int(rounds);
  return lib.launch(work, cpu, grid, arguments, 2, NULL, NULL);
}

/* A thread whose error, which the library keeps for it, goes after the library was closed. */
static void *fail(void *path) {
  void *library = load(path);
  CHECK(launch(-1) == LIBTILE_OK);
  CHECK(lib.launch(work, NULL, NULL, NULL, 0, NULL, NULL) == LIBTILE_ERROR_USER);
  dlclose(library);
  return NULL;
}

static void *launch_without_end(void *unused) {
  (void)unused;
  for (;;) {
    launch(1000);
  }
  return NULL;
}

int main(int argc, char **argv) {
  const struct timespec pause = {0, 50000000};
  libtile_program *program = NULL;
  pthread_t thread;
  int round;
  CHECK(argc == 2);
  for (round = 0; round < 3; ++round) {
    void *library = load(argv[1]);
    CHECK(lib.set_num_threads(4) == LIBTILE_OK);
    CHECK(lib.from_text(kText, strlen(kText), "work.py", &program) == LIBTILE_OK);
    CHECK(lib.function(program, "work", &work) == LIBTILE_OK);
    CHECK(lib.open("cpu", &cpu) == LIBTILE_OK);
    memset(out, 0, sizeof out);
    CHECK(launch(20000) == LIBTILE_OK);
    CHECK(dlclose(library) == 0); /* the pool's threads wait for work */
    nanosleep(&pause, NULL);
    CHECK(out[0] == 2 && out[N - 1] == 2);
  }
  CHECK(pthread_create(&thread, NULL, fail, argv[1]) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(launch(100) == LIBTILE_OK); /* handles stay, as the library does */
  CHECK(pthread_create(&thread, NULL, launch_without_end, NULL) == 0);
  nanosleep(&pause, NULL);
  puts("unloaded, and went on");
  return 0; /* while a thread launches */
}
