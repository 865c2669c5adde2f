// SPDX-License-Identifier: Apache-2.0
// The cache on disk: what is found is what was stored, whatever happens to the files.
#include "runtime/cache/disk_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace libtile::runtime;
namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMuch = uint64_t{1} << 30;

// A folder for a test.
class Folder {
public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "libtile-cache-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error("no folder for a test");
    }
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::permissions(path_, fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  [[nodiscard]] fs::path path() const { return path_; }
  [[nodiscard]] DiskCache cache(uint64_t maxBytes = kMuch) const { return {path_.string(), maxBytes}; }

private:
  fs::path path_;
};

CacheKey keyOf(const std::string &name) {
  const std::string_view parts[] = {"test", name};
  return makeCacheKey(parts);
}

// Random bytes, the same for the same name.
std::string contentOf(const std::string &name, size_t bytes) {
  std::mt19937_64 random(std::hash<std::string>{}(name));
  std::string content;
  while (content.size() < bytes) {
    content += static_cast<char>(random());
  }
  return content;
}

std::string readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
void writeFile(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

size_t countFiles(const fs::path &folder, std::string_view prefix = "") {
  size_t count = 0;
  for (const auto &each : fs::recursive_directory_iterator(folder)) {
    count += each.is_regular_file() && each.path().filename().string().starts_with(prefix) ? 1 : 0;
  }
  return count;
}

// As a user who has no rights that others lack; the tests may run as root. The child's exit status.
template <class F> int asChild(F &&body, bool dropRights = true) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (dropRights && ::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) {
      ::_exit(99);
    }
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

} // namespace

TEST(DiskCache, FindsWhatWasStored) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  for (const size_t bytes : {0, 1, 63, 64, 65, 1000, 1 << 20}) {
    const std::string name = std::to_string(bytes), content = contentOf(name, bytes);
    EXPECT_EQ(cache.find(keyOf(name)), std::nullopt);
    EXPECT_EQ(cache.store(keyOf(name), content), "");
    EXPECT_EQ(cache.find(keyOf(name)), content);
    EXPECT_EQ(cache.store(keyOf(name), content), "") << "again";
    EXPECT_EQ(cache.find(keyOf(name)), content);
  }
  EXPECT_EQ(countFiles(folder.path()), 7U);
  EXPECT_EQ(countFiles(folder.path(), "new-"), 0U);
}

TEST(DiskCache, PartsOfKeysAreApart) {
  const std::string_view a[] = {"ab", "c"}, b[] = {"a", "bc"}, c[] = {"abc"}, d[] = {"abc", ""};
  EXPECT_NE(makeCacheKey(a), makeCacheKey(b));
  EXPECT_NE(makeCacheKey(a), makeCacheKey(c));
  EXPECT_NE(makeCacheKey(c), makeCacheKey(d));
}

TEST(DiskCache, EachFlippedByteIsNoticed) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  const CacheKey key = keyOf("flipped");
  const std::string content = contentOf("flipped", 300);
  ASSERT_EQ(cache.store(key, content), "");
  const std::string good = readFile(cache.pathOf(key));
  ASSERT_GT(good.size(), content.size());
  std::mt19937 random(1);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 + random() % 255));
    writeFile(cache.pathOf(key), bad);
    ASSERT_EQ(cache.find(key), std::nullopt) << "byte " << i;
  }
  EXPECT_EQ(cache.store(key, content), "") << "over the bad one";
  EXPECT_EQ(cache.find(key), content);
}

TEST(DiskCache, EachCutIsNoticed) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  const CacheKey key = keyOf("cut");
  ASSERT_EQ(cache.store(key, contentOf("cut", 3000)), "");
  const std::string good = readFile(cache.pathOf(key));
  for (size_t bytes = 0; bytes < good.size(); bytes += bytes < 128 ? 1 : 64) {
    writeFile(cache.pathOf(key), good.substr(0, bytes));
    ASSERT_EQ(cache.find(key), std::nullopt) << bytes;
  }
  for (const size_t more : {1, 64, 5000}) {
    writeFile(cache.pathOf(key), good + std::string(more, '\0'));
    ASSERT_EQ(cache.find(key), std::nullopt) << more;
  }
}

TEST(DiskCache, EntriesAnswerToTheirOwnKeyAlone) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  ASSERT_EQ(cache.store(keyOf("a"), "of a"), "");
  ASSERT_EQ(cache.store(keyOf("b"), "of b"), "");
  fs::copy_file(cache.pathOf(keyOf("a")), cache.pathOf(keyOf("b")), fs::copy_options::overwrite_existing);
  EXPECT_EQ(cache.find(keyOf("b")), std::nullopt);
  EXPECT_EQ(cache.find(keyOf("a")), "of a");
}

TEST(DiskCache, KilledWritersLeaveNothingWrong) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  const CacheKey key = keyOf("killed");
  const std::string content = contentOf("killed", 2 << 20);
  // What a store takes here: some children are killed in their first one, some later.
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(cache.store(key, content), "");
  const std::chrono::microseconds once =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  fs::remove(cache.pathOf(key));
  std::mt19937 random(2);
  int killed = 0, whole = 0;
  for (int i = 0; i < 100; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      while (true) {
        (void)cache.store(key, content);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200 + random() % (8000 + 4 * once.count())));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    const auto found = cache.find(key);
    ASSERT_TRUE(!found || *found == content) << i;
    whole += found ? 1 : 0;
    fs::remove(cache.pathOf(key));
  }
  EXPECT_EQ(killed, 100);
  EXPECT_GT(countFiles(folder.path(), "new-"), 0U) << "none was killed while it wrote";
  EXPECT_GT(whole, 0);
  // What they left is removed when it is old.
  for (const auto &each : fs::recursive_directory_iterator(folder.path())) {
    if (each.is_regular_file()) {
      fs::last_write_time(each, fs::file_time_type::clock::now() - std::chrono::hours(2));
    }
  }
  EXPECT_EQ(cache.store(key, content), "");
  EXPECT_EQ(countFiles(folder.path(), "new-"), 0U);
  EXPECT_EQ(cache.find(key), content);
}

TEST(DiskCache, ThreadsAndProcessesMayMeet) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    bool good = true;
    for (int i = 0; i < 300; ++i) {
      const std::string name = std::to_string(random() % 8), content = contentOf(name, 5000);
      const auto found = cache.find(keyOf(name));
      good = good && (!found || *found == content) && cache.store(keyOf(name), content).empty();
    }
    return good;
  };
  std::vector<pid_t> children;
  for (unsigned p = 0; p < 4; ++p) {
    children.push_back(::fork());
    if (children.back() == 0) {
      std::atomic<int> good{0};
      std::vector<std::thread> threads;
      for (unsigned t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] { good += work(4 * p + t) ? 1 : 0; });
      }
      for (std::thread &thread : threads) {
        thread.join();
      }
      ::_exit(good == 4 ? 0 : 1);
    }
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(countFiles(folder.path()), 8U);
}

TEST(DiskCache, HoldsSoManyBytesAndKeepsWhatWasUsedLast) {
  const Folder folder;
  constexpr uint64_t kBytes = 256 * 4000;
  const DiskCache cache = folder.cache(kBytes);
  const auto total = [&] {
    uint64_t bytes = 0;
    for (const auto &each : fs::recursive_directory_iterator(folder.path())) {
      bytes += each.is_regular_file() ? each.file_size() : 0;
    }
    return bytes;
  };
  for (int i = 0; i < 3000; ++i) {
    const std::string name = std::to_string(i);
    ASSERT_EQ(cache.store(keyOf(name), contentOf(name, 500 + i % 700)), "");
    ASSERT_EQ(cache.find(keyOf(name)), contentOf(name, 500 + i % 700));
  }
  EXPECT_LE(total(), kBytes);
  EXPECT_GT(total(), kBytes / 2);
  EXPECT_NE(cache.store(keyOf("large"), contentOf("large", 4000)), "");
  // Three in one folder of entries, of which two fit: the one that was used goes last.
  const Folder other;
  const DiskCache few = other.cache(256 * 2500);
  std::vector<std::string> names;
  for (int i = 0; names.size() < 3; ++i) {
    if (keyOf(std::to_string(i))[0] == 7) {
      names.push_back(std::to_string(i));
    }
  }
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(few.store(keyOf(names[i]), contentOf(names[i], 1000)), "");
    fs::last_write_time(few.pathOf(keyOf(names[i])), fs::file_time_type::clock::now() - std::chrono::hours(10 - i));
  }
  ASSERT_TRUE(few.find(keyOf(names[0])));
  ASSERT_EQ(few.store(keyOf(names[2]), contentOf(names[2], 1000)), "");
  EXPECT_TRUE(few.find(keyOf(names[0])));
  EXPECT_FALSE(few.find(keyOf(names[1])));
  EXPECT_TRUE(few.find(keyOf(names[2])));
}

TEST(DiskCache, FoldersThatOthersMayWriteAreIgnored) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  const CacheKey key = keyOf("open");
  ASSERT_EQ(cache.store(key, "content"), "");
  const fs::path kernels = folder.path() / "kernels";
  struct stat facts {};
  ASSERT_EQ(::stat(kernels.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
  for (const mode_t mode : {0755, 0777, 0770, 0701}) {
    ::chmod(kernels.c_str(), mode);
    EXPECT_EQ(cache.find(key), std::nullopt) << mode;
    EXPECT_NE(cache.store(key, "content").find("open to other users"), std::string::npos) << mode;
  }
  ::chmod(kernels.c_str(), 0700);
  EXPECT_EQ(cache.find(key), "content");
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(kernels.c_str(), 65534, 65534), 0);
    EXPECT_EQ(cache.find(key), std::nullopt);
    EXPECT_NE(cache.store(key, "content").find("another user's"), std::string::npos);
  }
}

TEST(DiskCache, LinksAreNotFollowed) {
  const Folder folder, target;
  ASSERT_EQ(target.cache().store(keyOf("a"), "of a"), "");
  fs::create_symlink(target.path() / "kernels", folder.path() / "kernels");
  EXPECT_EQ(folder.cache().find(keyOf("a")), std::nullopt);
  EXPECT_NE(folder.cache().store(keyOf("a"), "of a"), "");
  // A link to the folder of caches is the user's own affair, one in the place of an entry is none.
  fs::create_symlink(target.path(), folder.path() / "link");
  const DiskCache linked((folder.path() / "link").string(), kMuch);
  EXPECT_EQ(linked.find(keyOf("a")), "of a");
  fs::rename(linked.pathOf(keyOf("a")), folder.path() / "moved");
  fs::create_symlink(folder.path() / "moved", linked.pathOf(keyOf("a")));
  EXPECT_EQ(linked.find(keyOf("a")), std::nullopt);
  EXPECT_EQ(linked.store(keyOf("a"), "of a"), "");
  EXPECT_EQ(linked.find(keyOf("a")), "of a");
}

TEST(DiskCache, OtherThingsInThePlaceOfFilesDoNoHarm) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  ASSERT_EQ(cache.store(keyOf("a"), "of a"), "");
  fs::remove(cache.pathOf(keyOf("a")));
  ASSERT_EQ(::mkfifo(cache.pathOf(keyOf("a")).c_str(), 0600), 0);
  EXPECT_EQ(cache.find(keyOf("a")), std::nullopt) << "and does not wait for a writer";
  fs::remove(cache.pathOf(keyOf("a")));
  fs::create_directory(cache.pathOf(keyOf("a")));
  EXPECT_EQ(cache.find(keyOf("a")), std::nullopt);
  EXPECT_NE(cache.store(keyOf("a"), "of a"), "");
  EXPECT_EQ(countFiles(folder.path(), "new-"), 0U);
  const Folder other;
  writeFile(other.path() / "kernels", "a file");
  EXPECT_EQ(other.cache().find(keyOf("a")), std::nullopt);
  EXPECT_NE(other.cache().store(keyOf("a"), "of a"), "");
  EXPECT_EQ(readFile(other.path() / "kernels"), "a file");
}

TEST(DiskCache, FoldersMayVanishAndComeAgain) {
  const Folder folder;
  const DiskCache cache = folder.cache();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cache.find(keyOf("a")), std::nullopt);
    EXPECT_EQ(cache.store(keyOf("a"), "of a"), "");
    EXPECT_EQ(cache.find(keyOf("a")), "of a");
    fs::remove_all(i == 0 ? folder.path() / "kernels" : folder.path());
  }
  // While others use it.
  std::atomic<bool> ends{false};
  std::thread remover([&] {
    while (!ends) {
      std::error_code ignored;
      fs::remove_all(folder.path(), ignored);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    (void)cache.store(keyOf("a"), "of a");
    const auto found = cache.find(keyOf("a"));
    EXPECT_TRUE(!found || *found == "of a");
  }
  ends = true;
  remover.join();
}

TEST(DiskCache, ReadOnlyFoldersAreReadAlone) {
  const Folder folder;
  ::chmod(folder.path().c_str(), 0777);
  EXPECT_EQ(asChild([&] {
              const DiskCache cache = folder.cache();
              const bool stored = cache.store(keyOf("a"), "of a").empty();
              const fs::path shelf = fs::path(cache.pathOf(keyOf("a"))).parent_path();
              ::chmod(shelf.c_str(), 0500);
              ::chmod((folder.path() / "kernels").c_str(), 0500);
              const bool found = cache.find(keyOf("a")) == "of a";
              const bool refused = !cache.store(keyOf("a"), "of a").empty() && !cache.store(keyOf("b"), "of b").empty();
              ::chmod((folder.path() / "kernels").c_str(), 0000);
              const bool lost = cache.find(keyOf("a")) == std::nullopt && !cache.store(keyOf("a"), "of a").empty();
              ::chmod((folder.path() / "kernels").c_str(), 0700);
              ::chmod(shelf.c_str(), 0700);
              return stored && found && refused && lost && cache.find(keyOf("a")) == "of a";
            }), 0);
  const Folder closed;
  ::chmod(closed.path().c_str(), 0555);
  EXPECT_EQ(asChild([&] {
              return closed.cache().find(keyOf("a")) == std::nullopt && !closed.cache().store(keyOf("a"), "of a").empty();
            }), 0);
}

TEST(DiskCache, LimitsOfFilesEndNoProcess) {
  const Folder folder;
  EXPECT_EQ(asChild([&] {
              ::signal(SIGXFSZ, SIG_DFL);
              const rlimit limit{2000, 2000};
              return ::setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                     !folder.cache().store(keyOf("a"), contentOf("a", 3000)).empty() &&
                     folder.cache().find(keyOf("a")) == std::nullopt &&
                     folder.cache().store(keyOf("b"), contentOf("b", 1000)).empty() &&
                     folder.cache().find(keyOf("b")) == contentOf("b", 1000);
            }, false), 0);
  // No more files may be open than there are.
  EXPECT_EQ(asChild([&] {
              const rlimit limit{3, 3};
              return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && !folder.cache().store(keyOf("c"), "of c").empty() &&
                     folder.cache().find(keyOf("b")) == std::nullopt;
            }, false), 0);
}

TEST(DiskCache, FullDisksAreNoError) {
  const Folder folder;
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=256k,mode=700") != 0) {
    GTEST_SKIP() << "needs the right to mount a tmpfs";
  }
  const DiskCache cache = folder.cache();
  int stored = 0, refused = 0;
  for (int i = 0; i < 40; ++i) {
    const std::string name = std::to_string(i), content = contentOf(name, 20000);
    const std::string why = cache.store(keyOf(name), content);
    (why.empty() ? stored : refused)++;
    EXPECT_TRUE(why.empty() || why.find("No space left") != std::string::npos) << why;
    EXPECT_EQ(cache.find(keyOf(name)), why.empty() ? std::optional(content) : std::nullopt);
  }
  EXPECT_GT(stored, 0);
  EXPECT_GT(refused, 0);
  EXPECT_EQ(countFiles(folder.path(), "new-"), 0U);
  ::umount(folder.path().c_str());
}
