// SPDX-License-Identifier: Apache-2.0
// The threads that OpenMP keeps in this process for whoever uses it: torch's operators, for one. Behind each of
// these they wait busily for the next, some milliseconds, on the cores that a launch asks for. So a launch may run on
// them (docs/decisions.md 176).
//
// OpenMP is taken from what the process shows to all its libraries (dlsym, RTLD_DEFAULT), as torch does with its own,
// and a program with what it is linked to. It keeps a team for each thread that asks for one, so only the process's
// first thread uses it here. A child of a fork has no team, and its OpenMP, where it is GNU's, waits for the parent's
// for ever: there it is not used, whoever forked.
#pragma once

#include <climits>

namespace libtile::runtime {

class OpenMp {
public:
  // For a launch of the calling thread, of which so many threads were asked for (0: of any number), more than one;
  // nullptr: it is to use none.
  [[nodiscard]] static const OpenMp *here(int asked) noexcept;

  // Of the calling thread's next region, the calling one included.
  [[nodiscard]] int threads() const noexcept { return maxThreads_(); }
  void setThreads(int threads) const noexcept { setThreads_(threads); }
  // Calls body(data) once in each of a region's threads, of which there may be fewer, and returns when all are done.
  void parallel(void (*body)(void *data), void *data) const noexcept { parallel_(body, data, 0, 0); }
  // In a region: 0 is the one that called `parallel`.
  [[nodiscard]] int thread() const noexcept { return thread_(); }

private:
  [[nodiscard]] bool find() noexcept;
  [[nodiscard]] bool startsThreads() noexcept;

  void (*parallel_)(void (*body)(void *), void *data, unsigned threads, unsigned flags) = nullptr;
  int (*maxThreads_)() = nullptr;
  int (*thread_)() = nullptr;
  int (*isInRegion_)() = nullptr;
  void (*setThreads_)(int) = nullptr;
  // Threads of the last team, as far as is known here; the least number that the machine did not give.
  int started_ = 1, refused_ = INT_MAX;
};

} // namespace libtile::runtime
