// What charts are drawn on: SVG, or pixels that become a PNG. Units are SVG's pixels, y grows downwards.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tandem {

struct Ink {
  std::uint32_t rgb;
  double width = 1;
};
enum class Anchor { start, middle, end };

class Canvas {
 public:
  virtual ~Canvas() = default;
  virtual void lines(std::span<const std::pair<double, double>> points, Ink ink) = 0;  // one after another, joined
  virtual void dot(double x, double y, double radius, std::uint32_t rgb) = 0;
  virtual void text(double x, double y, std::string_view text, Anchor anchor, bool title) = 0;  // y: its base line
  virtual std::string file() const = 0;

  static std::unique_ptr<Canvas> svg(double width, double height);
  // Twice as many pixels as units; its letters are ASCII's, others become '?'.
  static std::unique_ptr<Canvas> png(double width, double height);
};

}  // namespace tandem
