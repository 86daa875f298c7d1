// Kernels that keep something between forward and backward, optimizer updates and the all-reduce on the host emulation,
// against the CPU backend's.
#include <array>
#include <set>

#include "graph/operator.h"
#include "kernels/cuda/bodies/all_reduce.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "tests/cuda/emulated.h"

namespace tandem::cuda {
namespace {

constexpr int rounds = 3;
const std::string layouts[] = {"abcd", "acdb"};

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) { return std::uniform_int_distribution<std::int64_t>(low, high)(random); }
Shape image(std::mt19937& random) { return {between(random, 1, 4), between(random, 1, 40), between(random, 2, 7), between(random, 2, 7)}; }
Operand wanted(DType dtype, Shape shape) { return {dtype, std::move(shape), {}}; }
const Operand opaque{DType::uint8, Shape{0}, {}};

// Both sides' forward, then both sides' backward, each with its own opaque operand.
struct Side {
  DescribeFunction describe;
  DType real;
  std::vector<Held> forward;
};

class TrainingKernels : public testing::TestWithParam<DType> {
 protected:
  Side own{describe_emulated, GetParam(), {}};
  Side cpu{describe_native_cpu, DType::float64, {}};
  std::mt19937 random{17};
  double tolerance(std::int64_t terms) const { return tolerance_of(GetParam(), terms); }
};

TEST_P(TrainingKernels, MaxPool) {
  for (int round = 0; round < rounds; ++round) {
    Shape x = image(random), y = x;
    y[2] = (x[2] + 1 - 2) / 2 + 1;
    y[3] = x[3] - 2 + 1;
    Attributes a{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 0, 0}}};
    const Tensor in = random_tensor(random, x), dy = random_tensor(random, y);
    for (const std::string& layout : layouts) {
      for (Side* side : {&own, &cpu}) side->forward = run(side->describe, {"MaxPoolTraining", a, {wanted(side->real, y), opaque}}, {hold(in, side->real, side == &own ? Layout(layout) : Layout())});
      expect_close(own.forward[0], cpu.forward[0], tolerance(1), "y");
      Attributes b = a;
      b.set("input_shape", x.dims);
      std::vector<Held> dx;
      for (Side* side : {&own, &cpu}) dx.push_back(run(side->describe, {"MaxPoolBackward", b, {wanted(side->real, x)}}, {hold(dy, side->real), side->forward[1]})[0]);
      expect_close(dx[0], dx[1], tolerance(8), "dx");
    }
  }
}

// Σ x and Σ x² by channel.
std::array<Tensor, 2> channel_sums(const Tensor& x) {
  const std::int64_t samples = x.shape()[0], channels = x.shape()[1], plane = x.elements() / (samples * channels);
  std::array<Tensor, 2> sums{Tensor(TensorType{DType::float64, Shape{channels}}), Tensor(TensorType{DType::float64, Shape{channels}})};
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double v = x.values<double>()[static_cast<std::size_t>(i)];
    const auto c = static_cast<std::size_t>(i / plane % channels);
    sums[0].write<double>()[c] += v;
    sums[1].write<double>()[c] += v * v;
  }
  return sums;
}

TEST_P(TrainingKernels, BatchNormalization) {
  const DType statistics = GetParam() == DType::float64 ? DType::float64 : DType::float32;
  for (int round = 0; round < rounds; ++round) {
    Shape x = image(random);
    if (round == 1) x[1] = 8 * between(random, 1, 5);                         // in packs
    if (round == 2) x = {between(random, 100, 300), between(random, 1, 40)};  // several blocks a channel
    const Shape c{x[1]};
    const std::int64_t terms = x.elements() / x[1];
    const Tensor in = random_tensor(random, x), scale = random_tensor(random, c, 0.5, 2), bias = random_tensor(random, c), dy = random_tensor(random, x);
    const Tensor addend = random_tensor(random, x);
    for (const auto& [relu, adds, summed] : {std::tuple{false, false, false}, {true, false, false}, {false, true, false}, {true, true, false}, {true, false, true}, {true, true, true}}) {
      Attributes a{{"epsilon", 0.015625F}};
      if (relu) a.set("activation", std::string("Relu"));
      for (const std::string& layout : layouts) {
        const auto stat = [&](Side* side) { return side == &own ? statistics : DType::float64; };
        const auto give = [&](Side* side, const Tensor& t) { return hold(t, side->real, side == &own && x.rank() == 4 ? Layout(layout) : Layout()); };
        for (Side* side : {&own, &cpu}) {
          std::vector<Held> inputs{give(side, in), hold(scale, stat(side)), hold(bias, stat(side))};
          if (adds || summed) inputs.push_back(adds ? give(side, addend) : Held{});
          if (summed)
            for (const Tensor& sum : channel_sums(in)) inputs.push_back(hold(sum, stat(side)));
          side->forward = run(side->describe, {"BatchNormalizationTraining", a, {wanted(side->real, x), wanted(stat(side), c), wanted(stat(side), c), opaque}}, inputs);
        }
        const char* const names[] = {"y", "mean", "variance"};
        for (std::size_t i = 0; i < 3; ++i) expect_close(own.forward[i], cpu.forward[i], tolerance(16 + terms / 16), names[i]);
        std::vector<std::vector<Held>> gradients;
        for (Side* side : {&own, &cpu}) {
          Job job{"BatchNormalizationBackward", a, {wanted(side->real, x), wanted(stat(side), c), wanted(stat(side), c)}};
          std::vector<Held> inputs{give(side, in), give(side, dy), hold(scale, stat(side)), hold(bias, stat(side)), side->forward[1], side->forward[2], side->forward[3]};
          if (relu && adds) {
            job.outputs.push_back(wanted(side->real, x));
            inputs.push_back(side->forward[0]);
          }
          gradients.push_back(run(side->describe, job, inputs));
          // Of the sum of two gradients, with and without y.
          inputs.resize(8);
          inputs.push_back(give(side, in));
          const std::vector<Held> of_sum = run(side->describe, job, inputs);
          gradients.back().insert(gradients.back().end(), of_sum.begin(), of_sum.end());
        }
        const char* const gradient_names[] = {"dx", "dscale", "dbias", "daddend"};
        ASSERT_EQ(gradients[0].size(), gradients[1].size());
        for (std::size_t i = 0; i < gradients[0].size(); ++i) expect_close(gradients[0][i], gradients[1][i], tolerance(64 + terms) * 2, gradient_names[i % (gradients[0].size() / 2)]);
      }
    }
  }
}

TEST_P(TrainingKernels, LocalResponseNormalization) {
  for (int round = 0; round < rounds; ++round) {
    const Shape x = image(random);
    const Tensor in = random_tensor(random, x), dy = random_tensor(random, x);
    const Attributes a{{"size", between(random, 1, 5)}, {"alpha", 0.5F}, {"beta", 0.75F}, {"bias", 1.0F}};
    for (const std::string& layout : layouts) {
      std::vector<Held> dx;
      for (Side* side : {&own, &cpu}) {
        const Layout given = side == &own ? Layout(layout) : Layout();
        side->forward = run(side->describe, {"LRNTraining", a, {wanted(side->real, x), opaque}}, {hold(in, side->real, given)});
        dx.push_back(run(side->describe, {"LRNBackward", a, {wanted(side->real, x)}}, {hold(in, side->real, given), side->forward[0], hold(dy, side->real, given), side->forward[1]})[0]);
      }
      expect_close(own.forward[0], cpu.forward[0], tolerance(64), "y");
      expect_close(dx[0], dx[1], tolerance(1024), "dx");
    }
  }
}

// The same elements are dropped on every backend and in every layout, for any slice of the batch; samples are multiples of four
// elements, of eight, and not.
TEST_P(TrainingKernels, Dropout) {
  for (int round = 0; round < rounds; ++round) {
    Shape x = image(random);
    if (round % 3 != 2) x[3] = round % 3 == 0 ? 4 : 8;
    const Tensor in = random_tensor(random, x, 1, 2), dy = random_tensor(random, x);
    const std::int64_t numbers[] = {0x123456789abcdefLL + round, 7 + round, between(random, 0, 1000), 0};
    const Tensor state = Tensor::of<std::int64_t>({4}, numbers);
    const Attributes a{{"ratio", 0.25F}, {"layer", std::int64_t{3}}};
    for (const std::string& layout : layouts) {
      std::vector<Held> dx;
      for (Side* side : {&own, &cpu}) {
        const Layout given = side == &own ? Layout(layout) : Layout();
        side->forward = run(side->describe, {"DropoutTraining", a, {wanted(side->real, x), opaque}}, {hold(in, side->real, given), hold(state, DType::int64)});
        dx.push_back(run(side->describe, {"DropoutBackward", a, {wanted(side->real, x)}}, {hold(dy, side->real, given), side->forward[1]})[0]);
      }
      expect_close(own.forward[0], cpu.forward[0], tolerance(4), "y");
      expect_close(dx[0], dx[1], tolerance(4), "dx");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TrainingKernels, testing::Values(DType::float32, DType::float64, DType::bfloat16), [](const auto& info) { return to_string(info.param); });

// ---- updates ----

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
    {"accumulating_with_average", "AdamUpdate", {{"beta1", 0.875F}, {"beta2", 0.9375F}, {"epsilon", 0.0078125F}, {"accumulate", std::int64_t{1}}, {"average", std::int64_t{1}}}, 4},
    {"accumulating_and_clipped", "LarsUpdate", {{"momentum", 0.5F}, {"trust", 0.25F}, {"accumulate", std::int64_t{1}}, {"clip_norm", 1.0F}}, 2, 243},
};
class Updates : public testing::TestWithParam<UpdateCase> {};

TEST_P(Updates, AgreeWithTheCpu) {
  const UpdateCase& c = GetParam();
  const int tensors = c.tensors;
  std::mt19937 random(5);
  Attributes a = c.attributes;
  a.set("tensors", std::int64_t{tensors});
  std::vector<Tensor> given{Tensor::of<float>({16}, {0.0625F, 3, 0.5F, 0.25F, 1, 0, 1.5F, 0.75F, 0.5F, 0, 0.25F, 0, 0, 0.125F, 0, 0})};
  std::vector<Shape> shapes;
  for (int t = 0; t < tensors; ++t) {
    shapes.push_back({between(random, 1, 60), t == 3 ? 90 : 3});  // what is no multiple of a pack, and more than a block takes
    for (int k = 0; k < 2 + c.states; ++k) given.push_back(random_tensor(random, shapes.back(), k < 2 ? -2 : 0.5, 2));
  }
  std::vector<std::vector<Held>> results;
  for (const auto& [describe, dtype] : {std::pair<DescribeFunction, DType>{describe_emulated, DType::float32}, {describe_native_cpu, DType::float64}}) {
    Job job{c.op, a, {}};
    std::vector<Held> inputs{hold(given[0], DType::float32)};
    for (std::size_t i = 1; i < given.size(); ++i) inputs.push_back(hold(given[i], dtype));
    for (const Shape& s : shapes)
      for (int k = 0; k < 1 + c.states; ++k) job.outputs.push_back(wanted(dtype, s));
    results.push_back(run(describe, job, inputs));
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (std::size_t i = 0; i < results[0].size(); ++i) expect_close(results[0][i], results[1][i], tolerance_of(DType::float32, 16), concat("output ", i));
}
// A copy in 16 bits is the new weight, rounded; a gradient of 16 bits is what it is in float32. All else is as without them.
TEST_P(Updates, ReadAndWrite16Bits) {
  const UpdateCase& c = GetParam();
  if (c.op == std::string_view("AssignUpdate")) GTEST_SKIP() << "what it writes is cast by nodes of its own in plans of 16 bits (narrow_updates.cpp)";
  std::mt19937 random(6);
  for (const DType narrow : {DType::bfloat16, DType::float16})
    for (const float skip : {0.0F, 1.0F}) {
      std::vector<std::vector<Held>> results;
      const std::vector<Shape> shapes{{40, 3}, {5000}};
      std::vector<Held> given{hold(Tensor::of<float>({16}, {0.0625F, 3, 0.5F, 0.25F, 1, skip, 1.5F, 0.75F, 0.5F, 0, 1, 1, 0, 0, 0, 0}), DType::float32)};
      for (const Shape& s : shapes)
        for (int k = 0; k < 2 + c.states; ++k) given.push_back(hold(random_tensor(random, s, k < 2 ? -2 : k == 2 ? 1 : 0.5, k < 3 ? 2 : 0.9), k == 1 ? narrow : DType::float32));  // a mean square is above a mean's square
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
        results.push_back(run(describe_emulated, job, inputs));
      }
      for (std::size_t t = 0; t < shapes.size(); ++t) {
        for (std::size_t k = 0; k < out; ++k) EXPECT_EQ(values_of(results[1][t * (out + 1) + k]), values_of(results[0][t * out + k])) << "tensor " << t << ", output " << k;
        const Held& copy = results[1][t * (out + 1) + out];
        EXPECT_EQ(copy.operand.dtype, narrow);
        std::vector<double> rounded;
        for (const double v : values_of(results[0][t * out]))
          rounded.push_back(narrow == DType::bfloat16 ? static_cast<double>(to_float(to_bfloat16(static_cast<float>(v)))) : static_cast<double>(to_float(to_half(static_cast<float>(v)))));
        EXPECT_EQ(values_of(copy), rounded) << "tensor " << t;
      }
    }
}
INSTANTIATE_TEST_SUITE_P(Optimizers, Updates, testing::ValuesIn(updates), [](const auto& info) { return info.param.name; });

// The norm of more tensors than a launch takes, some of more elements than a block, with and without sums of batches before.
TEST(OtherKernels, ClipScalars) {
  std::mt19937 random(9);
  for (const bool accumulate : {false, true})
    for (const float fresh : {0.0F, 1.0F}) {
      std::vector<Held> inputs{hold(Tensor::of<float>({16}, {0.0625F, 3, 0.5F, 0.25F, 4, 0, 0, 0, 1, 0, 0.25F, fresh, 0, 0, 0, 0}), DType::float32)};
      for (int t = 0; t < 243; ++t)
        for (int k = 0; k < 1 + accumulate; ++k) inputs.push_back(hold(random_tensor(random, {t == 11 ? 9000 : 1 + t % 9}), DType::float32));
      const Job job{"ClipScalars", {{"clip_norm", 0.75F}, {"accumulate", std::int64_t{accumulate}}}, {wanted(DType::float32, {16})}};
      const std::vector<double> ours = values_of(run(describe_emulated, job, inputs)[0]), cpu = values_of(run(describe_native_cpu, job, inputs)[0]);
      EXPECT_LT(ours[8], 0.5);
      for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], cpu[i], 1e-6) << i;
    }
}

TEST(OtherKernels, RunningStatistics) {
  std::mt19937 random(3);
  const Comparison c{"RunningStatistics", {{"momentum", 0.875F}}, {random_tensor(random, {37}), random_tensor(random, {37})}, {{DType::float64, {37}}}, 4};
  for (const DType dtype : {DType::float32, DType::float64}) expect_same(c, dtype, Layout("a"));
}

// More than a launch takes, variances among them as BatchNormalization keeps them for its gradient; none moves in a step that is skipped.
TEST(OtherKernels, RunningStatisticsOfMany) {
  constexpr int tensors = 243;
  for (const DType dtype : {DType::float32, DType::float64})
    for (const float skip : {0.0F, 1.0F}) {
      std::mt19937 random(3);
      const Held scalars = hold(Tensor::of<float>({16}, {0.5F, 3, 1, 1, 1, skip, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0}), DType::float32);
      Job job{"RunningStatistics", {{"momentum", 0.875F}, {"tensors", std::int64_t{tensors}}, {"epsilon", 0.25F}}, {}};
      std::vector<Held> inputs{scalars}, wanted_values;
      Ints inverse;
      for (int t = 0; t < tensors; ++t) {
        const Shape shape{t == 5 ? 1030 : between(random, 1, 20)};
        const Held running = hold(random_tensor(random, shape), dtype), value = hold(random_tensor(random, shape, 0, 2), dtype);
        wanted_values.push_back(run(describe_native_cpu, {"RunningStatistics", {{"momentum", 0.875F}}, {wanted(dtype, shape)}}, {running, value, scalars})[0]);
        inverse.push_back(t % 3 == 0);
        Held given = value;
        if (t % 3 == 0) {
          Tensor deviations(TensorType{DType::float64, shape});
          const std::vector<double> values = values_of(value);
          std::transform(values.begin(), values.end(), deviations.write<double>().begin(), [](double v) { return 1 / std::sqrt(v + 0.25); });
          given = hold(deviations, dtype);
          given.operand.layout = Layout::opaque("inverse_deviation");
        }
        inputs.insert(inputs.end(), {running, given});
        job.outputs.push_back(wanted(dtype, shape));
      }
      job.attributes.set("inverse", inverse);
      const std::vector<Held> got = run(describe_emulated, job, inputs);
      for (std::size_t t = 0; t < got.size(); ++t) expect_close(got[t], wanted_values[t], tolerance_of(dtype, 16), concat("statistic ", t));
    }
}

TEST(OtherKernels, Reorder) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{2, 33, 5, 7}, Shape{1, 3, 40, 40}, Shape{5, 1, 1, 9}})
    for (const char* from : {"abcd", "acdb", "dcba"})
      for (const char* to : {"abcd", "acdb", "bacd"}) {
        const Held x = hold(random_tensor(random, shape), DType::float32, Layout(from));
        const std::vector<Held> y = run(describe_emulated, {"Reorder", {}, {{DType::float32, shape, Layout(to)}}}, {x});
        EXPECT_EQ(y[0].operand.layout, Layout(to));
        expect_close(y[0], x, 0, concat(from, " to ", to, ' ', shape));
      }
}

// In packs and behind them, in one order and in two: each element is rounded by itself.
TEST(OtherKernels, CastsBetweenFloats) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{7}, Shape{8}, Shape{41, 100}})
    for (const DType narrow : {DType::bfloat16, DType::float16}) {
      const Held wide = hold(random_tensor(random, shape), DType::float32);
      const auto cast = [&](const Held& x, DType to, const Layout& layout) {
        return run(describe_emulated, {"Cast", {{"to", static_cast<std::int64_t>(to)}}, {{to, shape, layout}}}, {x})[0];
      };
      const Held got = cast(wide, narrow, wide.operand.layout);
      std::vector<double> rounded;
      for (const double v : values_of(wide))
        rounded.push_back(static_cast<double>(narrow == DType::bfloat16 ? to_float(to_bfloat16(static_cast<float>(v))) : to_float(to_half(static_cast<float>(v)))));
      EXPECT_EQ(values_of(got), rounded) << to_string(shape);
      EXPECT_EQ(values_of(cast(got, DType::float32, got.operand.layout)), rounded) << to_string(shape);
      if (shape.rank() == 2) EXPECT_EQ(values_of(cast(reordered(wide, Layout("ba")), narrow, Layout("ab"))), rounded);
    }
}

TEST(OtherKernels, Fill) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::int64, DType::boolean}) {
    const std::vector<Held> y = run(describe_emulated, {"Fill", {{"value", 1.0F}}, {{dtype, Shape{3, 5}, {}}}}, {});
    EXPECT_EQ(values_of(y[0]), std::vector<double>(15, 1.0)) << to_string(dtype);
  }
}

TEST(OtherKernels, EveryElementwiseOperatorHasAFormula) {
  for (const Operator& op : operators()) EXPECT_TRUE(!op.elementwise || is_emulated(op.name)) << op.name;
}

TEST(OtherKernels, IntegersWrapAround) {
  const Held a = hold(Tensor::of<std::int64_t>({3}, {std::numeric_limits<std::int64_t>::max(), 7, -9}), DType::int64);
  const Held b = hold(Tensor::of<std::int64_t>({3}, {1, 0, 2}), DType::int64);
  EXPECT_EQ(values_of(run(describe_emulated, {"Add", {}, {{DType::int64, Shape{3}, {}}}}, {a, b})[0]),
            (std::vector<double>{static_cast<double>(std::numeric_limits<std::int64_t>::min()), 7, -7}));
  EXPECT_EQ(values_of(run(describe_emulated, {"Div", {}, {{DType::int64, Shape{3}, {}}}}, {a, b})[0])[1], 0);
}

// Every rank's kernel sums its share for all: together the buffers hold the sum, the same on each.
TEST(OtherKernels, AllReduceOnOneDevice) {
  constexpr int ranks = 3;
  constexpr std::int64_t elements = 1001;
  std::mt19937 random(9);
  std::vector<std::vector<float>> buffers(ranks, std::vector<float>(elements));
  std::vector<float> sum(elements);
  for (auto& buffer : buffers)
    for (std::size_t i = 0; i < buffer.size(); ++i) sum[i] += buffer[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  for (int rank = 0; rank < ranks; ++rank) {
    AllReduceBody<float> body{};
    for (int r = 0; r < ranks; ++r) body.buffers[r] = buffers[static_cast<std::size_t>(r)].data();
    body.ranks = ranks;
    body.begin = elements * rank / ranks;
    body.end = elements * (rank + 1) / ranks;
    launch(body, blocks_for(body.end - body.begin, AllReduceBody<float>::threads), nullptr);
  }
  for (const auto& buffer : buffers) EXPECT_EQ(buffer, sum);
}

// ---- storage types ----

TEST(StorageTypes, HalfAgreesWithEveryBitPattern) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half h{static_cast<std::uint16_t>(bits)};
    const float value = to_float(h);
    if (std::isnan(value)) continue;
    EXPECT_EQ(to_half(value).bits, h.bits);
  }
  EXPECT_EQ(to_half(65519.0F).bits, 0x7bff);  // the largest that rounds to a finite number
  EXPECT_EQ(to_half(65520.0F).bits, 0x7c00);
  EXPECT_EQ(to_half(1.0F + 0x1p-11F).bits, to_half(1.0F).bits);                       // ties to even
  EXPECT_EQ(to_half(1.0F + 0x3p-11F).bits, to_half(1.0F + 0x1p-9F).bits);
  EXPECT_EQ(to_half(0x1p-25F).bits, 0);
}

TEST(StorageTypes, BFloat16RoundsToEven) {
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(1.0F + 0x3p-8F).bits, 0x3f82);
  EXPECT_EQ(to_float(to_bfloat16(-3.0F)), -3.0F);
}

}  // namespace
}  // namespace tandem::cuda
