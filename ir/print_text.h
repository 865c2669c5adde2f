// SPDX-License-Identifier: Apache-2.0
// The lines that `print` writes, one an element, on every target:
//
//   pid (0, 3, 0) idx (7, 12) x: (operand 1) 0x0000002a
//
// The program; the element's indices, as wide as the largest along their axis, none of a scalar; the op's
// text; which operand it is, if there are several; the value. A print without operands writes the program and
// the text. Parts of it are formats of C's printf, since a GPU's printf gets them whole.
#pragma once

#include "ir/type.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace libtile::ir {

// How the elements of an operand are written, a word in the attribute `formats`:
//   d   a signed integer        f       a float, six digits behind the point
//   u   an unsigned one         x1-x16  an integer as 0x and at least so many hexadecimal digits
struct PrintFormat {
  char letter = 'd';
  int digits = 0; // of x
};
// nullopt: not of that form.
[[nodiscard]] std::optional<std::vector<PrintFormat>> readPrintFormats(std::string_view text);
// The element is one of the types that print takes, and the format is for such.
[[nodiscard]] bool writes(const PrintFormat &format, const Type &element);

// Of printf: "%lld", "0x%08x", "%f", for an i32 or i64 as it is, and a double.
[[nodiscard]] std::string valueFormat(const PrintFormat &format, const Type &element);
// Of printf, for the i32 index along an axis of that extent: "%3d".
[[nodiscard]] std::string indexFormat(int32_t extent);
// What stands between indices and value.
[[nodiscard]] std::string textBeforeValue(std::string_view text, unsigned operand, unsigned numOperands);
// For printf to write it as it is.
[[nodiscard]] std::string escapePercents(std::string_view text);

} // namespace libtile::ir
