// A weight that only GatherElements reads, from the file to the trained model: nothing outside of the operator's row and kernels
// knows of it.
#include <cmath>
#include <set>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::filled_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t rows = 40, places = 6;

// tokens [N,6] → w[token, place] → · a → of each sample, the elements that its tokens name → [N,6]
Model picking() {
  test::Model m;
  m.input("tokens", concat("N,", places), onnx::TensorProto::INT64)
      .add(filled_tensor("w", {rows, places}))
      .add(filled_tensor("a", {places, places}));
  m.add(node("GatherElements", {"w", "tokens"}, {"g"})).add(node("MatMul", {"g", "a"}, {"h"}));
  m.add(test::int_tensor("six", {1}, {places})).add(node("Mod", {"tokens", "six"}, {"t"}));
  m.add(node("GatherElements", {"h", "t"}, {"y"}, {{"axis", std::int64_t{1}}})).output("y");
  return Model(m.parse());
}

ModelOptions options(Precision precision) {
  ModelOptions o;
  o.plan.batch = 8;
  o.plan.devices = parse_devices("cpu:0-1");
  o.plan.precision = precision;
  o.init = "he-normal";
  return o;
}

Tensor weight_of(const Model& model) {
  for (const NamedTensor& p : model.parameters())
    if (p.name == "w") return p.tensor;
  return {};
}

std::vector<double> losses_of(Model& model) {
  std::vector<std::int64_t> tokens(8 * places), labels(8);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int64_t>(i * 7 % rows) - (i % 3 == 0 ? rows : 0);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i % places);
  const std::vector<Tensor> batch{Tensor::of<std::int64_t>({8, places}, tokens), Tensor::of<std::int64_t>({8}, labels)};
  std::vector<double> losses;
  for (int step = 0; step < 40; ++step) losses.push_back(model.train_on_batch(batch, 0.2).loss);
  return losses;
}

TEST(GatherElements, GivesAWeightThatIsTrained) {
  Model model = picking();
  model.compile(options(Precision::fp32), backends);
  const std::vector<double> before = weight_of(model).to_doubles();
  ASSERT_EQ(before.size(), static_cast<std::size_t>(rows * places));
  double squares = 0;
  for (const double v : before) squares += v * v;
  EXPECT_NEAR(squares / static_cast<double>(before.size()) / (2.0 / places), 1, 5 * std::sqrt(2.0 / static_cast<double>(before.size())))
      << "drawn as rows to pick from";
  const std::vector<double> losses = losses_of(model);
  EXPECT_LT(losses.back(), 0.5 * losses.front());
  const std::vector<double> after = weight_of(model).to_doubles();
  for (std::int64_t row = 0; row < rows; ++row) {
    bool picked = false;
    for (std::int64_t i = 0; i < 8 * places; ++i) picked = picked || i * 7 % rows == row;
    bool changed = false;
    for (std::int64_t place = 0; place < places; ++place)
      changed = changed || after[static_cast<std::size_t>(row * places + place)] != before[static_cast<std::size_t>(row * places + place)];
    EXPECT_EQ(changed, picked) << "row " << row;
  }
}

TEST(GatherElements, RunsIn16Bits) {
  if (const std::string reason = cpu_backend().declines(Precision::bf16); !reason.empty()) GTEST_SKIP() << reason;
  Model wide = picking(), narrow = picking();
  wide.compile(options(Precision::fp32), backends);
  narrow.compile(options(Precision::bf16), backends);
  const DeviceProgram& device = narrow.plan().programs[0];
  const auto operand = [&](BufferId b) { return device.buffers[static_cast<std::size_t>(b.index)].operand; };
  std::set<DType> picked;
  for (const Step& step : device.steps) {
    if (step.op() == "GatherElements") picked.insert(operand(step.outputs[0]).dtype);
    if (step.op() == "MatMul" || step.op() == "InnerProduct") {
      EXPECT_EQ(operand(step.inputs[0]).dtype, DType::bfloat16) << "what was picked from the weight";
    }
  }
  EXPECT_TRUE(picked.contains(DType::bfloat16)) << "of what was computed in 16 bits";
  EXPECT_EQ(weight_of(narrow).dtype(), DType::float32);
  const std::vector<double> exact = losses_of(wide), rounded = losses_of(narrow);
  for (std::size_t step = 0; step < 3; ++step) EXPECT_NEAR(rounded[step], exact[step], 0.02 * exact[step]) << step;
  EXPECT_LT(rounded.back(), 0.5 * rounded.front());
  EXPECT_NE(rounded, exact) << "it ran in float32";
}

// What is fed is checked against what it picks from.
TEST(GatherElements, SaysWhichIndicesItTakes) {
  const Model model = picking();
  bool found = false;
  for (const Field& field : model.data_request(options(Precision::fp32)).inputs) {
    if (field.name != "tokens") continue;
    found = true;
    EXPECT_EQ(field.indices.count, rows);
    EXPECT_EQ(field.indices.lowest, -rows);
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace tandem
