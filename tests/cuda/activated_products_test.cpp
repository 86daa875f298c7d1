// Products with an activation: which kernels an H200 that is not here would have of them, and trainings in 16 bits with them.
#include "tests/cuda/host_backend.h"
#include "tests/planner/small_models.h"

namespace tandem::cuda {
namespace {

using namespace small_models;

struct Row {
  const char* activation;
  bool by_tanh;  // cuBLASLt's own formula
};
const Row rows[] = {{"GeluErf", false}, {"GeluTanh", true}, {"Relu", false}};

class ActivatedProducts : public testing::TestWithParam<Row> {};

// cuDNN's graph, cuBLASLt's epilogue where that is the formula, and always the product with a kernel of our own behind it.
TEST_P(ActivatedProducts, HaveTheKernelsOfTheirFormula) {
  std::string reason;
  const Backend* const backend = cuda_module(reason);
  if (!backend) GTEST_SKIP() << reason;
  const auto& [activation, by_tanh] = GetParam();
  constexpr DType dtype = DType::bfloat16;
  const Operand x{dtype, {4096, 768}, {}}, w{dtype, {3072, 768}, {}}, b{dtype, {3072}, {}}, y{dtype, {4096, 3072}, {}},
      back{dtype, {768, 3072}, {}};
  const Attributes forward{{"activation", std::string(activation)}},
      backward{{"activation", std::string(activation)}, {"input_shape", Ints{4096, 3072}}};
  std::vector<KernelRequest> requests{{"InnerProductBackwardData", &backward, {x, back, y}, {y}, {}, {}}};
  if (std::string_view(activation) != "Relu") {  // that is a layer's already
    requests.push_back({"InnerProduct", &forward, {x, w}, {y}, {}, {}});
    requests.push_back({"InnerProduct", &forward, {x, w, b}, {y, y}, {}, {}});
  }
  for (const KernelRequest& request : requests) {
    std::vector<std::string> wanted{"cudnn.", ".then."};
    if (by_tanh) wanted.insert(wanted.begin() + 1, ".gelu.");
    const std::vector<KernelDescription> found = backend->describe(request);
    ASSERT_EQ(found.size(), wanted.size()) << request.op << ' ' << activation << ' ' << request.inputs.size() << ' '
                                           << request.outputs.size();
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NE(found[i].kernel.find(wanted[i]), std::string::npos) << found[i].kernel;
      KernelRequest again = request;
      again.kernel = found[i].kernel;
      const std::vector<KernelDescription> same = backend->describe(again);
      ASSERT_EQ(same.size(), 1U) << found[i].kernel;
      EXPECT_EQ(same[0].workspace, found[i].workspace);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Functions, ActivatedProducts, testing::ValuesIn(rows),
                         [](const auto& info) { return std::string(info.param.activation); });

// Tokens through a layer with each activation.
Graph feed_forward(std::int64_t n) {
  Builder b;
  b.graph.name = "feed_forward";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 16}});
  const auto layer = [&](const std::string& name, std::int64_t from, std::int64_t to) {
    return b.node("Add", {b.node("MatMul", {x, b.weight("w" + name, {from, to}, 0.2F)}), b.weight("b" + name, {to}, 0.1F)});
  };
  x = b.node("Gelu", {layer("1", 16, 32)});
  x = b.node("Gelu", {layer("2", 32, 24)}, {{"approximate", std::string("tanh")}});
  x = b.node("Relu", {layer("3", 24, 16)});
  x = b.node("Flatten", {x}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("MatMul", {x, b.weight("w", {48, 5}, 0.2F)})};
  return b.graph;
}

TEST(ActivatedProducts, TrainAsProductsAndActivationsDo) {
  HostCudaBackend backend(false);
  for (const std::vector<double>& devices : {std::vector<double>{1}, {2, 1}}) {
    CompileOptions o = options_for(6, devices);
    for (DeviceSpec& d : o.devices) d.id.backend = "cuda";
    o.precision = Precision::bf16;
    std::vector<Trained> runs;
    std::vector<std::ptrdiff_t> fused;
    for (const bool apart : {true, false}) {
      backend.refused = [apart = apart](const KernelRequest& r) { return apart && r.op.starts_with("InnerProduct"); };
      runs.push_back(train_on(backend, feed_forward, o, 3, 0.05));
      const std::vector<Step>& steps = runs.back().plan.program_of(0).steps;
      fused.push_back(std::count_if(steps.begin(), steps.end(), [](const Step& s) {
        return s.op().starts_with("InnerProduct") && s.as<LaunchStep>()->attributes.has("activation");
      }));
    }
    EXPECT_EQ(fused, (std::vector<std::ptrdiff_t>{0, 5}));  // both of Gelu's, and three slopes
    for (std::size_t s = 0; s < runs[0].losses.size(); ++s)
      EXPECT_NEAR(runs[1].losses[s], runs[0].losses[s], 0.01F * runs[0].losses[0]) << "step " << s;
  }
}

}  // namespace
}  // namespace tandem::cuda
