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

template <class Function> bool look(void *library, const char *name, Function *&function) {
  function = reinterpret_cast<Function *>(dlsym(library, name));
  return function != nullptr;
}

} // namespace

bool OpenMp::find() noexcept {
  static unsigned long long asked = 0;
  const unsigned long long now = loads();
  if (now == asked) {
    return false;
  }
  asked = now;
  Dl_info info;
  if (!look(RTLD_DEFAULT, "GOMP_parallel", parallel_) || dladdr(reinterpret_cast<void *>(parallel_), &info) == 0) {
    return false;
  }
  // It stays in the process from here on. All are of one library, whatever others show.
  void *library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return library != nullptr && look(library, "omp_get_max_threads", maxThreads_) &&
         look(library, "omp_get_thread_num", thread_) && look(library, "omp_in_parallel", isInRegion_) &&
         look(library, "omp_set_num_threads", setThreads_);
}

// OpenMP ends the process where a thread of a team cannot start, so it is tried here first.
bool OpenMp::startsThreads() noexcept {
  const int wanted = threads();
  if (wanted >= refused_) {
    return false;
  }
  if (wanted <= started_) { // others of the team end
    started_ = wanted;
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
    refused_ = wanted;
  }
  mayEnd.store(true);
  mayEnd.notify_all();
  for (std::thread &thread : tried) {
    thread.join();
  }
  return wanted <= started_;
}

const OpenMp *OpenMp::here(int asked) noexcept {
  // Of the first thread alone, as is what it asks for.
  static OpenMp found;
  static bool isFound = false;
  if (!isFirstThread()) {
    return nullptr;
  }
  static const pid_t process = beganWithExec() ? getpid() : 0;
  if (process != getpid() || !(isFound || (isFound = found.find()))) {
    return nullptr;
  }
  const int threads = found.threads();
  const bool fits = threads > 1 && (asked == 0 || asked == threads);
  return fits && found.isInRegion_() == 0 && found.startsThreads() ? &found : nullptr;
}

} // namespace libtile::runtime
