// Kernels that keep something between forward and backward, the all-reduce and other single ones, against the CPU backend's.
#include <array>
#include <set>

#include "graph/operator.h"
#include "kernels/cuda/bodies/fold.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/native/describe.h"
#include "tests/cuda/where.h"

namespace tandem::cuda {
namespace {

constexpr int rounds = 3;
const std::string layouts[] = {"abcd", "acdb"};

std::int64_t between(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
Shape image(std::mt19937& random) { return {between(random, 1, 4), between(random, 1, 40), between(random, 2, 7), between(random, 2, 7)}; }
Operand wanted(DType dtype, Shape shape) { return {dtype, std::move(shape), {}}; }
const Operand opaque{DType::uint8, Shape{0}, {}};

class TrainingKernels : public InPlaces<DType> {
 protected:
  std::mt19937 random{17};
  DType real() const { return row(); }
  double tolerance(std::int64_t terms) const { return tolerance_of(real(), terms); }
};
constexpr DType wide = DType::float64;  // on the CPU, with which all is compared

// Windows of 2 × 2 have no two equal numbers: which of them gives the maximum is told by nobody.
Tensor distinct_in_windows(std::mt19937& random, const Shape& shape) {
  Tensor x(TensorType{wide, shape});
  const std::int64_t width = shape[3];
  std::int64_t i = 0;
  for (double& v : x.write<double>()) {
    v = static_cast<double>(4 * between(random, -32, 31) + i / width % shape[2] % 2 * 2 + i % width % 2) / 64;
    ++i;
  }
  return x;
}

TEST_P(TrainingKernels, MaxPool) {
  for (int round = 0; round < rounds; ++round) {
    Shape x = image(random);
    if (round == 1) x[1] = 8 * between(random, 1, 5);  // as libraries want them
    Shape y = x;
    y[2] = (x[2] + 1 - 2) / 2 + 1;
    y[3] = x[3] - 2 + 1;
    const Attributes a{{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 0, 0}}};
    Attributes b = a;
    b.set("input_shape", x.dims);
    const Tensor in = distinct_in_windows(random, x), dy = random_tensor(random, y);
    const std::vector<Held> forward = on_cpu({"MaxPoolTraining", a, {wanted(wide, y), opaque}}, {hold(in, wide)});
    const Held dx = on_cpu({"MaxPoolBackward", b, {wanted(wide, x)}}, {hold(dy, wide), forward[1]})[0];
    for (const std::string& layout : layouts)
      for (const Ran& f : own({"MaxPoolTraining", a, {wanted(real(), y), opaque}}, {hold(in, real(), Layout(layout))})) {
        expect_close(f.outputs[0], forward[0], tolerance(1), f.kernel + " y");
        for (const Ran& g : own({"MaxPoolBackward", b, {wanted(real(), x)}}, {hold(dy, real()), f.outputs[1]}))
          expect_close(g.outputs[0], dx, tolerance(8), g.kernel + " dx");
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
  const DType statistics = real() == DType::float64 ? DType::float64 : DType::float32;
  for (int round = 0; round < rounds; ++round) {
    Shape x = image(random);
    if (round == 1) x[1] = 8 * between(random, 1, 5);                         // in packs
    if (round == 2) x = {between(random, 100, 300), between(random, 1, 40)};  // several blocks a channel
    const Shape c{x[1]};
    const std::int64_t terms = x.elements() / x[1];
    const Tensor in = random_tensor(random, x), scale = random_tensor(random, c, 0.5, 2), bias = random_tensor(random, c),
                 dy = random_tensor(random, x);
    const Tensor addend = random_tensor(random, x);
    const std::array<Tensor, 2> sums = channel_sums(in);
    for (const auto& [relu, adds, summed] : {std::tuple{false, false, false},
                                             {true, false, false},
                                             {false, true, false},
                                             {true, true, false},
                                             {true, false, true},
                                             {true, true, true}}) {
      Attributes a{{"epsilon", 0.015625F}};
      if (relu) a.set("activation", std::string("Relu"));
      const auto forward = [&, adds = adds, summed = summed](DType type, DType stat, const Layout& layout) {
        std::vector<Held> inputs{hold(in, type, layout), hold(scale, stat), hold(bias, stat)};
        if (adds || summed) inputs.push_back(adds ? hold(addend, type, layout) : Held{});
        if (summed)
          for (const Tensor& sum : sums) inputs.push_back(hold(sum, stat));
        return std::pair(Job{"BatchNormalizationTraining", a, {wanted(type, x), wanted(stat, c), wanted(stat, c), opaque}}, inputs);
      };
      const auto backward = [&, relu = relu, adds = adds](DType type, DType stat, const Layout& layout, const std::vector<Held>& f,
                                                          bool fork) {
        Job job{"BatchNormalizationBackward", a, {wanted(type, x), wanted(stat, c), wanted(stat, c)}};
        std::vector<Held> inputs{hold(in, type, layout), hold(dy, type, layout), hold(scale, stat), hold(bias, stat), f[1], f[2], f[3]};
        if (relu && adds) {
          job.outputs.push_back(wanted(type, x));
          inputs.push_back(f[0]);
        }
        if (fork) {  // of the sum of two gradients, with and without y
          inputs.resize(8);
          inputs.push_back(hold(in, type, layout));
        }
        return std::pair(job, inputs);
      };
      const auto on = [](auto&& call, const std::pair<Job, std::vector<Held>>& p) { return call(p.first, p.second); };
      const auto ours = [&](const Job& job, const std::vector<Held>& inputs) { return own(job, inputs); };
      const std::vector<Held> f_cpu = on(on_cpu, forward(wide, wide, {}));
      const char* const names[] = {" y", " mean", " variance"};
      const char* const gradient_names[] = {" dx", " dscale", " dbias", " daddend"};
      for (const std::string& tag : layouts) {
        const Layout layout = x.rank() == 4 ? Layout(tag) : Layout();
        for (const Ran& f : on(ours, forward(real(), statistics, layout))) {
          for (std::size_t i = 0; i < 3; ++i) expect_close(f.outputs[i], f_cpu[i], tolerance(16 + terms / 16), f.kernel + names[i]);
          for (const bool fork : {false, true}) {
            const std::vector<Held> g_cpu = on(on_cpu, backward(wide, wide, {}, f_cpu, fork));
            for (const Ran& g : on(ours, backward(real(), statistics, layout, f.outputs, fork))) {
              ASSERT_EQ(g.outputs.size(), g_cpu.size());
              for (std::size_t i = 0; i < g_cpu.size(); ++i)
                expect_close(g.outputs[i], g_cpu[i], tolerance(64 + terms) * 2,
                             concat(f.kernel, ", ", g.kernel, gradient_names[i], fork ? " at a fork" : ""));
            }
          }
        }
      }
    }
  }
}

TEST_P(TrainingKernels, LocalResponseNormalization) {
  for (int round = 0; round < rounds; ++round) {
    const Shape x = image(random);
    const Tensor in = random_tensor(random, x), dy = random_tensor(random, x);
    const Attributes a{{"size", between(random, 1, 5)}, {"alpha", 0.5F}, {"beta", 0.75F}, {"bias", 1.0F}};
    const auto backward = [&](DType type, const Layout& layout, const std::vector<Held>& f) {
      return std::vector<Held>{hold(in, type, layout), f[0], hold(dy, type, layout), f[1]};
    };
    const std::vector<Held> f_cpu = on_cpu({"LRNTraining", a, {wanted(wide, x), opaque}}, {hold(in, wide)});
    const Held dx = on_cpu({"LRNBackward", a, {wanted(wide, x)}}, backward(wide, {}, f_cpu))[0];
    for (const std::string& layout : layouts)
      for (const Ran& f : own({"LRNTraining", a, {wanted(real(), x), opaque}}, {hold(in, real(), Layout(layout))})) {
        expect_close(f.outputs[0], f_cpu[0], tolerance(64), f.kernel + " y");
        for (const Ran& g : own({"LRNBackward", a, {wanted(real(), x)}}, backward(real(), Layout(layout), f.outputs)))
          expect_close(g.outputs[0], dx, tolerance(1024), g.kernel + " dx");
      }
  }
}

// The same elements are dropped on every backend and in every layout, for any slice of the batch, wherever its samples lie: in the CPU's
// own types its bits. What lies side by side are multiples of four elements, of eight, and not.
TEST_P(TrainingKernels, Dropout) {
  const bool same_bits = real() == DType::float32 || real() == DType::float64;
  const DType reference = same_bits ? real() : wide;
  for (int round = 0; round < rounds; ++round)
    for (const std::int64_t axis : {-1, 0, 1, 2, 3}) {
      Shape x = image(random);
      if (round % 3 != 2) x[3] = round % 3 == 0 ? 4 : 8;
      const std::int64_t outer = axis < 1 ? 1 : between(random, 1, 2), inner = between(random, 1, 2);
      if (axis >= 0) x[static_cast<int>(axis)] *= outer * inner;
      const Tensor in = random_tensor(random, x, 1, 2);
      const std::int64_t numbers[] = {0x123456789abcdefLL + round, 7 + round, between(random, 0, 1000), 0};
      const Held state = hold(Tensor::of<std::int64_t>({4}, numbers), DType::int64);
      Attributes a{{"ratio", 0.25F}, {"layer", std::int64_t{3}}, {"outer", outer}, {"inner", inner}};
      if (axis >= 0) a.set("axis", axis);
      if (round % 2 == 1) {  // x is a part of another axis
        const int cut = static_cast<int>((axis + 1) % 4);
        const std::int64_t runs = x[cut] % 2 == 0 ? 2 : 1;
        a.set("part", Ints{cut, between(random, 0, 2 * x[cut] / runs), 3 * x[cut], runs});
      }
      const Held y = on_cpu({"DropoutTraining", a, {wanted(reference, x)}}, {hold(in, reference), state})[0];
      for (const std::string& layout : layouts)
        for (const Ran& f : own({"DropoutTraining", a, {wanted(real(), x)}}, {hold(in, real(), Layout(layout)), state}))
          expect_close(f.outputs[0], y, same_bits ? 0 : tolerance(4), concat(f.kernel, " axis ", axis));
    }
}

const auto types = testing::Values(DType::float32, DType::float64, DType::bfloat16, DType::float16);
const auto type_name = [](const auto& info) { return to_string(std::get<1>(info.param)); };
INSTANTIATE_TEST_SUITE_P(Types, TrainingKernels, testing::Combine(testing::Values(Where::host), types), type_name);
INSTANTIATE_TEST_SUITE_P(GpuTypes, TrainingKernels, testing::Combine(testing::Values(Where::gpu), types), type_name);

// Those that have one row.
class SingleKernels : public InPlaces<DType> {};
INSTANTIATE_TEST_SUITE_P(Host, SingleKernels, testing::Values(std::tuple{Where::host, DType::float32}), type_name);
INSTANTIATE_TEST_SUITE_P(Gpu, SingleKernels, testing::Values(std::tuple{Where::gpu, DType::float32}), type_name);

// The norm of more tensors than a launch takes, some of more elements than a block.
TEST_P(SingleKernels, ClipScalars) {
  std::mt19937 random(9);
  std::vector<Held> inputs{hold(Tensor::of<float>({16}, {0.0625F, 3, 0.5F, 0.25F, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}), DType::float32)};
  for (int t = 0; t < 243; ++t) inputs.push_back(hold(random_tensor(random, {t == 11 ? 9000 : 1 + t % 9}), DType::float32));
  const Job job{"ClipScalars", {{"clip_norm", 0.75F}}, {wanted(DType::float32, {16})}};
  const std::vector<double> ours = values_of(first(job, inputs)[0]), cpu = values_of(on_cpu(job, inputs)[0]);
  EXPECT_LT(ours[8], 0.5);
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], cpu[i], 1e-6) << i;
}

TEST_P(SingleKernels, RunningStatistics) {
  std::mt19937 random(3);
  const Tensor running = random_tensor(random, {37}), fresh = random_tensor(random, {37});
  const auto given = [&](DType type) { return std::vector<Held>{hold(running, type), hold(fresh, type)}; };
  const auto job = [](DType type) { return Job{"RunningStatistics", {{"momentum", 0.875F}}, {wanted(type, {37})}}; };
  const Held expected = on_cpu(job(wide), given(wide))[0];
  for (const DType dtype : {DType::float32, DType::float64})
    for (const Ran& r : own(job(dtype), given(dtype))) expect_close(r.outputs[0], expected, tolerance_of(dtype, 4), r.kernel);
}

// More than a launch takes, variances among them as BatchNormalization keeps them for its gradient; none moves in a step that is skipped.
TEST_P(SingleKernels, RunningStatisticsOfMany) {
  constexpr int tensors = 243;
  for (const DType dtype : {DType::float32, DType::float64})
    for (const float skip : {0.0F, 1.0F}) {
      std::mt19937 random(3);
      const Held scalars = hold(Tensor::of<float>({16}, {0.5F, 3, 1, 1, 1, skip, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0}), DType::float32);
      Job job{"RunningStatistics", {{"momentum", 0.875F}, {"tensors", std::int64_t{tensors}}, {"epsilon", 0.25F}}, {}};
      std::vector<Held> inputs{scalars}, wanted_values;
      Ints inverse;
      for (int t = 0; t < tensors; ++t) {
        const Shape shape{t == 5 ? 1030 : between(random, 1, 20)};
        const Held running = hold(random_tensor(random, shape), dtype), value = hold(random_tensor(random, shape, 0, 2), dtype);
        wanted_values.push_back(
            on_cpu({"RunningStatistics", {{"momentum", 0.875F}}, {wanted(dtype, shape)}}, {running, value, scalars})[0]);
        inverse.push_back(t % 3 == 0);
        Held given = value;
        if (t % 3 == 0) {
          Tensor deviations(TensorType{DType::float64, shape});
          const std::vector<double> values = values_of(value);
          std::transform(values.begin(), values.end(), deviations.write<double>().begin(),
                         [](double v) { return 1 / std::sqrt(v + 0.25); });
          given = hold(deviations, dtype);
          given.operand.layout = Layout::opaque("inverse_deviation");
        }
        inputs.insert(inputs.end(), {running, given});
        job.outputs.push_back(wanted(dtype, shape));
      }
      job.attributes.set("inverse", inverse);
      const std::vector<Held> got = first(job, inputs);
      for (std::size_t t = 0; t < got.size(); ++t) expect_close(got[t], wanted_values[t], tolerance_of(dtype, 16), concat("statistic ", t));
    }
}

TEST_P(SingleKernels, Reorder) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{2, 33, 5, 7}, Shape{1, 3, 40, 40}, Shape{5, 1, 1, 9}})
    for (const char* from : {"abcd", "acdb", "dcba"})
      for (const char* to : {"abcd", "acdb", "bacd"}) {
        const Held x = hold(random_tensor(random, shape), DType::float32, Layout(from));
        const std::vector<Held> y = first({"Reorder", {}, {{DType::float32, shape, Layout(to)}}}, {x});
        EXPECT_EQ(y[0].operand.layout, Layout(to));
        expect_close(y[0], x, 0, concat(from, " to ", to, ' ', shape));
      }
}

// In packs and behind them, in one order and in two: each element is rounded by itself.
TEST_P(SingleKernels, CastsBetweenFloats) {
  std::mt19937 random(3);
  for (const Shape& shape : {Shape{7}, Shape{8}, Shape{41, 100}})
    for (const DType narrow : {DType::bfloat16, DType::float16}) {
      const Held wide = hold(random_tensor(random, shape), DType::float32);
      const auto cast = [&](const Held& x, DType to, const Layout& layout) {
        return first({"Cast", {{"to", static_cast<std::int64_t>(to)}}, {{to, shape, layout}}}, {x})[0];
      };
      const Held got = cast(wide, narrow, wide.operand.layout);
      std::vector<double> rounded;
      for (const double v : values_of(wide))
        rounded.push_back(static_cast<double>(narrow == DType::bfloat16 ? to_float(to_bfloat16(static_cast<float>(v)))
                                                                        : to_float(to_half(static_cast<float>(v)))));
      EXPECT_EQ(values_of(got), rounded) << to_string(shape);
      EXPECT_EQ(values_of(cast(got, DType::float32, got.operand.layout)), rounded) << to_string(shape);
      if (shape.rank() == 2) EXPECT_EQ(values_of(cast(reordered(wide, Layout("ba")), narrow, Layout("ab"))), rounded);
    }
}

TEST_P(SingleKernels, Fill) {
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::int64, DType::boolean}) {
    const std::vector<Held> y = first({"Fill", {{"value", 1.0F}}, {{dtype, Shape{3, 5}, {}}}}, {});
    EXPECT_EQ(values_of(y[0]), std::vector<double>(15, 1.0)) << to_string(dtype);
  }
}

TEST(OtherKernels, EveryElementwiseOperatorHasAFormula) {
  for (const Operator& op : operators()) EXPECT_TRUE(!op.elementwise || is_emulated(op.name)) << op.name;
}

TEST_P(SingleKernels, IntegersWrapAround) {
  const Held a = hold(Tensor::of<std::int64_t>({3}, {std::numeric_limits<std::int64_t>::max(), 7, -9}), DType::int64);
  const Held b = hold(Tensor::of<std::int64_t>({3}, {1, 0, 2}), DType::int64);
  EXPECT_EQ(values_of(first({"Add", {}, {{DType::int64, Shape{3}, {}}}}, {a, b})[0]),
            (std::vector<double>{static_cast<double>(std::numeric_limits<std::int64_t>::min()), 7, -7}));
  EXPECT_EQ(values_of(first({"Div", {}, {{DType::int64, Shape{3}, {}}}}, {a, b})[0])[1], 0);
}

// Two ranks of three get what all three give: the sum, the same on each.
TEST(OtherKernels, FoldOfRanksOnOneDevice) {
  constexpr std::int64_t elements = 1001;
  std::mt19937 random(9);
  std::vector<std::vector<float>> buffers(3, std::vector<float>(elements));
  std::vector<float> sum(elements);
  for (auto& buffer : buffers)
    for (std::size_t i = 0; i < buffer.size(); ++i) sum[i] += buffer[i] = std::uniform_real_distribution<float>(-1, 1)(random);
  const std::vector<float> kept = buffers[1];
  FoldBody<float> body{};
  for (const auto& buffer : buffers) body.from[body.given++] = buffer.data();
  body.to[body.written++] = buffers[0].data();
  body.to[body.written++] = buffers[2].data();
  body.elements = elements;
  launch(body, blocks_for(elements, FoldBody<float>::threads), nullptr);
  EXPECT_EQ(buffers, (std::vector<std::vector<float>>{sum, kept, sum}));
}

TEST(OtherKernels, LargestOfRanksOnOneDevice) {
  std::vector<std::vector<float>> buffers{{1, 5, 0}, {4, 2, std::numeric_limits<float>::infinity()}, {3, 3, 3}};
  FoldBody<float> body{};
  for (auto& buffer : buffers) {
    body.from[body.given++] = buffer.data();
    body.to[body.written++] = buffer.data();
  }
  body.largest = true;
  body.elements = 3;
  launch(body, 1, nullptr);
  for (const auto& buffer : buffers) EXPECT_EQ(buffer, (std::vector<float>{4, 5, std::numeric_limits<float>::infinity()}));
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
