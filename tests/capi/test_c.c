/* SPDX-License-Identifier: Apache-2.0
 * libtile_c.h from plain C: a program, its launches, compiled kernels, and what is refused. */
#include <libtile_c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                      \
      ++failures;                                                                                  \
    }                                                                                              \
  } while (0)

static const char *const kText =
    "@libtile.jit\n"
    "def scale(x, out, n, factor: tl.float32 = 3.0, shift=4, BLOCK: tl.constexpr = 64):\n"
    "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "    tl.store(out + i, tl.load(x + i, mask=i < n) * factor + shift + GLOBAL, mask=i < n)\n"
    "\n"
    "@libtile.jit\n"
    "def told(x):\n"
    "    tl.device_print('x', tl.load(x + tl.arange(0, 2)) + tl.program_id(0))\n"
    "\n"
    "@libtile.jit\n"
    "def wrong(x):\n"
    "    tl.store(x, nowhere)\n";

enum { N = 1000 };
static float x[N], out[N];

static void expect_ok(int line, libtile_status status) {
  if (status != LIBTILE_OK) {
    libtile_error error = {sizeof error, 0, 0, 0, NULL, NULL, NULL, NULL};
    libtile_last_error(&error);
    fprintf(stderr, "%s:%d: %s\n", __FILE__, line, error.text);
    ++failures;
  }
}
#define OK(call) expect_ok(__LINE__, call)

/* The call fails so, and its message has that part. */
static void expect_error(int line, libtile_status status, libtile_status wanted, const char *part) {
  libtile_error error = {sizeof error, 0, 0, 0, NULL, NULL, NULL, NULL};
  EXPECT(libtile_last_error(&error) == LIBTILE_OK);
  if (status != wanted || error.status != wanted || strstr(error.message, part) == NULL) {
    fprintf(stderr, "%s:%d: status %d, '%s'\n", __FILE__, line, (int)status, error.message);
    ++failures;
  }
}
#define REFUSED(call, part) expect_error(__LINE__, call, LIBTILE_ERROR_USER, part)

static void expect_results(int line, double factor, double shift) {
  int i;
  for (i = 0; i < N; ++i) {
    if (out[i] != (float)(x[i] * factor + shift)) {
      fprintf(stderr, "%s:%d: out[%d] is %g\n", __FILE__, line, i, (double)out[i]);
      ++failures;
      return;
    }
    out[i] = -77;
  }
}

static libtile_program *make_program(void) {
  libtile_program *program = NULL;
  const libtile_argument global = libtile_int(100);
  OK(libtile_program_from_text(kText, strlen(kText), "scale.py", &program));
  OK(libtile_program_set_global(program, "GLOBAL", &global, 1));
  return program;
}

static void launches(libtile_function *scale, libtile_device *cpu) {
  const int64_t grid[3] = {(N + 63) / 64, 1, 1}, wide[3] = {1, 1, 1}, none[3] = {0, 1, 1};
  libtile_argument arguments[8];
  arguments[0] = libtile_array(LIBTILE_FP32, x, sizeof x);
  arguments[1] = libtile_array(LIBTILE_FP32, out, sizeof out);
  arguments[2] = libtile_int(N);
  OK(libtile_launch(scale, cpu, grid, arguments, 3, NULL, NULL));
  expect_results(__LINE__, 3, 104);
  arguments[3] = libtile_named("shift", libtile_uint(7));
  arguments[4] = libtile_named("BLOCK", libtile_int(1024));
  OK(libtile_launch(scale, cpu, wide, arguments, 5, NULL, NULL));
  expect_results(__LINE__, 3, 107);
  arguments[3] = libtile_float(0.5);
  OK(libtile_launch(scale, cpu, wide, arguments, 5, NULL, NULL));
  expect_results(__LINE__, 0.5, 104);
  OK(libtile_launch(scale, cpu, none, arguments, 5, NULL, NULL));
  EXPECT(out[0] == -77);
}

static void kernels(libtile_function *scale, libtile_device *cpu) {
  const int64_t grid[3] = {(N + 63) / 64, 1, 1};
  const libtile_argument types[] = {libtile_text(LIBTILE_TYPE, "*fp32:16"),
                                    libtile_text(LIBTILE_TYPE, "*fp32"), libtile_text(LIBTILE_TYPE, "i32"),
                                    libtile_named("shift", libtile_text(LIBTILE_TYPE, "i32"))};
  libtile_argument arguments[5];
  libtile_kernel *kernel = NULL, *other = NULL;
  libtile_facts facts = {sizeof facts, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const char *text = NULL, *target = NULL;
  const char *const *lines = NULL;
  size_t length = 0, count = 0;
  OK(libtile_function_compile(scale, "sm_90a", types, 4, NULL, &kernel));
  OK(libtile_kernel_text(kernel, "ptx", &text, &length));
  EXPECT(strlen(text) == length && strstr(text, ".target sm_90a") != NULL);
  OK(libtile_kernel_facts(kernel, &facts));
  EXPECT(strcmp(facts.name, "scale") == 0 && strcmp(facts.target, "sm_90a") == 0);
  EXPECT(facts.threads == 32 * facts.num_warps && facts.num_warps > 0);
  libtile_kernel_release(kernel);

  OK(libtile_device_target(cpu, &target));
  OK(libtile_function_compile(scale, target, types, 4, NULL, &kernel));
  OK(libtile_kernel_lines(kernel, LIBTILE_PARAMETERS, &lines, &count));
  EXPECT(count == 5 && strcmp(lines[0], "x") == 0 && strcmp(lines[4], "shift") == 0);
  OK(libtile_kernel_save(kernel, &text, &length));
  OK(libtile_kernel_restore(text, length, &other));
  arguments[0] = libtile_array(LIBTILE_UNTYPED, x, sizeof x);
  arguments[1] = libtile_array(LIBTILE_FP32, out, 0);
  arguments[2] = libtile_int(N);
  arguments[3] = libtile_float(2);
  arguments[4] = libtile_int(-1);
  OK(libtile_kernel_launch(kernel, cpu, grid, arguments, 5, NULL));
  expect_results(__LINE__, 2, 99);
  OK(libtile_kernel_launch(other, cpu, grid, arguments, 5, NULL));
  expect_results(__LINE__, 2, 99);
  REFUSED(libtile_kernel_launch(kernel, cpu, grid, arguments, 4, NULL), "takes 5 run-time arguments, not 4");
  arguments[1] = libtile_array(LIBTILE_FP64, out, 0);
  REFUSED(libtile_kernel_launch(kernel, cpu, grid, arguments, 5, NULL), "an array of fp64 does not fit");
  REFUSED(libtile_kernel_restore(text, length / 2, &other), "");
  REFUSED(libtile_kernel_lines(kernel, 4, &lines, &count), "a kernel has no lines 4");
  REFUSED(libtile_kernel_text(kernel, "nothing", &text, &length), "there is no stage 'nothing'");
  libtile_kernel_release(other);
  libtile_kernel_release(kernel);
}

static void places(libtile_program *program, libtile_device *cpu) {
  const int64_t grid[3] = {1, 1, 1};
  const libtile_argument argument = libtile_array(LIBTILE_FP32, x, sizeof x);
  libtile_function *wrong = NULL;
  libtile_error error = {sizeof error, 0, 0, 0, NULL, NULL, NULL, NULL};
  OK(libtile_program_function(program, "wrong", &wrong));
  REFUSED(libtile_launch(wrong, cpu, grid, &argument, 1, NULL, NULL), "nowhere");
  OK(libtile_last_error(&error));
  EXPECT(strcmp(error.file, "scale.py") == 0 && error.line == 12 && error.column == 17);
  EXPECT(strstr(error.text, "^") != NULL && strstr(error.message, "^") == NULL);
  libtile_function_release(wrong);
}

/* Programs print side by side; here the calls come one by one, for there is one thread. */
struct heard {
  char text[400];
  size_t length;
  int calls;
};
static void hear(void *context, const char *text, size_t length) {
  struct heard *heard = context;
  if (heard->length + length < sizeof heard->text) {
    memcpy(heard->text + heard->length, text, length);
    heard->length += length;
  }
  ++heard->calls;
}

static void printers(libtile_program *program, libtile_device *cpu) {
  static struct heard heard;
  static libtile_printer printer = {hear, &heard};
  static const libtile_printer nobody = {NULL, NULL};
  const int64_t grid[3] = {3, 1, 1};
  const libtile_argument argument = libtile_array(LIBTILE_FP32, x, sizeof x);
  const int32_t threads = libtile_num_threads();
  libtile_function *told = NULL;
  OK(libtile_set_num_threads(1));
  OK(libtile_program_function(program, "told", &told));
  OK(libtile_set_printer(&printer));
  OK(libtile_launch(told, cpu, grid, &argument, 1, NULL, NULL));
  EXPECT(heard.calls == 3);
  EXPECT(strcmp(heard.text, "pid (0, 0, 0) idx (0) x: -18.000000\npid (0, 0, 0) idx (1) x: -17.000000\n"
                            "pid (1, 0, 0) idx (0) x: -17.000000\npid (1, 0, 0) idx (1) x: -16.000000\n"
                            "pid (2, 0, 0) idx (0) x: -16.000000\npid (2, 0, 0) idx (1) x: -15.000000\n") == 0);
  REFUSED(libtile_set_printer(&nobody), "the printer's function is NULL");
  OK(libtile_launch(told, cpu, grid, &argument, 1, NULL, NULL));
  EXPECT(heard.calls == 6);
  OK(libtile_set_printer(NULL));
  OK(libtile_launch(told, cpu, grid, &argument, 1, NULL, NULL));
  EXPECT(heard.calls == 6);
  OK(libtile_set_num_threads(threads));
  libtile_function_release(told);
}

static void structs_and_handles(libtile_function *scale, libtile_device *cpu) {
  const int64_t grid[3] = {1, 1, 1};
  struct { /* of a later version */
    libtile_error error;
    char more[16];
  } later;
  libtile_error error = {sizeof error - 8, 0, 0, 0, NULL, NULL, NULL, NULL};
  REFUSED(libtile_last_error(&error), "set it to sizeof");
  error.size = (size_t)-1;
  REFUSED(libtile_last_error(&error), "set it to sizeof");
  REFUSED(libtile_last_error(NULL), "is NULL");
  memset(&later, 1, sizeof later);
  later.error.size = sizeof later;
  OK(libtile_last_error(&later.error));
  EXPECT(later.error.size == sizeof later && later.more[0] == 0 && later.more[15] == 0);
  REFUSED(libtile_launch(NULL, cpu, grid, NULL, 0, NULL, NULL), "the function is an empty handle");
  REFUSED(libtile_launch(scale, NULL, grid, NULL, 0, NULL, NULL), "the device is an empty handle");
  REFUSED(libtile_launch(scale, cpu, NULL, NULL, 0, NULL, NULL), "the grid is NULL");
  REFUSED(libtile_launch(scale, cpu, grid, NULL, 3, NULL, NULL), "the list of arguments is NULL");
  REFUSED(libtile_launch(scale, cpu, grid, NULL, 0, NULL, NULL), "no argument for 'x'");
  libtile_program_release(NULL);
  libtile_function_retain(NULL);
}

static int contains(const char *const *names, size_t count, const char *name) {
  size_t i;
  for (i = 0; i < count; ++i) {
    if (strcmp(names[i], name) == 0) {
      return 1;
    }
  }
  return 0;
}

static void library(void) {
  const char *const *names = NULL;
  size_t count = 0;
  const libtile_option wide = {"num_warps", 1 << 30}, odd = {"num_warps", 3}, nameless = {NULL, 1};
  libtile_options *options = NULL;
  libtile_device *device = NULL;
  libtile_program *program = NULL;
  const int32_t threads = libtile_num_threads();
  OK(libtile_devices(&names, &count));
  EXPECT(contains(names, count, "cpu"));
  OK(libtile_targets(&names, &count));
  EXPECT(contains(names, count, "avx512") && contains(names, count, "sm_90a"));
  REFUSED(libtile_targets(NULL, &count), "names is NULL");
  REFUSED(libtile_devices(&names, NULL), "count is NULL");
  OK(libtile_set_num_threads(2));
  EXPECT(libtile_num_threads() == 2);
  REFUSED(libtile_set_num_threads(-1), "-1 is no number of threads: give 0, for all cores, to 1024");
  REFUSED(libtile_set_num_threads(1025), "1025 is no number of threads");
  EXPECT(libtile_num_threads() == 2);
  OK(libtile_set_num_threads(threads));
  REFUSED(libtile_options_create(&wide, 1, &options), "num_warps=1073741824: it takes 0 or a power of two up to 1024");
  REFUSED(libtile_options_create(&odd, 1, &options), "num_warps=3: it takes 0 or a power of two up to 1024");
  REFUSED(libtile_options_create(&nameless, 1, &options), "the option's name is NULL");
  REFUSED(libtile_options_create(NULL, 1, &options), "the list of options is NULL");
  expect_error(__LINE__, libtile_device_open("tpu", &device), LIBTILE_ERROR_DEVICE, "no device 'tpu'");
  REFUSED(libtile_device_open(NULL, &device), "is NULL");
  REFUSED(libtile_program_from_text(NULL, 0, "x.py", &program), "the text is NULL");
  REFUSED(libtile_program_from_file("/nowhere.py", &program), "cannot read '/nowhere.py'");
  REFUSED(libtile_program_from_text("", 0, "x.py", NULL), "is NULL");
  EXPECT(options == NULL && device == NULL && program == NULL);
}

int main(void) {
  libtile_program *program = make_program();
  libtile_function *scale = NULL, *again = NULL;
  libtile_device *cpu = NULL;
  libtile_buffer *buffer = NULL;
  void *address = NULL;
  int i;
  for (i = 0; i < N; ++i) {
    x[i] = (float)(i % 37) - 18;
    out[i] = -77;
  }
  OK(libtile_device_open("cpu", &cpu));
  OK(libtile_program_function(program, "scale", &scale));
  OK(libtile_program_function(program, "scale", &again));
  EXPECT(scale == again);
  libtile_function_release(again);
  launches(scale, cpu);
  kernels(scale, cpu);
  places(program, cpu);
  printers(program, cpu);
  libtile_program_release(program); /* its functions stay */
  launches(scale, cpu);
  structs_and_handles(scale, cpu);
  library();
  OK(libtile_buffer_create(cpu, sizeof x, &buffer));
  OK(libtile_buffer_data(buffer, &address));
  OK(libtile_copy_to_device(cpu, address, x, sizeof x));
  OK(libtile_copy_to_host(cpu, out, address, sizeof x));
  EXPECT(memcmp(x, out, sizeof x) == 0);
  libtile_buffer_release(buffer);
  libtile_function_release(scale);
  libtile_device_release(cpu);
  EXPECT(strchr(libtile_version(), '.') != NULL);
  return failures != 0;
}
