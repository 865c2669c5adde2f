/* SPDX-License-Identifier: Apache-2.0
 *
 * libtile's C interface: compile tile kernels from source text and launch them. It stays: a program that
 * is built with this header runs with every later libtile of the same major version. C++ programs use
 * libtile.h, which is inline code over this.
 *
 *     #include <libtile_c.h>
 *     const char *text = "@libtile.jit\n"
 *                        "def add(x, y, out, n, BLOCK: tl.constexpr):\n"
 *                        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
 *                        "    m = i < n\n"
 *                        "    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)\n";
 *     libtile_program *program;
 *     libtile_function *add;
 *     libtile_device *cpu;
 *     libtile_program_from_text(text, strlen(text), "add.py", &program);
 *     libtile_program_function(program, "add", &add);
 *     libtile_device_open("cpu", &cpu);
 *     const libtile_argument arguments[] = {
 *         libtile_array(LIBTILE_FP32, x, n * 4), libtile_array(LIBTILE_FP32, y, n * 4),
 *         libtile_array(LIBTILE_FP32, out, n * 4), libtile_int(n),
 *         libtile_named("BLOCK", libtile_int(1024))};
 *     const int64_t grid[3] = {(n + 1023) / 1024, 1, 1};
 *     if (libtile_launch(add, cpu, grid, arguments, 5, NULL, NULL) != LIBTILE_OK) {
 *       libtile_error error = {.size = sizeof error};
 *       libtile_last_error(&error);
 *       fprintf(stderr, "%s\n", error.text);
 *     }
 *
 * Handles are counted. What a call gives through its last pointer has one reference, the caller's;
 * _retain adds one, _release takes one away, and with the last one the object goes. Release what is in no
 * use by another thread. Both take NULL, and do nothing; every other call refuses it.
 *
 * Errors: a call that fails returns something other than LIBTILE_OK, changes nothing behind its
 * pointers, and describes the error to libtile_last_error() of the same thread. Nothing is thrown.
 *
 * Texts come in as UTF-8 with a 0 at their end. Those that go out live as long as the handle that was
 * asked; of no handle, as long as the process; of an error, until the next one of the thread.
 *
 * Structs that begin with `size` grow at their end: the caller sets it to sizeof, and gets as much as it
 * knows of. The others keep their layout.
 *
 * Threads: all calls may come from any thread at any time, but for the last release. A launch on a CPU
 * returns when it is done; one on a GPU when it is in the stream's queue.
 *
 * Unloading: the library stays in the process. dlclose() may be called at any time, and does nothing. A
 * child of fork() may compile and launch on CPUs; of GPUs the driver's own rules hold.
 */
#ifndef LIBTILE_C_H
#define LIBTILE_C_H

#include <stddef.h>
#include <stdint.h>

#define LIBTILE_VERSION_MAJOR 0
#define LIBTILE_VERSION_MINOR 1
#define LIBTILE_VERSION_PATCH 0

#if defined(LIBTILE_BUILDING)
#define LIBTILE_API extern "C" __attribute__((visibility("default")))
#elif defined(__cplusplus)
#define LIBTILE_API extern "C"
#else
#define LIBTILE_API extern
#endif

typedef struct libtile_program libtile_program;   /* a source text */
typedef struct libtile_function libtile_function; /* a jit function of it, and what was compiled of that */
typedef struct libtile_kernel libtile_kernel;     /* compiled for one signature and target */
typedef struct libtile_device libtile_device;
typedef struct libtile_buffer libtile_buffer;     /* memory of a device */
typedef struct libtile_options libtile_options;   /* of a compilation or a launch */

/* ---- errors */
typedef int32_t libtile_status;
enum {
  LIBTILE_OK = 0,
  LIBTILE_ERROR_USER = 1,        /* something in the kernel or the call is wrong */
  LIBTILE_ERROR_UNSUPPORTED = 2, /* it is right and not there, yet or on this target */
  LIBTILE_ERROR_INTERNAL = 3,    /* a fault of libtile */
  LIBTILE_ERROR_DEVICE = 4       /* no such device, or it refuses, or the launch was interrupted */
};

typedef struct libtile_error {
  size_t size;
  libtile_status status;  /* LIBTILE_OK: there was no error in this thread */
  int32_t line, column;   /* in `file`, from 1; 0: not in a kernel */
  const char *text;       /* with file, line, the line itself and a caret */
  const char *message;    /* alone */
  const char *file;       /* "": not in a kernel */
  const char *reproducer; /* of internal errors: IR, and the command that shows them; else "" */
} libtile_error;
LIBTILE_API libtile_status libtile_last_error(libtile_error *out);

/* ---- arguments of calls, and constants */
typedef uint16_t libtile_type; /* of an array's elements */
enum {
  LIBTILE_UNTYPED = 0, /* for libtile_kernel_launch, which knows */
  LIBTILE_INT1 = 1,    /* a byte, 0 or 1 */
  LIBTILE_INT8 = 2, LIBTILE_INT16 = 3, LIBTILE_INT32 = 4, LIBTILE_INT64 = 5,
  LIBTILE_UINT8 = 6, LIBTILE_UINT16 = 7, LIBTILE_UINT32 = 8, LIBTILE_UINT64 = 9,
  LIBTILE_FP16 = 10, LIBTILE_BF16 = 11, LIBTILE_FP32 = 12, LIBTILE_FP64 = 13,
  LIBTILE_FP8E5 = 14, LIBTILE_FP8E4NV = 15, LIBTILE_FP8E4B15 = 16, LIBTILE_FP8E4B8 = 17,
  LIBTILE_FP8E5B16 = 18, /* float8_e5m2, float8_e4m3fn, -, float8_e4m3fnuz, float8_e5m2fnuz */
  LIBTILE_POINTER = 0x100 /* + a type: of addresses of that */
};

enum { /* libtile_argument.kind, and what it needs beside `value` */
  LIBTILE_NONE = 0,
  LIBTILE_BOOL = 1,     /* value.integer: 0 or not */
  LIBTILE_INT = 2,      /* value.integer */
  LIBTILE_UINT = 3,     /* value.natural */
  LIBTILE_FLOAT = 4,    /* value.real */
  LIBTILE_ARRAY = 5,    /* value.address on the device; type, bytes, flags */
  LIBTILE_STRING = 6,   /* value.text; each distinct one that is ever given is kept */
  LIBTILE_LANGUAGE = 7, /* value.text: what tl.NAME is, such as "float32" */
  LIBTILE_FUNCTION = 8, /* value.function: for kernels that call it */
  LIBTILE_TUPLE = 9,    /* count: the items, which follow it in the list, themselves tuples perhaps */
  LIBTILE_TYPE = 10     /* value.text: any run-time value of that type; to compile, not to launch: "*fp32", "i32", or
                           with what values are multiples of (addresses: bytes), "*fp32:16" */
};
enum { LIBTILE_READ_ONLY = 1 }; /* libtile_argument.flags: an array that no kernel may store to */

typedef struct libtile_argument {
  uint8_t kind;
  uint8_t flags;
  libtile_type type;
  uint32_t count;
  union {
    int64_t integer;
    uint64_t natural;
    double real;
    const void *address;
    const char *text;
    const libtile_function *function;
  } value;
  uint64_t bytes;   /* ARRAY: from the address to the array's end; 0: not known. With it the launcher sees
                       that arrays do not overlap, and may run faster code. */
  const char *name; /* of the parameter; NULL: by position. Those by position come first. */
} libtile_argument;
enum { LIBTILE_MAX_ARGUMENTS = 256 }; /* of a call, with the items of tuples */

/* ---- the library */
LIBTILE_API const char *libtile_version(void); /* "0.1.0", of the library that runs */
/* What libtile_device_open, and a compilation, take. */
LIBTILE_API libtile_status libtile_devices(const char *const **names, size_t *count);
LIBTILE_API libtile_status libtile_targets(const char *const **names, size_t *count);
/* Ends the CPU launches under way in all threads within a second: they return LIBTILE_ERROR_DEVICE, and their arrays
   hold whatever was written. Launches of microseconds end as they are. May be called by a signal handler. */
LIBTILE_API void libtile_interrupt_launches(void);
/* Threads that CPU kernels use, 1 to 1024; 0: all cores. LIBTILE_NUM_THREADS of the environment is the first
   value. */
LIBTILE_API libtile_status libtile_set_num_threads(int32_t threads);
LIBTILE_API int32_t libtile_num_threads(void);
/* Who gets what kernels print on CPUs: whole lines, without a 0; called by several threads at once. NULL: C's standard
   output, as at first and for GPUs. The struct stays until another is set and launches begun before that are over. */
typedef struct libtile_printer {
  void (*print)(void *context, const char *text, size_t length);
  void *context;
} libtile_printer;
LIBTILE_API libtile_status libtile_set_printer(const libtile_printer *printer);
/* Keeping compiled code on disk for later processes (docs/caching.md), from here on: whether, 0 or 1; the folder; bytes in
   all. -1, NULL and -1: as the environment says at the first compilation. */
LIBTILE_API libtile_status libtile_set_cache(int32_t is_on, const char *folder, int64_t max_bytes);

/* ---- options (docs/options.md): flags are 0 or 1. Wherever options are asked for, NULL is the standard. */
typedef struct libtile_option {
  const char *name; /* "num_warps" */
  int64_t value;
} libtile_option;
LIBTILE_API libtile_status libtile_options_create(const libtile_option *options, size_t count,
                                                  libtile_options **out);
LIBTILE_API void libtile_options_retain(libtile_options *options);
LIBTILE_API void libtile_options_release(libtile_options *options);

/* ---- programs */
/* `name`: of the file, for messages. */
LIBTILE_API libtile_status libtile_program_from_text(const char *text, size_t length, const char *name,
                                                     libtile_program **out);
LIBTILE_API libtile_status libtile_program_from_file(const char *path, libtile_program **out);
LIBTILE_API void libtile_program_retain(libtile_program *program);
LIBTILE_API void libtile_program_release(libtile_program *program);
/* The value of a name that the text does not define: one constant (a tuple: with its items, `count` in
   all). Before the first function is taken. */
LIBTILE_API libtile_status libtile_program_set_global(libtile_program *program, const char *name,
                                                      const libtile_argument *value, size_t count);
/* The function of that name, the same each time; "": the only one. */
LIBTILE_API libtile_status libtile_program_function(libtile_program *program, const char *name,
                                                    libtile_function **out);

/* ---- functions */
LIBTILE_API void libtile_function_retain(libtile_function *function);
LIBTILE_API void libtile_function_release(libtile_function *function);
/* Forgets everything compiled of it; kernels stay valid. */
LIBTILE_API libtile_status libtile_function_clear(libtile_function *function);
/* Runs the function for each program of the grid, as the language's launch does: parameters without
   argument have their default, annotations say the type of a number and refuse one that does not fit, and
   the function is compiled for the arguments at hand (their types, whether 16 divides them, constexpr
   parameters by value) unless it has been. Then nothing is allocated, and no lock taken but by a CPU grid
   that is shared by several threads. `stream`: a CUstream or hipStream_t; NULL: the default one. */
LIBTILE_API libtile_status libtile_launch(libtile_function *function, libtile_device *device,
                                          const int64_t grid[3], const libtile_argument *arguments,
                                          size_t count, libtile_options *options, void *stream);
/* Compiles for arguments (values, or types) and a target; no such device needs to be there. A launch on
   such a device with such arguments finds it. */
LIBTILE_API libtile_status libtile_function_compile(libtile_function *function, const char *target,
                                                    const libtile_argument *arguments, size_t count,
                                                    libtile_options *options, libtile_kernel **out);

/* ---- compiled kernels */
typedef struct libtile_facts {
  size_t size;
  const char *name, *target;
  const char *signature; /* what it is specialised on: "x=<pointer<fp32>:16>, n=<int32>" */
  const char *symbol;    /* of its code */
  int64_t num_warps, num_stages; /* as the compiler chose */
  int64_t threads, shared_bytes; /* GPU: of a program */
  int64_t scratch_bytes;         /* CPU: of a thread */
  double compile_ms;             /* the driver's assembler not included */
  const char *cache;             /* what that on disk did: "off", "hit", "stored", "not stored: " and why */
} libtile_facts;
enum {
  LIBTILE_STAGES = 0,    /* what libtile_kernel_text takes */
  LIBTILE_FALLBACKS = 1, /* slower ways that the compiler had to take; none is best */
  LIBTILE_GUARDS = 2,    /* what a launch checks of the arguments before it runs the faster code */
  LIBTILE_PARAMETERS = 3 /* what libtile_kernel_launch takes, in order */
};
LIBTILE_API void libtile_kernel_retain(libtile_kernel *kernel);
LIBTILE_API void libtile_kernel_release(libtile_kernel *kernel);
LIBTILE_API libtile_status libtile_kernel_facts(libtile_kernel *kernel, libtile_facts *out);
LIBTILE_API libtile_status libtile_kernel_lines(libtile_kernel *kernel, int32_t which,
                                                const char *const **lines, size_t *count);
/* A stage as text: "tile", "llvm", "ptx", ... */
LIBTILE_API libtile_status libtile_kernel_text(libtile_kernel *kernel, const char *stage,
                                               const char **text, size_t *length);
/* The kernel as text, and back; not for other versions of libtile. */
LIBTILE_API libtile_status libtile_kernel_save(libtile_kernel *kernel, const char **text, size_t *length);
LIBTILE_API libtile_status libtile_kernel_restore(const char *text, size_t length, libtile_kernel **out);
/* Launches it, which needs one argument a run-time parameter, by position: constants are in the code. */
LIBTILE_API libtile_status libtile_kernel_launch(libtile_kernel *kernel, libtile_device *device,
                                                 const int64_t grid[3], const libtile_argument *arguments,
                                                 size_t count, void *stream);

/* ---- devices and their memory */
LIBTILE_API libtile_status libtile_device_open(const char *name, libtile_device **out); /* "cpu", "interpreter", "cuda:1", "hip:0" */
LIBTILE_API void libtile_device_retain(libtile_device *device);
LIBTILE_API void libtile_device_release(libtile_device *device);
LIBTILE_API libtile_status libtile_device_name(libtile_device *device, const char **name);
/* The best target of the device: "avx512bf16", "sm_90a", ... */
LIBTILE_API libtile_status libtile_device_target(libtile_device *device, const char **target);
/* Waits for the stream; NULL: for everything on the device. */
LIBTILE_API libtile_status libtile_device_synchronize(libtile_device *device, void *stream);
LIBTILE_API libtile_status libtile_copy_to_device(libtile_device *device, void *to, const void *from, size_t bytes);
LIBTILE_API libtile_status libtile_copy_to_host(libtile_device *device, void *to, const void *from, size_t bytes);
LIBTILE_API libtile_status libtile_buffer_create(libtile_device *device, size_t bytes, libtile_buffer **out);
LIBTILE_API void libtile_buffer_retain(libtile_buffer *buffer);
LIBTILE_API void libtile_buffer_release(libtile_buffer *buffer);
LIBTILE_API libtile_status libtile_buffer_data(libtile_buffer *buffer, void **address);
LIBTILE_API libtile_status libtile_buffer_bytes(libtile_buffer *buffer, size_t *bytes);

/* ---- arguments by value */
static inline libtile_argument libtile_make(uint8_t kind, uint64_t value) {
  libtile_argument made = {kind, 0, LIBTILE_UNTYPED, 0, {0}, 0, NULL};
  made.value.natural = value;
  return made;
}
static inline libtile_argument libtile_none(void) { return libtile_make(LIBTILE_NONE, 0); }
static inline libtile_argument libtile_bool(int value) { return libtile_make(LIBTILE_BOOL, value != 0); }
static inline libtile_argument libtile_int(int64_t value) { return libtile_make(LIBTILE_INT, (uint64_t)value); }
static inline libtile_argument libtile_uint(uint64_t value) { return libtile_make(LIBTILE_UINT, value); }
static inline libtile_argument libtile_float(double value) {
  libtile_argument made = libtile_make(LIBTILE_FLOAT, 0);
  made.value.real = value;
  return made;
}
static inline libtile_argument libtile_array(libtile_type type, const void *address, uint64_t bytes) {
  libtile_argument made = libtile_make(LIBTILE_ARRAY, 0);
  made.type = type;
  made.value.address = address;
  made.bytes = bytes;
  return made;
}
/* LIBTILE_STRING, LIBTILE_LANGUAGE, LIBTILE_TYPE */
static inline libtile_argument libtile_text(uint8_t kind, const char *text) {
  libtile_argument made = libtile_make(kind, 0);
  made.value.text = text;
  return made;
}
static inline libtile_argument libtile_tuple(uint32_t items) {
  libtile_argument made = libtile_make(LIBTILE_TUPLE, 0);
  made.count = items;
  return made;
}
static inline libtile_argument libtile_named(const char *name, libtile_argument argument) {
  argument.name = name;
  return argument;
}

#endif
