// SPDX-License-Identifier: Apache-2.0
// When that may be freed which other threads reach without a lock.
//
// Readers say when they begin and when they have ended; what was taken out of their reach is retired, and
// freed as soon as no reader is left that began before. (Epochs: a reader counts itself in the current
// one; the epoch advances when nobody is left in the one before it; what was retired two epochs ago is
// out of everybody's sight. Readers count in one of several cache lines, so they do not wait for each
// other.) A reader that never ends keeps everything retired since.
#pragma once

#include <memory>

namespace libtile::runtime {

// A thread may begin again before it has ended.
void beginReading() noexcept;
void endReading() noexcept;

class ReadScope {
public:
  ReadScope() { beginReading(); }
  ~ReadScope() { endReading(); }
  ReadScope(const ReadScope &) = delete;
  ReadScope &operator=(const ReadScope &) = delete;
};

// The object can be reached no more by who begins to read from now on. Frees what it can of this and
// earlier ones, in this thread: no lock may be held that a destructor takes.
void retire(std::shared_ptr<void> object);
// Frees what it can.
void collectRetired();
// Objects that are retired and not yet freed.
[[nodiscard]] size_t numRetired();

// In the child of a fork: other threads' readers do not exist.
void forgetReadersAfterFork() noexcept;

} // namespace libtile::runtime
