// Losses that nobody chose: of one number for each sample, by the labels; of probabilities that no Softmax makes, minus their logarithm.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};

Tensor labels_of(DType dtype, std::vector<double> values, bool column = false) {
  Shape shape{std::ssize(values)};
  if (column) shape.dims.push_back(1);
  Tensor t(TensorType{DType::float64, shape});
  std::copy(values.begin(), values.end(), t.write<double>().begin());
  return t.cast(dtype);
}

MemoryDataset data_with(Tensor labels) {
  Tensor x(TensorType{DType::float32, {4, 2}});
  for (std::int64_t i = 0; float& v : x.write<float>()) v = 0.5F * static_cast<float>(i++ % 5) - 1;
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  data.add({.name = "y", .role = Role::label}, std::move(labels));
  return data;
}

Model one_number(bool sigmoid) {
  test::Model m;
  m.input("x", "N,2").add(float_tensor("w", {2, 1}, {0.5F, -0.25F})).add(node("MatMul", {"x", "w"}, {"s"}));
  if (sigmoid) m.add(node("Sigmoid", {"s"}, {"p"}));
  return Model(m.output(sigmoid ? "p" : "s").parse());
}

ModelOptions open_options() {
  ModelOptions o{.init = "keep"};
  o.plan.batch = 4;
  o.plan.devices = parse_devices("cpu");
  o.plan.loss.assumed = true;
  return o;
}

struct Row {
  const char* name;
  bool sigmoid;
  Tensor labels;
  const char *loss, *said;  // or, of no loss, the error
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class OneNumber : public testing::TestWithParam<Row> {};
TEST_P(OneNumber, HasALossByItsLabels) {
  const Row& row = GetParam();
  Model model = one_number(row.sigmoid);
  const MemoryDataset data = data_with(row.labels);
  ModelOptions o = open_options();
  EXPECT_NE(model.source().assume_loss(o), "");
  if (!row.loss) return expect_error(ExitCode::usage, row.said, [&] { model.source().fit_labels(o, data); });
  EXPECT_NE(model.source().fit_labels(o, data).find(row.said), std::string::npos);
  EXPECT_EQ(o.plan.loss.name, row.loss);
  model.compile(o, backends);
  const std::vector<double> before = model.parameters()[0].tensor.to_doubles();
  const History history = model.fit(data, {.epochs = 1, .learning_rate = 0.1});
  EXPECT_GT(history.epochs[0].loss, 0);
  EXPECT_NE(model.parameters()[0].tensor.to_doubles(), before);
  EXPECT_GT(model.evaluate(data).loss, 0);
}
const Row rows[] = {
    {"numbers", false, labels_of(DType::float32, {0.5, 2, -1, 3}), "mse",
     "these are numbers: the loss is mse (option loss names another)"},
    {"numbers_in_a_column", false, labels_of(DType::float32, {0.5, 2, -1, 3}, true), "mse", "the loss is mse"},
    {"yes_and_no", false, labels_of(DType::int64, {0, 1, 1, 0}), "binary-cross-entropy", "these are 0 and 1: the loss is binary-cross-entropy"},
    {"yes_and_no_as_floats", false, labels_of(DType::float32, {0, 1, 1, 0}, true), "binary-cross-entropy", "these are 0 and 1: the loss is"},
    {"bytes", false, labels_of(DType::uint8, {0, 1, 1, 0}), "binary-cross-entropy", "the loss is binary-cross-entropy"},
    {"classes", false, labels_of(DType::int64, {0, 2, 1, 4}), nullptr,
     "has labels 'y' of 0 to 4, whole numbers: option loss mse takes them for numbers; of classes a model gives a score "
     "each (option head 5)"},
    {"sigmoid", true, labels_of(DType::int64, {0, 1, 1, 0}), "binary-cross-entropy", "a sigmoid: the loss is binary-cross-entropy"},
    {"shares", true, labels_of(DType::float32, {0.1, 0.9, 1, 0}), "binary-cross-entropy", "a sigmoid: the loss is binary-cross-entropy"},
    {"sigmoid_of_numbers", true, labels_of(DType::float32, {0.5, 2, -1, 3}), nullptr,
     "has labels 'y' of -1 to 3: option loss names what compares them"},
};
INSTANTIATE_TEST_SUITE_P(All, OneNumber, testing::ValuesIn(rows), [](const auto& info) { return info.param.name; });

TEST(AssumedLoss, OfOthersIsWhatItWas) {
  test::Model m;
  m.input("x", "N,2").add(float_tensor("w", {2, 3}, {0.5F, -0.25F, 1, 0, 1, 2})).add(node("MatMul", {"x", "w"}, {"y"}));
  const Model model(m.output("y").parse());
  ModelOptions o = open_options();
  EXPECT_EQ(model.source().assume_loss(o), "");
  EXPECT_FALSE(o.plan.loss.assumed);
  EXPECT_EQ(o.plan.loss.name, "softmax-cross-entropy");
}

// scikit-learn's one against all: sigmoids over their sum, by ai.onnx.ml's Normalizer or by a division.
TEST(AssumedLoss, OfProbabilitiesIsMinusTheirLogarithm) {
  for (const bool normalizer : {false, true}) {
    test::Model m;
    m.input("x", "N,2").add(float_tensor("w", {2, 3}, {0.5F, -0.25F, 1, 0, 1, -2}));
    m.add(node("MatMul", {"x", "w"}, {"s"})).add(node("Sigmoid", {"s"}, {"q"}));
    if (normalizer) {
      auto* const import = m.proto.add_opset_import();
      import->set_domain("ai.onnx.ml");
      import->set_version(1);
      m.add(node("Normalizer", {"q"}, {"p"}, {{"norm", std::string("L1")}}, "ai.onnx.ml"));
    } else {
      m.add(test::int_tensor("axes", {1}, {1})).add(node("ReduceSum", {"q", "axes"}, {"all"})).add(node("Div", {"q", "all"}, {"p"}));
    }
    Model model(m.output("p").parse());
    const MemoryDataset data = data_with(labels_of(DType::int64, {0, 2, 1, 2}));
    ModelOptions o = open_options();
    EXPECT_EQ(model.source().assume_loss(o), "");
    model.source().fit_labels(o, data);
    model.compile(o, backends);
    const auto says = [](const std::string& w) { return w.starts_with("'p' is taken for probabilities of 3 classes"); };
    EXPECT_TRUE(std::ranges::any_of(model.plan().warnings, says));
    const Tensor given = model.predict(data)[0].tensor;
    const auto p = given.values<float>();
    const double by_hand = -(std::log(p[0]) + std::log(p[5]) + std::log(p[7]) + std::log(p[11])) / 4;
    EXPECT_NEAR(model.evaluate(data).loss, by_hand, 1e-6);
    double first = 0;
    FitOptions fit{.epochs = 1, .learning_rate = 0.1};
    fit.callbacks.on_step = [&](const StepReport& r) { first = r.loss; };
    model.fit(data, fit);
    EXPECT_NEAR(first, by_hand, 1e-6);
    EXPECT_LT(model.evaluate(data).loss, by_hand);
    const auto sums = model.predict_proba(data);
    EXPECT_NEAR(sums.values<float>()[0] + sums.values<float>()[1] + sums.values<float>()[2], 1, 1e-6);
  }
}

}  // namespace
}  // namespace tandem
