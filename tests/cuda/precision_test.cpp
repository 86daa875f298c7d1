// fp16 with a scaled loss on CUDA's own kernels, run by the emulation: the curve follows float32's, overflowing steps are
// skipped. And plans in 16 bits of what the module describes, with no device.
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
  o.loss_scaling = LossScaling{.start = 256};  // far from where these gradients overflow
  for (const auto& [model, steps] : {std::pair<Graph (*)(std::int64_t), int>{mlp, 3}, {normalized, 2}}) {
    const Trained wide = train_on(backend, model, options_in(Precision::fp32), steps, 0.05), half = train_on(backend, model, o, steps, 0.05);
    for (std::size_t s = 0; s < wide.losses.size(); ++s) EXPECT_NEAR(half.losses[s], wide.losses[s], 0.01F * wide.losses[0]) << "step " << s;
    EXPECT_NE(half.losses, wide.losses) << "it ran in float32";
    EXPECT_EQ(half.scales, std::vector<float>(static_cast<std::size_t>(steps), 256.0F));
  }
}

TEST(CudaPrecision, OverflowsAreSkippedOnTheHost) {
  const HostCudaBackend backend(false);
  CompileOptions o = options_in(Precision::fp16);
  o.loss_scaling = LossScaling{.start = 0x1p40};
  const Trained run = train_on(backend, mlp, o, 2, 0.05);
  EXPECT_EQ(run.scales, (std::vector<float>{0x1p40F, 0x1p39F}));
  expect_same_bits(values_of(mlp(1)), run.replicas[0]);
}

// For eight GPUs that are not there.
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
      for (const Buffer& b : plan.devices[0].buffers) narrow += b.operand.dtype == storage_of(precision) && is_16_bit(b.operand.dtype);
      EXPECT_EQ(narrow > 0, precision != Precision::tf32);
    }
}

}  // namespace
}  // namespace tandem::cuda
