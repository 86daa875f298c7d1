// What kernels of cuDNN's refuse, over a stand-in for the library.
#include "kernels/cuda/cudnn/kernel.h"

#include <gtest/gtest.h>

#include "kernels/cuda/libraries.h"
#include "tests/cuda/cudnn/stand_in.h"

namespace tandem::cuda {
namespace {

using test::cudnn::library;

class CudnnKernels : public testing::Test {
 protected:
  CudnnKernels() { library() = {.notes = {{}}, .planned_workspace = 1000, .workspace_on_device = 1000}; }
  std::vector<KernelDescription> describe(std::string_view kernel = {}) {
    request.kernel = kernel;
    request.timed = true;
    return descriptions_of(recipe, request, libraries);
  }

  Attributes none;
  KernelRequest request{.op = "Conv", .attributes = &none, .inputs = {}, .outputs = {}};
  CudnnRecipe recipe{.family = "cudnn.convolution", .description = {}, .build = [] { return CudnnGraph(); }, .own_workspace = 256};
  Libraries libraries{describe_h200()};
};

// Another device may need more for the same engine: it would write over the buffer beside it.
TEST_F(CudnnKernels, OfMoreWorkspaceThanPlannedAreRefused) {
  const std::vector<KernelDescription> all = describe();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].workspace, 1024 + 256);
  EXPECT_NE(all[0].make(), nullptr);
  library().workspace_on_device = 500;
  EXPECT_NE(describe(all[0].kernel)[0].make(), nullptr);
  library().workspace_on_device = 1001;
  try {
    describe(all[0].kernel)[0].make();
    FAIL() << "it would write beyond its workspace";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::device);
    EXPECT_STREQ(e.what(), "cudnn.convolution.eng0 needs 1001 bytes of workspace on this device, the plan has 1000: a plan made for another device is to be made again");
  }
}

TEST_F(CudnnKernels, AreThoseThatPromiseWhatIsAskedFor) {
  library().notes = {{CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {}};
  const auto names = [&] {
    std::vector<std::string> list;
    for (const KernelDescription& d : describe()) list.push_back(d.kernel);
    return list;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"cudnn.convolution.eng1", "cudnn.convolution.eng2"}));
  recipe.filter.deterministic = true;
  EXPECT_EQ(names(), (std::vector<std::string>{"cudnn.convolution.eng2"}));
}

}  // namespace
}  // namespace tandem::cuda
