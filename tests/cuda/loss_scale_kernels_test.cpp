// Dynamic loss scaling: what the CPU backend's kernels give, and skipped steps.
#include <limits>

#include "tests/cuda/where.h"

namespace tandem::cuda {
namespace {

Held floats(const Shape& shape, const std::vector<float>& values) {
  return hold(Tensor::of<float>(shape, std::span<const float>(values)), DType::float32);
}

Job job_of(const std::string& op, const Attributes& attributes, const Shape& y) { return {op, attributes, {{DType::float32, y, {}}}}; }

// The row: the type of every other tensor.
class LossScaleKernels : public InPlaces<DType> {
 protected:
  std::vector<double> result(const std::string& op, const Attributes& attributes, const Shape& y, const std::vector<Held>& inputs) {
    return values_of(first(job_of(op, attributes, y), inputs)[0]);
  }
};
const auto types = testing::Values(DType::float32, DType::bfloat16, DType::float16);
const auto type_name = [](const auto& info) { return to_string(std::get<1>(info.param)); };
INSTANTIATE_TEST_SUITE_P(Types, LossScaleKernels, testing::Combine(testing::Values(Where::host), types), type_name);
INSTANTIATE_TEST_SUITE_P(GpuTypes, LossScaleKernels, testing::Combine(testing::Values(Where::gpu), types), type_name);

TEST_P(LossScaleKernels, AllFiniteSeesEveryElement) {
  std::mt19937 random(5);
  const float infinity = std::numeric_limits<float>::infinity(), bad[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()};
  // More tensors than one launch takes, of more elements than a block.
  std::vector<Tensor> tensors;
  for (int t = 0; t < 243; ++t) tensors.push_back(Tensor(TensorType{DType::float32, {t == 40 ? 20000 : 3 + t % 9}}));
  const auto finite = [&] {
    std::vector<Held> inputs;
    for (const Tensor& t : tensors) inputs.push_back(hold(t, inputs.size() % 2 == 0 ? DType::float32 : row()));
    return result("AllFinite", {}, {}, inputs);
  };
  EXPECT_EQ(finite(), std::vector<double>{1});
  for (const auto& [tensor, element] : {std::pair<std::size_t, std::size_t>{40, 8192}, {242, 0}, {47, 1}}) {
    const Tensor clean = tensors[tensor];
    tensors[tensor].write<float>()[element] = bad[element % 3];
    EXPECT_EQ(finite(), std::vector<double>{0}) << "tensor " << tensor << ", element " << element;
    tensors[tensor] = clean;
  }
}

TEST_P(LossScaleKernels, StateFollowsAsOnTheCpu) {
  const Held scalars = floats({16}, {0.5F, 7, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  for (const float good : {0.0F, 2.0F})
    for (const float finite : {0.0F, 1.0F}) {
      const Held state = floats({3}, {-2, good, 3}), flag = floats({}, {finite});
      const Attributes attributes{{"start", 65536.0F}, {"interval", std::int64_t{3}}, {"beta1", 0.5F}, {"beta2", 0.75F}};
      for (const auto& [op, y, inputs] : {std::tuple<std::string, Shape, std::vector<Held>>{"LossScale", {}, {state}},
                                          {"LossScaleUpdate", {3}, {state, flag}},
                                          {"ScaledScalars", {16}, {scalars, state, flag}}})
        EXPECT_EQ(result(op, attributes, y, inputs), values_of(on_cpu(job_of(op, attributes, y), inputs)[0])) << op;
    }
}

TEST_P(LossScaleKernels, SkippedStepsChangeNothing) {
  const Held w = floats({3}, {1, 2, 3}), g = floats({3}, {4, 5, std::numeric_limits<float>::infinity()}), m = floats({3}, {6, 7, 8});
  const Held skip = floats({16}, {0.5F, 1, 1, 1, 1024, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  const std::vector<Held> now = first(
      {"SgdUpdate", {{"tensors", std::int64_t{1}}, {"momentum", 0.5F}}, {{DType::float32, Shape{3}, {}}, {DType::float32, Shape{3}, {}}}},
      {skip, w, g, m});
  EXPECT_EQ(values_of(now[0]), values_of(w));
  EXPECT_EQ(values_of(now[1]), values_of(m));
  EXPECT_EQ(result("RunningStatistics", {{"momentum", 0.5F}}, {3}, {w, g, skip}), values_of(w));
  const Held take = floats({16}, {0.5F, 1, 1, 1, 2, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0});
  EXPECT_EQ(result("SgdUpdate", {{"tensors", std::int64_t{1}}, {"momentum", 0.0F}}, {3}, {take, w, m}),
            (std::vector<double>{-0.5, 0.25, 1}));
}

}  // namespace
}  // namespace tandem::cuda
