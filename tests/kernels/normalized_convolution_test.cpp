// What convolutions and batch normalizations do for each other: sums by channel that statistics come from, and normalizing
// what is read. Only the native kernels do, against the same in two steps.
#include "kernels/cpu/families.h"
#include "tests/kernels/dense_harness.h"

namespace tandem::dense_tests {
namespace {

const Layout abcd("abcd");

// A convolution's sums by channel, and the same statistics from these.
TEST(BatchNormalization, StatisticsFromAConvolutionsSums) {
  const Attributes window{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}}, norm{{"epsilon", 1e-3f}};
  const Shape x{3, 4, 6, 5}, w{6, 2, 3, 3}, y{3, 6, 3, 4}, c{6};
  Attributes grouped = window;
  grouped.set("group", std::int64_t{2});
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Operand channel = operand(dtype, c, Layout("a"));
    const KernelRequest convolution{
        "Conv",         &grouped, {operand(dtype, x, abcd), operand(dtype, w, abcd)}, {operand(dtype, y, abcd), channel, channel},
        {.threads = 2}, {}};
    EXPECT_TRUE(onednn::describe_convolution(convolution).empty());
    std::vector<Buffer> out = run(native::describe_convolution(convolution)[0],
                                  {Buffer(convolution.inputs[0], random_values(x, 1)), Buffer(convolution.inputs[1], random_values(w, 2))});
    const Values values = out[0].values();
    for (std::size_t m = 0; m < 6; ++m) {
      double sum = 0, squares = 0;
      for (std::size_t n = 0; n < 3; ++n)
        for (std::size_t i = 0; i < 12; ++i) {
          sum += values[(n * 6 + m) * 12 + i];
          squares += values[(n * 6 + m) * 12 + i] * values[(n * 6 + m) * 12 + i];
        }
      EXPECT_NEAR(out[1].values()[m], sum, dtype == DType::float32 ? 1e-5 : 1e-13);
      EXPECT_NEAR(out[2].values()[m], squares, dtype == DType::float32 ? 1e-5 : 1e-13);
    }
    const std::vector<Operand> results{operand(dtype, y, abcd), channel, channel, operand(DType::uint8, {0})};
    const KernelRequest own{"BatchNormalizationTraining", &norm, {results[0], channel, channel}, results, {.threads = 2}, {}};
    const KernelRequest given{
        "BatchNormalizationTraining", &norm, {results[0], channel, channel, {}, channel, channel}, results, {.threads = 2}, {}};
    EXPECT_TRUE(onednn::describe_batch_normalization_training(given).empty());
    const Buffer scale(channel, random_values(c, 3)), bias(channel, random_values(c, 4));
    std::vector<Buffer> wanted = run(native::describe_batch_normalization_training(own)[0], {out[0], scale, bias});
    std::vector<Buffer> got = run(native::describe_batch_normalization_training(given)[0], {out[0], scale, bias, Buffer(), out[1], out[2]});
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_LE(error_of(got[i].values(), wanted[i].values()), dtype == DType::float32 ? tolerance(36) : 1e-12) << "result " << i;
  }
}

// Convolutions and their weights' gradients that normalize what they read, against the same of what was normalized before.
TEST(BatchNormalization, AppliedByConvolutions) {
  const Shape x{3, 4, 6, 5}, w{6, 2, 3, 3}, y{3, 6, 3, 4}, in{4};
  const Attributes window{{"kernel_shape", Ints{3, 3}},
                          {"strides", Ints{2, 1}},
                          {"pads", Ints{1, 0, 1, 1}},
                          {"group", std::int64_t{2}},
                          {"weight_shape", w.dims}};
  const Attributes factors{{"epsilon", 1e-3f}, {"count", std::int64_t{90}}}, norm{{"epsilon", 1e-3f}, {"activation", std::string("Relu")}};
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Operand channel = operand(dtype, in, Layout("a")), none = operand(DType::uint8, {0}), image = operand(dtype, x, abcd),
                  filter = operand(dtype, w, abcd), result = operand(dtype, y, abcd);
    Values sum(4), squares(4);
    const Values values = random_values(x, 1);
    for (std::size_t i = 0; i < values.size(); ++i) sum[i / 30 % 4] += values[i], squares[i / 30 % 4] += values[i] * values[i];
    const Buffer given(image, values), scale(channel, random_values(in, 3)), bias(channel, random_values(in, 4)), s(channel, sum),
        q(channel, squares), weights(filter, random_values(w, 2)), dy(result, random_values(y, 5));
    std::vector<Buffer> f = run(native::describe_batch_normalization_factors({"BatchNormalizationFactors",
                                                                              &factors,
                                                                              {channel, channel, channel, channel},
                                                                              {channel, channel, none, channel, channel},
                                                                              {},
                                                                              {}})[0],
                                {s, q, scale, bias});
    std::vector<Buffer> n =
        run(native::describe_batch_normalization_training(
                {"BatchNormalizationTraining", &norm, {image, channel, channel}, {image, channel, channel, none}, {}, {}})[0],
            {given, scale, bias});
    const double close = dtype == DType::float32 ? tolerance(90) : 1e-12;
    for (const std::size_t i : {0, 1}) EXPECT_LE(error_of(f[i].values(), n[i + 1].values()), close);

    const KernelRequest forward{"Conv", &window, {image, filter, {}, channel, channel}, {result}, {.threads = 2}, {}},
        backward{"ConvolutionBackwardWeights", &window, {image, result, channel, channel}, {filter}, {.threads = 2}, {}};
    EXPECT_TRUE(onednn::describe_convolution(forward).empty());
    EXPECT_TRUE(onednn::describe_convolution_backward_weights(backward).empty());
    std::vector<Buffer> got = run(native::describe_convolution(forward)[0], {given, weights, Buffer(), f[3], f[4]});
    std::vector<Buffer> wanted =
        run(native::describe_convolution({"Conv", &window, {image, filter}, {result}, {.threads = 2}, {}})[0], {n[0], weights});
    EXPECT_LE(error_of(got[0].values(), wanted[0].values()), close);
    got = run(native::describe_convolution_backward_weights(backward)[0], {given, dy, f[3], f[4]});
    wanted = run(native::describe_convolution_backward_weights(
                     {"ConvolutionBackwardWeights", &window, {image, result}, {filter}, {.threads = 2}, {}})[0],
                 {n[0], dy});
    EXPECT_LE(error_of(got[0].values(), wanted[0].values()), close);
  }
}

}  // namespace
}  // namespace tandem::dense_tests
