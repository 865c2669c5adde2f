// SPDX-License-Identifier: Apache-2.0
// Notices that launches last, at no cost to those that do not.
//
// A kernel that runs on the thread that launches it reads no clock. Instead one thread, the watcher,
// looks every few milliseconds at each thread that launches. Is it still in the launch in which it was
// at the last look, the launch's status word is raised to ATTEND: the kernel comes back after the
// program that it is in, or calls the frame's poll in the midst of it (codegen/cpu/frame.h). Then
// the launching thread gets help, lets others run, asks whether it is interrupted, and goes on. For a
// launch that lasts on, that is repeated some twenty times a second.
//
// A launch costs two stores to a cell of its thread. Cells are never freed, so the watcher and signal
// handlers may write to one whose launch has ended; those of ended threads serve new ones. A second of
// quiet sends the watcher to sleep.
#pragma once

#include <cstdint>

namespace libtile::runtime {

// The launch that the calling thread begins; ends with the scope. Launches of one thread nest.
class WatchedLaunch {
public:
  WatchedLaunch() noexcept;
  ~WatchedLaunch();
  WatchedLaunch(const WatchedLaunch &) = delete;
  WatchedLaunch &operator=(const WatchedLaunch &) = delete;

  // The launch's status word (LIBTILE_RUN ...); nullptr: there was no memory for it.
  [[nodiscard]] uint32_t *status() const noexcept;
  // The thread is not to be called any more; the status word stays.
  void end() noexcept;
  // RETURN and ATTEND become `status`, which is RUN or RETURN; the watcher looks on.
  void goOn(uint32_t status) noexcept;
  // Whether interruptLaunches() was called since the launch began.
  [[nodiscard]] bool isInterrupted() const noexcept;

  struct Cell;

private:
  Cell *cell_;
  uint32_t interruptsBefore_;
};

// Ends the launches that are under way in any thread. Async-signal-safe.
void interruptLaunches() noexcept;

// To be called in the child of a fork before any launch.
void forgetWatcherAfterFork() noexcept;

} // namespace libtile::runtime
