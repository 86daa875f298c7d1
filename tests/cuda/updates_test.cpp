// Optimizers' updates of many tensors, against the CPU backend's.
#include "kernels/cuda/native/describe.h"
#include "tests/cuda/where.h"

namespace tandem::cuda {
namespace {

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
Operand wanted(DType dtype, Shape shape) { return {dtype, std::move(shape), {}}; }
constexpr DType wide = DType::float64;  // on the CPU, with which all is compared

struct UpdateCase {
  const char* name;
  const char* op;
  Attributes attributes;
  int states;
  int tensors = 5;
};
const UpdateCase updates[] = {
    {"sgd", "SgdUpdate", {{"weight_decay", 0.0F}}, 0},
    {"sgd_with_momentum", "SgdUpdate", {{"momentum", 0.875F}, {"weight_decay", 0.125F}}, 1},
    {"nesterov", "SgdUpdate", {{"momentum", 0.875F}, {"nesterov", std::int64_t{1}}}, 1, 243},  // more than one launch holds
    {"adam", "AdamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"weight_decay", 0.125F}}, 2},
    {"adamw", "AdamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"weight_decay", 0.125F}, {"decoupled", std::int64_t{1}}}, 2},
    {"rmsprop", "RmspropUpdate", {{"rho", 0.875F}, {"epsilon", 0.0078125F}}, 1},
    {"rmsprop_with_momentum", "RmspropUpdate", {{"rho", 0.875F}, {"epsilon", 0.0078125F}, {"momentum", 0.5F}}, 2},
    {"sgd_with_dampening", "SgdUpdate", {{"momentum", 0.875F}, {"dampening", 0.25F}, {"rate", 0.5F}, {"clip_value", 0.5F}}, 1},
    {"rmsprop_centered", "RmspropUpdate", {{"rho", 0.875F}, {"epsilon", 2.0F}, {"momentum", 0.5F}, {"centered", std::int64_t{1}}}, 3},
    {"amsgrad", "AdamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"amsgrad", std::int64_t{1}}}, 3},
    {"nadam", "NadamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"weight_decay", 0.125F}, {"decoupled", std::int64_t{1}}}, 2},
    {"radam", "RadamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"weight_decay", 0.125F}}, 2},
    {"adagrad", "AdagradUpdate", {{"epsilon", 0.0078125F}, {"rate_decay", 0.5F}}, 1},
    {"adadelta", "AdadeltaUpdate", {{"rho", 0.875F}, {"epsilon", 0.0078125F}}, 2},
    {"adamax", "AdamaxUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}}, 2},
    {"lion", "LionUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"weight_decay", 0.125F}}, 1},
    {"lamb", "LambUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"weight_decay", 0.125F}}, 2},
    {"lars", "LarsUpdate", {{"momentum", 0.5F}, {"trust", 0.25F}, {"weight_decay", 0.125F}}, 1},
    {"assign", "AssignUpdate", {{"average", std::int64_t{1}}}, 1},
    {"clipped_lamb", "LambUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"clip_norm", 1.0F}}, 2},
    {"clipped", "SgdUpdate", {{"momentum", 0.5F}, {"clip_norm", 0.5F}}, 1},
    {"with_average", "AdamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"average", std::int64_t{1}}}, 3},
    {"many_and_clipped", "LarsUpdate", {{"momentum", 0.5F}, {"trust", 0.25F}, {"clip_norm", 1.0F}}, 1, 243},
};
void PrintTo(const UpdateCase& c, std::ostream* out) { *out << c.name; }
class Updates : public InPlaces<UpdateCase> {};

TEST_P(Updates, AgreeWithTheCpu) {
  const UpdateCase& c = row();
  const int tensors = c.tensors;
  std::mt19937 random(5);
  Attributes a = c.attributes;
  a.set("tensors", std::int64_t{tensors});
  std::vector<Tensor> given{Tensor::of<float>({16}, {0.0625F, 3, 0.5F, 0.25F, 1, 0, 1.5F, 0.75F, 0.5F, 0, 0.125F, 0, 0, 0, 0, 0})};
  std::vector<Shape> shapes;
  for (int t = 0; t < tensors; ++t) {
    shapes.push_back({between(random, 1, 60), t == 3 ? 90 : 3});  // what is no multiple of a pack, and more than a block takes
    for (int k = 0; k < 2 + c.states; ++k) given.push_back(random_tensor(random, shapes.back(), k < 2 ? -2 : 0.5, 2));
  }
  const auto given_in = [&](DType dtype) {
    std::pair<Job, std::vector<Held>> p{{c.op, a, {}}, {hold(given[0], DType::float32)}};
    for (std::size_t i = 1; i < given.size(); ++i) p.second.push_back(hold(given[i], dtype));
    for (const Shape& s : shapes)
      for (int k = 0; k < 1 + c.states; ++k) p.first.outputs.push_back(wanted(dtype, s));
    return p;
  };
  const auto [job, inputs] = given_in(wide);
  const auto [own_job, own_inputs] = given_in(DType::float32);
  const std::vector<Held> expected = on_cpu(job, inputs);
  for (const Ran& r : own(own_job, own_inputs)) {
    ASSERT_EQ(r.outputs.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      expect_close(r.outputs[i], expected[i], tolerance_of(DType::float32, 16), concat(r.kernel, " output ", i));
  }
}
// A copy in 16 bits is the new weight, rounded; a gradient of 16 bits is what it is in float32. All else is as without them.
TEST_P(Updates, ReadAndWrite16Bits) {
  const UpdateCase& c = row();
  if (c.op == std::string_view("AssignUpdate"))
    GTEST_SKIP() << "what it writes is cast by nodes of its own in plans of 16 bits (narrow_updates.cpp)";
  std::mt19937 random(6);
  for (const DType narrow : {DType::bfloat16, DType::float16})
    for (const float skip : {0.0F, 1.0F}) {
      std::vector<std::vector<Held>> results;
      const std::vector<Shape> shapes{{40, 3}, {5000}};
      std::vector<Held> given{
          hold(Tensor::of<float>({16}, {0.0625F, 3, 0.5F, 0.25F, 1, skip, 1.5F, 0.75F, 0.5F, 0, 0, 0, 0, 0, 0, 0}), DType::float32)};
      for (const Shape& s : shapes)
        // a mean square is above a mean's square
        for (int k = 0; k < 2 + c.states; ++k)
          given.push_back(hold(random_tensor(random, s, k < 2 ? -2 : k == 2 ? 1 : 0.5, k < 3 ? 2 : 0.9), k == 1 ? narrow : DType::float32));
      const std::size_t in = static_cast<std::size_t>(c.states) + 2, out = in - 1;
      for (const bool copies : {false, true}) {
        // The first tensor's gradient has 16 bits where there are copies, the second one's never.
        const auto gradient = [&](std::size_t t) {
          const Held& g = given[2 + t * in];
          Tensor wide(TensorType{DType::float64, shapes[t]});
          const std::vector<double> values = values_of(g);
          std::copy(values.begin(), values.end(), wide.write<double>().begin());
          return copies && t == 0 ? g : hold(wide, DType::float32);
        };
        Job job{c.op, c.attributes, {}};
        job.attributes.set("tensors", std::int64_t{2});
        if (copies) job.attributes.set("copies", std::int64_t{1});
        std::vector<Held> inputs{given[0]};
        for (std::size_t t = 0; t < shapes.size(); ++t) {
          for (std::size_t k = 0; k < in; ++k) inputs.push_back(k == 1 ? gradient(t) : given[1 + t * in + k]);
          for (std::size_t k = 0; k < out; ++k) job.outputs.push_back(wanted(DType::float32, shapes[t]));
          if (!copies) continue;
          inputs.push_back(hold(Tensor(TensorType{DType::float64, shapes[t]}), narrow));
          job.outputs.push_back(wanted(narrow, shapes[t]));
        }
        results.push_back(first(job, inputs));
      }
      for (std::size_t t = 0; t < shapes.size(); ++t) {
        for (std::size_t k = 0; k < out; ++k)
          EXPECT_EQ(values_of(results[1][t * (out + 1) + k]), values_of(results[0][t * out + k])) << "tensor " << t << ", output " << k;
        const Held& copy = results[1][t * (out + 1) + out];
        EXPECT_EQ(copy.operand.dtype, narrow);
        std::vector<double> rounded;
        for (const double v : values_of(results[0][t * out]))
          rounded.push_back(narrow == DType::bfloat16 ? static_cast<double>(to_float(to_bfloat16(static_cast<float>(v))))
                                                      : static_cast<double>(to_float(to_half(static_cast<float>(v)))));
        EXPECT_EQ(values_of(copy), rounded) << "tensor " << t;
      }
    }
}
const auto update_name = [](const auto& info) { return std::string(std::get<1>(info.param).name); };
INSTANTIATE_TEST_SUITE_P(Optimizers, Updates, testing::Combine(testing::Values(Where::host), testing::ValuesIn(updates)), update_name);
INSTANTIATE_TEST_SUITE_P(GpuOptimizers, Updates, testing::Combine(testing::Values(Where::gpu), testing::ValuesIn(updates)), update_name);

}  // namespace
}  // namespace tandem::cuda
