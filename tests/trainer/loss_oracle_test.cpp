// Losses, their gradients and the metrics of evaluation against PyTorch's and scikit-learn's, on one device and on three with
// uneven slices, in one batch and as a step of several, the last short: a model y = x * w, whose gradient of w a step of size 1 without
// momentum gives. The epoch's line is the same mean, whatever the batches.
#include <cstdlib>
#include <random>

#include "base/file.h"
#include "data/npy.h"
#include "data/zip.h"
#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t samples = 11;
constexpr int packages_missing = 3;  // loss_oracle.py's exit code

enum class Given { classes, shares, bits, dense_bits, numbers, counts, sequences, none };
struct Row {
  const char* name;
  const char* loss;
  Shape x;  // of one sample
  Given labels;
  void (*options)(CompileOptions&) = nullptr;
  bool weighted = false;
  std::vector<std::string> metrics{};
  std::string (*file)() = nullptr;  // that computes the loss; it is a metric, too
  bool places_first = false;        // the output is [T,N,C]
};

// Mean squares of all: a function, an If whose condition is known, a weight that is a constant.
std::string file_mse() {
  test::Model m;
  m.add(test::function("Squared", {"a", "b"}, {"c"}, {node("Sub", {"a", "b"}, {"d"}), node("Mul", {"d", "d"}, {"c"})}));
  m.add(float_tensor("one", {3}, {1, 1, 1})).add(node("Squared", {"pred", "target"}, {"squares"}, {}, test::function_domain));
  onnx::TensorProto yes = test::int_tensor("", {}, {1});
  m.add(node("Constant", {}, {"number"}, {{"value", yes}}))
      .add(node("Cast", {"number"}, {"condition"}, {{"to", std::int64_t{onnx::TensorProto::BOOL}}}));
  m.add(node("If", {"condition"}, {"scaled"},
             {{"then_branch", test::branch({node("Mul", {"squares", "one"}, {"kept"})}, {"kept"})}, {"else_branch", test::branch({node("Neg", {"squares"}, {"turned"})}, {"turned"})}}));
  return m.input("pred", "N,3")
      .input("target", "N,3")
      .add(node("ReduceMean", {"scaled"}, {"loss"}, {{"keepdims", std::int64_t{0}}}))
      .output("loss")
      .bytes();
}
std::string file_cross_entropy() {
  test::Model m;
  m.input("logits", "batch,C").input("labels", "batch", onnx::TensorProto::INT64);
  return m.add(node("SoftmaxCrossEntropyLoss", {"logits", "labels"}, {"loss"})).output("loss").bytes();
}
test::Model squares_of_samples() {
  test::Model m;
  m.input("y", "N,D").input("y_true", "N,D").add(node("Sub", {"y", "y_true"}, {"d"})).add(node("Mul", {"d", "d"}, {"squares"}));
  return m.add(node("ReduceMean", {"squares"}, {"each"}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}));
}
std::string file_each() { return squares_of_samples().output("each").bytes(); }
std::string file_weights() {
  test::Model m = squares_of_samples();
  m.input("sample_weight", "N").add(node("Mul", {"each", "sample_weight"}, {"weighted"}));
  for (const auto& [in, out] : {std::pair{"weighted", "above"}, {"sample_weight", "below"}})
    m.add(node("ReduceSum", {in}, {out}, {{"keepdims", std::int64_t{0}}}));
  return m.add(node("Div", {"above", "below"}, {"loss"})).output("loss").bytes();
}
std::string file_of_inputs() {  // the model's input beside its output
  test::Model m;
  m.input("y", "N,3").input("x", "N,3").add(node("Sub", {"y", "x"}, {"d"})).add(node("Abs", {"d"}, {"a"}));
  return m.add(node("ReduceMean", {"a"}, {"loss"}, {{"keepdims", std::int64_t{0}}})).output("loss").bytes();
}

const auto smooth = [](CompileOptions& o) { o.loss.smoothing = 0.1; };
const auto weighted = [](CompileOptions& o) { o.loss.class_weights = {1, 2, 0.5, 0, 3}; };
const auto ignoring = [](CompileOptions& o) { o.loss.ignore_index = -100; };
const auto last_axis = [](CompileOptions& o) {
  o.loss.ignore_index = -100;
  o.loss.class_axis = -1;
};
const std::vector<std::string> of_classes{"f1",  "f1-micro", "precision", "recall", "balanced-accuracy",
                                          "iou", "top2",     "roc-auc",   "pr-auc", "perplexity"};
const std::vector<std::string> of_bits{"f1", "precision", "recall", "iou", "roc-auc", "pr-auc"}, of_numbers{"mae", "rmse", "r2"};

const Row rows[] = {
    {"cross_entropy", "softmax-cross-entropy", {5}, Given::classes, nullptr, false, of_classes},
    {"cross_entropy_smooth", "CrossEntropyLoss", {5}, Given::classes, smooth},
    {"cross_entropy_weighted", "cross-entropy", {5}, Given::classes, weighted},
    {"cross_entropy_weighted_smooth_ignored", "cross-entropy", {5}, Given::classes,
     [](CompileOptions& o) {
       smooth(o);
       weighted(o);
       o.loss.ignore_index = 1;
     }},
    {"cross_entropy_dense_weighted_smooth", "cross-entropy", {5}, Given::shares,
     [](CompileOptions& o) {
       smooth(o);
       weighted(o);
     }},
    {"cross_entropy_samples", "cross-entropy", {5}, Given::classes, nullptr, true},
    {"tokens_last", "cross-entropy", {6, 5}, Given::classes, last_axis},
    {"tokens_first", "cross-entropy", {5, 6}, Given::classes, ignoring},
    {"tokens_samples", "cross-entropy", {5, 6}, Given::classes, ignoring, true},
    {"next_token", "cross-entropy", {6, 5}, Given::classes,
     [](CompileOptions& o) {
       o.loss.shift_labels = true;
       o.loss.class_axis = -1;
     }},
    {"bce", "BCEWithLogitsLoss", {3}, Given::dense_bits},
    {"bce_pos", "bce:pos-weight=3", {3}, Given::dense_bits},
    {"bce_samples", "bce", {1}, Given::bits, nullptr, true, of_bits},
    {"multi_label", "MultiLabelSoftMarginLoss", {4}, Given::dense_bits},
    {"mse", "mean_squared_error", {3}, Given::numbers, nullptr, false, of_numbers},
    {"mse_samples", "MSELoss", {2, 3}, Given::numbers, nullptr, true},
    {"l1", "L1Loss", {3}, Given::numbers},
    {"smooth_l1", "smooth-l1:beta=0.5", {3}, Given::numbers},
    {"huber", "huber:delta=0.7", {3}, Given::numbers},
    {"log_cosh", "log_cosh", {3}, Given::numbers},
    {"poisson", "PoissonNLLLoss", {3}, Given::counts},
    {"focal", "focal", {5}, Given::classes},
    {"binary_focal", "binary-focal", {3}, Given::dense_bits},
    {"kl", "KLDivLoss", {5}, Given::shares},
    {"hinge", "hinge", {3}, Given::dense_bits},
    {"squared_hinge", "squared_hinge", {3}, Given::dense_bits},
    {"soft_margin", "SoftMarginLoss", {3}, Given::dense_bits},
    {"categorical_hinge", "categorical_hinge", {5}, Given::classes},
    {"multi_margin", "MultiMarginLoss", {5}, Given::classes},
    {"cosine", "cosine", {5}, Given::numbers},
    {"triplet", "triplet:margin=2", {3, 4}, Given::none},
    {"ctc", "CTCLoss", {12, 5}, Given::sequences},
    {"ctc_places_first", "ctc", {12, 5}, Given::sequences, nullptr, false, {}, nullptr, true},
    {"ctc_samples_blank", "ctc:blank=-1:per-label=0", {12, 6}, Given::sequences, nullptr, true},
    {"ctc_zero_infinity", "ctc:zero-infinity=1", {4, 5}, Given::sequences},
    {"ctc_long", "ctc", {64, 5}, Given::sequences},
    {"file_mse", "", {3}, Given::numbers, nullptr, false, {}, file_mse},
    {"file_cross_entropy", "", {5}, Given::classes, nullptr, false, {}, file_cross_entropy},
    {"file_each_samples", "", {3}, Given::numbers, nullptr, true, {}, file_each},
    {"file_weights_samples", "", {3}, Given::numbers, nullptr, true, {}, file_weights},
    {"file_of_inputs", "", {3}, Given::none, nullptr, false, {}, file_of_inputs},
};

std::mt19937 random_of(const Row& row) { return std::mt19937(static_cast<unsigned>(std::hash<std::string>()(row.name))); }

Tensor floats(const Shape& sample, std::mt19937& random) {
  Shape all = sample;
  all.dims.insert(all.dims.begin(), samples);
  Tensor t(TensorType{DType::float32, all});
  for (float& v : t.write<float>()) v = std::normal_distribution<float>()(random);
  return t;
}

Tensor labels_of(const Row& row, std::mt19937& random) {
  if (row.labels == Given::classes || row.labels == Given::bits) {
    Shape all{samples};
    for (const std::int64_t d : row.x)
      if (d == 6) all.dims.push_back(d);
    Tensor t(TensorType{DType::int64, all});
    std::int64_t i = 0;
    for (std::int64_t& v : t.write<std::int64_t>()) {
      v = row.labels == Given::bits ? static_cast<std::int64_t>(random() % 2) : i % 5;
      if (all.rank() == 2) v = static_cast<std::int64_t>(random() % 5);
      if (all.rank() == 2 && row.name != std::string("next_token") && random() % 3 == 0) v = -100;
      ++i;
    }
    return t;
  }
  if (row.labels == Given::sequences) {  // 0 to 4 labels of 1 to 4, for 6 classes of 0 to 4: the blank is none of them
    Tensor t(TensorType{DType::int64, Shape{samples, 4}});
    const std::int64_t first = row.x[1] == 6 ? 0 : 1;
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t s = 0; s < 4; ++s)
        t.write<std::int64_t>()[static_cast<std::size_t>(4 * n + s)] =
            s < (n + 4) % 5 ? first + static_cast<std::int64_t>(random() % 4) : -1;
    return t;
  }
  Tensor t = floats(row.x, random);
  for (float& v : t.write<float>()) {
    if (row.labels == Given::dense_bits) v = v > 0 ? 1.0F : 0.0F;
    if (row.labels == Given::counts) v = std::floor(std::abs(3 * v));
    if (row.labels == Given::shares) v = std::abs(v);
  }
  if (row.labels == Given::shares)
    for (std::int64_t n = 0; n < samples; ++n) {
      const auto of = t.write<float>().subspan(static_cast<std::size_t>(5 * n), 5);
      const float sum = of[0] + of[1] + of[2] + of[3] + of[4];
      for (float& v : of) v /= sum;
    }
  return t;
}

// Writes what the row's loss gives on these devices.
void compute(const Row& row, const std::string& devices, std::int64_t part, const std::filesystem::path& file) {
  std::mt19937 random = random_of(row);
  const Tensor x = floats(row.x, random), t = labels_of(row, random);
  Tensor s(TensorType{DType::float32, Shape{samples}});
  for (float& v : s.write<float>()) v = static_cast<float>(random() % 4);
  std::vector<float> start(static_cast<std::size_t>(row.x.elements()));
  for (float& v : start) v = 0.5F + static_cast<float>(random() % 100) / 100;
  test::Model m;
  std::string dims = "N";
  std::vector<std::int64_t> shape;
  for (const std::int64_t d : row.x) {
    dims += concat(",", d);
    shape.push_back(d);
  }
  m.input("x", dims).add(float_tensor("w", shape, start)).add(node("Mul", {"x", "w"}, {row.places_first ? "z" : "y"}));
  if (row.places_first)
    m.add(node("Transpose", {"z"}, {"turned"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}))
        .add(node("LogSoftmax", {"turned"}, {"y"}, {{"axis", std::int64_t{2}}}));
  m.output("y");
  Model model(ModelFile::parse(m.bytes(), {}));
  MemoryDataset data("made here");
  data.add({.name = "x"}, x);
  if (row.labels != Given::none) data.add({.name = "t", .role = Role::label}, t);
  if (row.weighted) data.add({.name = "s", .role = Role::weight}, s);
  ModelOptions o{.init = "keep"};
  o.plan.parallel.micro_batches = (samples + part - 1) / part;
  o.plan.batch = part * o.plan.parallel.micro_batches;
  o.plan.devices = parse_devices(devices);
  o.plan.loss.name = row.loss;
  std::vector<std::string> metrics = row.metrics;
  if (row.file) {
    o.plan.loss.name = file.parent_path() / (std::string(row.name) + ".onnx");
    write_atomically(o.plan.loss.name, row.file());
    metrics.push_back(o.plan.loss.name);
  }
  if (row.options) row.options(o.plan);
  model.source().fit_labels(o, data);
  model.compile(o, backends);
  const Evaluation e = model.evaluate(data, {.batch = 4, .metrics = metrics});
  const EpochReport line = model.fit(data, {.learning_rate = 0, .shuffle = false}).epochs[0];
  EXPECT_NEAR(line.loss, e.loss, 1e-5 * std::abs(e.loss) + 1e-7);
  if (!std::isnan(line.accuracy)) {
    EXPECT_NEAR(line.accuracy, e.accuracy, 1e-6);
  }
  double loss = 0;
  FitOptions fit{.steps = 1, .learning_rate = 1, .shuffle = false};
  fit.epochs = 0;
  fit.callbacks.on_step = [&](const StepReport& r) { loss = r.loss; };
  model.fit(data, fit);
  Tensor gradient(TensorType{DType::float32, row.x});
  const Tensor after = model.parameters()[0].tensor;
  for (std::size_t i = 0; i < start.size(); ++i) gradient.write<float>()[i] = start[i] - after.values<float>()[i];
  std::string bytes;
  ZipWriter out([&](std::string_view part) { bytes += part; });
  const auto number = [](double v) {
    Tensor one(TensorType{DType::float64, Shape{}});
    one.write<double>()[0] = v;
    return one;
  };
  Tensor w(TensorType{DType::float32, row.x});
  std::copy(start.begin(), start.end(), w.write<float>().begin());
  out.add("x.npy", npy_of(x));
  out.add("w.npy", npy_of(w));
  out.add("t.npy", npy_of(t));
  out.add("s.npy", npy_of(s));
  out.add("loss.npy", npy_of(number(loss)));
  out.add("evaluated.npy", npy_of(number(e.loss)));
  out.add("gradient.npy", npy_of(gradient));
  for (const auto& [name, value] : e.metrics) out.add(concat("metric.", name, ".npy"), npy_of(number(value)));
  out.finish();
  write_atomically(file, bytes);
}

TEST(LossOracle, AreThoseOfPyTorchAndScikitLearn) {
  const char* python = std::getenv("TANDEM_PYTHON");
  if (!python) GTEST_SKIP() << "TANDEM_PYTHON does not name a Python with torch, scikit-learn and numpy (./run-tests makes one)";
  struct Way {
    std::string devices;
    std::int64_t part;
  };
  for (const auto& [devices, part] : {Way{"cpu", samples}, Way{"cpu:0-2", samples}, Way{"cpu", 4}, Way{"cpu:0-2", 3},
                                              Way{"cpu", 1}}) {
    SCOPED_TRACE(concat(devices, ", parts of ", part));
    const TemporaryFolder folder;
    for (const Row& row : rows) {
      SCOPED_TRACE(row.name);
      try {
        compute(row, devices, part, folder / (std::string(row.name) + ".npz"));
      } catch (const Error& e) {
        ADD_FAILURE() << e.what();
      }
    }
    const std::string log = (folder / "log").string();
    const int status =
        std::system(concat(python, ' ', TANDEM_SOURCE_DIR, "/tests/trainer/loss_oracle.py ", folder.text(), " >", log, " 2>&1").c_str());
    if (WIFEXITED(status) && WEXITSTATUS(status) == packages_missing) GTEST_SKIP() << "TANDEM_PYTHON: " << read_file(log);
    EXPECT_EQ(status, 0) << read_file(log);
  }
}

}  // namespace
}  // namespace tandem
