// What kernels of cuDNN's refuse, over a stand-in for the library.
#include "kernels/cuda/cudnn/kernel.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "kernels/cuda/libraries.h"
#include "tests/cuda/cudnn/stand_in.h"

namespace tandem::cuda {

std::vector<KernelDescription> describe_cudnn_convolution_backward_weights(const KernelRequest& request, Libraries* libraries);

namespace {

using test::cudnn::library;

class CudnnKernels : public testing::Test {
 protected:
  CudnnKernels() {
    library() = {.notes = {{}}, .planned_workspace = 1000, .workspace_on_device = 1000};
    std::filesystem::remove_all(folder);
    setenv("TANDEM_CACHE", folder.c_str(), 1);
  }
  ~CudnnKernels() override { std::filesystem::remove_all(folder); }
  std::vector<KernelDescription> describe(std::string_view kernel = {}) {
    request.kernel = kernel;
    request.timed = true;
    return descriptions_of(recipe, request, libraries);
  }

  // What another process that makes the kernel builds and reads.
  std::pair<int, int> another_process() {
    library().built = library().read = 0;
    Libraries fresh{describe_h200()};
    const auto kernel = descriptions_of(recipe, request, fresh).at(0).make();
    return {library().built, library().read};
  }

  const std::filesystem::path folder = std::filesystem::temp_directory_path() / concat("tandem-cudnn-", static_cast<long>(getpid()));
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
    EXPECT_STREQ(e.what(),
                 "cudnn.convolution.eng0 needs 1001 bytes of workspace on this device, the plan has 1000: a plan made for another device "
                 "is to be made again");
  }
}

TEST_F(CudnnKernels, AreThoseThatPromiseWhatIsAskedFor) {
  library().notes = {{CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, {},
                     {CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6},               {CUDNN_NUMERICAL_NOTE_FFT}};
  const auto names = [&] {
    std::vector<std::string> list;
    for (const KernelDescription& d : describe()) list.push_back(d.kernel);
    return list;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"cudnn.convolution.eng1", "cudnn.convolution.eng2", "cudnn.convolution.eng3",
                                               "cudnn.convolution.eng4"}));
  recipe.filter.winograd = false;
  EXPECT_EQ(names(), (std::vector<std::string>{"cudnn.convolution.eng1", "cudnn.convolution.eng2"}));
  recipe.filter.deterministic = true;
  EXPECT_EQ(names(), (std::vector<std::string>{"cudnn.convolution.eng2"}));
}

// Steps of one graph share its plan, and plans that took a compilation are kept for other processes.
TEST_F(CudnnKernels, OfOneGraphShareOnePlan) {
  using Plans = std::pair<int, int>;
  for (const bool compiles : {false, true}) {
    library().compiles = compiles;
    library().built = library().read = 0;
    Libraries fresh{describe_h200()};
    std::vector<std::unique_ptr<Kernel>> kernels;
    for (int i = 0; i < 3; ++i) kernels.push_back(descriptions_of(recipe, request, fresh).at(0).make());
    EXPECT_EQ(Plans(library().built, library().read), compiles ? Plans(1, 1) : Plans(2, 0))
        << "one that tells the workspace, one that runs";
    recipe.build = [] {
      CudnnGraph graph;
      graph.number(0);
      return graph;
    };
    kernels.push_back(descriptions_of(recipe, {.op = "Other", .attributes = &none, .inputs = {}, .outputs = {}}, fresh).at(0).make());
    EXPECT_EQ(Plans(library().built, library().read), compiles ? Plans(2, 2) : Plans(4, 0)) << "of another graph";
    recipe.build = [] { return CudnnGraph(); };
  }
}

TEST_F(CudnnKernels, FindTheirPlansOnDisk) {
  using Plans = std::pair<int, int>;
  library().compiles = true;
  EXPECT_EQ(another_process(), Plans(1, 1));
  EXPECT_EQ(another_process(), Plans(0, 1));
  const auto file = std::filesystem::directory_iterator(folder)->path();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_EQ(another_process(), Plans(1, 1)) << "it was damaged";
  EXPECT_EQ(another_process(), Plans(0, 1));
  library().text = "of another build";
  EXPECT_EQ(another_process(), Plans(1, 0)) << "the library refuses what is kept";
  library().version = 91901;
  EXPECT_EQ(another_process(), Plans(1, 1));
  library().compiles = false;
  library().version = 91902;
  EXPECT_EQ(another_process(), Plans(2, 0));
  EXPECT_EQ(another_process(), Plans(2, 0)) << "what is built in no time is not kept";
  library() = {.notes = {{}}, .planned_workspace = 1000, .workspace_on_device = 1000, .compiles = true, .text = "", .version = 91903};
  EXPECT_EQ(another_process(), Plans(2, 0)) << "the engine's plans have no text";
}

// A plan for the device's description may want less than the same plan on the device.
TEST_F(CudnnKernels, ArePlannedOnTheDeviceWhereItIsAtHand) {
  library().workspace_on_device = 3000;
  DeviceDescription at_hand = describe_h200();
  at_hand.cudnn_json.clear();
  Libraries there{at_hand};
  EXPECT_EQ(descriptions_of(recipe, request, there).at(0).workspace, 3072 + 256);
  EXPECT_NE(descriptions_of(recipe, request, there).at(0).make(), nullptr);
}

// Engine 17 of float32 weight gradients says nothing of its rounding.
TEST_F(CudnnKernels, LeaveOutAnEngineThatRoundsAsWinogradDoes) {
  library().notes = {{}, {}, {}};
  library().first = 15;
  const Attributes a{{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"dilations", Ints{1, 1}},
                     {"weight_shape", Ints{64, 64, 3, 3}}};
  const auto names = [&](DType dtype, bool winograd) {
    const Operand x{dtype, Shape{32, 64, 56, 56}, Layout::channels_last(4)};
    const Operand dw{dtype, Shape{64, 64, 3, 3}, {}};
    KernelRequest asked{.op = "ConvolutionBackwardWeights", .attributes = &a, .inputs = {x, x}, .outputs = {dw}};
    asked.options.winograd = winograd;
    asked.timed = true;
    std::string all;
    for (const KernelDescription& d : describe_cudnn_convolution_backward_weights(asked, &libraries))
      all += d.kernel.substr(d.kernel.rfind('.'));
    return all;
  };
  EXPECT_EQ(names(DType::float32, true), ".eng15.eng16.eng17");
  EXPECT_EQ(names(DType::float32, false), ".eng15.eng16");
  EXPECT_EQ(names(DType::bfloat16, false), ".eng15.eng16.eng17") << "rounded to 16 bits it is no worse";
}

// The thread's handle outlives streams: those that kernels are timed on, and those of a session whose thread's number another one gets.
TEST_F(CudnnKernels, LetGoOfTheStreamThatTheyRanOn) {
  const std::unique_ptr<Kernel> first = describe()[0].make();
  std::unique_ptr<Kernel> last = describe()[0].make();
  int stream = 0;
  for (Kernel* k : {first.get(), last.get()}) {
    k->bind({}, {}, nullptr);
    k->run({&stream});
  }
  EXPECT_EQ(static_cast<void*>(library().stream), &stream);
  last.reset();
  EXPECT_EQ(library().stream, nullptr);
  first->run({&stream});
  EXPECT_EQ(static_cast<void*>(library().stream), &stream) << "each run tells it";
}

TEST_F(CudnnKernels, LeaveOutEnginesThatAreWrong) {
  library().notes = {{}, {}, {}};
  recipe.filter.without = {0, 2};
  const std::vector<KernelDescription> all = describe();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].kernel, "cudnn.convolution.eng1");
}

}  // namespace
}  // namespace tandem::cuda
