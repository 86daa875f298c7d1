#include "trainer/records/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>

#include "trainer/records/canvas.h"

namespace tandem {
namespace {

constexpr double panel_width = 460, panel_height = 320, left = 62, right = 18, top = 40, bottom = 46;
constexpr std::uint32_t colours[] = {0x2f6fb0, 0xd1662b, 0x3a9a5b, 0x8a5fb5, 0xb5484f, 0x6b6b6b, 0x1f9ea8, 0xb08f1f};

bool finite(const std::pair<double, double>& p) {
  return std::isfinite(p.first) && std::isfinite(p.second);
}

// One axis: data to pixels.
struct Scale {
  double low, high, from, to;
  double operator()(double v) const { return from + (v - low) / (high - low) * (to - from); }
};

Scale scale_of(double low, double high, double from, double to) {
  if (!(low <= high)) {
    low = 0;
    high = 1;
  }
  // A constant lies between nothing and twice itself. What hardly differs keeps as much room as makes the labels of ticks differ.
  const double size = std::max(std::abs(low), std::abs(high)), least = low == high ? 2 * size : 1e-4 * size;
  if (const double lacks = least - (high - low); lacks > 0) {
    low -= lacks / 2;
    high += lacks / 2;
  }
  if (low == high) high = 1;
  return {low, high, from, to};
}

class Chart {
 public:
  explicit Chart(Canvas& out) : out_(out) {}

  void draw(const Panel& panel, double left_edge, double top_edge) {
    double x0 = INFINITY, x1 = -INFINITY, y0 = INFINITY, y1 = -INFINITY;
    for (const Series& s : panel.series)
      for (const auto& p : s.points)
        if (finite(p)) {
          x0 = std::min(x0, p.first);
          x1 = std::max(x1, p.first);
          y0 = std::min(y0, p.second);
          y1 = std::max(y1, p.second);
        }
    const double margin = y1 > y0 ? 0.05 * (y1 - y0) : 0;
    const double floor = y0 >= 0 && panel.from_zero ? 0 : y0 >= 0 ? std::max(0.0, y0 - margin) : y0 - margin;
    if (x0 > 0) x0 = 0;  // a run begins at 0
    const Scale x = scale_of(x0, x1, left_edge + left, left_edge + panel_width - right);
    const Scale y = scale_of(floor, y1 + margin, top_edge + panel_height - bottom, top_edge + top);
    const double base = top_edge + 22;
    out_.text(x.from, base, panel.title, Anchor::start, true);
    for (const double v : ticks(y.low, y.high, 6)) {
      stroke({{x.from, y(v)}, {x.to, y(v)}}, {0xe4e4e4});
      out_.text(x.from - 8, y(v) + 4, fmt::format("{:g}", v), Anchor::end, false);
    }
    for (const double v : ticks(x.low, x.high, 6)) {
      stroke({{x(v), y.from}, {x(v), y.from + 5}}, {0x888888});
      out_.text(x(v), y.from + 19, fmt::format("{:g}", v), Anchor::middle, false);
    }
    stroke({{x.from, y.to}, {x.from, y.from}, {x.to, y.from}}, {0x888888});
    out_.text((x.from + x.to) / 2, top_edge + panel_height - 8, panel.x_label, Anchor::middle, false);
    for (std::size_t i = 0; i < panel.series.size(); ++i) line(panel.series[i], colour(i), x, y);
    legend(panel, x.from + 10.0 * static_cast<double>(panel.title.size()), x.to, base);
  }

 private:
  static std::uint32_t colour(std::size_t i) { return colours[i % std::size(colours)]; }

  void stroke(std::initializer_list<std::pair<double, double>> points, Ink ink) { out_.lines({points.begin(), points.size()}, ink); }

  void line(const Series& s, std::uint32_t rgb, const Scale& x, const Scale& y) {
    std::vector<std::pair<double, double>> piece;
    const auto lift = [&] {
      if (piece.size() > 1) out_.lines(piece, {rgb, 2});
      piece.clear();
    };
    for (const auto& p : s.points)
      if (finite(p))
        piece.emplace_back(x(p.first), y(p.second));
      else
        lift();
    lift();
    for (const auto& p : s.points)
      if (finite(p) && (s.marks || s.points.size() == 1)) out_.dot(x(p.first), y(p.second), 3, rgb);
  }

  // To the right of the title, names from right to left; where there is no room for them, one below the other.
  void legend(const Panel& panel, double begin, double end, double base) {
    const auto width = [](const std::string& name) { return 7.0 * static_cast<double>(name.size()); };
    double all = 0;
    for (const Series& s : panel.series) all += s.name.empty() ? 0 : width(s.name) + 40;
    const bool below = all > end - begin;
    for (std::size_t i = panel.series.size(); i-- > 0;) {
      const std::string& name = panel.series[i].name;
      if (name.empty()) continue;
      const double y = below ? base + 18 + 14 * static_cast<double>(i) : base, x = end - width(name);
      out_.text(x, y, name, Anchor::start, false);
      stroke({{x - 24, y - 4}, {x - 6, y - 4}}, {colour(i), 2});
      if (!below) end = x - 40;
    }
  }

  Canvas& out_;
};

std::string file_of(std::span<const Panel> panels, std::unique_ptr<Canvas> (*canvas)(double, double)) {
  const std::size_t count = std::max<std::size_t>(1, panels.size()), columns = std::min<std::size_t>(count, 3),
                    rows = (count + columns - 1) / columns;
  const std::unique_ptr<Canvas> out = canvas(panel_width * static_cast<double>(columns), panel_height * static_cast<double>(rows));
  Chart chart(*out);
  for (std::size_t i = 0; i < panels.size(); ++i)
    chart.draw(panels[i], panel_width * static_cast<double>(i % columns), panel_height * static_cast<double>(i / columns));
  return out->file();
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double m : {5.0, 2.0, 1.0})
    if (m * power >= rough * 0.999) step = m * power;
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) out.push_back(i == 0 ? 0 : i * step);
  return out;
}

std::string svg_of(std::span<const Panel> panels) { return file_of(panels, Canvas::svg); }
std::string png_of(std::span<const Panel> panels) { return file_of(panels, Canvas::png); }

}  // namespace tandem
