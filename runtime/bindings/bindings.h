/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface between libtile.so and our own Python module. It is no public interface: both sides
 * are built from the same tree, and lt_bindings_version() must agree. C++ programs use libtile.h.
 *
 * Errors are values: no exception crosses. A call that returns LT_ERROR (or NULL) has described the
 * error in lt_error() of the calling thread. Handles that a call returns belong to the caller.
 *
 * A launch, in the order of the hot path:
 *     lt_find       key of the arguments -> plan, without allocation
 *     LT_COMPILE:   lt_compile (without the interpreter's lock), lt_find again
 *     lt_select     grid, extents -> the variant
 *     LT_COMPILE:   lt_prepare (without the lock): another variant or a first load; lt_select again
 *     lt_launch     stream, extents; it lets go of the lock itself, through lt_caller, if it lasts
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(LIBTILE_BUILDING)
#define LT_API extern "C" __attribute__((visibility("default")))
#elif defined(__cplusplus)
#define LT_API extern "C"
#else
#define LT_API
#endif

#define LT_BINDINGS_VERSION "libtile-bindings-1"
LT_API const char *lt_bindings_version(void);

/* From LT_OUT_OF_BOUNDS on: errors that a launch found in the kernel (runtime/findings.h). */
typedef enum lt_status {
  LT_OK = 0, LT_ERROR = 1, LT_COMPILE = 2, LT_OUT_OF_BOUNDS = 3, LT_ASSERTION_FAILED = 4, LT_KERNEL_FAULT = 5
} lt_status;

typedef struct lt_error_info {
  int kind; /* 0 user, 1 unsupported, 2 internal, 3 device: runtime::ErrorKind */
  const char *text, *message, *file, *reproducer;
  int line, column;
} lt_error_info;
LT_API const lt_error_info *lt_error(void);
LT_API void lt_set_error(int kind, const char *message); /* for host functions that return LT_ERROR */

/* ---- values of the language (frontend/semantics/value.h) */
typedef struct lt_value lt_value;
typedef struct lt_function lt_function;
typedef struct lt_semantics lt_semantics; /* a running specialisation */

typedef enum lt_value_kind_ {
  LT_V_UNBOUND, LT_V_NONE, LT_V_BOOL, LT_V_INT, LT_V_FLOAT, LT_V_STRING, LT_V_TENSOR,
  LT_V_AGGREGATE, LT_V_CLASS, LT_V_TYPE, LT_V_FUNCTION, LT_V_OPERATION, LT_V_METHOD, LT_V_OBJECT,
  LT_V_LANGUAGE
} lt_value_kind_;

LT_API lt_value *lt_value_none(void);
LT_API lt_value *lt_value_bool(int value);
LT_API lt_value *lt_value_int(int64_t high, uint64_t low); /* 128 bits, two's complement */
LT_API lt_value *lt_value_float(double value);
LT_API lt_value *lt_value_string(const char *text, size_t length);
LT_API lt_value *lt_value_not_implemented(void);
/* The class of an object of the host: its fields, and what each must be (types: one a field, or NULL);
   whether its aggregates are tuples; whether calls of it go to the host. */
enum { LT_CLASS_SEQUENCE = 1, LT_CLASS_MADE_BY_HOST = 2 };
LT_API lt_value *lt_value_class(void *object, const char *name, const char *const *fields,
                                const lt_value *const *types, size_t num_fields, int flags);
/* cls: one of lt_value_class with that many fields; NULL: a tuple. */
LT_API lt_value *lt_value_aggregate(const lt_value *cls, const lt_value *const *fields, size_t count);
/* The class of tensor descriptors of the host; its aggregates have the fields of frontend/semantics/blocks.h. */
LT_API lt_value *lt_value_descriptor_class(void);
LT_API lt_value *lt_value_slice(const lt_value *const parts[3]); /* start, stop, step */
LT_API lt_value *lt_value_type(const char *dtype, const int32_t *shape, size_t rank);
LT_API lt_value *lt_value_function(const lt_function *function);
/* What a name of the language is ("load", "float32", "math"), and "": the language itself. NULL: there
 * is none. */
LT_API lt_value *lt_value_language(const char *name);
/* is_function: as a member of a class it is bound to the instance. */
LT_API lt_value *lt_value_object(void *object, int is_function);
LT_API lt_value *lt_value_copy(const lt_value *value);
LT_API void lt_value_free(lt_value *value);

LT_API int lt_value_kind(const lt_value *value);
LT_API int lt_value_as_bool(const lt_value *value);
LT_API int64_t lt_value_as_int(const lt_value *value, uint64_t *low); /* the high 64 bits */
LT_API double lt_value_as_float(const lt_value *value);
LT_API const char *lt_value_as_string(const lt_value *value, size_t *length);
LT_API size_t lt_value_num_fields(const lt_value *value); /* 0 if it is no aggregate */
LT_API lt_value *lt_value_field(const lt_value *value, size_t index);
/* The object of a function, a class or an object, and of an aggregate's class; NULL if it has none. */
LT_API void *lt_value_as_object(const lt_value *value);
/* Tensors and types: the element type's name; shape gets at most 6 extents. Valid until the next call. */
LT_API const char *lt_value_as_type(const lt_value *value, int32_t *shape, size_t *rank);
LT_API const char *lt_value_describe(const lt_value *value);
/* "; did you mean `x`?" with the nearest of the names, or "". Valid until the next call. */
LT_API const char *lt_did_you_mean(const char *name, const char *const *names, size_t count);

/* ---- operations while a specialisation runs */
LT_API lt_status lt_call(lt_semantics *semantics, const lt_value *callee,
                         const lt_value *const *arguments, size_t positional,
                         const char *const *keywords, size_t num_keywords, lt_value **out);
/* operation: "+", "<=", "is not", ...; unary with b = NULL: "-", "~", "not". */
LT_API lt_status lt_operator(lt_semantics *semantics, const char *operation, const lt_value *a,
                             const lt_value *b, lt_value **out);
LT_API lt_status lt_subscript(lt_semantics *semantics, const lt_value *object, const lt_value *index,
                              lt_value **out);
LT_API lt_status lt_attribute(lt_semantics *semantics, const lt_value *object, const char *name,
                              lt_value **out); /* unbound: there is none */
LT_API lt_status lt_to_tensor(lt_semantics *semantics, const lt_value *value, lt_value **out);

/* ---- the host: answers over the interpreter's objects. Objects are opaque to us. */
typedef struct lt_host {
  /* *out = NULL: unbound. default_of: a parameter of a function, or a field of a class. */
  lt_status (*global)(void *function, const char *name, lt_value **out);
  lt_status (*default_of)(void *callee, const char *name, lt_value **out);
  lt_status (*attribute)(void *object, const char *name, lt_value **out);
  lt_status (*call)(void *callee, lt_semantics *semantics, lt_value *const *arguments,
                    size_t positional, const char *const *keywords, size_t num_keywords,
                    lt_value **out);
  /* The names of a function's globals, or of an object's attributes. */
  void (*names)(void *object, void (*add)(const char *name, void *context), void *context);
  void (*describe)(void *object, char *buffer, size_t size);
  void (*ended)(lt_semantics *semantics); /* of calls before */
  /* What a kernel prints while it is compiled. */
  lt_status (*print)(const char *text, size_t length);
  void (*retain)(void *object);
  void (*release)(void *object);
} lt_host;
LT_API void lt_set_host(const lt_host *host); /* once, before anything else; stays valid */

/* ---- functions */
typedef struct lt_param {
  const char *name;
  const char *forced_type; /* NULL: none */
  uint8_t is_constexpr, has_default, keyword_only, variadic;
} lt_param;
LT_API size_t lt_count_block_lines(const char *text, size_t length); /* frontend/syntax/lexer.h */
/* object: whose globals and defaults the host answers for. */
LT_API lt_function *lt_function_parse(const char *text, size_t length, const char *file,
                                      int first_line, const char *name, void *object);
LT_API void lt_function_free(lt_function *function);
LT_API const char *lt_function_name(const lt_function *function);
LT_API const lt_param *lt_function_params(const lt_function *function, size_t *count);
/* Forgets everything compiled of it; kernels in use stay valid. */
LT_API void lt_function_clear(lt_function *function); /* without the interpreter's lock */
/* Flags for each parameter: no value-dependent specialisation; no alignment. Before the first use. */
enum { LT_NO_SPECIALIZE = 1, LT_NO_ALIGNMENT = 2 };
LT_API lt_status lt_function_set_flags(lt_function *function, const uint8_t *flags);

/* ---- arguments */
typedef enum lt_arg_kind {
  LT_ARG_NONE, LT_ARG_BOOL, LT_ARG_INT, LT_ARG_UINT /* beyond int64 */, LT_ARG_FLOAT,
  LT_ARG_POINTER, LT_ARG_CONSTANT, LT_ARG_TYPE, LT_ARG_TUPLE
} lt_arg_kind;
enum { LT_ARG_READ_ONLY = 1 };
/* A call's arguments are a flat list in the order of the parameters: behind a TUPLE stand its items,
   themselves tuples perhaps. (runtime::CallArgument has the same layout.) */
typedef struct lt_arg {
  uint8_t kind;
  uint8_t flags;
  uint16_t dtype; /* POINTER: of the pointee; TYPE: of the argument (warm-up); TUPLE: number of items */
  /* The value; FLOAT: of a double; TYPE: what the value is a multiple of; CONSTANT and TUPLE: a number
     that stands for one constant or class of named tuples only, now and later (0: a plain tuple). */
  uint64_t bits;
  union {
    uint64_t bytes; /* POINTER: from the address to the end of the array's last element; 0: not known */
    /* CONSTANT: itself; TUPLE: one of its class and field names, or NULL. Lives as long as the call. */
    const lt_value *value;
  };
} lt_arg;
typedef struct lt_extent {
  uint64_t begin, end; /* bytes of the array; both 0: unknown */
} lt_extent;
/* A TYPE of a text ("*fp32", "i32:16"). Returns "", or why not; valid until the next call. */
LT_API const char *lt_read_type(const char *text, lt_arg *out);
/* The code of a type by its name ("fp32", "*i8"); -1: there is none. */
LT_API int lt_dtype(const char *name);
LT_API size_t lt_dtype_bytes(int code); /* of an element */
LT_API const char *lt_dtype_name(int code); /* valid until the next call */

/* ---- options: the rows of runtime/options.def */
enum { LT_OPTION_INTEGER, LT_OPTION_POWER_OF_TWO, LT_OPTION_FLAG, LT_OPTION_OBJECT, LT_OPTION_PRECISION };
typedef struct lt_option {
  const char *name;
  int kind;
  int64_t standard, low, high; /* standard: where the environment says nothing */
  const char *takes; /* what it takes, in words */
  const char *doc;
} lt_option;
LT_API const lt_option *lt_option_rows(size_t *count);
LT_API int lt_option_fits(size_t option, int64_t value); /* by the index of the row */
LT_API int64_t lt_option_value(size_t option, const char *text); /* -1: it stands for none */
enum { LT_MAX_OPTIONS = 48 };
typedef struct lt_options {
  uint32_t count; /* of those given; the others are standard */
  uint32_t option[LT_MAX_OPTIONS];
  int64_t value[LT_MAX_OPTIONS]; /* one that fits, or LT_STANDARD_VALUE; OBJECT: 1 */
} lt_options;
#define LT_STANDARD_VALUE INT64_MIN /* as if the option were not given */

/* ---- devices */
typedef struct lt_device lt_device; /* never freed */
LT_API lt_device *lt_device_open(const char *name);
LT_API const char *lt_device_name(const lt_device *device);
LT_API const char *lt_device_target(const lt_device *device);
LT_API const char *lt_device_at(size_t index); /* names; NULL: no more. Valid until the next call */
LT_API lt_status lt_allocate(lt_device *device, size_t bytes, void **out);
LT_API void lt_free(lt_device *device, void *memory);
LT_API lt_status lt_copy(lt_device *device, void *to, const void *from, size_t bytes, int to_device);
LT_API lt_status lt_synchronize(lt_device *device, void *stream);
/* Sets every byte; on a GPU in the order of its default stream. */
LT_API lt_status lt_fill(lt_device *device, void *memory, int byte, size_t bytes);
enum { LT_CUDA = 0, LT_HIP = 100 }; /* number of "cuda:0", and of "hip:0" */
/* The number of the GPU whose memory the address is in; -1: none. */
LT_API int lt_device_of(const void *address);
LT_API size_t lt_cache_bytes(lt_device *device);
/* The device's own name, or ""; what its library says of it, by index. NULL: an error, and no more of them. Valid
   until the next call. */
LT_API const char *lt_device_model(lt_device *device);
LT_API const char *lt_device_property(lt_device *device, size_t index, int64_t *value);
/* *out = NULL: the device has no clock of its own. */
LT_API lt_status lt_record_time(lt_device *device, void *stream, void **out);
LT_API lt_status lt_milliseconds(lt_device *device, void *start, void *stop, double *out);
LT_API void lt_free_time(lt_device *device, void *time);

/* ---- compiled kernels */
typedef struct lt_kernel lt_kernel;
LT_API void lt_kernel_free(lt_kernel *kernel);
typedef struct lt_kernel_facts {
  const char *name, *target, *signature, *symbol, *cache; /* live as long as the kernel; cache: Variant::cache */
  int64_t num_warps, num_stages, threads, shared_bytes, scratch_bytes;
  double compile_ms; /* the driver's assembler not included */
} lt_kernel_facts;
LT_API void lt_kernel_facts_of(const lt_kernel *kernel, lt_kernel_facts *out);
/* By index; NULL: no more. Valid until the next call in this thread. */
LT_API const char *lt_kernel_stage(const lt_kernel *kernel, size_t index);
LT_API const char *lt_kernel_fallback(const lt_kernel *kernel, size_t index);
LT_API const char *lt_kernel_guard(const lt_kernel *kernel, size_t index);
LT_API const char *lt_kernel_property(lt_kernel *kernel, size_t index, int64_t *value); /* of loaded code */
LT_API lt_status lt_kernel_load(lt_kernel *kernel, lt_device *device); /* what a launch compiled: on the launch's device */
LT_API const char *lt_kernel_state(const lt_kernel *kernel, size_t *length); /* as text, likewise, and back; NULL: an error */
LT_API lt_kernel *lt_kernel_restore(const char *state, size_t length);
LT_API const char *lt_kernel_text(const lt_kernel *kernel, const char *stage); /* likewise; NULL: an error */
LT_API const char *lt_kernel_code(const lt_kernel *kernel, size_t *length); /* empty if the driver assembles; lives with the kernel */
LT_API lt_status lt_compile_for(lt_function *function, const char *target, const lt_arg *arguments,
                                size_t count, const lt_options *options, lt_kernel **out); /* with no device present */
LT_API const char *lt_target_at(size_t index); /* names; NULL: no more. Valid until the next call */

/* ---- launch */
enum { LT_MAX_ARGUMENTS = 256 };
typedef struct lt_entry lt_entry;
/* What a launch asks for: the bytes that arrays may share with others; all of the memory that arrays lie in. */
enum { LT_NO_EXTENTS, LT_EXTENTS_OF_ARRAYS, LT_EXTENTS_OF_MEMORY };
typedef struct lt_plan {
  lt_entry *entry; /* not NULL: to be let go by lt_release */
  void *user; /* of lt_compile */
  void *module; /* of lt_select */
  int32_t grid[3];
  uint32_t count;
  uint8_t needs_extents;
  uint8_t reports; /* the launch may end with what it found in the kernel */
  uint64_t slots[LT_MAX_ARGUMENTS];
} lt_plan;
/* What a plan found stays there until the plan is released, in the same thread. */
LT_API lt_status lt_find(lt_function *function, lt_device *device, const lt_arg *arguments,
                         size_t count, const lt_options *options, lt_plan *plan);
LT_API void lt_release(lt_plan *plan);
/* Compiles for these arguments, or anew if a host answer changed. `make_user` gets the kernel, which
   it owns from then on, and returns the entry's user pointer; NULL: LT_ERROR. `free_user` gets that with
   the entry's end, in any thread. */
LT_API lt_status lt_compile(lt_function *function, lt_device *device, const lt_arg *arguments,
                            size_t count, const lt_options *options,
                            void *(*make_user)(lt_kernel *kernel), void (*free_user)(void *user));
/* Each user pointer that the function's entries hold, for the owner's garbage collector. */
LT_API void lt_function_users(const lt_function *function, void (*visit)(void *user, void *context),
                              void *context);
/* The entry serves no more: the next lt_find misses. Releases the plan. Without the interpreter's lock. */
LT_API void lt_retire(lt_function *function, lt_plan *plan);
LT_API size_t lt_num_retired(void); /* entries that serve no more and could not be freed yet */
/* extents, here and below: one an argument, or NULL. */
LT_API lt_status lt_select(lt_plan *plan, const int64_t grid[3], const lt_extent *extents);
/* runtime/drivers/caller.h: both called in the thread that launches, by launches that last. */
typedef struct lt_caller {
  void (*lasts)(void *context);
  int (*is_interrupted)(void *context);
  void *context;
} lt_caller;
LT_API lt_status lt_launch(const lt_plan *plan, void *stream, const lt_caller *caller, const lt_extent *extents);
LT_API lt_status lt_prepare(const lt_plan *plan, const lt_extent *extents);

/* ---- process */
LT_API void lt_before_fork(void);
LT_API void lt_after_fork(int is_child);
LT_API lt_status lt_set_num_threads(int64_t threads);
LT_API int lt_num_threads(void); /* -1: an error */
LT_API void lt_offer_ptxas(const char *path); /* runtime/drivers/ptxas.h */
LT_API int lt_check_portability(int wanted); /* by the interpreter: 1, 0 or -1: ask; what was before */
typedef struct lt_language_row { /* of language.def, for the Python module, its stubs and the reference */
  const char *sort, *name, *kind /* of types: the short name */, *signature, *doc;
} lt_language_row;
LT_API const lt_language_row *lt_language_rows(size_t *count);
