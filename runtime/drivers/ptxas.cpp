// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/ptxas.h"

#include "ir/diagnostic.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/Program.h>
#include <llvm/Support/Regex.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <mutex>

namespace libtile::runtime {

namespace {

std::mutex offerMutex;
std::string offered; // guarded by offerMutex

// A new file that goes with the scope.
class TemporaryFile {
public:
  explicit TemporaryFile(const char *suffix) {
    isThere_ = !llvm::sys::fs::createTemporaryFile("libtile", suffix, descriptor_, path_);
  }
  ~TemporaryFile() {
    if (isThere_) {
      llvm::sys::fs::remove(path_);
    }
  }
  TemporaryFile(const TemporaryFile &) = delete;
  TemporaryFile &operator=(const TemporaryFile &) = delete;

  [[nodiscard]] bool isThere() const { return isThere_; }
  [[nodiscard]] llvm::StringRef path() const { return path_; }
  // Once: closes the file.
  [[nodiscard]] bool write(const std::string &text) {
    llvm::raw_fd_ostream out(descriptor_, true);
    out << text;
    out.close();
    const bool isWritten = !out.has_error();
    out.clear_error();
    return isWritten;
  }

private:
  llvm::SmallString<64> path_;
  int descriptor_ = -1;
  bool isThere_ = false;
};

} // namespace

void offerPtxas(std::string path) {
  const std::lock_guard lock(offerMutex);
  offered = std::move(path);
}

std::string findPtxas() {
  if (const char *named = std::getenv("LIBTILE_PTXAS")) {
    if (named[0] == 0) {
      return "";
    }
    const auto found = llvm::sys::findProgramByName(named);
    if (!found || !llvm::sys::fs::can_execute(*found)) {
      throw ir::UserError("LIBTILE_PTXAS is '" + std::string(named) +
                          "'; it takes the path of a program, the name of one on PATH, or nothing");
    }
    return *found;
  }
  if (const auto found = llvm::sys::findProgramByName("ptxas")) {
    return *found;
  }
  const std::lock_guard lock(offerMutex);
  return offered;
}

std::optional<std::string> assemble(const std::string &ptxas, const std::string &ptx, const std::string &architecture,
                                    bool lines) {
  TemporaryFile source("ptx");
  TemporaryFile result("cubin");
  if (!source.isThere() || !result.isThere() || !source.write(ptx) || !result.write("")) {
    return std::nullopt;
  }
  const std::string option = "-arch=" + architecture;
  // Without a word: what it says of a kernel, the driver says again.
  const std::optional<llvm::StringRef> silent[] = {"", "", ""};
  llvm::SmallVector<llvm::StringRef, 6> arguments = {ptxas, option, source.path(), "-o", result.path()};
  if (lines) {
    arguments.push_back("-lineinfo");
  }
  if (llvm::sys::ExecuteAndWait(ptxas, arguments, std::nullopt, silent) != 0) {
    return std::nullopt;
  }
  const auto code = llvm::MemoryBuffer::getFile(result.path());
  return code && !(*code)->getBuffer().empty() ? std::optional((*code)->getBuffer().str()) : std::nullopt;
}

std::optional<RegisterNeed> registerNeed(std::string_view words) {
  // "(C7602) Insufficient registers (80) to compile instruction ... register target of 90 or higher", and
  // "(C7600) Register allocation failed with register count of '128'".
  llvm::SmallVector<llvm::StringRef, 3> found;
  const llvm::StringRef text(words.data(), words.size());
  RegisterNeed need{};
  if (llvm::Regex("registers \\(([0-9]+)\\).*target of ([0-9]+)").match(text, &found)) {
    return !found[1].getAsInteger(10, need.limit) && !found[2].getAsInteger(10, need.needed) ? std::optional(need) : std::nullopt;
  }
  if (llvm::Regex("allocation failed with register count of '([0-9]+)'").match(text, &found) &&
      !found[1].getAsInteger(10, need.limit)) {
    need.needed = need.limit + 1;
    return need;
  }
  return std::nullopt;
}

} // namespace libtile::runtime
