// Strokes of the digits 0 to 9, several styles each, in a box 0..1 wide and high, y down.
#pragma once
#include <span>
#include <vector>

namespace tandem {

struct Point {
  double x, y;
};
struct Stroke {
  bool smooth;  // a curve through the points; else straight lines
  std::vector<Point> points;
};
struct Glyph {
  int digit;
  std::vector<Stroke> strokes;
};
std::span<const Glyph> glyphs();

// A stroke as short straight lines (Catmull-Rom where it is smooth).
std::vector<Point> flatten(const Stroke& stroke);

}  // namespace tandem
