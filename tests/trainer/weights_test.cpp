// What is trained, by count and by gradient; what is frozen, tied and untied stays so through training and export.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

#include "kernels/cpu/backend.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

const Backend* const backends[] = {&cpu_backend()};

std::filesystem::path repro(const std::string& file) {
  const char* shared = std::getenv("TANDEM_SHARED");
  return std::filesystem::path(shared ? shared : TANDEM_SHARED_DEFAULT) / "onnx" / "repro" / (file + ".onnx");
}

// A fixed sequence of numbers between -1 and 1.
Tensor drawn(TensorType type, unsigned state) {
  Tensor tensor(std::move(type));
  for (float& v : tensor.write<float>()) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) / 8388608.0F - 1;
  }
  return tensor;
}

using Values = std::map<std::string, std::vector<double>>;
Values values_of(const Model& model) {
  Values values;
  for (const NamedTensor& p : model.parameters()) values[p.name] = p.tensor.to_doubles();
  return values;
}
// Without running statistics, which move of themselves.
Values trained_values_of(const Model& model) {
  Values values = values_of(model);
  for (const PlanParameter& p : model.plan().parameters)
    if (!p.trainable) values.erase(p.name);
  return values;
}

struct Row {
  const char* file;
  std::int64_t trained;  // values
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.file; }

class TrainedValues : public testing::TestWithParam<Row> {};

TEST_P(TrainedValues, AreAsManyAndFollowTheGradient) {
  const Row& row = GetParam();
  const auto path = repro(row.file);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  Model model = Model::load(path);
  EXPECT_EQ(model.source().summary().trainable, row.trained);
  if (!std::string_view(row.file).starts_with("w_")) return;

  ModelOptions options;
  options.plan.batch = 16;
  options.plan.devices = parse_devices("cpu");
  options.plan.loss.name = "mse";
  model.compile(options, backends);
  const std::vector<Tensor> batch{drawn({DType::float32, {16, 8}}, 1), drawn({DType::float32, {16, 8}}, 2)};
  const Values before = trained_values_of(model);
  constexpr double rate = 1.0 / 64;
  model.train_on_batch(batch, rate);
  const Values after = trained_values_of(model);
  double squares = 0;
  for (const auto& [name, value] : before)
    for (std::size_t i = 0; i < value.size(); ++i) squares += std::pow((value[i] - after.at(name)[i]) / rate, 2);
  const double length = std::sqrt(squares);
  ASSERT_GT(length, 1e-3) << "no gradient";
  // Along the gradient the loss changes by its length.
  const auto loss_at = [&](double distance) {
    std::vector<NamedTensor> moved;
    for (const NamedTensor& p : model.parameters()) {
      if (!before.contains(p.name)) continue;
      Tensor tensor(p.tensor.type());
      const auto out = tensor.write<float>();
      const auto &a = before.at(p.name), &b = after.at(p.name);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(a[i] + distance * (a[i] - b[i]) / rate / length);
      moved.push_back({p.name, tensor});
    }
    model.set_parameters(moved);
    return model.train_on_batch(batch, 0).loss;
  };
  constexpr double distance = 1.0 / 256;
  EXPECT_NEAR((loss_at(distance) - loss_at(-distance)) / (2 * distance), length, 0.01 * length);
  // A descent of three more steps.
  const double first = loss_at(0);
  for (int i = 0; i < 3; ++i) model.train_on_batch(batch, rate);
  EXPECT_LT(model.train_on_batch(batch, 0).loss, first);
}

// w_BN_weight: with scale and bias; w_MatMul_mulscalar and w_MatMul_where: with the number, a float initializer like any other.
INSTANTIATE_TEST_SUITE_P(Rows, TrainedValues,
                         testing::Values(Row{"w_BN_weight", 80}, Row{"w_Clip_p", 8}, Row{"w_Div_x_p", 8}, Row{"w_Exp_p", 8}, Row{"w_Gather_rows", 8},
                                         Row{"w_LN_weight", 72}, Row{"w_MatMul_centered", 64}, Row{"w_MatMul_clip", 64}, Row{"w_MatMul_exp", 64},
                                         Row{"w_MatMul_mulscalar", 65}, Row{"w_MatMul_pad", 56}, Row{"w_MatMul_symm", 64}, Row{"w_MatMul_tanh", 64},
                                         Row{"w_MatMul_where", 65}, Row{"w_Max_x_p", 8}, Row{"w_Mul_p", 8}, Row{"w_Neg_p", 8}, Row{"w_Pow_x_p", 8},
                                         Row{"w_Sigmoid_p", 8}, Row{"w_Softmax_p", 8}, Row{"w_Softplus_p", 8}, Row{"w_Sub_p_x", 8}, Row{"w_Sub_x_p", 8},
                                         Row{"w_Tanh_p", 8}, Row{"w_Where_p", 8}, Row{"mask_1e4", 88}, Row{"mask_inf", 88}, Row{"table", 232},
                                         Row{"groupnorm_ts", 8}, Row{"shared_norm", 120}),
                         [](const auto& row) { return std::string(row.param.file); });

std::string template_path(const std::string& name) {
  return std::string(TANDEM_SOURCE_DIR) + "/models/" + name + ".onnx";
}

struct Frozen {
  const char* name;
  std::vector<std::string> freeze, unfreeze;
  bool weights_move, statistics_move, said;
};

TEST(Freeze, ANormalizationKeepsItsStatisticsUnlessToldOtherwise) {
  const Frozen rows[] = {
      {"nothing", {}, {}, true, true, false},
      {"the whole layer", {"bn1.*"}, {}, false, false, true},
      {"scale and bias", {"bn1.weight", "bn1.bias"}, {}, false, false, true},
      {"the scale alone", {"bn1.weight"}, {}, false, true, false},
      {"the statistics", {"bn1.running_*"}, {}, true, false, true},
      {"all but the statistics", {"bn1.*"}, {"bn1.running_*"}, false, true, false},
  };
  for (const Frozen& row : rows) {
    SCOPED_TRACE(row.name);
    Model model = Model::load(template_path("resnet18"));
    ModelOptions options;
    options.plan.batch = 2;
    options.plan.devices = parse_devices("cpu");
    options.plan.trained.freeze = row.freeze;
    options.plan.trained.unfreeze = row.unfreeze;
    options.init = "he-normal";
    model.compile(options, backends);
    const bool said =
        std::ranges::any_of(model.plan().warnings, [](const std::string& s) { return s.starts_with("frozen: 1 BatchNormalization "); });
    EXPECT_EQ(said, row.said);
    for (const PlanParameter& p : model.plan().parameters)
      if (p.name == "bn1.weight") EXPECT_EQ(p.trainable, row.weights_move);
    const Values before = values_of(model);
    const DataRequest request = model.data_request();
    std::vector<Tensor> batch;
    for (const auto& input : request.inputs) {
      TensorType type = input.sample;
      type.shape.dims.insert(type.shape.dims.begin(), 2);
      batch.push_back(drawn(type, 3));
    }
    batch.push_back(Tensor::of<std::int64_t>(Shape{2}, {1, 3}));
    model.train_on_batch(batch, 0.01);
    const Values after = values_of(model);
    EXPECT_EQ(before.at("bn1.weight") != after.at("bn1.weight"), row.weights_move);
    EXPECT_EQ(before.at("bn1.running_mean") != after.at("bn1.running_mean"), row.statistics_move);
    EXPECT_NE(before.at("conv1.weight"), after.at("conv1.weight"));
    const Summary summary = model.source().summary({.dims = {}, .freeze = row.freeze, .unfreeze = row.unfreeze});
    for (const SummaryTensor& t : summary.tensors)
      if (t.tensor.name == "bn1.running_mean") EXPECT_EQ(t.frozen, !row.statistics_move);
  }
}

TEST(Freeze, NamesEveryTensorOfTheFile) {
  const auto path = repro("mask_1e4");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  ModelOptions options;
  options.plan.batch = 2;
  options.plan.devices = parse_devices("cpu");
  options.plan.trained.freeze = {"mask", "wq"};
  const Plan plan = Model::load(path).source().make_plan(options, backends);
  for (const PlanParameter& p : plan.parameters) EXPECT_EQ(p.trainable, p.name == "w") << p.name;
  expect_error(ExitCode::usage, "did you mean 'mask'?", [&] { Model::load(path, {.trainable = {"maks"}}); });
  EXPECT_EQ(Model::load(path, {.trainable = {"mask"}}).source().summary().trainable, 124);
  EXPECT_EQ(Model::load(path, {.constant = {"wq"}}).source().summary().trainable, 24);
}

TEST(Untie, GivesEachReaderItsOwn) {
  const auto path = repro("shared_norm");
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there: set TANDEM_SHARED to the folder of test material";
  Model model = Model::load(path, {.untie = {"*"}});
  EXPECT_EQ(model.source().summary().trainable, 120);
  ModelOptions options;
  options.plan.batch = 16;
  options.plan.devices = parse_devices("cpu");
  options.plan.loss.name = "mse";
  model.compile(options, backends);
  const std::vector<Tensor> batch{drawn({DType::float32, {16, 8}}, 1), drawn({DType::float32, {16, 3}}, 2)};
  for (int i = 0; i < 3; ++i) model.train_on_batch(batch, 0.1);
  const Values trained = values_of(model);
  EXPECT_NE(trained.at("one"), trained.at("one@2"));
  const TemporaryFolder folder;
  model.save(folder / "out.onnx");
  Model again = Model::load(folder / "out.onnx");
  again.compile(options, backends);
  EXPECT_EQ(values_of(again), trained);
  EXPECT_NEAR(again.train_on_batch(batch, 0).loss, model.train_on_batch(batch, 0).loss, 1e-6);
}

}  // namespace
}  // namespace tandem
