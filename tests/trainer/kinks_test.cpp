// Gradients where a function has no single one are PyTorch's, operator by operator: docs/kinks.md has the table.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <sstream>

#include "base/file.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr int packages_missing = 3;  // kinks.py's exit code
using Attributes = test::AttributeList;
using Numbers = std::vector<float>;

// y = OP(w, v) at the points w, or at pairs of them; kinks.py has the function of the same name.
struct Row {
  const char *name, *op;
  Numbers w, v{};
  Attributes attributes{};
  bool trained = true;  // v has a gradient, too
};
const Numbers around{-1, 0, 1};
const Row rows[] = {
    {"relu", "Relu", around},
    {"leaky_relu", "LeakyRelu", around, {}, {{"alpha", 0.25F}}},
    {"prelu", "PRelu", around, {0.25F, 0.25F, 0.25F}},
    {"elu", "Elu", around, {}, {{"alpha", 2.0F}}},
    {"celu", "Celu", around, {}, {{"alpha", 2.0F}}},
    {"selu", "Selu", around},
    {"hard_sigmoid", "HardSigmoid", {-3, 0, 3}, {}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}}},
    {"hard_swish", "HardSwish", {-3, 0, 3}},
    {"thresholded_relu", "ThresholdedRelu", {0, 1, 2}, {}, {{"alpha", 1.0F}}},
    {"hard_shrink", "Shrink", {-0.5F, 0, 0.5F, 1}, {}, {{"lambd", 0.5F}, {"bias", 0.0F}}},
    {"soft_shrink", "Shrink", {-0.5F, 0, 0.5F, 1}, {}, {{"lambd", 0.5F}, {"bias", 0.5F}}},
    {"softsign", "Softsign", around},
    {"softplus", "Softplus", around},
    {"abs", "Abs", around},
    {"sign", "Sign", around},
    {"floor", "Floor", around},
    {"round", "Round", {0.5F, 1, 1.5F}},
    {"sqrt", "Sqrt", {0, 1}},
    {"pow_half", "Pow", {0, 1}, {0.5F, 0.5F}, {}, false},
    {"pow_one", "Pow", around, {1, 1, 1}, {}, false},
    {"pow_two", "Pow", around, {2, 2, 2}, {}, false},
    {"pow_three", "Pow", around, {3, 3, 3}, {}, false},
    {"pow_zero", "Pow", around, {0, 0, 0}, {}, false},
    {"maximum", "Max", {1, 0, 0}, {1, 1, -1}},
    {"minimum", "Min", {1, 0, 0}, {1, 1, -1}},
    {"amax", "ReduceMax", {1, 1, 0}, {}, {{"keepdims", std::int64_t{1}}}},
    {"amin", "ReduceMin", {1, 1, 2}, {}, {{"keepdims", std::int64_t{1}}}},
    {"norm_1", "ReduceL1", around, {}, {{"keepdims", std::int64_t{1}}}},
    {"prod_one_zero", "ReduceProd", {0, 3, 2}, {}, {{"keepdims", std::int64_t{1}}}},
    {"prod_two_zeros", "ReduceProd", {0, 0, 2}, {}, {{"keepdims", std::int64_t{1}}}},
    {"fmod", "Mod", {0, 2, 3}, {2, 2, 2}, {{"fmod", std::int64_t{1}}}, false},
    {"clip", "Clip", {-1, 0, 1}},
    {"max_pool", "MaxPool", {1, 1, 1, 0}},
    {"global_max_pool", "GlobalMaxPool", {1, 1, 0}},
    {"top_k", "TopK", {1, 1, 0}},
};

// The scalar Σ x · OP(w, v) + Σ w: at x = 1 its gradient is OP's, and 1 by w.
std::string model_of(const Row& row) {
  const auto count = static_cast<std::int64_t>(row.w.size());
  const bool pools = row.name == std::string("max_pool") || row.name == std::string("global_max_pool");
  test::Model m;
  m.input("x", "N,1").add(float_tensor("w", pools ? std::vector<std::int64_t>{1, 1, count} : std::vector<std::int64_t>{count}, row.w));
  std::vector<std::string> operands{"w"}, results{"y"};
  Attributes attributes = row.attributes;
  if (!row.v.empty()) {
    m.add(float_tensor("v", {count}, row.v));
    operands.emplace_back("v");
  }
  if (row.op == std::string("Clip")) {
    m.add(float_tensor("low", {}, {-1})).add(float_tensor("high", {}, {1}));
    operands.insert(operands.end(), {"low", "high"});
  }
  if (row.op == std::string("MaxPool"))
    attributes = {{"kernel_shape", std::vector<std::int64_t>{3}}, {"pads", std::vector<std::int64_t>{1, 1}}};
  if (row.op == std::string("TopK")) {
    m.add(test::int_tensor("k", {1}, {1}));
    operands.emplace_back("k");
    results.emplace_back("which");
  }
  m.add(node(row.op, operands, results, attributes)).add(node("Mul", {"x", "y"}, {"product"}));
  for (const auto& [in, out] : {std::pair{"product", "above"}, {"w", "below"}})
    m.add(node("ReduceSum", {in}, {out}, {{"keepdims", std::int64_t{0}}}));
  return m.add(node("Add", {"above", "below"}, {"loss"})).output("loss").bytes();
}

void write(std::ostream& out, const Row& row) {
  Model model(ModelFile::parse(model_of(row), {},
                               {.trainable = {"w"}, .constant = row.trained ? std::vector<std::string>() : std::vector<std::string>{"v"}}));
  ModelOptions o{.init = "keep"};
  o.plan.batch = 1;
  o.plan.devices = parse_devices("cpu");
  o.plan.loss.name = "output";
  model.compile(o, backends);
  Tensor x(TensorType{DType::float32, Shape{1, 1}});
  x.write<float>()[0] = 1;
  const std::vector<NamedTensor> gradients = model.gradients(std::vector<Tensor>{x});
  out << row.name << '\n';
  const auto line = [&](std::span<const float> values, float less = 0) {
    for (const float v : values) out << v - less << ' ';
    out << '\n';
  };
  line(row.w);
  line(row.v);
  for (const std::string name : {"w", "v"}) {
    const auto g = std::find_if(gradients.begin(), gradients.end(), [&](const NamedTensor& t) { return t.name == name; });
    line(g == gradients.end() ? std::span<const float>() : g->tensor.values<float>(), name == "w" ? 1 : 0);
  }
}

TEST(Kinks, GradientsAreThoseOfPyTorch) {
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python) GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with torch (./run-tests makes one)";
  const TemporaryFolder folder;
  std::ostringstream text;
  text.precision(9);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    write(text, row);
  }
  write_atomically(folder / "kinks", text.str());
  const std::string log = (folder / "log").string();
  const int status = std::system(
      concat(python, ' ', TANDEM_SOURCE_DIR, "/tests/trainer/kinks.py ", (folder / "kinks").string(), " >", log, " 2>&1").c_str());
  if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) GTEST_SKIP() << "TANDEM_PYTHON: " << read_file(log);
  EXPECT_EQ(status, 0) << read_file(log);
}

}  // namespace
}  // namespace tandem
