#include "trainer/curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tandem {
namespace {

constexpr double panel_width = 460, panel_height = 320, left = 62, right = 18, top = 40, bottom = 46;
constexpr const char* colours[] = {"#2f6fb0", "#d1662b", "#3a9a5b", "#8a5fb5"};

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

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
  if (low == high) {
    low -= 0.5;
    high += 0.5;
  }
  return {low, high, from, to};
}

class Chart {
 public:
  explicit Chart(std::string& out) : out_(out) {}

  void draw(const Panel& panel, double offset) {
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
    const double floor = y0 >= 0 ? std::max(0.0, y0 - margin) : y0 - margin;
    if (x0 > 0) x0 = 0;  // a run begins at 0
    const Scale x = scale_of(x0, x1, offset + left, offset + panel_width - right);
    const Scale y = scale_of(floor, y1 + margin, panel_height - bottom, top);
    add(R"(<text x="{:.1f}" y="22" class="title">{}</text>)", offset + left, escape(panel.title));
    for (const double v : ticks(y.low, y.high, 6)) {
      add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="grid"/>)", x.from, y(v), x.to, y(v));
      add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{:g}</text>)", x.from - 8, y(v) + 4, v);
    }
    for (const double v : ticks(x.low, x.high, 6)) {
      add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" class="axis"/>)", x(v), y.from, x(v), y.from + 5);
      add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{:g}</text>)", x(v), y.from + 19, v);
    }
    add(R"(<path d="M{:.1f} {:.1f}V{:.1f}H{:.1f}" class="axis"/>)", x.from, y.to, y.from, x.to);
    add(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle">{}</text>)", (x.from + x.to) / 2, panel_height - 8, escape(panel.x_label));
    for (std::size_t i = 0; i < panel.series.size(); ++i) line(panel.series[i], colour(i), x, y);
    legend(panel, x.to);
  }

 private:
  static const char* colour(std::size_t i) { return colours[i % std::size(colours)]; }

  void line(const Series& s, const char* paint, const Scale& x, const Scale& y) {
    std::string path;
    bool pen_down = false;
    for (const auto& p : s.points) {
      if (finite(p)) path += fmt::format("{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x(p.first), y(p.second));
      pen_down = finite(p);
    }
    if (!path.empty()) add(R"(<path d="{}" class="line" stroke="{}"/>)", path, paint);
    for (const auto& p : s.points)
      if (s.marks && finite(p)) add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", x(p.first), y(p.second), paint);
  }

  // To the right of the title, names from right to left.
  void legend(const Panel& panel, double end) {
    for (std::size_t i = panel.series.size(); i-- > 0;) {
      const std::string& name = panel.series[i].name;
      end -= 7.0 * static_cast<double>(name.size());
      add(R"(<text x="{:.1f}" y="22">{}</text>)", end, escape(name));
      add(R"(<line x1="{:.1f}" y1="18" x2="{:.1f}" y2="18" class="line" stroke="{}"/>)", end - 24, end - 6, colour(i));
      end -= 40;
    }
  }

  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
    out_ += '\n';
  }

  std::string& out_;
};

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

std::string svg_of(std::span<const Panel> panels) {
  const double width = panel_width * static_cast<double>(std::max<std::size_t>(1, panels.size()));
  std::string out = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" viewBox="0 0 {0:g} {1:g}">
<style>
text {{ font: 12px sans-serif; fill: #444 }}
.title {{ font-size: 15px; font-weight: bold; fill: #222 }}
.grid {{ stroke: #e4e4e4 }}
.axis {{ stroke: #888; fill: none }}
.line {{ stroke-width: 2; fill: none; stroke-linejoin: round }}
</style>
<rect width="100%" height="100%" fill="white"/>
)",
      width, panel_height);
  Chart chart(out);
  double offset = 0;
  for (const Panel& panel : panels) {
    chart.draw(panel, offset);
    offset += panel_width;
  }
  return out + "</svg>\n";
}

}  // namespace tandem
