// SPDX-License-Identifier: Apache-2.0
// What differs between two texts, line by line.
#pragma once

#include <string>
#include <string_view>

namespace libtile {

// "-" lines of the first text only, "+" of the second only, " " of both: up to three around each
// difference, under a line "@@ -12,5 +12,7 @@" with the first line and the number of lines in each
// text. Empty if the texts are equal. Where they differ in more than a few thousand lines, all of
// the first come before all of the second.
[[nodiscard]] std::string diff(std::string_view before, std::string_view after);

} // namespace libtile
