#include <fmt/format.h>

#include <iterator>

#include "base/printable.h"
#include "trainer/records/canvas.h"

namespace tandem {
namespace {

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : printable(text))
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

class Svg final : public Canvas {
 public:
  Svg(double width, double height) {
    out_ = fmt::format(R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:g}" height="{1:g}" viewBox="0 0 {0:g} {1:g}">
<style>
text {{ font: 12px sans-serif; fill: #444 }}
.title {{ font-size: 15px; font-weight: bold; fill: #222 }}
path {{ fill: none; stroke-linejoin: round }}
</style>
<rect width="100%" height="100%" fill="white"/>
)",
                       width, height);
  }

  void lines(std::span<const std::pair<double, double>> points, Ink ink) override {
    std::string path;
    for (const auto& [x, y] : points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? 'M' : 'L', x, y);
    add(R"(<path d="{}" stroke="#{:06x}" stroke-width="{:g}"/>)", path, ink.rgb, ink.width);
  }
  void dot(double x, double y, double radius, std::uint32_t rgb) override {
    add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="{:g}" fill="#{:06x}"/>)", x, y, radius, rgb);
  }
  void text(double x, double y, std::string_view text, Anchor anchor, bool title) override {
    constexpr const char* anchors[] = {"", R"( text-anchor="middle")", R"( text-anchor="end")"};
    add(R"(<text x="{:.1f}" y="{:.1f}"{}{}>{}</text>)", x, y, anchors[static_cast<int>(anchor)], title ? R"( class="title")" : "",
        escape(text));
  }
  std::string file() const override { return out_ + "</svg>\n"; }

 private:
  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Values>(values)...);
    out_ += '\n';
  }
  std::string out_;
};

}  // namespace

std::unique_ptr<Canvas> Canvas::svg(double width, double height) { return std::make_unique<Svg>(width, height); }

}  // namespace tandem
