// 8-bit floats on the host emulation: what the CPU backend's kernels give, to the bit, and whole plans.
#include <limits>

#include "graph/fp8.h"
#include "tests/cuda/emulated.h"
#include "tests/cuda/host_backend.h"
#include "tests/planner/small_models.h"

namespace tandem::cuda {
namespace {

constexpr DType e4m3 = DType::float8e4m3fn, e5m2 = DType::float8e5m2;

Tensor state_of(std::int64_t rows, const std::vector<float>& scales) {
  Tensor t(TensorType{DType::float32, {rows, Fp8Row::count}});
  for (std::size_t i = 0; i < scales.size(); ++i) t.write<float>()[i * Fp8Row::count] = scales[i];
  return t;
}

// Squares, and what is left of them; rows that are no whole packs.
TEST(Fp8Kernels, RoundAsTheCpuDoes) {
  std::mt19937 random(4);
  for (const DType to : {e4m3, e5m2})
    for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{64, 64}, {1, 16}, {130, 80}, {67, 24}, {3, 200}})
      for (const bool transposed : {true, false}) {
        Tensor x(TensorType{DType::float32, {rows, columns}});
        for (float& v : x.write<float>()) v = std::normal_distribution<float>(0, 30)(random);
        x.write<float>()[1] = 1e9F;
        Job job{"QuantizeFp8",
                {{"to", static_cast<std::int64_t>(to)}, {"slot", std::int64_t{1}}},
                {{to, {rows, columns}, {}}, {DType::float32, {}, {}}, {DType::float32, {}, {}}}};
        if (transposed) job.outputs.push_back({to, {columns, rows}, {}});
        const std::vector<Held> inputs{hold(x, DType::bfloat16), hold(state_of(2, {3, 0x1p-3F}), DType::float32)};
        const std::vector<Held> got = run(describe_emulated, job, inputs), wanted = run(describe_native_cpu, job, inputs);
        ASSERT_EQ(got.size(), wanted.size());
        for (std::size_t i = 0; i < got.size(); ++i)
          EXPECT_EQ(values_of(got[i]), values_of(wanted[i])) << rows << " by " << columns << ", output " << i;
      }
}

TEST(Fp8Kernels, NanHasNoMagnitude) {
  Tensor x(TensorType{DType::float32, {70, 32}});
  x.write<float>()[2000] = std::numeric_limits<float>::quiet_NaN();
  x.write<float>()[2001] = 5;
  const Job job{"QuantizeFp8",
                {{"to", static_cast<std::int64_t>(e4m3)}, {"slot", std::int64_t{0}}},
                {{e4m3, {70, 32}, {}}, {DType::float32, {}, {}}, {DType::float32, {}, {}}}};
  const std::vector<Held> inputs{hold(x, DType::bfloat16), hold(state_of(1, {2}), DType::float32)};
  EXPECT_EQ(values_of(run(describe_emulated, job, inputs)[2]), std::vector<double>{std::numeric_limits<double>::infinity()});
  EXPECT_EQ(values_of(run(describe_emulated, job, inputs)[1]), std::vector<double>{0.5});
}

// More rows than one launch takes.
TEST(Fp8Kernels, ScalesFollowAsOnTheCpu) {
  const std::int64_t rows = 300;
  std::mt19937 random(4);
  std::vector<Held> inputs{hold(state_of(rows, {1, 2, 4}), DType::float32)};
  Ints types;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float amax = i == 5 ? std::numeric_limits<float>::infinity() : std::exp(std::normal_distribution<float>(0, 9)(random));
    inputs.push_back(hold(Tensor::scalar(amax), DType::float32));
    types.push_back(static_cast<std::int64_t>(i % 3 == 0 ? e5m2 : e4m3));
  }
  const Job job{"Fp8ScaleUpdate", {{"to", types}, {"margin", std::int64_t{1}}}, {{DType::float32, {rows, Fp8Row::count}, {}}}};
  EXPECT_EQ(values_of(run(describe_emulated, job, inputs)[0]), values_of(run(describe_native_cpu, job, inputs)[0]));
}

// Whole plans, CUDA's kernels for all but the products, against the CPU's: both round by the same scales.
TEST(Fp8Kernels, PlansTrainAsTheCpuDoes) {
  if (const std::string reason = cpu_backend().declines(Precision::fp8); !reason.empty()) GTEST_SKIP() << reason;
  const HostCudaBackend backend(false);
  for (const std::vector<double>& weights : {std::vector<double>{1}, {2, 1}}) {
    CompileOptions o = small_models::options_for(6, weights);
    o.precision = Precision::fp8;
    const small_models::Trained cpu = small_models::train(small_models::deep, o, 3, 0.01);
    for (DeviceSpec& d : o.devices) d.id.backend = "cuda";
    const small_models::Trained cuda = small_models::train_on(backend, small_models::deep, o, 3, 0.01);
    int products = 0;
    for (const Step& s : cuda.plan.program_of(0).steps)
      if (const auto* launch = s.as<LaunchStep>()) products += launch->op == "ProductFp8";
    EXPECT_EQ(products, 8) << "left and right, which read one value and are summed, have one gradient";
    for (std::size_t s = 0; s < cpu.losses.size(); ++s) EXPECT_NEAR(cuda.losses[s], cpu.losses[s], 0.003F * cpu.losses[0]) << "step " << s;
  }
}

// What an H200's data sheet gives of dense products, in 16 bits and in 8.
TEST(Fp8Kernels, AreEstimatedBelowThePeak) {
  std::string reason;
  const Backend* const module = cuda_module(reason);
  if (!module) GTEST_SKIP() << reason;
  if (module->unusable().empty()) GTEST_SKIP() << "there is a GPU: another card has other peaks";
  const Attributes none;
  const auto operand = [](DType t, Shape shape) {
    const int rank = shape.rank();
    return Operand{t, std::move(shape), Layout::row_major(rank)};
  };
  const auto rate = [&](std::string_view op, const std::vector<Operand>& inputs) {
    const std::vector<KernelDescription> found = module->describe({op, &none, inputs, {operand(DType::bfloat16, {512, 512})}, {}, {}});
    return found.empty() ? 0 : found[0].efficiency * module->model(0, 1).flops;
  };
  const double wide = rate("InnerProduct", {operand(DType::bfloat16, {512, 512}), operand(DType::bfloat16, {512, 512})});
  const double narrow =
      rate("ProductFp8", {operand(e4m3, {512, 512}), operand(e4m3, {512, 512}), operand(DType::float32, {}), operand(DType::float32, {})});
  EXPECT_GT(wide, 0.5 * 989e12);
  EXPECT_LT(wide, 989e12);
  EXPECT_EQ(narrow, 2 * wide);
}

}  // namespace
}  // namespace tandem::cuda
