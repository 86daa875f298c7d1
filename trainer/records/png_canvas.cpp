#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "trainer/records/canvas.h"

namespace tandem {
namespace {

// A letter of a real font, in pixels. A row of a letter after another, a character a pixel: 'a' is none of the ink, 'p' all.
struct Glyph {
  int advance, left, top;  // to the next letter; of its pixels from where it begins on the base line
  int width, height;
  std::string_view pixels;
};
#include "trainer/records/glyphs.inc"
constexpr int scale = 2;  // pixels a unit

std::string big_endian(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8), static_cast<char>(v)};
}

// Source: the PNG specification, section 5.3.
std::string chunk(std::string_view type, std::string_view data) {
  const std::string body = concat(type, data);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body + big_endian(static_cast<std::uint32_t>(crc));
}

class Png final : public Canvas {
 public:
  Png(double width, double height)
      : width_(static_cast<int>(width) * scale), height_(static_cast<int>(height) * scale),
        pixels_(static_cast<std::size_t>(width_) * static_cast<std::size_t>(height_) * 3, 255) {}

  void lines(std::span<const std::pair<double, double>> points, Ink ink) override {
    for (std::size_t i = 1; i < points.size(); ++i) segment(points[i - 1], points[i], ink);
  }
  void dot(double x, double y, double radius, std::uint32_t rgb) override { segment({x, y}, {x, y}, {rgb, 2 * radius}); }
  void text(double x, double y, std::string_view text, Anchor anchor, bool title) override {
    const auto glyph = [&](char c) -> const Glyph& { return (title ? bold : plain)[c >= ' ' && c <= '~' ? c - ' ' : '?' - ' ']; };
    double width = 0;
    for (const char c : text) width += static_cast<double>(glyph(c).advance) / scale;
    if (anchor != Anchor::start) x -= anchor == Anchor::end ? width : width / 2;
    int left = static_cast<int>(std::lround(x * scale));
    const int base = static_cast<int>(std::lround(y * scale));
    for (const char c : text) {
      const Glyph& g = glyph(c);
      for (int i = 0; i < g.width * g.height; ++i)
        paint(left + g.left + i % g.width, base + g.top + i / g.width, title ? 0x222222 : 0x444444,
              (g.pixels[static_cast<std::size_t>(i)] - 'a') / 15.0);
      left += g.advance;
    }
  }

  std::string file() const override {
    const std::string header =
        big_endian(static_cast<std::uint32_t>(width_)) + big_endian(static_cast<std::uint32_t>(height_)) + std::string("\x08\x02\0\0\0", 5);
    return std::string("\x89PNG\r\n\x1a\n") + chunk("IHDR", header) + chunk("IDAT", packed()) + chunk("IEND", "");
  }

 private:
  using Point = std::pair<double, double>;

  // Row by row: a picture is drawn while a checkpoint's copy of the weights is in memory, and takes megabytes.
  std::string packed() const {
    z_stream stream{};
    const auto done = [&](int code) {  // Z_BUF_ERROR: all was taken already
      if (code < 0 && code != Z_BUF_ERROR) fail("a picture of ", width_, " by ", height_, " pixels cannot be compressed");
    };
    done(deflateInit(&stream, 6));
    const std::unique_ptr<z_stream, int (*)(z_stream*)> ended(&stream, deflateEnd);
    std::string out;
    const auto add = [&](const std::uint8_t* bytes, std::size_t size, int flush) {
      std::array<Bytef, 1 << 14> buffer;
      stream.next_in = const_cast<Bytef*>(bytes);
      stream.avail_in = static_cast<uInt>(size);
      do {
        stream.next_out = buffer.data();
        stream.avail_out = static_cast<uInt>(buffer.size());
        done(deflate(&stream, flush));
        out.append(reinterpret_cast<const char*>(buffer.data()), buffer.size() - stream.avail_out);
      } while (stream.avail_out == 0);
    };
    const std::size_t row = static_cast<std::size_t>(width_) * 3;
    constexpr std::uint8_t no_filter = 0;
    for (std::size_t at = 0; at < pixels_.size(); at += row) {
      add(&no_filter, 1, Z_NO_FLUSH);
      add(&pixels_[at], row, at + row == pixels_.size() ? Z_FINISH : Z_NO_FLUSH);
    }
    return out;
  }

  // A line with round ends, its border as bright as it covers of a pixel.
  void segment(Point a, Point b, Ink ink) {
    for (double* v : {&a.first, &a.second, &b.first, &b.second}) *v *= scale;
    const double radius = ink.width * scale / 2, dx = b.first - a.first, dy = b.second - a.second, length = dx * dx + dy * dy;
    const auto from = [&](double v, int most) { return std::clamp(static_cast<int>(v - radius - 1), 0, most); };
    const auto to = [&](double v, int most) { return std::clamp(static_cast<int>(v + radius + 2), 0, most); };
    const int y1 = to(std::max(a.second, b.second), height_), x1 = to(std::max(a.first, b.first), width_);
    for (int y = from(std::min(a.second, b.second), height_); y < y1; ++y)
      for (int x = from(std::min(a.first, b.first), width_); x < x1; ++x) {
        const double px = x + 0.5 - a.first, py = y + 0.5 - a.second;
        const double along = length > 0 ? std::clamp((px * dx + py * dy) / length, 0.0, 1.0) : 0;
        paint(x, y, ink.rgb, std::clamp(radius + 0.5 - std::hypot(px - along * dx, py - along * dy), 0.0, 1.0));
      }
  }

  void paint(int x, int y, std::uint32_t rgb, double cover) {
    if (cover <= 0 || x < 0 || y < 0 || x >= width_ || y >= height_) return;
    std::uint8_t* at = &pixels_[(static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)) * 3];
    for (int c = 0; c < 3; ++c) {
      const double ink = rgb >> (16 - 8 * c) & 255;
      at[c] = static_cast<std::uint8_t>(std::lround(at[c] + cover * (ink - at[c])));
    }
  }

  int width_, height_;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace

std::unique_ptr<Canvas> Canvas::png(double width, double height) { return std::make_unique<Png>(width, height); }

}  // namespace tandem
