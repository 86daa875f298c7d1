// cuDNN takes layers of each kind of ResNet-50's in TF32 and in the 16-bit types, forward and backward, for an H200 that is not here.
#include <gtest/gtest.h>

#include "tests/cuda/host_backend.h"

namespace tandem::cuda {
namespace {

struct Layer {
  std::int64_t channels, filters, size, kernel, stride;
};
constexpr Layer layers[] = {{3, 64, 224, 7, 2},   {64, 64, 56, 3, 1},   {64, 256, 56, 1, 1},
                            {128, 128, 56, 3, 2}, {256, 512, 56, 1, 2}, {512, 2048, 7, 1, 1}};

struct Precision {
  DType dtype;
  bool tf32;
};
class PrecisionPlans : public testing::TestWithParam<Precision> {};

TEST_P(PrecisionPlans, CudnnTakesResNetsLayers) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const auto [dtype, tf32] = GetParam();
  KernelOptions options;
  options.tf32 = tf32;
  const auto expect_cudnn = [&](std::string_view op, const Attributes& a, std::vector<Operand> inputs, std::vector<Operand> outputs,
                                std::string_view family = "cudnn.") {
    const std::vector<KernelDescription> found = backend->describe({op, &a, std::move(inputs), std::move(outputs), options, {}});
    ASSERT_FALSE(found.empty()) << op << " {" << to_string(a) << '}';
    EXPECT_TRUE(found[0].kernel.starts_with(family)) << op << " {" << to_string(a) << "} got " << found[0].kernel;
  };
  const auto expect_own = [&](std::string_view op, const Attributes& a, std::vector<Operand> inputs, std::vector<Operand> outputs) {
    const std::vector<KernelDescription> found = backend->describe({op, &a, std::move(inputs), std::move(outputs), options, {}});
    ASSERT_EQ(found.size(), 1U) << op << " {" << to_string(a) << '}';
    EXPECT_TRUE(found[0].kernel.starts_with("native.")) << found[0].kernel;
  };
  for (const Layer& l : layers) {
    const std::int64_t pad = l.kernel / 2, out = (l.size + 2 * pad - l.kernel) / l.stride + 1;
    const Attributes a{{"kernel_shape", Ints{l.kernel, l.kernel}},
                       {"strides", Ints{l.stride, l.stride}},
                       {"pads", Ints{pad, pad, pad, pad}},
                       {"dilations", Ints{1, 1}},
                       {"group", std::int64_t{1}}};
    const Operand x{dtype, Shape{32, l.channels, l.size, l.size}, {}}, w{dtype, Shape{l.filters, l.channels, l.kernel, l.kernel}, {}},
        y{dtype, Shape{32, l.filters, out, out}, {}}, b{dtype, Shape{l.filters}, {}};
    expect_cudnn("Conv", a, {x, w}, {y});
    Attributes relu = a;
    relu.set("activation", std::string("Relu"));
    expect_cudnn("Conv", a, {x, w, b}, {y}, "cudnn.convolution.fused.");
    expect_cudnn("Conv", relu, {x, w}, {y}, "cudnn.convolution.fused.");
    expect_cudnn("Conv", relu, {x, w, b}, {y}, "cudnn.convolution.fused.");
    const Operand c{DType::float32, Shape{l.filters}, {}};
    // What the planner asks for in fp16; the images' three channels it does not.
    if (dtype == DType::float16 && l.channels > 3) {
      const Operand factor{dtype, Shape{l.channels}, {}};
      expect_cudnn("Conv", a, {x, w}, {y, c, c}, "cudnn.convolution.sums.");
      expect_cudnn("Conv", a, {x, w, {}, factor, factor}, {y, c, c}, "cudnn.convolution.normalizing.");
      expect_cudnn("ConvolutionBackwardWeights", a, {x, y, factor, factor}, {w}, "cudnn.convolution_backward_weights.normalizing.");
    }
    expect_cudnn("ConvolutionBackwardData", a, {y, w}, {x});
    // Nothing is before the first layer.
    if (l.channels > 3) expect_cudnn("ConvolutionBackwardData", a, {y, w, x}, {x}, "cudnn.convolution_backward_data.fused.");
    expect_cudnn("ConvolutionBackwardWeights", a, {x, y}, {w});
    const Operand opaque{DType::uint8, Shape{0}, {}};
    const Attributes norm{{"epsilon", 1e-5F}, {"activation", std::string("Relu")}}, plain{{"epsilon", 1e-5F}};
    for (const Attributes& activation : {norm, plain}) expect_cudnn("BatchNormalizationTraining", activation, {y, c, c}, {y, c, c, opaque});
    expect_cudnn("BatchNormalizationTraining", norm, {y, c, c, y}, {y, c, c, opaque});
    const Operand kept{DType::float32, Shape{l.filters}, Layout("opaque:inverse_deviation")};
    expect_cudnn("BatchNormalizationBackward", plain, {y, y, c, c, c, c, kept}, {y, c, c});
    // cuDNN plans these, and reads dy through a null pointer when they run.
    expect_own("BatchNormalizationBackward", norm, {y, y, c, c, c, c, kept}, {y, c, c});
    expect_own("BatchNormalizationBackward", norm, {y, y, c, c, c, c, kept, y}, {y, c, c});
    expect_own("BatchNormalizationBackward", norm, {y, y, c, c, c, c, kept, y}, {y, c, c, y});
    expect_own("BatchNormalizationBackward", norm, {y, y, c, c, c, {}, kept, y, y}, {y, c, c, y});
  }
}
INSTANTIATE_TEST_SUITE_P(Types, PrecisionPlans, testing::Values(Precision{DType::float32, true}, Precision{DType::bfloat16, false}, Precision{DType::float16, false}),
                         [](const auto& info) { return concat(info.param.dtype, info.param.tf32 ? "_tf32" : ""); });

}  // namespace
}  // namespace tandem::cuda
