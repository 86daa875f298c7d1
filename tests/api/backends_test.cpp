// The backends that a C++ program gets, CUDA's module among them where it was built.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "kernels/module.h"
#include "tandem/tandem.h"

namespace tandem {
namespace {

TEST(Modules, AreLookedForInTheFoldersOfTheEnvironment) {
  std::string reason;
  EXPECT_EQ(open_module("none", reason), nullptr);
  EXPECT_TRUE(reason.starts_with("libtandem_none.so was not found in ")) << reason;
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_NE(reason.find(program.string()), std::string::npos) << reason;
  setenv("TANDEM_BACKEND_PATH", "/nowhere:/nor/here", 1);
  EXPECT_EQ(open_module("none", reason), nullptr);
  EXPECT_TRUE(reason.starts_with("libtandem_none.so was not found in /nowhere, /nor/here, ")) << reason;
  unsetenv("TANDEM_BACKEND_PATH");
}

TEST(Backends, AreTheCpusAndThoseOfModules) {
#ifdef TANDEM_CUDA_MODULE
  setenv("TANDEM_BACKEND_PATH", std::filesystem::path(TANDEM_CUDA_MODULE).parent_path().c_str(), 1);
  std::string reason;
  if (!open_module("cuda", reason)) GTEST_SKIP() << reason;
#endif
  const Backends all = backends();
  EXPECT_EQ(all.data(), backends().data());
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0], &cpu_backend());
#ifdef TANDEM_CUDA_MODULE
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1]->name(), "cuda");
  try {  // it can be used, or says why not
    EXPECT_EQ(&find_backend(all, DeviceId{"cuda", 0}), all[1]);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::device);
    EXPECT_EQ(std::string(e.what()), concat("device cuda:0: ", all[1]->unusable()));
  }
#endif
}

// The README's example, but for its data: one word says where it trains.
TEST(Backends, TrainAModel) {
  ModelOptions options;
  options.init = "he-normal";
  options.plan.batch = 16;
  options.plan.devices = parse_devices("cpu:0-1");
  Model model = Model::load(std::string(TANDEM_SOURCE_DIR) + "/models/mlp.onnx");
  model.compile(options, backends());
  const Splits data = open_data("synthetic:digits,train=64,test=16", model.data_request());
  EXPECT_TRUE(std::isfinite(model.fit(*data.train, {.epochs = 1, .learning_rate = 0.01}).epochs.back().loss));
}

}  // namespace
}  // namespace tandem
