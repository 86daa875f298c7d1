// What oneDNN runs for the layers of well-known networks: compiled kernels wherever the CPU has AVX2, in all directions.
#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl_version.h>

#include "kernels/cpu/families.h"
#include "kernels/cpu/isa.h"

namespace tandem {
namespace {

struct Layer {
  std::int64_t in, out, size, kernel, stride, group = 1;
};

// ResNet-50's distinct convolutions, then some of MobileNetV2's and MiniGoogLeNet's.
const Layer layers[] = {
    {3, 64, 224, 7, 2},    {64, 64, 56, 1, 1},    {64, 64, 56, 3, 1},    {64, 256, 56, 1, 1},   {256, 64, 56, 1, 1},   {256, 128, 56, 1, 1},
    {128, 128, 56, 3, 2},  {128, 512, 28, 1, 1},  {256, 512, 56, 1, 2},  {512, 128, 28, 1, 1},  {128, 128, 28, 3, 1},  {512, 256, 28, 1, 1},
    {256, 256, 28, 3, 2},  {256, 1024, 14, 1, 1}, {512, 1024, 28, 1, 2}, {1024, 256, 14, 1, 1}, {256, 256, 14, 3, 1},  {1024, 512, 14, 1, 1},
    {512, 512, 14, 3, 2},  {512, 2048, 7, 1, 1},  {1024, 2048, 14, 1, 2}, {2048, 512, 7, 1, 1}, {512, 512, 7, 3, 1},   {3, 32, 224, 3, 2},
    {32, 32, 112, 3, 1, 32}, {96, 96, 112, 3, 2, 96}, {16, 96, 112, 1, 1}, {960, 960, 7, 3, 1, 960}, {3, 96, 32, 3, 1}, {96, 48, 16, 3, 1},
};

struct Direction {
  std::string_view op;
  std::vector<KernelDescription> (*describe)(const KernelRequest&);
};
const Direction directions[] = {
    {"Conv", onednn::describe_convolution},
    {"ConvolutionBackwardData", onednn::describe_convolution_backward_data},
    {"ConvolutionBackwardWeights", onednn::describe_convolution_backward_weights},
};

// It multiplies matrices for the filters' gradients of depthwise convolutions.
constexpr bool old = DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 3;

TEST(Implementations, ConvolutionsAreCompiledKernels) {
  if (machine_isa() == Isa::baseline) GTEST_SKIP() << "the CPU has no AVX2";
  std::string table;
  for (const Layer& l : layers) {
    const std::int64_t pad = l.kernel / 2, size = (l.size + 2 * pad - l.kernel) / l.stride + 1;
    const Operand x{DType::float32, {8, l.in, l.size, l.size}, l.in == 3 ? Layout::row_major(4) : Layout()};
    const Operand w{DType::float32, {l.out, l.in / l.group, l.kernel, l.kernel}, {}}, y{DType::float32, {8, l.out, size, size}, {}};
    const Attributes attributes{{"strides", Ints{l.stride, l.stride}}, {"pads", Ints{pad, pad, pad, pad}}, {"group", l.group}};
    for (const Direction& d : directions) {
      if (l.in == 3 && d.op == "ConvolutionBackwardData") continue;  // the gradient of the image is not wanted
      KernelRequest request{d.op, &attributes, {x, w}, {y}, {.threads = 2}, {}};
      if (d.op == "ConvolutionBackwardData") {
        request.inputs = {y, w};
        request.outputs = {x};
      }
      if (d.op == "ConvolutionBackwardWeights") {
        request.inputs = {x, y};
        request.outputs = {w};
      }
      const auto descriptions = d.describe(request);
      ASSERT_FALSE(descriptions.empty());
      const std::string name = onednn::implementation_of(*descriptions[0].make());
      table += concat(d.op, " ", to_string(x), " by ", to_string(w), ": ", descriptions[0].kernel, " ", name, "\n");
      EXPECT_EQ(name.find("ref"), name.npos) << table;
      const bool excused = old && l.group == l.in && d.op == "ConvolutionBackwardWeights";
      EXPECT_TRUE(excused || name.find("gemm:") == name.npos) << table;
    }
  }
  RecordProperty("implementations", table);
  std::cout << table;
}

}  // namespace
}  // namespace tandem
