// SPDX-License-Identifier: Apache-2.0
// A host with an operator new, a malloc and a pthread_mutex_lock of its own, which count: a launch that
// finds its specialisation calls none of them, and nothing that one side allocates is freed by the other.
#include <libtile.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <pthread.h>

namespace {

// Of this thread, while it counts.
struct Counts {
  bool on = false;
  int allocations = 0, locks = 0, news = 0;
};
constinit thread_local Counts counts;

// In front of what operator new gives: whether operator delete gets the same.
constexpr uint64_t kMark = 0x6C696274696C6521;
constexpr size_t kHead = 64;

void *allocate(size_t bytes, size_t alignment) {
  counts.news += counts.on ? 1 : 0;
  const size_t head = std::max(kHead, alignment);
  auto *memory = static_cast<char *>(std::aligned_alloc(head, (bytes + 2 * head - 1) / head * head));
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  new (memory + head - sizeof kMark) uint64_t(kMark);
  return memory + head;
}
void release(void *pointer, size_t alignment) {
  if (pointer != nullptr) {
    auto *mark = static_cast<uint64_t *>(pointer) - 1;
    if (*mark != kMark) {
      std::abort(); // not ours
    }
    *mark = 0;
    std::free(static_cast<char *>(pointer) - std::max(kHead, alignment));
  }
}

} // namespace

void *operator new(size_t bytes) { return allocate(bytes, kHead); }
void *operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void operator delete(void *pointer) noexcept { release(pointer, kHead); }
void operator delete(void *pointer, size_t) noexcept { release(pointer, kHead); }
void operator delete(void *pointer, std::align_val_t alignment) noexcept {
  release(pointer, static_cast<size_t>(alignment));
}
void operator delete(void *pointer, size_t, std::align_val_t alignment) noexcept {
  release(pointer, static_cast<size_t>(alignment));
}

// glibc's own, under the names that it keeps for those who replace them.
extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *malloc(size_t bytes) noexcept {
  counts.allocations += counts.on ? 1 : 0;
  return __libc_malloc(bytes);
}
EXPORTED void *calloc(size_t count, size_t bytes) noexcept {
  counts.allocations += counts.on ? 1 : 0;
  return __libc_calloc(count, bytes);
}
EXPORTED void *realloc(void *pointer, size_t bytes) noexcept {
  counts.allocations += counts.on ? 1 : 0;
  return __libc_realloc(pointer, bytes);
}
EXPORTED void *aligned_alloc(size_t alignment, size_t bytes) noexcept {
  counts.allocations += counts.on ? 1 : 0;
  return __libc_memalign(alignment, bytes);
}
EXPORTED void free(void *pointer) noexcept { __libc_free(pointer); }

EXPORTED int pthread_mutex_lock(pthread_mutex_t *mutex) noexcept {
  using Lock = int (*)(pthread_mutex_t *);
  static const auto next = reinterpret_cast<Lock>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  counts.locks += counts.on ? 1 : 0;
  return next(mutex);
}
}

namespace {

using namespace libtile;

const char *const kText = R"(
@libtile.jit
def kernel(x, out, n, factor: tl.float32 = 2.0, pair=(1, 2), MODE: tl.constexpr = "plain",
           SHAPE: tl.constexpr = (1, 1), BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(out + i, a * factor + pair[0] + SHAPE[0], mask=i < n)
)";

struct Host {
  Device cpu = Device::open("cpu");
  Function kernel = Program::fromText(kText).function("kernel");
  std::vector<float> x = std::vector<float>(1 << 16, 3), out = std::vector<float>(1 << 16);

  // What a thousand calls count, after one that does not.
  template <class F> Counts count(F &&call) {
    call();
    counts = {true, 0, 0, 0};
    for (int i = 0; i < 1000; ++i) {
      call();
    }
    const Counts found = std::exchange(counts, {});
    EXPECT_EQ(found.allocations, 0);
    EXPECT_EQ(found.news, 0);
    return found;
  }
};

} // namespace

TEST(HotPath, TheCountersCount) {
  counts = {true, 0, 0, 0};
  Host host;
  host.kernel.launch(host.cpu, 1, {host.x.data(), host.out.data(), 100});
  const Counts found = std::exchange(counts, {});
  EXPECT_GT(found.news, 0);
  EXPECT_GT(found.allocations, found.news);
  EXPECT_GT(found.locks, 0) << "compiling takes locks";
}

TEST(HotPath, LaunchesOnTheirThread) {
  Host host;
  float *x = host.x.data(), *out = host.out.data();
  const Options options = {{"num_warps", 8}, {"num_stages", 2}};
  const Argument pair = tuple({7, 8}), shape = tuple({5, 6});
  EXPECT_EQ(host.count([&] { host.kernel.launch(host.cpu, 1, {x, out, 60}); }).locks, 0);
  EXPECT_EQ(host.count([&] { host.kernel.launch(host.cpu, 1, {{x, 256}, {out, 256}, 60}); }).locks, 0);
  EXPECT_EQ(host.count([&] { host.kernel.launch(host.cpu, 1, {x, out, 60}, options); }).locks, 0);
  EXPECT_EQ(host.count([&] {
                host.kernel.launch(host.cpu, 1, {x, out, {"n", 60}, {"factor", 0.5}, {"MODE", "other"}});
              }).locks,
            0);
  EXPECT_EQ(out[0], 3 * 0.5 + 1 + 1);
}

// Tuples are std::vectors in C++, so as C has them.
TEST(HotPath, Tuples) {
  Host host;
  const libtile_argument arguments[] = {
      libtile_array(LIBTILE_FP32, host.x.data(), 240), libtile_array(LIBTILE_FP32, host.out.data(), 240),
      libtile_int(60), libtile_named("pair", libtile_tuple(2)), libtile_int(7), libtile_int(8),
      libtile_named("SHAPE", libtile_tuple(2)), libtile_int(5), libtile_int(6)};
  const int64_t grid[3] = {1, 1, 1};
  EXPECT_EQ(host.count([&] {
                EXPECT_EQ(libtile_launch(host.kernel.get(), host.cpu.get(), grid, arguments,
                                         std::size(arguments), nullptr, nullptr),
                          LIBTILE_OK);
              }).locks,
            0);
  EXPECT_EQ(host.out[0], 3 * 2 + 7 + 5);
}

TEST(HotPath, CompiledKernels) {
  Host host;
  const Kernel kernel = host.kernel.compile(host.cpu.target(), {type("*fp32"), type("*fp32"), type("i32")});
  EXPECT_EQ(kernel.parameters(), (std::vector<std::string>{"x", "out", "n", "factor", "pair[1]"}))
      << "an integer that is 1 is a constant";
  EXPECT_EQ(host.count([&] {
                kernel.launch(host.cpu, 1, {host.x.data(), host.out.data(), 60, 2.0F, 2});
              }).locks,
            0);
}

// The pool's mutex may be taken; memory is not.
TEST(HotPath, GridsForThePool) {
  Host host;
  (void)host.count([&] { host.kernel.launch(host.cpu, 1024, {host.x.data(), host.out.data(), 1 << 16}); });
  EXPECT_EQ(host.out.back(), 3 * 2 + 1 + 1);
}
