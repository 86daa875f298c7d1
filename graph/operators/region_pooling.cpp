// RoiAlign and MaxRoiPool: pooling over regions of images, which their operand `rois` names. As in PyTorch no gradient flows to the
// regions.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "graph/operators/sampling.h"

namespace tandem::operator_rows {
namespace {

// rois as [R, 4] columns, each [R, 1]
ValueId column(GraphBuilder& b, ValueId rois, int i) { return slice_axis(b, rois, 1, i, i + 1); }

std::int64_t positive(const InferContext& c, std::int64_t n, const char* name) {
  if (n < 1 || n >= std::int64_t{1} << 20) c.fail(name, " is ", n, ", expected at least 1");
  return n;
}

// Samples of the regions would meet samples of the images, but where each image has its own `regions`, in order.
void follow_regions(FollowContext& c) {
  if (c.attributes().has("regions") && c.place() == BatchPlace{.axis = 0}) {
    if (!c.place(1).present()) c.repeat(1, 0, 1);
    if (c.place(1).present() && c.place(1) != BatchPlace{.axis = 0})
      c.fail("its operands hold the samples at different places: samples would meet");
    return c.set(0, {.axis = 0});
  }
  c.fail("its regions take from any of the images, so they cannot be followed sample by sample: train at the batch of the file");
}

// ---- RoiAlign ----

void infer_roi_align(InferContext& c) {
  expect_rank(c, 0, 4);
  if (!is_float(c.input(0).dtype)) c.fail("input 0 is ", c.input(0), ", expected floats");
  const Shape& x = c.shape(0);
  if (x[2] == 0 || x[3] == 0) c.fail("x is ", x, ": an image without elements");
  expect_dtype(c, 1, c.input(0).dtype);
  expect_rank(c, 1, 2);
  const std::int64_t regions = c.shape(1)[0];
  expect_shape(c, 1, Shape{regions, 4});
  expect_dtype(c, 2, DType::int64);
  expect_shape(c, 2, Shape{regions});
  Attributes& a = c.node().attributes;
  a.set("mode", a.text("mode", "avg"));
  if (a.text("mode") != "avg" && a.text("mode") != "max") c.fail("mode is '", a.text("mode"), "', expected avg or max");
  const std::string where = a.text("coordinate_transformation_mode", "half_pixel");
  if (where != "half_pixel" && where != "output_half_pixel")
    c.fail("coordinate_transformation_mode is '", where, "', expected half_pixel or output_half_pixel");
  a.set("coordinate_transformation_mode", where);
  a.set("output_height", positive(c, a.integer("output_height", 1), "output_height"));
  a.set("output_width", positive(c, a.integer("output_width", 1), "output_width"));
  a.set("spatial_scale", a.real("spatial_scale", 1));
  a.set("sampling_ratio", a.integer("sampling_ratio", 0));
  if (a.integer("sampling_ratio") < 0 || a.integer("sampling_ratio") >= 1 << 20) c.fail("sampling_ratio is ", a.integer("sampling_ratio"));
  c.set_output(0, c.input(0).dtype, Shape{regions, x[1], a.integer("output_height"), a.integer("output_width")});
}

// The places [R, bins, samples] that the bins of one axis take, their number a bin [R, 1], and which of them do not count.
struct BinPlaces {
  ValueId place, count;
  std::int64_t samples;
};

std::vector<double> counted(std::int64_t n, double first) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<double>(i);
  return values;
}

// The most samples that a bin of known regions takes along one axis, where it takes as many as it is elements long.
std::int64_t most_samples(const Tensor& rois, int k, double scale, std::int64_t bins, bool half_pixel) {
  const std::vector<double> r = rois.to_doubles();
  double most = 1;
  for (std::size_t i = 0; i < r.size(); i += 4) {
    const double length = (r[i + static_cast<std::size_t>(k) + 2] - r[i + static_cast<std::size_t>(k)]) * scale;
    most = std::max(most, std::ceil((half_pixel ? length : std::max(length, 1.0)) / static_cast<double>(bins) + 1e-3));
  }
  if (!(most < 1 << 20)) fail("a region is ", most * static_cast<double>(bins), " elements long");
  return static_cast<std::int64_t>(most);
}

// In the regions' own type and in the order of others' implementations: whether a place is just within an image, and how many samples
// a bin takes, hang on roundings. `ratio` 0: as many as a bin is elements long, at most `most`; the samples beyond a bin's own lie far
// outside, where nothing counts.
BinPlaces bin_places(ExpandContext& e, ValueId begin, ValueId end, std::int64_t size, std::int64_t bins, std::int64_t ratio,
                     std::int64_t most, bool half_pixel) {
  const DType dtype = e.type(begin).dtype;
  const auto number = [&](double v) { return e.scalar(v, dtype); };
  ValueId length = e.sub(end, begin);
  if (!half_pixel) length = e.emit("Max", {length, number(1)});
  const ValueId bin = e.div(length, number(static_cast<double>(bins)));  // [R, 1]
  const std::int64_t regions = e.shape(begin)[0];
  BinPlaces p{.samples = ratio > 0 ? ratio : most};
  if (ratio > 0) {
    p.count = e.broadcast_to(number(static_cast<double>(ratio)), Shape{regions, 1});
  } else {
    p.count = e.emit("Min", {e.emit("Max", {e.emit("Ceil", {bin}), number(0)}), number(static_cast<double>(p.samples))});
  }
  const ValueId sample = constant_along(e, counted(p.samples, 0.5), 2, 3, dtype), index = constant_along(e, counted(bins, 0), 1, 3, dtype);
  const auto wide = [&](ValueId v) { return e.reshape(v, Shape{regions, 1, 1}); };
  const ValueId count = e.emit("Max", {p.count, number(1)});
  p.place = e.add(e.add(wide(begin), e.mul(index, wide(bin))), e.div(e.mul(sample, wide(bin)), wide(count)));
  if (ratio == 0) p.place = e.emit("Where", {e.emit("Less", {sample, wide(p.count)}), p.place, number(-1e9)});
  // Between the outermost elements and one beyond them the outermost count; farther away nothing does.
  const double n = static_cast<double>(size);
  const ValueId clipped = e.emit("Min", {e.emit("Max", {p.place, number(0)}), number(n - 1)});
  const ValueId within = e.emit("And", {e.emit("GreaterOrEqual", {p.place, number(-1)}), e.emit("LessOrEqual", {p.place, number(n)})});
  p.place = cast(e, e.emit("Where", {within, clipped, number(-1e9)}), DType::float64);
  return p;
}

std::vector<ValueId> expand_roi_align(ExpandContext& e) {
  const TensorType x = e.type(e.x(0));
  const Attributes& a = e.attributes();
  const std::int64_t regions = e.shape(e.x(1))[0], images = x.shape[0], channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  const std::int64_t rows = a.integer("output_height"), columns = a.integer("output_width");
  const bool half_pixel = a.text("coordinate_transformation_mode") == "half_pixel";
  const DType weights = x.dtype == DType::float64 ? DType::float64 : DType::float32;
  const ValueId rois = e.add(e.mul(cast(e, e.x(1), weights), a.real("spatial_scale")), half_pixel ? -0.5 : 0.0);
  const Value& given = e.graph()[e.x(1)];
  const std::optional<Tensor> known = given.kind == ValueKind::constant ? given.data : std::nullopt;
  // With `regions` each image's rows stand apart, else all of them in one list.
  const bool own = a.has("regions");
  const std::int64_t pixels = height * width, lists = own ? images : 1, elements = images / lists * pixels;
  const auto axis = [&](int k, std::int64_t size, std::int64_t stride, std::int64_t bins) {
    // Of regions that are not known one as long as the image is the longest: longer ones take no more samples.
    const std::int64_t most = known ? most_samples(*known, k, a.real("spatial_scale"), bins, half_pixel) : (size + bins - 1) / bins;
    BinPlaces p = bin_places(e, column(e, rois, k), column(e, rois, k + 2), size, bins, a.integer("sampling_ratio"), most, half_pixel);
    Taps t = taps_at(e, p.place, {size, stride, elements, -0.5, static_cast<double>(size) - 0.5}, TapMode::linear, Outside::zeros, weights);
    return std::pair(p, t);
  };
  const auto [by, ty] = axis(1, height, width, rows);    // [R, rows, samples, 2]
  const auto [bx, tx] = axis(0, width, 1, columns);      // [R, columns, samples, 2]
  if (const double all = 4.0 * static_cast<double>(regions * rows * columns) * static_cast<double>(by.samples * bx.samples); all > 1 << 27)
    fail("RoiAlign '", e.node().name, "': with sampling_ratio 0 and regions that are ", known ? "as long as these" : "not known before",
         " a bin takes up to ", by.samples, " x ", bx.samples, " samples, together ", all, " elements; give it a sampling_ratio");
  // [R, rows, 1, samples, 1, 2, 1] with [R, 1, columns, 1, samples, 1, 2], and from where a region's image begins
  const Shape down{regions, rows, 1, by.samples, 1, 2, 1}, right{regions, 1, columns, 1, bx.samples, 1, 2};
  const ValueId image =
      own ? e.scalar(0, DType::float64)
          : e.reshape(e.mul(cast(e, e.x(2), DType::float64), static_cast<double>(pixels)), Shape{regions, 1, 1, 1, 1, 1, 1});
  const ValueId within_image = e.add(e.reshape(ty.index, down), e.reshape(tx.index, right));
  const ValueId inside = e.emit("GreaterOrEqual", {within_image, e.scalar(0, DType::float64)});
  const ValueId index = cast(e, e.emit("Where", {inside, e.add(within_image, image), e.scalar(-1, DType::float64)}), DType::int64);
  ValueId weight = e.mul(e.reshape(ty.weight, down), e.reshape(tx.weight, right));
  const std::int64_t taps = by.samples * bx.samples * 4, places = regions * rows * columns / lists;
  const ValueId pixel_rows = e.reshape(e.transpose(e.x(0), {0, 2, 3, 1}), Shape{lists, elements, channels});
  const auto back = [&](ValueId y) { return e.transpose(e.reshape(y, Shape{regions, rows, columns, channels}), {0, 3, 1, 2}); };
  if (a.text("mode") == "avg") {
    const ValueId count = e.emit("Max", {e.mul(by.count, bx.count), e.scalar(1, weights)});
    weight = e.div(weight, e.reshape(count, Shape{regions, 1, 1, 1, 1, 1, 1}));
    return {back(
        sample_rows(e, pixel_rows, e.reshape(index, Shape{lists, places, taps}), e.reshape(weight, Shape{lists, places, taps}), true))};
  }
  // The largest of all weighted elements; one outside counts 0, one that does not count nothing.
  const ValueId all = e.reshape(
      sample_rows(e, pixel_rows, e.reshape(index, Shape{lists, places * taps, 1}), e.reshape(weight, Shape{lists, places * taps, 1}), true),
      Shape{regions, rows * columns, taps, channels});
  if (a.integer("sampling_ratio") > 0) return {back(e.emit("ReduceMax", {all}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{0}}}))};
  const auto taken = [&](const BinPlaces& p, const Shape& shape) {
    return e.reshape(e.emit("Less", {constant_along(e, counted(p.samples, 0), 1, 2, weights), p.count}), shape);
  };
  const ValueId counts = e.emit("And", {taken(by, {regions, 1, by.samples, 1, 1}), taken(bx, {regions, 1, 1, bx.samples, 1})});
  const ValueId four = e.reshape(e.broadcast_to(counts, Shape{regions, 1, by.samples, bx.samples, 4}), Shape{regions, 1, taps, 1});
  const ValueId largest = e.emit("ReduceMax", {e.emit("Where", {four, all, e.scalar(std::numeric_limits<float>::lowest() / 4, x.dtype)})},
                                 {{"axes", Ints{2}}, {"keepdims", std::int64_t{0}}});
  const ValueId any = e.reshape(e.emit("Greater", {e.mul(by.count, bx.count), e.scalar(0, weights)}), Shape{regions, 1, 1});
  return {back(e.emit("Where", {any, largest, e.scalar(0, x.dtype)}))};
}

// ---- MaxRoiPool ----

void infer_max_roi_pool(InferContext& c) {
  expect_rank(c, 0, 4);
  expect_dtype(c, 1, c.input(0).dtype);
  expect_rank(c, 1, 2);
  const std::int64_t regions = c.shape(1)[0];
  expect_shape(c, 1, Shape{regions, 5});
  const Ints pooled = c.attributes().ints("pooled_shape");
  if (pooled.size() != 2) c.fail("pooled_shape has ", pooled.size(), " entries, expected 2");
  for (const std::int64_t n : pooled) positive(c, n, "pooled_shape");
  c.node().attributes.set("spatial_scale", c.attributes().real("spatial_scale", 1));
  c.set_output(0, c.input(0).dtype, Shape{regions, c.shape(0)[1], pooled[0], pooled[1]});
}

// Which of `size` elements are in each of the bins of a region from `first` to `last`: [R, bins, size].
ValueId bin_members(ExpandContext& e, ValueId first, ValueId last, std::int64_t size, std::int64_t bins) {
  const std::int64_t regions = e.shape(first)[0];
  const auto wide = [&](ValueId v) { return e.reshape(v, Shape{regions, 1, 1}); };
  const ValueId length = e.emit("Max", {e.add(e.sub(last, first), 1.0), e.scalar(1, DType::float64)});
  const auto edge = [&](double number) {  // of bin 0, 1, ...; whole numbers stay what they are, as they are divided last
    return e.div(e.mul(wide(length), constant_along(e, counted(bins, number), 1, 3, DType::float64)),
                 e.scalar(static_cast<double>(bins), DType::float64));
  };
  const ValueId begin = e.add(e.emit("Floor", {edge(0)}), wide(first)), end = e.add(e.emit("Ceil", {edge(1)}), wide(first));
  const ValueId element = constant_along(e, counted(size, 0), 2, 3, DType::float64);
  return e.emit("And", {e.emit("GreaterOrEqual", {element, begin}), e.emit("Less", {element, end})});
}

// First along the rows of the region's image, then along the columns. A bin without elements is 0.
std::vector<ValueId> expand_max_roi_pool(ExpandContext& e) {
  const TensorType x = e.type(e.x(0));
  const Ints pooled = e.attributes().ints("pooled_shape");
  const std::int64_t regions = e.shape(e.x(1))[0], channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  const ValueId rois = cast(e, e.x(1), x.dtype == DType::float64 ? DType::float64 : DType::float32);
  const auto corner = [&](int i) {  // to the next element, halves up: of float32 products, on whose rounding that hangs
    return cast(e, e.emit("Floor", {e.add(e.mul(column(e, rois, i), e.attributes().real("spatial_scale")), 0.5)}), DType::float64);
  };
  const ValueId in_rows = bin_members(e, corner(2), corner(4), height, pooled[0]),
                in_columns = bin_members(e, corner(1), corner(3), width, pooled[1]);
  const ValueId images =
      e.emit("Gather", {e.x(0), e.reshape(cast(e, column(e, rois, 0), DType::int64), Shape{regions})}, {{"axis", std::int64_t{0}}});
  const ValueId nothing = e.scalar(std::numeric_limits<float>::lowest() / 4, x.dtype);
  const auto largest = [&](ValueId members, const Shape& mask, ValueId values, std::int64_t axis) {
    return e.emit("ReduceMax", {e.emit("Where", {e.reshape(members, mask), values, nothing})},
                  {{"axes", Ints{axis}}, {"keepdims", std::int64_t{0}}});
  };
  const ValueId by_rows =
      largest(in_rows, {regions, 1, pooled[0], height, 1}, e.reshape(images, Shape{regions, channels, 1, height, width}), 3);
  const ValueId y =
      largest(in_columns, {regions, 1, 1, pooled[1], width}, e.reshape(by_rows, Shape{regions, channels, pooled[0], 1, width}), 4);
  return {e.emit("Where", {e.emit("Greater", {y, e.mul(nothing, 0.5)}), y, e.scalar(0, x.dtype)})};
}

}  // namespace

// y[r,c,i,j] = mean or maximum of x[batch_indices[r], c] at sampling_ratio² places of bin (i, j) of region r
Operator roi_align() {
  return {.name = "RoiAlign",
          .since = {10, 16, 22}, .inputs = {3, 3}, .types = {{"T1", types::floats}, {"T1", types::floats}, {"T2", types::integers_64}},
          .infer = infer_roi_align,
          .follow = follow_regions,
          .expand = expand_roi_align,
          .precision = PrecisionRole::parts, .operands = {{"X"}, {"rois", OperandRole::index}, {"batch_indices", OperandRole::index}}};
}

// The same of the largest elements in bins of whole elements; rois are [image, x1, y1, x2, y2]
Operator max_roi_pool() {
  return {.name = "MaxRoiPool",
          .since = {1, 22}, .inputs = {2, 2}, .types = {{"T", types::floats}},
          .infer = infer_max_roi_pool,
          .follow = follow_regions,
          .expand = expand_max_roi_pool,
          .precision = PrecisionRole::parts, .operands = {{"X"}, {"rois", OperandRole::index}}};
}

}  // namespace tandem::operator_rows
