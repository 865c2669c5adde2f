// SPDX-License-Identifier: Apache-2.0
#include "runtime/environment.h"

#include "ir/diagnostic.h"

#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace libtile::runtime {

int environmentNumber(const char *variable, int high, int standard) {
  const char *given = std::getenv(variable);
  const std::string_view text = given != nullptr ? given : "";
  if (text.empty()) {
    return standard;
  }
  int number = -1;
  const char *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last || number < 0 || number > high) {
    throw ir::UserError(std::string(variable) + " is '" + std::string(text) + "'; it takes 0 " +
                        (high == 1 ? "or " : "to ") + std::to_string(high));
  }
  return number;
}

} // namespace libtile::runtime
