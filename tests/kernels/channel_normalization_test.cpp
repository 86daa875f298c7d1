// BatchNormalization with channels side by side, forward and backward in every form, against its formulas in double.
#include "kernels/cpu/families.h"
#include "kernels/cpu/isa.h"
#include "tests/kernels/dense_harness.h"

namespace tandem::dense_tests {
namespace {

constexpr double epsilon = 1e-3;

struct Row {
  const char* name;
  Shape x;
  const char* layout;
  const char* activation;  // "": none; Clip: to [-0.25, 0.5]
  bool adds = false, sums = false;  // an addend, whose gradient is wanted; two gradients
  DType dtype = DType::float32;
};
const Row rows[] = {
    {"blocks", {4, 32, 9, 9}, "aBcd16b", ""},
    {"blocks_with_relu", {4, 32, 9, 9}, "aBcd16b", "Relu"},
    {"blocks_with_clip", {4, 32, 9, 9}, "aBcd16b", "Clip"},
    {"blocks_with_sum", {4, 32, 9, 9}, "aBcd16b", "Relu", true},
    {"blocks_with_both_sums", {4, 32, 9, 9}, "aBcd16b", "Relu", true, true},
    {"odd_channels_in_blocks", {3, 13, 5, 7}, "aBcd16b", "Clip"},
    {"volumes_in_blocks", {2, 16, 3, 4, 5}, "aBcde16b", "Relu"},
    {"few_samples_in_blocks", {1, 48, 21, 21}, "aBcd16b", "Relu"},
    {"last", {3, 32, 19, 23}, "acdb", ""},
    {"odd_channels_last", {3, 13, 5, 7}, "acdb", "Relu"},
    {"many_channels_last", {2, 87, 6, 5}, "acdb", "Clip"},
    {"many_channels_last_with_both_sums", {2, 87, 6, 5}, "acdb", "Relu", true, true},
    {"volumes_last", {2, 20, 3, 4, 5}, "acdeb", ""},
    {"rows", {33, 24}, "ab", "Relu"},
    {"more_channels_than_rows", {2, 200, 2, 3}, "acdb", "Relu", true},
    {"sum_of_one_row", {1, 24}, "ab", ""},
    {"groups_of_several_chunks", {2, 16, 100, 100}, "aBcd16b", ""},
    {"past_the_caches", {1, 64, 182, 182}, "acdb", ""},
    {"more_than_caches_hold_last", {4, 80, 50, 60}, "acdb", "", true, true},
    {"bfloat16_in_blocks", {4, 32, 9, 9}, "aBcd16b", "Relu", true, false, DType::bfloat16},
    {"bfloat16_last", {2, 87, 6, 5}, "acdb", "Clip", false, true, DType::bfloat16},
};

class ChannelNormalization : public testing::TestWithParam<Row> {
 protected:
  void SetUp() override {
    if (machine_isa() != Isa::avx512) GTEST_SKIP() << "the kernels are there with AVX-512 alone";
    if (activation() == "Clip") {
      attributes.set("min", -0.25F);
      attributes.set("max", 0.5F);
    }
    if (!activation().empty()) attributes.set("activation", activation());
  }
  std::string activation() const { return GetParam().activation; }
  Shape channels() const { return {GetParam().x[1]}; }
  double offset() const { return 3; }  // a mean far from 0

  Operand image(Layout layout = {}) const { return operand(GetParam().dtype, GetParam().x, layout); }
  Operand channel() const { return operand(DType::float32, channels(), Layout("a")); }
  Buffer random_image(const Operand& o, unsigned seed, double around = 0) const {
    Values v = random_values(o.shape, seed);
    for (double& x : v) x += around;
    return {o, v};
  }

  // Kernels' outputs: y, mean, variance, then dx, dscale, dbias and perhaps daddend.
  std::vector<Buffer> run_both(int threads) {
    const Row& row = GetParam();
    const Layout layout(row.layout);
    KernelRequest request{"BatchNormalizationTraining",
                          &attributes,
                          {image(layout), channel(), channel()},
                          {image(), channel(), channel(), operand(DType::uint8, {0})},
                          {.threads = threads},
                          {}};
    if (row.adds) request.inputs.push_back(image(layout));
    const auto forward = native::describe_channel_normalization(request);
    if (forward.empty()) {
      ADD_FAILURE() << "no forward kernel";
      return {};
    }
    expect_found_again(native::describe_channel_normalization, request, forward[0]);
    x = random_image(forward[0].inputs[0], 1, offset());
    scale = Buffer(channel(), random_values(channels(), 2));
    bias = Buffer(channel(), random_values(channels(), 3));
    std::vector<Buffer> inputs{x, scale, bias};
    if (row.adds) inputs.push_back(addend = random_image(forward[0].inputs[3], 4));
    std::vector<Buffer> results = run(forward[0], inputs);
    const Buffer opaque = results[3];
    results.pop_back();

    const bool masked = row.adds && !activation().empty();
    KernelRequest back{"BatchNormalizationBackward",
                       &attributes,
                       {image(layout), image(), channel(), channel(), channel(), channel(), opaque.operand()},
                       {image(), channel(), channel()},
                       {.threads = threads},
                       {}};
    back.inputs.push_back(masked ? image(layout) : Operand{});
    if (row.sums) back.inputs.push_back(image());
    if (masked) back.outputs.push_back(image());
    const auto backward = native::describe_channel_normalization_backward(back);
    if (backward.empty()) {
      ADD_FAILURE() << "no backward kernel";
      return {};
    }
    expect_found_again(native::describe_channel_normalization_backward, back, backward[0]);
    dy = random_image(backward[0].inputs[1], 5);
    std::vector<Buffer> given{x, dy, scale, bias, results[1], results[2], opaque, masked ? results[0] : Buffer()};
    if (row.sums) given.push_back(dy2 = random_image(backward[0].inputs[8], 6));
    for (Buffer& b : run(backward[0], given)) results.push_back(b);
    return results;
  }

  // The same by formulas.
  std::vector<Values> formulas() {
    const Row& row = GetParam();
    const Values x = this->x.values(), scale = this->scale.values(), bias = this->bias.values(), dy = this->dy.values();
    const Values addend = row.adds ? this->addend.values() : Values(x.size()), dy2 = row.sums ? this->dy2.values() : Values(x.size());
    const auto channels = static_cast<std::size_t>(row.x[1]), plane = x.size() / static_cast<std::size_t>(row.x[0]) / channels;
    const auto channel_of = [&](std::size_t i) { return i / plane % channels; };
    const double count = static_cast<double>(x.size() / channels);
    Values mean(channels), variance(channels), dscale(channels), dbias(channels), y(x.size()), g(x.size()), dx(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) mean[channel_of(i)] += x[i] / count;
    for (std::size_t i = 0; i < x.size(); ++i) variance[channel_of(i)] += std::pow(x[i] - mean[channel_of(i)], 2) / count;
    const bool relu = activation() == "Relu", clip = activation() == "Clip";
    const double low = relu ? 0 : clip ? -0.25 : -1e30, high = clip ? 0.5 : 1e30;
    const auto inverse = [&](std::size_t c) { return 1 / std::sqrt(variance[c] + epsilon); };
    const auto normal = [&](std::size_t i) { return (x[i] - mean[channel_of(i)]) * inverse(channel_of(i)); };
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = channel_of(i);
      const double v = normal(i) * scale[c] + bias[c] + addend[i];
      y[i] = std::clamp(v, low, high);
      g[i] = v > low && v < high ? dy[i] + dy2[i] : 0;
      dscale[c] += g[i] * normal(i);
      dbias[c] += g[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t c = channel_of(i);
      dx[i] = scale[c] * inverse(c) * (g[i] - dbias[c] / count - normal(i) * dscale[c] / count);
    }
    return {y, mean, variance, dx, dscale, dbias, g};
  }

  Attributes attributes{{"epsilon", static_cast<float>(epsilon)}};
  Buffer x, scale, bias, addend, dy, dy2;
};

TEST_P(ChannelNormalization, AgreesWithItsFormulas) {
  std::vector<Buffer> got = run_both(2);
  ASSERT_GE(got.size(), 6U);
  const std::vector<Values> wanted = formulas();
  const double rounding = GetParam().dtype == DType::bfloat16 ? 1.0 / 128 : 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(error_of(got[i].values(), wanted[i]), rounding + tolerance(GetParam().x.elements() / GetParam().x[1])) << "result " << i;
}

TEST_P(ChannelNormalization, BitsDoNotDependOnThreads) {
  std::vector<Buffer> one = run_both(1);
  std::vector<Buffer> three = run_both(3);
  ASSERT_EQ(three.size(), one.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(three[i].bytes() == one[i].bytes() && std::equal(three[i].data(), three[i].data() + three[i].bytes(), one[i].data()))
        << "result " << i;
}
// A Clip away from 0 would fill the padding of a last block.
TEST(ChannelNormalizations, LeavePaddingAlone) {
  if (machine_isa() != Isa::avx512) GTEST_SKIP() << "the kernels are there with AVX-512 alone";
  const Attributes attributes{{"activation", std::string("Clip")}, {"min", 1.0F}, {"max", 6.0F}};
  const auto layout_for = [&](std::int64_t channels) {
    const Shape x{2, channels, 4, 4};
    const Operand channel = operand(DType::float32, {channels}, Layout("a"));
    const auto found = native::describe_channel_normalization({"BatchNormalizationTraining",
                                                               &attributes,
                                                               {operand(DType::float32, x, Layout("aBcd16b")), channel, channel},
                                                               {operand(DType::float32, x), channel, channel, operand(DType::uint8, {0})},
                                                               {.threads = 2},
                                                               {}});
    return found.empty() ? "none" : found[0].inputs[0].layout.tag();
  };
  EXPECT_EQ(layout_for(32), "aBcd16b");
  EXPECT_EQ(layout_for(20), "acdb");
}

INSTANTIATE_TEST_SUITE_P(Rows, ChannelNormalization, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::dense_tests
