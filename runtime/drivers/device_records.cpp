// SPDX-License-Identifier: Apache-2.0
#include "runtime/drivers/device_records.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>

namespace libtile::runtime {

namespace {

std::string formatted(const std::string &conversion, uint64_t bits) {
  char text[512];
  const char kind = conversion.back();
  if (std::string_view("fFeEgGaA").find(kind) != std::string_view::npos) {
    const auto value = std::bit_cast<double>(bits);
    std::snprintf(text, sizeof text, conversion.c_str(), std::isnan(value) ? std::fabs(value) : value); // no "-nan"
  } else if (kind == 'p') {
    std::snprintf(text, sizeof text, conversion.c_str(), reinterpret_cast<void *>(bits));
  } else if (conversion.find('l') != conversion.npos) {
    std::snprintf(text, sizeof text, conversion.c_str(), static_cast<long long>(bits));
  } else {
    std::snprintf(text, sizeof text, conversion.c_str(), static_cast<int>(bits));
  }
  return text;
}

} // namespace

std::string formatLine(const std::string &format, std::span<const uint64_t> arguments) {
  std::string line;
  size_t next = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      line += format[i];
    } else if (i + 1 < format.size() && format[i + 1] == '%') {
      line += format[++i];
    } else {
      const size_t end = std::min(format.find_first_of("diouxXcfFeEgGaAp", i), format.size() - 1);
      line += next < arguments.size() ? formatted(format.substr(i, end + 1 - i), arguments[next]) : "?";
      ++next;
      i = end;
    }
  }
  return line;
}

uint32_t DeviceLines::add(const std::vector<codegen::DeviceLine> &lines) {
  const std::lock_guard lock(mutex_);
  const auto first = static_cast<uint32_t>(lines_.size());
  lines_.insert(lines_.end(), lines.begin(), lines.end());
  return first;
}

std::string DeviceLines::tell(std::span<const uint8_t> records, uint32_t asked) const {
  const std::lock_guard lock(mutex_);
  std::string said, failure;
  for (size_t at = 0; at + 8 <= records.size();) {
    uint32_t head[2]; // line, arguments
    std::memcpy(head, &records[at], sizeof head);
    if (head[0] >= lines_.size() || at + 8 + 8 * size_t{head[1]} > records.size()) {
      break;
    }
    std::vector<uint64_t> arguments(head[1]);
    std::memcpy(arguments.data(), records.data() + at + 8, 8 * arguments.size());
    const codegen::DeviceLine &line = lines_[head[0]];
    if (!line.isAssert) {
      said += formatLine(line.format, arguments);
    } else if (failure.empty()) {
      failure = line.format;
    }
    at += 8 + 8 * arguments.size();
  }
  std::fwrite(said.data(), 1, said.size(), stdout);
  if (asked > records.size()) {
    std::fprintf(stderr, "libtile: kernels printed more than there is room for; %u bytes of it are lost\n",
                 asked - static_cast<uint32_t>(records.size()));
  }
  return failure;
}

} // namespace libtile::runtime
