// Convolutions of our own give the same bits on any number of threads, also where these share out channels, lines or taps.
#include <map>

#include "tests/kernels/native_harness.h"

namespace tandem::native_tests {
namespace {

struct Geometry {
  const char* name;
  std::int64_t samples, in, out, side, taps, stride, pad, group;
};
const Geometry geometries[] = {
    {"few samples", 2, 5, 20, 12, 3, 1, 1, 1},        {"one sample", 1, 20, 50, 9, 5, 1, 0, 1}, {"one channel", 3, 1, 6, 28, 5, 1, 2, 1},
    {"strided", 4, 16, 24, 11, 3, 2, 1, 1},           {"groups", 2, 6, 8, 10, 3, 1, 1, 2},      {"one tap", 3, 32, 40, 7, 1, 1, 0, 1},
    {"one place", 5, 18, 34, 3, 3, 1, 0, 1},
};

struct Convolution {
  std::string_view op;
  std::vector<Shape> inputs, outputs;
};
std::vector<Convolution> convolutions(const Geometry& g) {
  const std::int64_t out_side = (g.side + 2 * g.pad - g.taps) / g.stride + 1;
  const Shape x{g.samples, g.in, g.side, g.side}, w{g.out, g.in / g.group, g.taps, g.taps}, y{g.samples, g.out, out_side, out_side};
  return {{"Conv", {x, w, {g.out}}, {y}},
          {"ConvolutionBackwardData", {y, w}, {x}},
          {"ConvolutionBackwardWeights", {x, y}, {w, {g.out}}},
          {"ConvTranspose", {y, w, {g.in}}, {x}}};
}

TEST(NativeConvolution, IsTheSameOnAllThreads) {
  std::map<std::string, int> compared;
  for (const Geometry& g : geometries)
    for (const Convolution& c : convolutions(g))
      for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
        if (c.op == "ConvTranspose" && g.group > 1) continue;
        Case one{c.op,
                 {{"strides", Ints{g.stride, g.stride}}, {"pads", Ints{g.pad, g.pad, g.pad, g.pad}}, {"dilations", Ints{1, 1}},
                  {"group", g.group}},
                 {},
                 {}};
        std::vector<Values> values;
        for (const Shape& s : c.inputs) {
          one.inputs.push_back({dtype, s, {}});
          values.push_back(random_values(s.elements(), static_cast<unsigned>(values.size()) + 1, -1, 1));
        }
        for (const Shape& s : c.outputs) one.outputs.push_back({dtype, s, {}});
        std::map<std::string, std::vector<Values>> wanted;  // by kernel and layouts
        for (const int threads : {1, 2, 3, 16, 64}) {
          one.threads = threads;
          for (const KernelDescription& d : cpu_backend().describe(one.request())) {
            if (!d.kernel.starts_with("native.")) continue;
            std::vector<Buffer> buffers;
            for (std::size_t i = 0; i < values.size(); ++i) buffers.emplace_back(d.inputs[i], values[i]);
            std::vector<Values> got;
            for (Buffer& b : run(d, buffers)) got.push_back(b.values());
            const std::string key = concat(d.kernel, ' ', to_string(d.outputs[0]));
            const auto [at, first] = wanted.try_emplace(key, got);
            EXPECT_EQ(got, at->second) << g.name << ": " << key << " on " << threads << " threads";
            compared[d.kernel] += !first;
          }
        }
      }
  for (const char* kernel : {"native.convolution", "native.convolution_backward_data", "native.convolution_backward_weights",
                             "native.convolution_transpose", "native.convolution.pointwise"})
    EXPECT_GT(compared[kernel], 0) << kernel;
}

}  // namespace
}  // namespace tandem::native_tests
