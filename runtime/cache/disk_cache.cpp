// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/disk_cache.h"

#include <llvm/Support/BLAKE3.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/resource.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace libtile::runtime {

namespace {

constexpr std::string_view kMagic = "libtile\n";
constexpr uint64_t kFormat = 1;
constexpr uint64_t kFolders = 256;
constexpr size_t kHeadBytes = 24 + sizeof(CacheKey);
constexpr std::string_view kNewPrefix = "new-";
constexpr time_t kNewSeconds = 3600; // after which nobody writes it any more
constexpr time_t kUseSeconds = 60;   // the resolution of uses

class File {
public:
  explicit File(int handle = -1) : handle_(handle) {}
  File(File &&other) noexcept : handle_(std::exchange(other.handle_, -1)) {}
  File &operator=(File &&) = delete;
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  ~File() { close(); }
  [[nodiscard]] int get() const { return handle_; }
  explicit operator bool() const { return handle_ >= 0; }
  int release() { return std::exchange(handle_, -1); }
  // What was written may only now turn out not to fit.
  bool close() { return handle_ < 0 || ::close(std::exchange(handle_, -1)) == 0; }

private:
  int handle_;
};

std::string reason(const std::string &what) {
  return what + ": " + std::generic_category().message(errno);
}

std::string hexDigits(const CacheKey &key) {
  std::string digits;
  for (const uint8_t byte : key) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

std::string_view bytesOf(const CacheKey &key) {
  return {reinterpret_cast<const char *>(key.data()), key.size()};
}

std::string hashOf(std::string_view bytes) {
  const auto hash = llvm::BLAKE3::hash<32>(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size()));
  return {reinterpret_cast<const char *>(hash.data()), hash.size()};
}

void putNumber(std::string &bytes, uint64_t number) {
  for (int i = 0; i < 8; ++i, number >>= 8) {
    bytes += static_cast<char>(number & 0xFF);
  }
}

std::string makeHead(const CacheKey &key, uint64_t contentBytes) {
  std::string head(kMagic);
  putNumber(head, kFormat);
  putNumber(head, contentBytes);
  return head.append(bytesOf(key));
}

std::string makeEntry(const CacheKey &key, std::string_view content) {
  std::string entry = makeHead(key, content.size());
  entry.append(content);
  return entry.append(hashOf(entry));
}

std::optional<std::string> readEntry(const CacheKey &key, std::string entry) {
  constexpr size_t kHashBytes = sizeof(CacheKey);
  if (entry.size() < kHeadBytes + kHashBytes) {
    return std::nullopt;
  }
  const size_t contentBytes = entry.size() - kHeadBytes - kHashBytes;
  const std::string_view checked = std::string_view(entry).substr(0, kHeadBytes + contentBytes);
  if (!checked.starts_with(makeHead(key, contentBytes)) || !entry.ends_with(hashOf(checked))) {
    return std::nullopt;
  }
  return entry.substr(kHeadBytes, contentBytes);
}

void makeFolders(const std::string &path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    ::mkdir(path.substr(0, end).c_str(), 0700);
  }
  ::mkdir(path.c_str(), 0700);
}

// The folder, if it may be trusted; else `why` says why not. Its name is resolved once: what is done later is done to the
// folder that was looked at.
File openFolder(const std::string &path, std::string &why) {
  File folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  if (!folder || ::fstat(folder.get(), &facts) != 0) {
    why = reason(path);
    return File();
  }
  if (facts.st_uid != ::geteuid()) {
    why = path + " is another user's";
  } else if ((facts.st_mode & 077) != 0) {
    why = path + " is open to other users: its mode is not 0700";
  }
  return why.empty() ? std::move(folder) : File();
}

std::optional<std::string> readAll(const File &file, size_t bytes) {
  std::string read(bytes, '\0');
  for (size_t at = 0; at < bytes;) {
    const ssize_t count = ::read(file.get(), read.data() + at, bytes - at);
    if (count == 0 || (count < 0 && errno != EINTR)) {
      return std::nullopt;
    }
    at += static_cast<size_t>(std::max<ssize_t>(count, 0));
  }
  return read;
}

bool writeAll(const File &file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.get(), bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(count, 0)));
  }
  return true;
}

// A write beyond the process's limit would end it by a signal.
bool exceedsFileLimit(uint64_t bytes) {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur;
}

// Names of no other file: `number` tells those of one process apart, the time those of processes with one number on
// several machines, and O_EXCL what is left.
std::string newName() {
  static std::atomic<uint64_t> number{0};
  return std::string(kNewPrefix) + std::to_string(::getpid()) + "-" + std::to_string(number.fetch_add(1)) + "-" +
         std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
}

// "", or why the file is not there.
std::string writeFile(const File &shelf, const std::string &name, std::string_view bytes) {
  const std::string made = newName();
  File file(::openat(shelf.get(), made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    return reason("making a file");
  }
  std::string why;
  if (!writeAll(file, bytes) || !file.close()) {
    why = reason("writing");
  } else if (::renameat(shelf.get(), made.c_str(), shelf.get(), name.c_str()) != 0) {
    why = reason("renaming a file");
  }
  if (!why.empty()) {
    ::unlinkat(shelf.get(), made.c_str(), 0);
  }
  return why;
}

struct Found {
  std::string name;
  timespec used{};
  uint64_t bytes = 0;
};

bool isEntryName(std::string_view name) {
  return name.size() == 2 * sizeof(CacheKey) - 2 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The entries of a folder. What killed processes left is removed on the way.
std::vector<Found> listEntries(const File &shelf) {
  std::vector<Found> found;
  File again(::openat(shelf.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, int (*)(DIR *)> listing(::fdopendir(again.get()), ::closedir);
  if (listing != nullptr) {
    again.release(); // the listing closes it
  }
  const time_t now = ::time(nullptr);
  while (const dirent *each = listing != nullptr ? ::readdir(listing.get()) : nullptr) {
    const std::string_view name = each->d_name;
    const bool isNew = name.starts_with(kNewPrefix);
    struct stat facts {};
    if ((!isNew && !isEntryName(name)) || ::fstatat(shelf.get(), each->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
      continue;
    }
    if (!isNew) {
      found.push_back({std::string(name), facts.st_mtim, static_cast<uint64_t>(facts.st_size)});
    } else if (facts.st_mtim.tv_sec < now - kNewSeconds) {
      ::unlinkat(shelf.get(), each->d_name, 0);
    }
  }
  return found;
}

void makeRoom(const File &shelf, uint64_t maxBytes) {
  std::vector<Found> entries = listEntries(shelf);
  uint64_t bytes = 0;
  for (const Found &each : entries) {
    bytes += each.bytes;
  }
  if (bytes <= maxBytes) {
    return;
  }
  std::ranges::sort(entries, {}, [](const Found &each) { return std::pair(each.used.tv_sec, each.used.tv_nsec); });
  for (const Found &each : entries) {
    if (bytes > maxBytes) {
      ::unlinkat(shelf.get(), each.name.c_str(), 0);
      bytes -= each.bytes;
    }
  }
}

} // namespace

CacheKey makeCacheKey(std::span<const std::string_view> parts) noexcept {
  llvm::BLAKE3 hash;
  for (const std::string_view part : parts) {
    const uint64_t bytes = part.size();
    hash.update(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(&bytes), sizeof bytes));
    hash.update(llvm::ArrayRef(reinterpret_cast<const uint8_t *>(part.data()), part.size()));
  }
  return hash.final<32>();
}

std::string DiskCache::pathOf(const CacheKey &key) const {
  const std::string digits = hexDigits(key);
  return folder_ + "/" + digits.substr(0, 2) + "/" + digits.substr(2);
}

std::optional<std::string> DiskCache::find(const CacheKey &key) const noexcept {
  try {
    std::string why;
    const File folder = openFolder(folder_, why);
    const std::string name = pathOf(key).substr(folder_.size() + 1);
    const File file(folder ? ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1);
    struct stat facts {};
    if (!file || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_uid != ::geteuid() ||
        static_cast<uint64_t>(facts.st_size) > maxBytes_) {
      return std::nullopt;
    }
    std::optional<std::string> entry = readAll(file, static_cast<size_t>(facts.st_size));
    std::optional<std::string> content = entry ? readEntry(key, std::move(*entry)) : std::nullopt;
    if (content && facts.st_mtim.tv_sec < ::time(nullptr) - kUseSeconds) {
      ::futimens(file.get(), nullptr);
    }
    return content;
  } catch (...) { // no memory
    return std::nullopt;
  }
}

std::string DiskCache::store(const CacheKey &key, std::string_view content) const noexcept {
  try {
    const std::string entry = makeEntry(key, content), digits = hexDigits(key);
    if (entry.size() > maxBytes_ / kFolders || exceedsFileLimit(entry.size())) {
      return "its " + std::to_string(entry.size()) + " bytes are more than a file of the cache may have";
    }
    std::string why;
    if (::access(folder_.c_str(), F_OK) != 0) {
      makeFolders(folder_);
    }
    const File folder = openFolder(folder_, why);
    if (!folder) {
      return why;
    }
    const std::string name = digits.substr(0, 2);
    ::mkdirat(folder.get(), name.c_str(), 0700);
    const File shelf(::openat(folder.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    why = shelf ? writeFile(shelf, digits.substr(2), entry) : reason(folder_ + "/" + name);
    if (why.empty()) {
      makeRoom(shelf, maxBytes_ / kFolders);
    }
    return why;
  } catch (...) {
    return "no memory";
  }
}

} // namespace libtile::runtime
