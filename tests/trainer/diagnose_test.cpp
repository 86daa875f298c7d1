// What a run says that diverged: the node that first made a value that is not finite, the step, and what it was made from.
#include <limits>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

struct Row {
  const char* name;
  void (*build)(test::Model&);  // from x [N,2] to y [N,2]
  double learning_rate;
  std::vector<float> x;  // of one sample; all are alike
  const char* says;
  const char* devices = "cpu";
  float label = 0;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

void exponential(test::Model& m) {
  m.add(float_tensor("w", {2, 2}, {50, 1, 53.5, 2})).add(node("MatMul", {"x", "w"}, {"scores"})).add(node("Exp", {"scores"}, {"y"}));
}
void linear(test::Model& m) {
  m.add(float_tensor("w", {2, 2}, {1, 2, 3, 4})).add(node("MatMul", {"x", "w"}, {"y"}));
}
void logarithm(test::Model& m) {
  m.add(float_tensor("w", {2, 2}, {1, -1, 1, -2})).add(node("MatMul", {"x", "w"}, {"s"})).add(node("Log", {"s"}, {"y"}));
}
// Its value at 0 is 0, its gradient there is not finite.
void root(test::Model& m) {
  m.add(float_tensor("w", {2, 2}, {1, -1, 1, 1})).add(node("MatMul", {"x", "w"}, {"s"})).add(node("Sqrt", {"s"}, {"y"}));
}

std::string failure(const Row& row, const FitOptions& fit, const std::function<void(Model&)>& before = {}) {
  test::Model m;
  m.input("x", "N,2");
  row.build(m);
  m.output("y");
  Model model(m.parse());
  ModelOptions o;
  o.plan.batch = 4;
  o.plan.loss.name = "mse";
  o.plan.devices = parse_devices(row.devices);
  model.compile(o, backends);
  if (before) before(model);
  MemoryDataset data("made here");
  Tensor x(TensorType{DType::float32, {10, 2}});
  for (std::size_t i = 0; i < 20; ++i) x.write<float>()[i] = row.x[i % 2];
  data.add({.name = "x"}, x);
  Tensor labels(TensorType{DType::float32, {10, 2}});
  std::ranges::fill(labels.write<float>(), row.label);
  data.add({.name = "y", .role = Role::label}, labels);
  try {
    model.fit(data, fit);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::diverged) << e.what();
    return e.what();
  }
  return "it did not diverge";
}

class Causes : public testing::TestWithParam<Row> {};
TEST_P(Causes, AreNamed) {
  const std::string said = failure(GetParam(), {.epochs = 50, .learning_rate = GetParam().learning_rate});
  EXPECT_NE(said.find(GetParam().says), std::string::npos) << said;
}
INSTANTIATE_TEST_SUITE_P(
    All, Causes,
    testing::Values(Row{"forward", exponential, 0.1, {1, 1}, "at step 1 (epoch 1, learning rate 0.1): at step 1 Exp 'node_y' made inf from 'scores' (3 to 103.5)"},
                    Row{"two_devices", exponential, 0.1, {1, 1}, "at step 1 Exp 'node_y' made inf from 'scores' (3 to 103.5)", "cpu:0-1"},
                    Row{"not_a_number", logarithm, 0.1, {1, 1}, "at step 1 Log 'node_y' made nan from 's' (-3 to 2)"},
                    Row{"backward", root, 0.1, {1, 1}, "at step 1 the gradient of 'node_y' ("},
                    Row{"update", linear, 3e38, {1, 1}, "at step 1 the update of 'w' by a learning rate of 3e+38 left what float32 can hold"},
                    Row{"later", linear, 3, {1, 1}, "made inf from "},
                    Row{"large_labels", linear, 3, {1, 1}, ". Labels reach 50000: divide them by a number of their size, or use ", "cpu", -50000}),
    [](const auto& info) { return info.param.name; });

TEST(Causes, AreNotSoughtInLabelsOfTheOutputsSize) {
  const std::string said = failure({"small", linear, 3, {1, 1}, "", "cpu", 5}, {.epochs = 50, .learning_rate = 3});
  EXPECT_EQ(said.find("Labels"), std::string::npos) << said;
}

// The way back starts at the last checkpoint where there is one; and nothing is said that was not found.
TEST(Causes, AreSoughtFromACheckpointOrNotAtAll) {
  const Row row{"later", linear, 3, {1, 1}, ""};
  const auto changed = [](Model& m) { m.set_parameters(m.parameters()); };
  EXPECT_EQ(failure(row, {.epochs = 50, .learning_rate = 3}, changed).find(" made "), std::string::npos);
  const TemporaryFolder folder;
  const std::string said = failure(row, {.epochs = 50, .learning_rate = 3, .run_dir = folder / "run"}, changed);
  EXPECT_NE(said.find(" made inf from "), std::string::npos) << said;
}

}  // namespace
}  // namespace tandem
