// Convolutions and pooling.
#include "tests/cuda/cases/rows.h"

#include <algorithm>

namespace tandem::cuda::cases {
namespace {

struct Windowed {
  Shape x, y;
  Attributes attributes;
};
Windowed windowed(std::mt19937& random, bool dilates, bool both_axes = false) {
  Windowed w{image(random), {}, {}};
  const Ints kernel{between(random, 1, 3), between(random, 1, 3)}, strides{between(random, 1, 2), between(random, 1, 3)};
  const Ints dilations = dilates ? Ints{between(random, 1, 2), both_axes ? between(random, 1, 2) : 1} : Ints{1, 1};
  const Ints pads{between(random, 0, kernel[0] - 1), 0, between(random, 0, kernel[0] - 1), between(random, 0, kernel[1] - 1)};
  w.y = w.x;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t extent = (kernel[i] - 1) * dilations[i] + 1;
    w.x[2 + static_cast<int>(i)] = std::max(w.x[2 + static_cast<int>(i)], extent);
    w.y[2 + static_cast<int>(i)] = (w.x[2 + static_cast<int>(i)] + pads[i] + pads[i + 2] - extent) / strides[i] + 1;
  }
  w.attributes = {{"kernel_shape", kernel}, {"strides", strides}, {"pads", pads}, {"dilations", dilations}};
  return w;
}

Comparison convolution(std::mt19937& random, const char* op) {
  Windowed w = windowed(random, true);
  const std::int64_t groups = between(random, 1, 2), in = groups * between(random, 1, 3), out = groups * between(random, 1, 3);
  w.x[1] = in;
  w.y[1] = out;
  const Ints kernel = w.attributes.ints("kernel_shape");
  const Shape filter{out, in / groups, kernel[0], kernel[1]};
  w.attributes.set("group", groups);
  const std::string_view name = op;
  if (name == "Conv") {
    w.attributes.set("activation", std::string("Relu"));
    return {op, w.attributes, {random_tensor(random, w.x), random_tensor(random, filter), random_tensor(random, {out})}, {real(w.y)}, 256};
  }
  if (name == "ConvolutionBackwardData") {
    w.attributes.set("input_shape", w.x.dims);
    Comparison c{op, w.attributes, {random_tensor(random, w.y), random_tensor(random, filter)}, {real(w.x)}, 256};
    if (between(random, 0, 1) == 1) c.inputs.push_back(random_tensor(random, w.x));  // masks
    return c;
  }
  if (name == "ConvTranspose") {
    w.attributes.set("output_padding", Ints{0, 0});
    return {op, w.attributes, {random_tensor(random, w.y), random_tensor(random, filter), random_tensor(random, {in})}, {real(w.x)}, 256};
  }
  w.attributes.set("weight_shape", filter.dims);
  return {op, w.attributes, {random_tensor(random, w.x), random_tensor(random, w.y)}, {real(filter), real({out})}, 2048};
}

// With sums of what is written, perhaps normalizing what is read. Channels in eights: libraries have kernels for no others.
Comparison chained_convolution(std::mt19937& random, const char* op, bool normalizes) {
  Windowed w = windowed(random, true);
  w.x[1] = 8 * between(random, 1, 2);
  w.y[1] = 8 * between(random, 1, 2);
  const Ints kernel = w.attributes.ints("kernel_shape");
  const Shape filter{w.y[1], w.x[1], kernel[0], kernel[1]}, c{w.y[1]}, in{w.x[1]};
  const bool forward = std::string_view(op) == "Conv";
  Comparison k{
      op, w.attributes, {random_tensor(random, w.x), random_tensor(random, forward ? filter : w.y)}, {real(forward ? w.y : filter)}, 2048};
  if (forward) k.outputs.insert(k.outputs.end(), {real(c), real(c)});
  if (!forward) k.attributes.set("weight_shape", filter.dims);
  if (normalizes && forward) k.inputs.emplace_back();  // no bias
  if (normalizes)
    for (const double most : {2, 1}) k.inputs.push_back(random_tensor(random, in, -most, most));
  return k;
}

Comparison pooling(std::mt19937& random, const char* op, bool in_eights = false) {
  Windowed w = windowed(random, true, in_eights);
  if (in_eights) w.x[1] = w.y[1] = 8 * between(random, 1, 3);
  w.attributes.set("count_include_pad", between(random, 0, 1));
  const bool backward = std::string_view(op).ends_with("Backward");
  if (backward) w.attributes.set("input_shape", w.x.dims);
  Comparison c{op, w.attributes, {random_tensor(random, backward ? w.y : w.x)}, {real(backward ? w.x : w.y)}, 16};
  if (std::string_view(op) == "MaxPool") {
    c.attributes.set("storage_order", between(random, 0, 1));
    c.outputs.push_back({DType::int64, w.y});
  }
  return c;
}

const CaseRow window_rows[] = {
    {"convolution", [](std::mt19937& r) { return convolution(r, "Conv"); }, {DType::float32, DType::float64, DType::bfloat16}},
    {"convolution with sums", [](std::mt19937& r) { return chained_convolution(r, "Conv", false); }, {DType::float32, DType::float64, DType::float16}},
    {"convolution that normalizes", [](std::mt19937& r) { return chained_convolution(r, "Conv", true); }, {DType::float32, DType::float64, DType::float16}},
    {"convolution backward weights that normalizes", [](std::mt19937& r) { return chained_convolution(r, "ConvolutionBackwardWeights", true); }, {DType::float32, DType::float64, DType::float16}},
    {"convolution backward data", [](std::mt19937& r) { return convolution(r, "ConvolutionBackwardData"); }},
    {"convolution backward weights", [](std::mt19937& r) { return convolution(r, "ConvolutionBackwardWeights"); }},
    {"transposed convolution", [](std::mt19937& r) { return convolution(r, "ConvTranspose"); }},
    {"max pool", [](std::mt19937& r) { return pooling(r, "MaxPool"); }},
    {"average pool", [](std::mt19937& r) { return pooling(r, "AveragePool"); }, {DType::float32, DType::float64, DType::float16}},
    {"average pool backward", [](std::mt19937& r) { return pooling(r, "AveragePoolBackward"); }},
    {"average pool of channels in eights", [](std::mt19937& r) { return pooling(r, "AveragePool", true); }, numbers},
    {"average pool backward of channels in eights", [](std::mt19937& r) { return pooling(r, "AveragePoolBackward", true); }, numbers},
    {"local response normalization", [](std::mt19937& r) { return unary(r, "LRN", {{"size", between(r, 1, 5)}, {"alpha", 0.5F}, {"beta", 0.75F}, {"bias", 1.0F}}); }},
    {"batch normalization factors",
     [](std::mt19937& r) {
       const Shape c{between(r, 1, 300)};
       const std::int64_t count = 16;  // variances from 1/4
       return Comparison{"BatchNormalizationFactors",
                         {{"epsilon", 1e-3F}, {"count", count}},
                         {random_tensor(r, c, -8, 8), random_tensor(r, c, 8, 32), random_tensor(r, c), random_tensor(r, c)},
                         {real(c), real(c), {DType::uint8, {0}}, real(c), real(c)},
                         64};
     },
     {DType::float32, DType::float64},
     {"a"}},
    {"batch normalization, inference",
     [](std::mt19937& r) {
       const Shape s = image(r), c{s[1]};
       return Comparison{"BatchNormalization",
                         {{"epsilon", 1e-3F}},
                         {random_tensor(r, s), random_tensor(r, c), random_tensor(r, c), random_tensor(r, c), random_tensor(r, c, 0.5, 2)},
                         {real(s)},
                         64};
     }},
};

}  // namespace

std::vector<CaseRow> windows() { return list(window_rows); }

}  // namespace tandem::cuda::cases
