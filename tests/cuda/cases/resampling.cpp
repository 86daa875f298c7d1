// Resampling, sampled rows and pads.
#include "tests/cuda/cases/rows.h"

namespace tandem::cuda::cases {
namespace {

// Tables with entries of `least` to `most` terms, some of them outside of the axis.
Comparison resample(std::mt19937& random, int axis, int axes, bool weighted, std::int64_t least, std::int64_t most) {
  const Shape s = image(random);
  Comparison c{"Resample", {{"axis", std::int64_t{axis}}}, {random_tensor(random, s)}, {real(s)}, 36};
  for (int a = 0; a < axes; ++a) {
    std::vector<std::int32_t> starts{0};
    for (std::int64_t i = between(random, 1, 9); i > 0; --i)
      starts.push_back(starts.back() + static_cast<std::int32_t>(between(random, least, most)));
    c.inputs.push_back(Tensor::of<std::int32_t>(Shape{std::ssize(starts)}, starts));
    c.inputs.push_back(random_integers(random, {starts.back()}, -1, s[axis + a]).cast(DType::int32));
    if (weighted || a + 1 < axes) c.inputs.push_back(weighted ? random_tensor(random, {starts.back()}) : Tensor());
    c.outputs[0].shape[axis + a] = std::ssize(starts) - 1;
  }
  return c;
}

Comparison pad(std::mt19937& random, const char* op, const char* mode, bool crop) {
  const Shape s = image(random);
  Ints pads{0, 0, between(random, 0, 2), between(random, 0, 2), 0, 0, between(random, 0, 2), between(random, 0, 2)};
  if (crop) pads[2] = -1;
  Shape y = s;
  for (int axis = 0; axis < 4; ++axis) y[axis] += pads[static_cast<std::size_t>(axis)] + pads[static_cast<std::size_t>(axis) + 4];
  const bool backward = std::string_view(op) == "PadBackward";
  Attributes a{{"pads", pads}, {"mode", std::string(mode)}, {"value", 1.5F}};
  if (backward) a.set("input_shape", s.dims);
  return {op, a, {random_tensor(random, backward ? y : s)}, {real(backward ? s : y)}, 16};
}

const CaseRow resample_rows[] = {
    {"resample two axes, moved", [](std::mt19937& r) { return resample(r, 2, 2, false, 1, 1); }, {DType::float32, DType::float16}},
    {"resample two axes, summed", [](std::mt19937& r) { return resample(r, 2, 2, false, 0, 3); }},
    {"resample two axes, weighted", [](std::mt19937& r) { return resample(r, 2, 2, true, 0, 4); }},
    {"resample the last axis", [](std::mt19937& r) { return resample(r, 3, 1, true, 1, 2); }},
    {"resample channels and lines", [](std::mt19937& r) { return resample(r, 1, 2, true, 1, 2); }},
};

Comparison sample_rows(std::mt19937& random, const char* op) {
  const std::int64_t b = between(random, 1, 3), m = between(random, 1, 9), p = between(random, 1, 7), k = between(random, 1, 4),
                     c = between(random, 1, 40);
  const Tensor index = random_integers(random, {b, p, k}, -2, m + 1);
  const Shape x{b, m, c}, y{b, p, c}, taps{b, p, k};
  const std::string_view name = op;
  if (name == "SampleRows") return {op, {}, {random_tensor(random, x), index, random_tensor(random, taps)}, {real(y)}, k};
  if (name == "SampleRowsBackwardData")
    return {op, {{"input_shape", x.dims}}, {random_tensor(random, y), index, random_tensor(random, taps)}, {real(x)}, p * k};
  return {op, {}, {random_tensor(random, x), random_tensor(random, y), index}, {real(taps)}, c};
}
const CaseRow sampling_rows[] = {
    {"sample rows", [](std::mt19937& r) { return sample_rows(r, "SampleRows"); }},
    {"sample rows backward data", [](std::mt19937& r) { return sample_rows(r, "SampleRowsBackwardData"); }},
    {"sample rows backward weights", [](std::mt19937& r) { return sample_rows(r, "SampleRowsBackwardWeights"); }},
};

const CaseRow pad_rows[] = {
    {"constant", [](std::mt19937& r) { return pad(r, "Pad", "constant", false); }, {DType::float32, DType::float16}},
    {"constant, cropping", [](std::mt19937& r) { return pad(r, "Pad", "constant", true); }},
    {"reflect", [](std::mt19937& r) { return pad(r, "Pad", "reflect", false); }},
    {"edge", [](std::mt19937& r) { return pad(r, "Pad", "edge", false); }},
    {"wrap", [](std::mt19937& r) { return pad(r, "Pad", "wrap", false); }},
    {"constant backward", [](std::mt19937& r) { return pad(r, "PadBackward", "constant", false); }},
    {"constant backward, cropping", [](std::mt19937& r) { return pad(r, "PadBackward", "constant", true); }},
    {"reflect backward", [](std::mt19937& r) { return pad(r, "PadBackward", "reflect", false); }},
    {"edge backward", [](std::mt19937& r) { return pad(r, "PadBackward", "edge", false); }},
    {"wrap backward", [](std::mt19937& r) { return pad(r, "PadBackward", "wrap", false); }},
};

}  // namespace

std::vector<CaseRow> resampling() { return list(resample_rows); }
std::vector<CaseRow> sampling() { return list(sampling_rows); }
std::vector<CaseRow> pads() { return list(pad_rows); }

}  // namespace tandem::cuda::cases
