// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/svg.h"

#include <algorithm>
#include <cstdio>

namespace libtile {

namespace {

constexpr double kMargin = 16;

// Of one letter, in pixels: wide enough for any font that a reader has.
double letter(Svg::Font font) {
  switch (font) {
  case Svg::Font::Title: return 9;
  case Svg::Font::Text: return 7.2;
  case Svg::Font::Small: return 6.2;
  case Svg::Font::Cell: return 5.6;
  }
  return 0;
}

const char *className(Svg::Font font) {
  switch (font) {
  case Svg::Font::Title: return "title";
  case Svg::Font::Text: return "text";
  case Svg::Font::Small: return "small";
  case Svg::Font::Cell: return "cell";
  }
  return "";
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.5g", value);
  return text;
}

std::string escaped(std::string_view words) {
  std::string out;
  for (const char c : words) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

constexpr const char *kStyle = R"(<style>
text { font-family: ui-monospace, Menlo, Consolas, monospace; fill: #1c2128 }
.title { font: 600 14px system-ui, sans-serif } .text { font: 12px system-ui, sans-serif }
.small { font-size: 10px; fill: #57606a } .cell { font-size: 9px }
rect { stroke: #8c959f; stroke-width: .6 }
</style>
)";

} // namespace

void Svg::box(double x, double y, double width, double height, std::string_view colour) {
  body_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) + "\" height=\"" +
           number(height) + "\" fill=\"" + std::string(colour.empty() ? "none" : colour) + "\"/>\n";
  width_ = std::max(width_, x + width);
  height_ = std::max(height_, y + height);
}

void Svg::text(double x, double y, std::string_view words, Font font) { write(x, y, words, font, false); }
void Svg::centred(double x, double y, std::string_view words, Font font) { write(x, y, words, font, true); }

void Svg::write(double x, double y, std::string_view words, Font font, bool isCentred) {
  body_ += "<text class=\"" + std::string(className(font)) + "\" x=\"" + number(x) + "\" y=\"" + number(y) + "\"" +
           (isCentred ? " text-anchor=\"middle\"" : "") + ">" + escaped(words) + "</text>\n";
  const double length = letter(font) * static_cast<double>(words.size());
  width_ = std::max(width_, x + (isCentred ? length / 2 : length));
  height_ = std::max(height_, y + 4);
}

std::string Svg::str() const {
  const std::string size = number(width_ + 2 * kMargin) + " " + number(height_ + 2 * kMargin);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-" + number(kMargin) + " -" + number(kMargin) + " " + size +
         "\" width=\"" + number(width_ + 2 * kMargin) + "\">\n" + kStyle + "<rect x=\"-16\" y=\"-16\" width=\"100%\" height=\"100%\" fill=\"#ffffff\" stroke=\"none\"/>\n" +
         body_ + "</svg>\n";
}

} // namespace libtile
