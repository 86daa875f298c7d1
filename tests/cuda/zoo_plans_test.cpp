// Every model that imports is planned for an H200 with no device at hand, the templates in each width of numbers: each convolution, pooling
// and batch normalization must get cuDNN's kernel, except where a reason below says why it cannot.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

#include "importer/model_file.h"
#include "planner/compile.h"
#include "tests/cuda/host_backend.h"

namespace tandem::cuda {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t batch = 16;

fs::path zoo() {
  const char* given = std::getenv("TANDEM_SHARED");
  return fs::path(given ? given : TANDEM_SHARED_DEFAULT) / "onnx" / "models";
}

struct Case {
  fs::path model;
  Precision precision;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.model << ", " << to_string(c.precision); }

std::vector<Case> cases(const fs::path& folder, std::initializer_list<Precision> precisions) {
  std::vector<Case> all;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".onnx")
      for (const Precision p : precisions) all.push_back({entry.path(), p});
  std::sort(all.begin(), all.end(),
            [](const Case& a, const Case& b) { return std::tie(a.model, a.precision) < std::tie(b.model, b.precision); });
  return all;
}

// Operators that cuDNN's graphs serve.
constexpr std::string_view served[] = {
    "Conv",        "ConvTranspose",       "ConvolutionBackwardData",    "ConvolutionBackwardWeights", "MaxPoolTraining", "MaxPoolBackward",
    "AveragePool", "AveragePoolBackward", "BatchNormalizationTraining", "BatchNormalizationBackward"};

// Why a step of these may run on a kernel of our own; empty: it may not.
std::string excuse(const Step& step, const LaunchStep& launch, const DeviceProgram& device) {
  const auto operand = [&](BufferId b) -> const Operand& { return device.buffers[b].operand; };
  if (launch.op.starts_with("BatchNormalization") && operand(step.inputs[0]).shape[1] % 8 != 0) return "cuDNN wants channels in eights";
  if (launch.op == "BatchNormalizationTraining" && step.inputs.size() == 6)
    return "cuDNN's engines take statistics of their own, not a convolution's sums";
  if (launch.op == "BatchNormalizationBackward" &&
      (launch.attributes.has("activation") || step.inputs.size() > 8 || step.outputs.size() > 3))
    return "cuDNN's gradient reads a null pointer behind a mask or a sum";
  if (launch.op.starts_with("AveragePool")) return "cuDNN's averages are slow, and some wrong";
  if (!launch.op.starts_with("MaxPool")) return {};
  const bool backward = launch.op.ends_with("Backward");
  const Shape& whole = operand(backward ? step.outputs[0] : step.inputs[0]).shape;
  const Shape& pooled = operand(backward ? step.inputs[0] : step.outputs[0]).shape;
  const Ints kernel = launch.attributes.ints("kernel_shape"), strides = launch.attributes.ints("strides", Ints(kernel.size(), 1)),
             pads = launch.attributes.ints("pads", Ints(2 * kernel.size(), 0));
  std::int64_t taps = 1;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    taps *= kernel[i];
    if ((whole.dims[2 + i] + pads[i] + pads[i + kernel.size()] - kernel[i]) / strides[i] + 1 != pooled.dims[2 + i])
      return "ceil_mode adds a window";
  }
  if (taps > 127) return "the window has more places than the index tells apart";
  return {};
}

// The model's plan; none, with the reason to skip the test, where there can be none.
std::optional<Plan> planned(const Case& c, PlanMode mode, std::string& reason) {
  const Backend* const backend = cuda_module(reason);
  if (!backend) return std::nullopt;
  const ModelFile file = ModelFile::read(c.model);
  if (const auto problems = file.problems({.batch = batch}); !problems.empty()) {
    reason = concat("does not import: ", to_string(problems[0]));
    return std::nullopt;
  }
  CompileOptions o;
  o.mode = mode;
  o.precision = c.precision;
  o.batch = batch;
  o.devices = {{{"cuda", 0}, 1}};
  o.optimizer.momentum = 0.9;
  const Backend* const backends[] = {backend};
  try {
    return compile([&](std::int64_t n) { return file.graph({.batch = n}); }, o, backends);
  } catch (const Error& e) {
    if (std::string_view(e.what()).find("has no kernel") != std::string_view::npos) ADD_FAILURE() << e.what();
    reason = concat("cannot be planned: ", e.what());
    return std::nullopt;
  }
}

// Returns why it was not planned; empty: it was.
std::string expect_cudnn_to_take(const Case& c) {
  std::string reason;
  const std::optional<Plan> planned_or_not = planned(c, PlanMode::training, reason);
  if (!planned_or_not) return reason;
  const Plan& plan = *planned_or_not;
  const auto& [path, precision] = c;
  std::map<std::string, int> kernels;
  std::int64_t largest = 0;
  const DeviceProgram& device = plan.programs[0];
  for (const Step& step : device.steps) {
    const auto* launch = step.as<LaunchStep>();
    if (!launch) continue;
    ++kernels[launch->kernel.substr(0, launch->kernel.find(".eng"))];
    // What is fused where libraries have kernels for it.
    const std::size_t inputs = step.inputs.size(), outputs = step.outputs.size();
    if (launch->op == "Conv" && outputs == 3)
      EXPECT_TRUE(launch->kernel.starts_with(inputs == 5 ? "cudnn.convolution.normalizing." : "cudnn.convolution.sums.")) << launch->kernel;
    if (launch->op == "ConvolutionBackwardWeights" && inputs == 4)
      EXPECT_TRUE(launch->kernel.starts_with("cudnn.convolution_backward_weights.normalizing.")) << launch->kernel;
    if (step.workspace.present()) largest = std::max(largest, device.buffers[step.workspace].bytes);
    if (std::find(std::begin(served), std::end(served), launch->op) == std::end(served) || launch->kernel.starts_with("cudnn.")) continue;
    std::string operands;
    for (const BufferId b : step.inputs)
      if (b.present()) operands += concat(' ', device.buffers[b].operand);
    EXPECT_NE(excuse(step, *launch, device), "")
        << launch->op << " {" << to_string(launch->attributes) << "} runs on " << launch->kernel << ':' << operands;
  }
  std::string report;
  for (const auto& [kernel, count] : kernels) report += concat(kernel, " ", count, "; ");
  testing::Test::RecordProperty("kernels", report);
  std::printf("%s, %s: %zu steps, largest workspace %.1f MiB, peak %.1f MiB: %s\n", path.stem().c_str(), to_string(precision).c_str(), device.steps.size(), static_cast<double>(largest) / (1 << 20),
              static_cast<double>(device.peak_bytes()) / (1 << 20), report.c_str());
  return "";
}

class TemplatePlans : public testing::TestWithParam<Case> {};
TEST_P(TemplatePlans, CudnnTakesEveryGraph) {
  if (const std::string reason = expect_cudnn_to_take(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
}

// The zoo in parts, and in one width of numbers only: cuDNN takes long to plan its graphs.
constexpr std::size_t parts = 16;
class ZooPlans : public testing::TestWithParam<std::size_t> {};
TEST_P(ZooPlans, CudnnTakesEveryGraph) {
  if (!fs::exists(zoo())) GTEST_SKIP() << zoo() << " is not there: set TANDEM_SHARED to the folder of test material";
  if (std::string reason; !cuda_module(reason)) GTEST_SKIP() << reason;
  const std::vector<Case> all = cases(zoo(), {Precision::fp32});
  for (std::size_t i = GetParam(); i < all.size(); i += parts) {
    SCOPED_TRACE(all[i].model);
    const std::string reason = expect_cudnn_to_take(all[i]);
    if (!reason.empty()) std::printf("%s: left out, it %s\n", all[i].model.stem().c_str(), reason.c_str());
  }
}

// Bias and Relu behind a convolution are part of cuDNN's kernel.
class TemplateInference : public testing::TestWithParam<Case> {};

TEST_P(TemplateInference, FusesConvolutionsIn16Bits) {
  std::string reason;
  const std::optional<Plan> plan = planned(GetParam(), PlanMode::inference, reason);
  if (!plan) GTEST_SKIP() << reason;
  for (const Step& step : plan->program_of(0).steps) {
    const auto* launch = step.as<LaunchStep>();
    if (step.op() != "Conv" || (step.inputs.size() < 3 && !launch->attributes.has("activation"))) continue;
    const Operand& x = plan->program_of(0).buffers[step.inputs[0]].operand;
    // Where each channel is a group of its own, cuDNN fuses Relu only behind a bias.
    if (launch->attributes.integer("group", 1) == x.shape[1] && step.inputs.size() < 3) continue;
    EXPECT_TRUE(launch->kernel.starts_with("cudnn.convolution.fused."))
        << to_string(x) << " {" << to_string(launch->attributes) << "} runs on " << launch->kernel;
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name;
  for (const char c : info.param.model.stem().string()) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return concat(name, '_', info.param.precision);
}
using enum Precision;
const fs::path templates = fs::path(TANDEM_SOURCE_DIR) / "models";
INSTANTIATE_TEST_SUITE_P(Models, TemplatePlans, testing::ValuesIn(cases(templates, {fp32, bf16, fp16})), case_name);
INSTANTIATE_TEST_SUITE_P(Models, TemplateInference, testing::ValuesIn(cases(templates, {bf16})), case_name);
INSTANTIATE_TEST_SUITE_P(Parts, ZooPlans, testing::Range(std::size_t{0}, parts));

}  // namespace
}  // namespace tandem::cuda
