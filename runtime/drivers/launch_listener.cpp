// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/launch_listener.h"

#include "runtime/libtile_c.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

namespace libtile::runtime {

namespace {

template <class... Arguments> void append(std::string &text, const std::string &format, Arguments... arguments) {
  // The longest is a double of 309 digits before the point.
  std::array<char, 512> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format.c_str(), arguments...);
  text.append(buffer.data(), std::clamp<size_t>(length, 0, buffer.size() - 1));
}

template <class Number> Number elementAt(const void *elements, size_t index) {
  Number number{};
  std::memcpy(&number, static_cast<const char *>(elements) + index * sizeof number, sizeof number);
  return number;
}

void appendValue(std::string &text, const std::string &format, const ir::Type &element,
                 const void *elements, size_t index) {
  const bool isWide = element.elementBits() > 32;
  if (!element.isFloating()) {
    return isWide ? append(text, format, static_cast<long long>(elementAt<int64_t>(elements, index)))
                  : append(text, format, elementAt<int32_t>(elements, index));
  }
  const double value =
      isWide ? elementAt<double>(elements, index) : double{elementAt<float>(elements, index)};
  // The sign of a NaN means nothing.
  return std::isnan(value) ? void(text += "nan") : append(text, format, value);
}

// One behind the other, the last axis fastest: to the next element.
void stepIndex(std::vector<int32_t> &index, std::span<const int32_t> shape) {
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (++index[axis] < shape[axis]) {
      return;
    }
    index[axis] = 0;
  }
}

// " idx (  7, 12)"
void appendIndex(std::string &text, std::span<const int32_t> index, std::span<const std::string> formats) {
  text += " idx (";
  for (size_t axis = 0; axis < index.size(); ++axis) {
    text += axis != 0 ? ", " : "";
    append(text, formats[axis], index[axis]);
  }
  text += ")";
}

std::atomic<const libtile_printer *> printer{nullptr};

// One call, so that what other threads write stands before or behind.
void print(std::string_view lines) {
  if (const libtile_printer *to = printer.load(std::memory_order_acquire)) {
    to->print(to->context, lines.data(), lines.size());
    return;
  }
  std::fwrite(lines.data(), 1, lines.size(), stdout);
  std::fflush(stdout);
}

} // namespace

void setPrinter(const libtile_printer *given) noexcept { printer.store(given, std::memory_order_release); }

std::string printedLines(const codegen::Message &message, const int32_t program[3],
                         const void *const *operands) {
  std::string head, text;
  append(head, "pid (%d, %d, %d)", program[0], program[1], program[2]);
  if (message.operands.empty()) {
    return head + message.text + "\n";
  }
  const auto count = static_cast<unsigned>(message.operands.size());
  for (unsigned operand = 0; operand < count; ++operand) {
    const auto &[shape, element, format] = message.operands[operand];
    const std::string middle = ir::textBeforeValue(message.text, operand, count);
    const std::string valueFormat = ir::valueFormat(format, element);
    std::vector<std::string> indexFormats;
    size_t elements = 1;
    for (const int32_t extent : shape) {
      indexFormats.push_back(ir::indexFormat(extent));
      elements *= static_cast<size_t>(extent);
    }
    std::vector<int32_t> index(shape.size());
    for (size_t i = 0; i < elements; ++i, stepIndex(index, shape)) {
      text += head;
      appendIndex(text, index, indexFormats);
      text += middle;
      appendValue(text, valueFormat, element, operands[operand], i);
      text += '\n';
    }
  }
  return text;
}

void printMessage(const codegen::Message &message, const int32_t program[3], const void *const *operands) noexcept {
  try {
    print(printedLines(message, program, operands));
  } catch (const std::bad_alloc &) {
    print("there is no memory for what a kernel prints\n");
  }
}

void LaunchListener::listen(codegen::cpu::Frame &frame) {
  static_assert(sizeof(Extent) == sizeof(libtile_extent));
  frame.extents = reinterpret_cast<const libtile_extent *>(findings_.extents);
  frame.out_of_bounds = hearOutOfBounds;
  frame.out_of_bounds_context = this;
  frame.message = hearMessage;
  frame.message_context = this;
}

LaunchListener::Program LaunchListener::programAt(uint64_t number) const noexcept {
  const auto x = static_cast<uint64_t>(shape_.grid[0]), y = static_cast<uint64_t>(shape_.grid[1]);
  return {{static_cast<int32_t>(number % x), static_cast<int32_t>(number / x % y),
           static_cast<int32_t>(number / x / y)}};
}

void LaunchListener::keep(uint64_t program, Finding finding) noexcept {
  if (!hasHeard_.exchange(true)) {
    std::ranges::copy(programAt(program).index, finding.program);
    findings_.found = std::move(finding);
  }
}

void LaunchListener::hearOutOfBounds(void *self, uint32_t number, uint32_t elements, uint64_t address,
                                     uint64_t program) noexcept {
  auto &listener = *static_cast<LaunchListener *>(self);
  const codegen::CheckedAccess &access = listener.info_.accesses[number];
  listener.keep(program, {.kind = Finding::Kind::OutOfBounds,
                          .place = access.place,
                          .arrays = access.arrays,
                          .address = listener.firstOutside(access, elements, address),
                          .bytes = access.bytes,
                          .effects = access.effects});
}

void LaunchListener::hearMessage(void *self, const void *record, uint64_t) noexcept {
  auto &listener = *static_cast<LaunchListener *>(self);
  libtile_record head;
  std::memcpy(&head, record, sizeof head);
  const codegen::Message &message = listener.info_.messages[head.message];
  if (head.kind == LIBTILE_ASSERT) {
    listener.keep(head.program,
                  {.kind = Finding::Kind::Assertion, .place = message.place, .text = message.text});
    return;
  }
  const auto *operands = reinterpret_cast<const void *const *>(static_cast<const char *>(record) + sizeof head);
  printMessage(message, listener.programAt(head.program).index, operands);
}

uint64_t LaunchListener::firstOutside(const codegen::CheckedAccess &access, uint32_t elements,
                                      uint64_t address) const noexcept {
  const auto isInside = [&](uint64_t begin) {
    return std::ranges::any_of(access.arrays, [&](uint32_t array) {
      const Extent &extent = findings_.extents[array];
      const uint64_t size = extent.end - extent.begin;
      return extent.end == 0 || (access.bytes <= size && begin - extent.begin <= size - access.bytes);
    });
  };
  uint32_t element = 0;
  while (element + 1 < elements && isInside(address + uint64_t{element} * access.bytes)) {
    ++element;
  }
  return address + uint64_t{element} * access.bytes;
}

} // namespace libtile::runtime
