// Line charts as SVG or PNG: panels, three in a row, each with axes, a light grid and a legend.
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // those that are not finite leave a gap
  bool marks = false;                             // a dot at every point
};
struct Panel {
  std::string title;
  std::string x_label;
  std::vector<Series> series;
  bool from_zero = false;  // the y axis
};
std::string svg_of(std::span<const Panel> panels);
std::string png_of(std::span<const Panel> panels);

// Round numbers (1, 2 or 5 times a power of ten) that divide [low, high] into about `count` parts.
std::vector<double> ticks(double low, double high, int count);

}  // namespace tandem
