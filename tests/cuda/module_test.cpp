// The module as the program opens it, on a machine without a GPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/backend.h"
#include "tests/cuda/emulated.h"
#include "tests/cuda/host_backend.h"

namespace tandem::cuda {
namespace {

// A plan on file names engine and knobs: the same kernel is found by them alone.
TEST(KernelNames, FindTheirKernelAgain) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const Attributes a{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}};
  const Operand x{DType::float32, Shape{32, 64, 28, 28}, {}}, w{DType::float32, Shape{64, 64, 3, 3}, {}};
  KernelRequest request{"Conv", &a, {x, w}, {x}, {}, {}};
  const std::vector<KernelDescription> first = backend->describe(request);
  ASSERT_FALSE(first.empty());
  EXPECT_NE(first[0].kernel.find(".eng"), std::string::npos) << first[0].kernel;
  request.kernel = first[0].kernel;
  const std::vector<KernelDescription> again = backend->describe(request);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].kernel, first[0].kernel);
  EXPECT_EQ(again[0].workspace, first[0].workspace);
  request.kernel = "cudnn.convolution.eng999999";
  EXPECT_THROW(backend->describe(request), Error);
}

TEST(KernelNames, FindTheirProductAgain) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const Attributes none;
  const Operand x{DType::bfloat16, Shape{32, 64}, {}}, w{DType::bfloat16, Shape{16, 64}, {}}, y{DType::bfloat16, Shape{32, 16}, {}};
  KernelRequest request{"InnerProduct", &none, {x, w}, {y}, {}, {}};
  const std::vector<KernelDescription> first = backend->describe(request);
  ASSERT_FALSE(first.empty());
  if (!backend->unusable().empty()) EXPECT_EQ(first[0].kernel, "cublaslt.inner_product.heuristic") << "no device can be asked";
  for (const std::string& name :
       {first[0].kernel, std::string("cublaslt.inner_product.eng66.k1=20"), std::string("cublaslt.inner_product.apart.eng66")}) {
    request.kernel = name;
    const std::vector<KernelDescription> again = backend->describe(request);
    ASSERT_EQ(again.size(), 1U) << name;
    EXPECT_EQ(again[0].kernel, name);
    EXPECT_EQ(again[0].workspace, first[0].workspace);
  }
  request.kernel = "cublaslt.inner_product.h0";
  EXPECT_TRUE(backend->describe(request).empty());
}

TEST(Module, NamesTheVersionsOfItsLibraries) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  for (const char* library : {"CUDA ", "cuDNN 9.", "cuBLASLt ", "NCCL 2.", "NVRTC "})
    EXPECT_NE(backend->computes_by().find(library), std::string::npos) << library << ": " << backend->computes_by();
}

TEST(Module, HasAKernelForEveryOperatorThatTheCpuHas) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const std::vector<KernelRow> own = backend->rows();
  for (const KernelRow& wanted : cpu_backend().rows())
    EXPECT_TRUE(std::any_of(own.begin(), own.end(), [&](const KernelRow& r) { return r.op == wanted.op; }))
        << wanted.op << " has a kernel on the CPU alone";
}

// What the emulation runs is the backend's own list.
TEST(Module, EmulatesEachKernelOfOurOwn) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  for (const KernelRow& row : backend->rows())
    EXPECT_TRUE(!row.kernel.starts_with("native.") || is_emulated(row.op)) << row.op << " (" << row.kernel << ") is not emulated";
}

TEST(Module, SaysWhyThereIsNoDevice) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  EXPECT_EQ(backend->name(), "cuda");
  if (backend->unusable().empty()) GTEST_SKIP() << "there is a GPU";
  EXPECT_EQ(backend->device_count(), 0);
  EXPECT_EQ(backend->model(0, 1).name, "NVIDIA H200");
  EXPECT_THROW(backend->open(0, {}), Error);
}

}  // namespace
}  // namespace tandem::cuda
