// Digits drawn by strokes: a random style, control points moved a little, a random affine map, a pen of random width,
// scraps of other strokes beside it, uneven ink and noise. Made so that places alone do not tell the digit (a linear
// model stays under 90%) while shapes do (a small convolutional net passes 97%).
#include <algorithm>
#include <cmath>

#include "base/spec.h"
#include "data/dataset.h"
#include "data/glyphs.h"
#include "data/stream.h"

namespace tandem {
namespace {

constexpr int side = 28;

// How far each distortion goes. Lengths in pixels.
struct Distortion {
  double jitter = 0.05;        // of a control point, in glyph units
  double half_tangent = 0.13;  // of half the rotation's angle: about 15 degrees
  double shear = 0.25;
  double width[2] = {9, 16};
  double height[2] = {14, 20};
  double shift = 3.5;          // of the glyph's centre
  double pen[2] = {0.7, 1.5};  // half the stroke's width
  double ink[2] = {0.55, 1.0};
  double scraps = 2;  // at most
  double scrap_ink = 0.6;
  double noise = 0.08;  // standard deviation
};
constexpr Distortion distortion;

// x, y of a glyph's unit box to pixels.
struct Affine {
  double a, b, c, d, tx, ty;
  Point operator()(Point p) const { return {a * p.x + b * p.y + tx, c * p.x + d * p.y + ty}; }
};

Affine random_affine(Random& random) {
  const Distortion& r = distortion;
  // A rotation by rational functions of its half angle's tangent: the same bits everywhere.
  const double t = random.uniform(-r.half_tangent, r.half_tangent);
  const double cosine = (1 - t * t) / (1 + t * t), sine = 2 * t / (1 + t * t);
  const double w = random.uniform(r.width[0], r.width[1]), h = random.uniform(r.height[0], r.height[1]);
  const double shear = random.uniform(-r.shear, r.shear);
  const Affine m{cosine * w, (cosine * shear - sine) * h, sine * w, (sine * shear + cosine) * h, 0, 0};
  const Point centre = m({.5, .5});
  const double middle = side / 2.0;
  return {m.a, m.b, m.c, m.d, middle + random.uniform(-r.shift, r.shift) - centre.x, middle + random.uniform(-r.shift, r.shift) - centre.y};
}

class Canvas {
 public:
  // Covers what lies within `pen` of the line, with an edge one pixel soft.
  void line(Point p, Point q, double pen, double ink) {
    const double reach = pen + 1;
    const auto low = [&](double u, double v) { return std::max(0, static_cast<int>(std::floor(std::min(u, v) - reach))); };
    const auto high = [&](double u, double v) { return std::min(side - 1, static_cast<int>(std::ceil(std::max(u, v) + reach))); };
    const double dx = q.x - p.x, dy = q.y - p.y, length2 = dx * dx + dy * dy;
    for (int y = low(p.y, q.y); y <= high(p.y, q.y); ++y)
      for (int x = low(p.x, q.x); x <= high(p.x, q.x); ++x) {
        const double px = x + .5 - p.x, py = y + .5 - p.y;
        const double along = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0.0;
        const double ex = px - along * dx, ey = py - along * dy;
        const double cover = ink * std::clamp(pen + .5 - std::sqrt(ex * ex + ey * ey), 0.0, 1.0);
        double& pixel = pixels_[y][x];
        pixel = std::max(pixel, cover);
      }
  }
  void write(Random& random, std::uint8_t* to) const {
    for (const auto& row : pixels_)
      for (const double pixel : row)
        *to++ = static_cast<std::uint8_t>(std::clamp(255 * (pixel + distortion.noise * random.normal()) + .5, 0.0, 255.0));
  }

 private:
  double pixels_[side][side] = {};
};

void draw_glyph(Canvas& canvas, const Glyph& glyph, Random& random) {
  const Affine place = random_affine(random);
  const double pen = random.uniform(distortion.pen[0], distortion.pen[1]);
  const double ink = random.uniform(distortion.ink[0], distortion.ink[1]);
  for (Stroke stroke : glyph.strokes) {
    for (Point& p : stroke.points) {
      p.x += random.uniform(-distortion.jitter, distortion.jitter);
      p.y += random.uniform(-distortion.jitter, distortion.jitter);
    }
    const std::vector<Point> points = flatten(stroke);
    for (std::size_t i = 0; i + 1 < points.size(); ++i) canvas.line(place(points[i]), place(points[i + 1]), pen, ink);
  }
}

// A short line near the border, as a neighbour's stroke would reach in.
void draw_scrap(Canvas& canvas, Random& random) {
  const double along = random.uniform(0, side), depth = random.uniform(0, 4), slant = random.uniform(-5, 5), end = random.uniform(-2, 5);
  Point p{along, depth}, q{along + slant, end};
  const std::int64_t edge = random.below(4);
  for (Point* v : {&p, &q}) {
    if (edge & 1) std::swap(v->x, v->y);
    if (edge & 2) *v = {side - v->x, side - v->y};
  }
  canvas.line(p, q, random.uniform(distortion.pen[0], distortion.pen[1]), random.uniform(0.2, distortion.scrap_ink));
}

std::unique_ptr<Dataset> draw(std::string_view part, std::int64_t samples, std::uint64_t seed) {
  std::vector<std::vector<const Glyph*>> styles(10);
  for (const Glyph& glyph : glyphs()) styles[static_cast<std::size_t>(glyph.digit)].push_back(&glyph);
  Tensor images(TensorType{DType::uint8, {samples, 1, side, side}}), labels(TensorType{DType::uint8, {samples}});
  const auto image = images.write<std::uint8_t>(), label = labels.write<std::uint8_t>();
  for (std::int64_t i = 0; i < samples; ++i) {
    Random random(seed, stream_of(concat("digits/", part, '/', i)));
    const auto digit = static_cast<std::size_t>(random.below(10));
    const auto& choice = styles[digit];
    Canvas canvas;
    for (std::int64_t n = random.below(static_cast<std::int64_t>(distortion.scraps) + 1); n > 0; --n) draw_scrap(canvas, random);
    draw_glyph(canvas, *choice[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(choice.size())))], random);
    canvas.write(random, image.data() + i * side * side);
    label[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(digit);
  }
  auto data = std::make_unique<MemoryDataset>(concat("synthetic:digits, ", part));
  data->add({.name = "images", .axes = Axes::channels_first, .pixels = true}, std::move(images));
  data->add({.name = "labels", .role = Role::label}, std::move(labels));
  return data;
}

}  // namespace

Splits open_synthetic(const Spec& spec, const DataRequest&) {
  if (spec.argument != "digits") fail(ExitCode::usage, "unknown data 'synthetic:", spec.argument, "', expected synthetic:digits");
  spec.allow({"train", "test", "seed"}, "data");
  const std::int64_t train = spec.integer("train", 12000), test = spec.integer("test", 2000);
  if (train < 1 || test < 1) fail(ExitCode::usage, "data 'synthetic:digits' needs at least one sample in each part");
  const auto seed = static_cast<std::uint64_t>(spec.integer("seed", 1));
  return {.train = draw("train", train, seed), .validation = nullptr, .test = draw("test", test, seed)};
}

}  // namespace tandem
