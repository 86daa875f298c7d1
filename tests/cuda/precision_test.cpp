// fp16 with a scaled loss on CUDA's own kernels, run by the emulation: the curve follows float32's, overflowing steps are
// skipped. Plans in 16 bits of what the module describes, with no device; and every number format on a GPU, where there is one.
#include <map>

#include "kernels/cuda/device_description.h"
#include "tests/cuda/host_backend.h"
#include "tests/planner/small_models.h"

namespace tandem::cuda {
namespace {

using namespace small_models;

CompileOptions options_in(Precision precision) {
  CompileOptions o = options_for(4, {1});
  o.devices[0].id.backend = "cuda";
  o.precision = precision;
  return o;
}

TEST(CudaPrecision, HalfTrainsAsFloat32OnTheHost) {
  const HostCudaBackend backend(false);
  CompileOptions o = options_in(Precision::fp16);
  o.loss.scaling = LossScaling{.start = 256};  // far from where these gradients overflow
  for (const auto& [model, steps] : {std::pair<Graph (*)(std::int64_t), int>{mlp, 3}, {normalized, 2}}) {
    const Trained wide = train_on(backend, model, options_in(Precision::fp32), steps, 0.05),
                  half = train_on(backend, model, o, steps, 0.05);
    for (std::size_t s = 0; s < wide.losses.size(); ++s)
      EXPECT_NEAR(half.losses[s], wide.losses[s], 0.01F * wide.losses[0]) << "step " << s;
    EXPECT_NE(half.losses, wide.losses) << "it ran in float32";
    EXPECT_EQ(half.scales, std::vector<float>(static_cast<std::size_t>(steps), 256.0F));
  }
}

TEST(CudaPrecision, OverflowsAreSkippedOnTheHost) {
  const HostCudaBackend backend(false);
  CompileOptions o = options_in(Precision::fp16);
  o.loss.scaling = LossScaling{.start = 0x1p40};
  const Trained run = train_on(backend, mlp, o, 2, 0.05);
  EXPECT_EQ(run.scales, (std::vector<float>{0x1p40F, 0x1p39F}));
  expect_same_bits(values_of(mlp(1)), run.replicas[0]);
}

// With updates that read and write 16 bits, training gives the bits that it gives with a Cast in every step.
TEST(CudaPrecision, UpdatesReadAndWrite16Bits) {
  HostCudaBackend backend(false);
  for (const auto& [optimizer, devices] : {std::pair<const char*, std::vector<double>>{"sgd", {1}}, {"adam", {3, 1}}, {"rmsprop", {1, 0}}})
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      CompileOptions o = options_for(4, devices);
      for (DeviceSpec& d : o.devices) d.id.backend = "cuda";
      o.precision = precision;
      o.optimizer = optimizer_defaults(optimizer);
      o.trained.freeze = {"b1"};  // what is not updated is cast
      o.loss.scaling = LossScaling{.start = 0x1p20};
      std::vector<Trained> runs;
      for (const bool copies : {true, false}) {
        backend.refused = [copies = copies](const KernelRequest& r) { return !copies && r.op.ends_with("Update"); };
        runs.push_back(train_on(backend, mlp, o, 3, 0.05));
        int casts = 0, gradients = 0, kept = 0;
        for (const PlanParameter& p : runs.back().plan.parameters) kept += p.role == ValueRole::copy;
        const DeviceProgram& d = runs.back().plan.programs[0];
        for (const Step& s : d.steps) {
          if (s.op() != "Cast") continue;
          const Buffer &from = d.buffers[s.inputs[0]], &to = d.buffers[s.outputs[0]];
          casts += from.arena == ArenaKind::parameters && is_16_bit(to.operand.dtype);
          gradients += to.memory == MemoryClass::gradients && to.operand.dtype == DType::float32;
        }
        EXPECT_EQ(kept, copies ? 3 : 0);
        EXPECT_EQ(casts, copies ? 1 : 4);
        EXPECT_EQ(gradients, copies && devices.size() == 1 ? 0 : 3);
      }
      EXPECT_EQ(runs[0].losses, runs[1].losses) << optimizer;
      for (std::size_t d = 0; d < devices.size(); ++d) expect_same_bits(runs[0].replicas[d], runs[1].replicas[d]);
    }
}

// Two residual blocks [samples, 3 tokens, 16] around a float32 residual, as behind an embedding.
Graph residual(std::int64_t n) {
  Builder b;
  b.graph.name = "residual";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 16}});
  const auto filled = [&](const std::string& name, float value) {
    const std::vector<float> values(16, value);
    return b.graph.add_parameter(name, {DType::float32, {16}}, Tensor::of<float>(Shape{16}, std::span<const float>(values)), true);
  };
  for (const std::string block : {"1", "2"}) {
    const ValueId normal = b.node("LayerNormalization", {x, filled("s" + block, 1), filled("t" + block, 0)},
                                  {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5F}, {"stash_type", std::int64_t{1}}});
    const ValueId hidden = b.node("Relu", {b.node("MatMul", {normal, b.weight("in" + block, {16, 32}, 0.2F)})});
    x = b.node("Add", {x, b.node("MatMul", {hidden, b.weight("out" + block, {32, 16}, 0.2F)})});
  }
  x = b.node("Flatten",
             {b.node("LayerNormalization", {x, filled("s", 1), filled("t", 0)},
                     {{"axis", std::int64_t{-1}}, {"epsilon", 1e-5F}, {"stash_type", std::int64_t{1}}})},
             {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("MatMul", {x, b.weight("w", {48, 5}, 0.2F)})};
  return b.graph;
}

// Kernels that take 16 bits beside float32 give the bits that Casts before and behind them give.
TEST(CudaPrecision, CastsAroundNormalizationsAndLossesAreTheirKernels) {
  HostCudaBackend backend(false);
  for (const auto& [precision, devices] :
       {std::pair{Precision::bf16, std::vector<double>{1}}, {Precision::fp16, {1}}, {Precision::bf16, {2, 1}}}) {
    CompileOptions o = options_for(6, devices);
    for (DeviceSpec& d : o.devices) d.id.backend = "cuda";
    o.precision = precision;
    o.loss.scaling = LossScaling{.start = 256};
    std::vector<Trained> runs;
    std::vector<std::ptrdiff_t> casts;
    for (const bool folded : {false, true}) {
      backend.refused = [folded = folded](const KernelRequest& r) {
        return !folded && (is_16_bit(r.inputs[0].dtype) ||
                           std::any_of(r.outputs.begin(), r.outputs.end(), [](const Operand& y) { return is_16_bit(y.dtype); }) ||
                           std::any_of(r.inputs.begin(), r.inputs.end(), [](const Operand& x) { return is_16_bit(x.dtype); }));
      };
      runs.push_back(train_on(backend, residual, o, 3, 0.05));
      const std::vector<Step>& steps = runs.back().plan.program_of(0).steps;
      casts.push_back(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "Cast"; }));
    }
    EXPECT_LE(casts[1] + 10, casts[0]);
    EXPECT_EQ(runs[0].losses, runs[1].losses);
    for (std::size_t d = 0; d < devices.size(); ++d) expect_same_bits(runs[0].replicas[d], runs[1].replicas[d]);
  }
}

// Convolutions that sum for the statistics of the normalization behind them, and apply the one before them: by our own
// kernels, and in the plans that the module describes.
TEST(CudaPrecision, ConvolutionsAndNormalizationsAreAChain) {
  HostCudaBackend backend(false);
  CompileOptions o = options_in(Precision::fp16);
  o.loss.scaling = LossScaling{.start = 256};
  std::vector<Trained> runs;
  for (const auto& [sums, normalized] : {std::pair{false, false}, {true, false}, {true, true}}) {
    backend.refused = [sums = sums, normalized = normalized](const KernelRequest& r) {
      return (!sums && r.op == "Conv") || (!normalized && (r.op == "Conv" ? r.inputs.size() > 3 : r.op == "ConvolutionBackwardWeights"));
    };
    const Trained& run = runs.emplace_back(train_on(backend, chain, o, 3, 0.05));
    const std::vector<Step>& steps = run.plan.program_of(0).steps;
    EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "Conv" && s.outputs.size() == 3; }),
              sums ? 3 : 0);
    EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "BatchNormalizationFactors"; }),
              normalized ? 1 : 0);
    for (std::size_t s = 0; s < run.losses.size(); ++s)
      EXPECT_NEAR(run.losses[s], runs[0].losses[s], 0.01F * runs[0].losses[0]) << "step " << s;
    if (normalized) EXPECT_NE(run.losses, runs[0].losses) << "factors are rounded to 16 bits";
  }

  std::string reason;
  const Backend* const module = cuda_module(reason);
  if (!module) GTEST_SKIP() << reason;
  const Backend* backends[] = {module};
  for (const Precision precision : {Precision::fp16, Precision::bf16}) {
    o.precision = precision;
    const Plan plan = compile(chain, o, backends);
    std::map<std::string, int> kernels;
    for (const Step& s : plan.program_of(0).steps)
      if (const auto* launch = s.as<LaunchStep>()) ++kernels[launch->kernel.substr(0, launch->kernel.find(".eng"))];
    const int chained = precision == Precision::fp16;
    EXPECT_EQ(kernels["cudnn.convolution.sums"], 2 * chained);
    EXPECT_EQ(kernels["cudnn.convolution.normalizing"], chained);
    EXPECT_EQ(kernels["cudnn.convolution_backward_weights.normalizing"], chained);
  }
}

// For eight GPUs that are not there.
// An estimate of a product goes by the rate of what multiplies these numbers.
TEST(CudaPrecision, ProductsOf16BitsAreFaster) {
  const DeviceDescription device{.model = {}, .cudnn_json = {}, .tensor_speed = 16};
  EXPECT_EQ(speed_of_products(device, DType::bfloat16, false), 16);
  EXPECT_EQ(speed_of_products(device, DType::float16, false), 16);
  EXPECT_EQ(speed_of_products(device, DType::float32, true), 8);
  EXPECT_EQ(speed_of_products(device, DType::float32, false), 1);
  EXPECT_EQ(speed_of_products(device, DType::float64, true), 1);
  EXPECT_EQ(speed_of_products(device, DType::float8e4m3fn, false), 32);
}

TEST(CudaPrecision, PlansNeedNoDevice) {
  std::string reason;
  const Backend* const module = cuda_module(reason);
  if (!module) GTEST_SKIP() << reason;
  const Backend* backends[] = {module};
  for (const Precision precision : {Precision::tf32, Precision::bf16, Precision::fp16})
    for (Graph (*const model)(std::int64_t) : {mlp, convnet, normalized}) {
      CompileOptions o = options_for(64, std::vector<double>(8, 1));
      for (DeviceSpec& d : o.devices) d.id.backend = "cuda";
      o.precision = precision;
      const Plan plan = compile(model, o, backends);
      EXPECT_EQ(plan.options.tf32, precision == Precision::tf32);
      int narrow = 0;
      for (const Buffer& b : plan.program_of(0).buffers) narrow += b.operand.dtype == storage_of(precision) && is_16_bit(b.operand.dtype);
      EXPECT_EQ(narrow > 0, precision != Precision::tf32);
    }
}

struct Format {
  Precision precision;
  float tolerance;  // of a loss, relative to the first
};
constexpr Format formats[] = {{Precision::fp32, 1e-4F}, {Precision::tf32, 1e-2F}, {Precision::fp16, 1e-2F}, {Precision::bf16, 5e-2F}};
void PrintTo(const Format& f, std::ostream* out) { *out << name_of(f.precision); }

class GpuPrecision : public testing::TestWithParam<std::tuple<Format, int>> {};

// One GPU, or logical devices on it, train as the CPU does in float32; replicas stay the same to the bit.
TEST_P(GpuPrecision, TrainsAsTheCpuDoesInFloat32) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  if (!backend->unusable().empty()) GTEST_SKIP() << backend->unusable();
  const auto& [format, devices] = GetParam();
  constexpr int steps = 20;
  for (Graph (*const model)(std::int64_t) : {mlp, convnet, normalized}) {
    const std::vector<double> shares(static_cast<std::size_t>(devices), 1);
    CompileOptions cpu = options_for(32, shares), gpu = cpu;
    cpu.synchronize_batch_norm = gpu.synchronize_batch_norm = devices > 1;
    gpu.precision = format.precision;
    if (format.precision == Precision::fp16) gpu.loss.scaling = LossScaling{.start = 1024};  // far from where steps are skipped
    for (DeviceSpec& d : gpu.devices) d.id = {"cuda", 0};
    const Trained wanted = train_on(cpu_backend(), model, cpu, steps, 0.05), got = train_on(*backend, model, gpu, steps, 0.05);
    for (std::size_t s = 0; s < wanted.losses.size(); ++s)
      EXPECT_NEAR(got.losses[s], wanted.losses[s], format.tolerance * wanted.losses[0]) << got.plan.model << ", step " << s;
    for (const auto& replica : got.replicas) expect_same_bits(got.replicas[0], replica);
  }
}
INSTANTIATE_TEST_SUITE_P(Formats, GpuPrecision, testing::Combine(testing::ValuesIn(formats), testing::Values(1, 4)), [](const auto& info) {
  return concat(name_of(std::get<0>(info.param).precision), "_on_", std::get<1>(info.param));
});

}  // namespace
}  // namespace tandem::cuda
