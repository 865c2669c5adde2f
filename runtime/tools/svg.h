// SPDX-License-Identifier: Apache-2.0
// Pictures as SVG text: boxes and lines of text under each other, in pixels.
#pragma once

#include <string>
#include <string_view>

namespace libtile {

// A picture that grows downwards. Text is escaped.
class Svg {
public:
  enum class Font : uint8_t { Title, Text, Small, Cell };

  // A box; empty `colour`: only its border.
  void box(double x, double y, double width, double height, std::string_view colour);
  // Text whose base line begins at (x, y), or has its middle there.
  void text(double x, double y, std::string_view words, Font font);
  void centred(double x, double y, std::string_view words, Font font);
  // The whole picture.
  [[nodiscard]] std::string str() const;

private:
  void write(double x, double y, std::string_view words, Font font, bool isCentred);

  std::string body_;
  double width_ = 0, height_ = 0;
};

} // namespace libtile
