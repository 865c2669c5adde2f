// SPDX-License-Identifier: Apache-2.0
// GOMP_parallel is what compilers call for a parallel region (GNU's libgomp; LLVM's and Intel's libraries have it too);
// the omp_ functions are those of the OpenMP API specification, 5.2, section 18.
#include "runtime/drivers/openmp.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <link.h>
#include <memory>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace libtile::runtime {

namespace {

bool isForked = false; // by a fork that was seen here

bool isFirstThread() {
  static thread_local const bool isFirst = syscall(SYS_gettid) == getpid();
  return isFirst;
}

// Whether this process began with an exec. Someone may have forked before this library was loaded, so the kernel is
// asked: proc(5), `flags` of /proc/self/stat, where PF_FORKNOEXEC of linux/sched.h is 0x40. No account is a no.
bool beganWithExec() {
  constexpr unsigned kForkedWithoutExec = 0x40;
  const std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen("/proc/self/stat", "r"), &std::fclose);
  char text[512] = {};
  if (file == nullptr || std::fread(text, 1, sizeof(text) - 1, file.get()) == 0) {
    return false;
  }
  const char *behindName = std::strrchr(text, ')'); // which may hold anything
  unsigned flags = 0;
  return behindName != nullptr && std::sscanf(behindName, ") %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags != 0 &&
         (flags & kForkedWithoutExec) == 0;
}

// How often libraries were loaded so far.
unsigned long long loads() {
  unsigned long long count = 0;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        *static_cast<unsigned long long *>(data) = info->dlpi_adds;
        return 1;
      },
      &count);
  return count;
}

template <class Function> void look(const char *name, Function *&function) {
  function = reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

} // namespace

bool OpenMp::find() noexcept {
  static unsigned long long asked = 0;
  const unsigned long long now = loads();
  if (now == asked) {
    return false;
  }
  asked = now;
  look("GOMP_parallel", parallel_);
  look("omp_get_max_threads", maxThreads_);
  look("omp_get_thread_num", thread_);
  look("omp_in_parallel", isInRegion_);
  Dl_info library;
  // It stays in the process from here on.
  return parallel_ != nullptr && maxThreads_ != nullptr && thread_ != nullptr && isInRegion_ != nullptr &&
         dladdr(reinterpret_cast<void *>(parallel_), &library) != 0 &&
         dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

// OpenMP ends the process where a thread of a team cannot start, so it is tried here first.
bool OpenMp::startsThreads() noexcept {
  const int wanted = threads();
  if (wanted <= started_) {
    return true;
  }
  std::atomic<bool> mayEnd{false};
  std::vector<std::thread> tried;
  try {
    for (int i = 1; i < wanted; ++i) {
      tried.emplace_back([&] { mayEnd.wait(false); });
    }
    started_ = wanted;
  } catch (const std::exception &) {
  }
  mayEnd.store(true);
  mayEnd.notify_all();
  for (std::thread &thread : tried) {
    thread.join();
  }
  return wanted <= started_;
}

const OpenMp *OpenMp::here() noexcept {
  // Of the first thread alone, as is what it asks for.
  static OpenMp found;
  static bool isFound = false;
  if (isForked || !isFirstThread()) {
    return nullptr;
  }
  static const bool mayBeUsed = beganWithExec();
  if (!mayBeUsed || !(isFound || (isFound = found.find()))) {
    return nullptr;
  }
  return found.isInRegion_() == 0 && found.startsThreads() ? &found : nullptr;
}

void forgetOpenMpAfterFork() noexcept { isForked = true; }

} // namespace libtile::runtime
