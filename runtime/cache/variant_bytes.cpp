// SPDX-License-Identifier: Apache-2.0
// Writer and Reader walk the same lists of fields. A list names all members of its struct, so that one more member
// does not compile until it is in the list.
#include "runtime/cache/variant_bytes.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>

namespace libtile::runtime {

namespace {

template <class T>
concept Plain = std::is_trivially_copyable_v<T> && std::has_unique_object_representations_v<T> && !std::is_pointer_v<T>;

template <class Archive> void walk(Archive &archive, RecipeSlot &slot) {
  auto &[kind, index] = slot;
  archive(kind, index);
}
template <class Archive> void walk(Archive &archive, ir::Guard &guard) {
  auto &[kind, param, value] = guard;
  archive(kind, param, value);
}
template <class Archive> void walk(Archive &archive, ir::PrintFormat &format) {
  auto &[letter, digits] = format;
  archive(letter, digits);
}
template <class Archive> void walk(Archive &archive, ir::Location &location) {
  auto &[file, line, column, endColumn, caller] = location;
  archive(file, line, column, endColumn, caller);
}
template <class Archive> void walk(Archive &archive, ir::SourceFile &file) {
  auto &[name, text, firstLine, isLibrary] = file;
  archive(name, text, firstLine, isLibrary);
}
template <class Archive> void walk(Archive &archive, codegen::CheckedAccess &access) {
  auto &[place, effects, bytes, arrays] = access;
  archive(place, effects, bytes, arrays);
}
template <class Archive> void walk(Archive &archive, codegen::Message::Operand &operand) {
  auto &[shape, element, format] = operand;
  archive(shape, element, format);
}
template <class Archive> void walk(Archive &archive, codegen::Message &message) {
  auto &[isAssert, place, text, operands] = message;
  archive(isAssert, place, text, operands);
}
template <class Archive> void walk(Archive &archive, ir::LaunchNumber &number) {
  auto &[factor, param] = number;
  archive(factor, param);
}
template <class Archive> void walk(Archive &archive, ir::TensorMap::Dim &dim) {
  auto &[extent, stride, box] = dim;
  archive(extent, stride, box);
}
template <class Archive> void walk(Archive &archive, ir::TensorMap &map) {
  auto &[param, elem, dims] = map;
  archive(param, elem, dims);
}
template <class Archive> void walk(Archive &archive, codegen::DeviceLine &line) {
  auto &[isAssert, format] = line;
  archive(isAssert, format);
}
template <class Archive> void walk(Archive &archive, codegen::KernelInfo &info) {
  auto &[symbol, threads, sharedBytes, scratchBytes, frameVersion, inOrder, accesses, messages, asserts, lines, cooperative,
         overlaps, cluster, records, maps, sharesBlocks] = info;
  archive(symbol, threads, sharedBytes, scratchBytes, frameVersion, inOrder, accesses, messages, asserts, lines, cooperative, overlaps,
          cluster, records, maps, sharesBlocks);
}
template <class Archive> void walk(Archive &archive, codegen::Code &code) {
  // The interpreter's function is not compiled code, and never kept.
  auto &[info, llvm, assembly, object, function] = code;
  archive(info, llvm, assembly, object);
}
template <class Archive> void walk(Archive &archive, Variant &variant) {
  auto &[code, recipe, guards, fallbacks, numWarps, numStages, cache] = variant;
  archive(code, recipe, guards, fallbacks, numWarps, numStages);
}

// What several locations share is written once, where it is first met; from then on its number stands for it. 0: null.
template <class T> using Shared = std::vector<std::shared_ptr<const T>>;
using Tables = std::tuple<Shared<ir::SourceFile>, Shared<ir::Location>>;
template <class T> Shared<T> &tableOf(Tables &tables) {
  Shared<T> &table = std::get<Shared<T>>(tables);
  table.resize(std::max<size_t>(table.size(), 1));
  return table;
}

class Writer {
public:
  template <class... Fields> void operator()(Fields &...fields) { (put(fields), ...); }
  std::string bytes;

private:
  void put(Plain auto &value) { bytes.append(reinterpret_cast<const char *>(&value), sizeof value); }
  void put(std::string &text) { putList(text); }
  template <class T> void put(std::vector<T> &list) { putList(list); }
  template <class T> void put(std::shared_ptr<const T> &shared) {
    Shared<T> &table = tableOf<T>(tables_);
    size_t number = std::ranges::find(table, shared) - table.begin();
    put(number);
    if (number == table.size()) {
      table.push_back(shared);
      T copy = *shared;
      walk(*this, copy);
    }
  }
  template <class T> void put(T &fields) { walk(*this, fields); }
  template <class List> void putList(List &list) {
    size_t size = list.size();
    put(size);
    if constexpr (Plain<typename List::value_type>) {
      bytes.append(reinterpret_cast<const char *>(list.data()), size * sizeof *list.data());
    } else {
      for (auto &item : list) {
        put(item);
      }
    }
  }

  Tables tables_;
};

class Reader {
public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class... Fields> void operator()(Fields &...fields) { (get(fields), ...); }
  [[nodiscard]] bool isDone() const { return !failed_ && bytes_.empty(); }

private:
  void take(void *to, size_t bytes) {
    failed_ = failed_ || bytes > bytes_.size();
    if (!failed_ && bytes != 0) {
      std::memcpy(to, bytes_.data(), bytes);
      bytes_.remove_prefix(bytes);
    }
  }
  void get(Plain auto &value) { take(&value, sizeof value); }
  void get(std::string &text) { getList(text); }
  template <class T> void get(std::vector<T> &list) { getList(list); }
  template <class T> void get(std::shared_ptr<const T> &shared) {
    size_t number = 0;
    get(number);
    failed_ = failed_ || number > tableOf<T>(tables_).size();
    if (failed_) {
      return;
    }
    if (number == tableOf<T>(tables_).size()) {
      tableOf<T>(tables_).emplace_back();
      auto made = std::make_shared<T>();
      walk(*this, *made);
      tableOf<T>(tables_)[number] = std::move(made);
    }
    shared = tableOf<T>(tables_)[number];
  }
  template <class T> void get(T &fields) { walk(*this, fields); }
  template <class List> void getList(List &list) {
    using Item = typename List::value_type;
    constexpr size_t kLeast = Plain<Item> ? sizeof(Item) : 1;
    size_t size = 0;
    get(size);
    failed_ = failed_ || size > bytes_.size() / kLeast;
    list.resize(failed_ ? 0 : size);
    if constexpr (Plain<Item>) {
      take(list.data(), list.size() * sizeof(Item));
    } else {
      for (Item &item : list) {
        get(item);
      }
    }
  }

  std::string_view bytes_;
  bool failed_ = false;
  Tables tables_;
};

} // namespace

std::string encodeVariant(Variant variant) {
  Writer writer;
  writer(variant);
  return std::move(writer.bytes);
}

std::optional<Variant> decodeVariant(std::string_view bytes) {
  Reader reader(bytes);
  Variant variant;
  reader(variant);
  return reader.isDone() ? std::optional(std::move(variant)) : std::nullopt;
}

} // namespace libtile::runtime
