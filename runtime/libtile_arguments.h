// SPDX-License-Identifier: Apache-2.0
// Of libtile.h: errors, handles, and what a call is given.
#pragma once

#include "libtile_c.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace libtile {

class __attribute__((visibility("default"))) Error : public std::runtime_error {
public:
  enum class Kind { User = 1, Unsupported, Internal, Device };
  explicit Error(const libtile_error &error)
      : std::runtime_error(error.text), kind_(static_cast<Kind>(error.status)), file_(error.file),
        reproducer_(error.reproducer), line_(error.line), column_(error.column) {}
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string &file() const { return file_; } // "" if not in a kernel
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] int column() const { return column_; }
  // Of internal errors: IR, and the command that shows them; else "".
  [[nodiscard]] const std::string &reproducer() const { return reproducer_; }

private:
  Kind kind_;
  std::string file_, reproducer_;
  int line_, column_;
};

namespace detail {

inline void check(libtile_status status) {
  if (status != LIBTILE_OK) {
    libtile_error error = {};
    error.size = sizeof error;
    libtile_last_error(&error);
    throw Error(error);
  }
}


// A counted reference to what the C interface gives.
template <class T, void (*retain)(T *), void (*release)(T *)> class Handle {
public:
  Handle() = default;
  explicit Handle(T *owned) : content_(owned) {}
  Handle(const Handle &other) : content_(other.content_) { retain(content_); }
  Handle(Handle &&other) noexcept : content_(std::exchange(other.content_, nullptr)) {}
  Handle &operator=(Handle other) noexcept {
    std::swap(content_, other.content_);
    return *this;
  }
  ~Handle() { release(content_); }
  // For calls of libtile_c.h; null if the handle is empty.
  [[nodiscard]] T *get() const { return content_; }
  // Where such a call shall put what it gives: into an empty handle.
  [[nodiscard]] T **place() { return &content_; }

private:
  T *content_ = nullptr;
};

} // namespace detail

// What libtile calls an array's element of the C++ type T. Specialise it for half-precision types that
// your compiler has: template <> constexpr libtile_type libtile::elementType<_Float16> = LIBTILE_FP16;
template <class T>
constexpr libtile_type elementType = [] {
  if constexpr (std::is_same_v<T, bool>) {
    return LIBTILE_INT1;
  } else if constexpr (std::is_same_v<T, float>) {
    return LIBTILE_FP32;
  } else if constexpr (std::is_same_v<T, double>) {
    return LIBTILE_FP64;
  } else if constexpr (std::is_integral_v<T>) {
    static_assert(sizeof(T) <= 8, "integers of arrays have at most 64 bits");
    constexpr int log = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return (std::is_signed_v<T> ? LIBTILE_INT8 : LIBTILE_UINT8) + log;
  } else {
    return LIBTILE_UNTYPED;
  }
}();

class Argument;

// Memory of a device, freed with the last handle.
class Buffer : public detail::Handle<libtile_buffer, libtile_buffer_retain, libtile_buffer_release> {
public:
  [[nodiscard]] void *data() const {
    void *address = nullptr;
    detail::check(libtile_buffer_data(get(), &address));
    return address;
  }
  [[nodiscard]] size_t bytes() const {
    size_t bytes = 0;
    detail::check(libtile_buffer_bytes(get(), &bytes));
    return bytes;
  }
  // As an array of T's.
  template <class T> [[nodiscard]] Argument as() const;
};

// An argument of a call: a number, None (nullptr), a text, an array, a tuple; by position, or by name as
// {"NAME", argument}. Names, and texts given as `const char *`, must last as long as it does.
class Argument {
public:
  Argument(std::nullptr_t) : value_(libtile_none()) {}
  // Of any type of integers, and bool.
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  Argument(T value) : value_(fromInteger(value)) {
    static_assert(sizeof(T) <= 8, "integers of a launch have at most 64 bits");
  }
  Argument(double value) : value_(libtile_float(value)) {}
  Argument(float value) : value_(libtile_float(double{value})) {}
  Argument(const char *text) : value_(libtile_text(LIBTILE_STRING, text)) {}
  Argument(std::string text) : Argument(LIBTILE_STRING, std::move(text)) {}
  // An array: the address on the device of elements of type T, which the kernel may not store to if they
  // are const. `bytes` says how much of the memory from there on it may touch, which lets it run faster
  // code where arrays do not overlap (0: not known). Of void, or a Buffer as it is: for compiled kernels.
  template <class T, std::enable_if_t<!std::is_same_v<std::remove_const_t<T>, char>, int> = 0>
  Argument(T *address, size_t bytes = 0)
      : value_(libtile_array(elementType<std::remove_const_t<T>>, address, bytes)) {
    value_.flags = std::is_const_v<T> ? LIBTILE_READ_ONLY : 0;
  }
  Argument(const Buffer &buffer) : Argument(buffer.data(), buffer.bytes()) {}
  Argument(const char *name, Argument argument) : Argument(std::move(argument)) { value_.name = name; }
  // As the C interface has it; a tuple's items.
  explicit Argument(const libtile_argument &value, std::vector<Argument> items = {})
      : value_(value), items_(std::move(items)) {}
  // LIBTILE_STRING, LIBTILE_LANGUAGE or LIBTILE_TYPE
  Argument(uint8_t kind, std::string text)
      : value_(libtile_text(kind, nullptr)), text_(std::move(text)) {}

  // Writes it, and the items of a tuple, to `out`; returns the end.
  libtile_argument *write(libtile_argument *out, const libtile_argument *end) const {
    if (out == end) {
      const char *const text = "a call has at most 256 arguments";
      throw Error({sizeof(libtile_error), LIBTILE_ERROR_USER, 0, 0, text, text, "", ""});
    }
    *out = value_;
    const bool isText = value_.kind == LIBTILE_STRING || value_.kind == LIBTILE_LANGUAGE ||
                        value_.kind == LIBTILE_TYPE;
    if (isText && value_.value.text == nullptr) {
      out->value.text = text_.c_str();
    }
    ++out;
    for (const Argument &item : items_) {
      out = item.write(out, end);
    }
    return out;
  }

private:
  template <class T> static libtile_argument fromInteger(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return libtile_bool(value);
    } else if constexpr (std::is_signed_v<T>) {
      return libtile_int(value);
    } else {
      return libtile_uint(value);
    }
  }
  libtile_argument value_;
  std::vector<Argument> items_;
  std::string text_;
};

template <class T> Argument Buffer::as() const { return {static_cast<T *>(data()), bytes()}; }

inline Argument tuple(std::vector<Argument> items) {
  const auto count = static_cast<uint32_t>(items.size());
  return Argument(libtile_tuple(count), std::move(items));
}
// Any run-time value of that type, to compile for: "*fp32", "i32", or with what values are multiples of
// (addresses: bytes), "*fp32:16".
inline Argument type(std::string name) { return {LIBTILE_TYPE, std::move(name)}; }
// What tl.NAME is: language("float32").
inline Argument language(std::string name) { return {LIBTILE_LANGUAGE, std::move(name)}; }

namespace detail {

// A call's arguments as the C interface has them.
struct Arguments {
  template <class List> explicit Arguments(const List &given) {
    for (const Argument &each : given) {
      end = each.write(end, list + LIBTILE_MAX_ARGUMENTS);
    }
  }
  [[nodiscard]] size_t count() const { return static_cast<size_t>(end - list); }
  libtile_argument list[LIBTILE_MAX_ARGUMENTS];
  libtile_argument *end = list;
};

} // namespace detail

} // namespace libtile
