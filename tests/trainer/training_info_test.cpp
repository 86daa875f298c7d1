// ONNX's training words: steps that templates bring along, against formulas, and tandem's own files read back.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/prepare.h"

namespace tandem {
namespace {

using test::float_tensor, test::int_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr const char* training = "ai.onnx.preview.training";
constexpr std::int64_t samples = 6, features = 3;

std::vector<float> drawn(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, 0.5F);
  std::vector<float> values(n);
  for (float& v : values) v = normal(generator);
  return values;
}

onnx::NodeProto gradient(const test::Names& xs, const test::Names& zs, const std::string& y, const test::Names& outputs) {
  test::Names inputs = xs;
  inputs.insert(inputs.end(), zs.begin(), zs.end());
  onnx::NodeProto made = node("Gradient", inputs, outputs, {{"y", y}}, training);
  for (const auto& [name, list] : {std::pair{"xs", xs}, {"zs", zs}}) {
    onnx::AttributeProto& attribute = *made.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& s : list) attribute.add_strings(s);
  }
  return made;
}

void bind(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& list, const std::string& key, const std::string& value) {
  onnx::StringStringEntryProto& entry = *list.Add();
  entry.set_key(key);
  entry.set_value(value);
}

// y = x·w, with a training_info to be filled.
struct Template {
  test::Model model{17, 8};
  onnx::TrainingInfoProto& info() { return *model.proto.mutable_training_info(0); }
  explicit Template(const std::vector<float>& w = drawn(features, 1)) {
    model.proto.add_training_info();
    model.input("x", "N,3").output("y").add(float_tensor("w", {features, 1}, w)).add(float_tensor("kept", {features, 1}, {1, 2, 3}));
    model.add(node("Add", {"w", "kept"}, {"both"})).add(node("MatMul", {"x", "both"}, {"y"}));
    auto& import = *model.proto.add_opset_import();
    import.set_domain(training);
    import.set_version(1);
    onnx::ValueInfoProto& label = *info().mutable_algorithm()->add_input();
    label.set_name("t");
    label.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
    label.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_param("N");
    label.mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(1);
    *info().mutable_algorithm()->add_initializer() = float_tensor("r", {}, {0.25F});
  }
  Template& add(const onnx::NodeProto& made) {
    *info().mutable_algorithm()->add_node() = made;
    return *this;
  }
  // A loss that tandem has no name for: the mean of softplus(y - t).
  Template& softplus(const char* mean = "ReduceMean") {
    return add(node("Sub", {"y", "t"}, {"d"}))
        .add(node("Softplus", {"d"}, {"s"}))
        .add(node(mean, {"s"}, {"loss"}, {{"keepdims", std::int64_t{0}}}));
  }
  Template& plain_step() {
    add(gradient({"w"}, {"x", "t"}, "loss", {"g"})).add(node("Mul", {"r", "g"}, {"rg"})).add(node("Sub", {"w", "rg"}, {"w_new"}));
    bind(*info().mutable_update_binding(), "w", "w_new");
    return *this;
  }
  Model load(bool own_loss = true) const { return Model(ModelFile::parse(model.bytes(), {}, {.own_loss = own_loss})); }
};

const std::vector<float> xs = drawn(samples * features, 5), ts = drawn(samples, 6);
std::vector<Tensor> batch() { return {Tensor::of<float>(Shape{samples, features}, xs), Tensor::of<float>(Shape{samples, 1}, ts)}; }

std::vector<double> value(const Model& model, const std::string& name) {
  for (const NamedTensor& t : model.parameters())
    if (t.name == name) return t.tensor.to_doubles();
  return {};
}

Model compiled(Model model, const std::string& devices) {
  ModelOptions o{.plan = {.batch = samples, .devices = parse_devices(devices), .loss = {.accuracy = false}}};
  const std::optional<TrainingStep> step = model.file().training_step();
  model.source().take_loss(*step, o);
  model.source().take_optimizer(*step, o);
  model.compile(o, backends);
  return model;
}

// Whoever names a loss, an optimizer, or sets one of its numbers has the say of that.
TEST(TrainingInfo, IsFollowedByARunAsFarAsNobodySaysOtherwise) {
  const Model model = Template().softplus().plain_step().load();
  const auto run = [&](const std::function<void(RunOptions&)>& change) {
    RunOptions asked{.model = {.plan = {.batch = samples, .devices = parse_devices("cpu"), .loss = {.accuracy = false}}}};
    auto data = std::make_unique<MemoryDataset>("made here");
    data->add({.name = "x"}, batch()[0]);
    data->add({.name = "t", .role = Role::label}, batch()[1]);
    asked.splits.train = std::move(data);
    change(asked);
    return prepare(model, std::move(asked), backends);
  };
  const Prepared own = run([](RunOptions&) {});
  EXPECT_TRUE(own.own_step);
  EXPECT_TRUE(own.options.own_step);
  EXPECT_EQ(own.options.plan.loss.name, "output");
  EXPECT_EQ(own.fit.learning_rate, 0.25);
  const Prepared loss = run([](RunOptions& o) { o.model.plan.loss.name = "mse"; });
  EXPECT_EQ(loss.options.plan.loss.name, "mse");
  EXPECT_TRUE(loss.options.own_step);
  const Prepared optimizer = run([](RunOptions& o) { o.model.plan.optimizer.momentum = 0.5; });
  EXPECT_EQ(optimizer.options.plan.loss.name, "output");
  EXPECT_FALSE(optimizer.options.own_step);
  EXPECT_EQ(optimizer.options.plan.optimizer.momentum, 0.5);
  EXPECT_EQ(optimizer.fit.learning_rate, default_learning_rate(OptimizerOptions()));
  const Prepared adjusted = run([](RunOptions& o) { o.adjust_own_optimizer = [](OptimizerOptions& own) { own.clip_norm = 3; }; });
  EXPECT_TRUE(adjusted.options.own_step);
  EXPECT_EQ(adjusted.options.plan.optimizer.clip_norm, 3);
}

TEST(TrainingInfo, ItsOwnLossAndArithmeticAreFollowedOnAnyDevices) {
  for (const char* devices : {"cpu:0", "cpu:0-1", "cpu:0-3"}) {
    Model model = compiled(Template().softplus().plain_step().load(), devices);
    const std::vector<double> before = value(model, "w");
    const StepReport report = model.train_on_batch(batch(), model.file().training_step()->learning_rate);
    double loss = 0;
    std::vector<double> want = before;
    for (std::size_t n = 0; n < samples; ++n) {
      double d = -static_cast<double>(ts[n]);
      for (std::size_t k = 0; k < features; ++k) d += static_cast<double>(xs[n * features + k]) * (before[k] + static_cast<double>(k + 1));
      loss += std::log1p(std::exp(d)) / samples;
      for (std::size_t k = 0; k < features; ++k) want[k] -= 0.25 * static_cast<double>(xs[n * features + k]) / (1 + std::exp(-d)) / samples;
    }
    EXPECT_NEAR(report.loss, loss, 1e-6) << devices;
    for (std::size_t k = 0; k < features; ++k) EXPECT_NEAR(value(model, "w")[k], want[k], 1e-6) << devices;
    EXPECT_EQ(value(model, "kept"), (std::vector<double>{1, 2, 3})) << "it is not bound";
  }
}

TEST(TrainingInfo, TheExportIsTheTemplate) {
  const TemporaryFolder folder;
  const Template given = Template().softplus().plain_step();
  Model model = compiled(given.load(), "cpu:0");
  model.save(folder / "out.onnx", false);
  onnx::ModelProto written;
  ASSERT_TRUE(written.ParseFromString(test::read_whole(folder / "out.onnx")));
  EXPECT_EQ(written.SerializeAsString(), given.model.bytes());
}

TEST(TrainingInfo, KnownLossesAreRecognised) {
  Template t;
  t.add(node("Sub", {"t", "y"}, {"d"})).add(node("Mul", {"d", "d"}, {"s"})).add(node("ReduceMean", {"s"}, {"loss"})).plain_step();
  const TrainingStep step = *t.load(false).file().training_step();
  EXPECT_EQ(step.loss, "mse");
  EXPECT_EQ(step.loss_on, "y");
  EXPECT_EQ(step.optimizer, "sgd");
  EXPECT_EQ(step.learning_rate, 0.25);
  ASSERT_EQ(step.trained.size(), 1U);
  EXPECT_EQ(step.trained[0].weight, "w");
}

// Adam whose first T is 0 takes a first step without correction.
TEST(TrainingInfo, AdamBeginsAsItsCountSays) {
  for (const std::int64_t first : {0, 1, 7}) {
    Template t;
    t.softplus().add(gradient({"w"}, {"x", "t"}, "loss", {"g"}));
    t.add(node("Adam", {"r", "T", "w", "g", "v", "h"}, {"w_new", "v_new", "h_new"},
               {{"alpha", 0.8F}, {"beta", 0.9F}, {"epsilon", 0.01F}, {"norm_coefficient", 0.1F}}, training));
    t.add(node("Add", {"T", "one"}, {"T_new"}));
    for (const auto& tensor : {int_tensor("T", {}, {first}), int_tensor("one", {}, {1}), float_tensor("v", {3, 1}, {1, -1, 0.5F}),
                               float_tensor("h", {3, 1}, {1, 2, 3})})
      *t.info().mutable_algorithm()->add_initializer() = tensor;
    for (const auto& [key, value] : {std::pair{"w", "w_new"}, {"v", "v_new"}, {"h", "h_new"}, {"T", "T_new"}})
      bind(*t.info().mutable_update_binding(), key, value);
    Model model = compiled(t.load(), "cpu:0");
    std::vector<double> w = value(model, "w"), v{1, -1, 0.5}, h{1, 2, 3};
    for (int step = 0; step < 3; ++step) {
      std::vector<double> g(features);
      for (std::size_t n = 0; n < samples; ++n) {
        double d = -static_cast<double>(ts[n]);
        for (std::size_t k = 0; k < features; ++k) d += static_cast<double>(xs[n * features + k]) * (w[k] + static_cast<double>(k + 1));
        for (std::size_t k = 0; k < features; ++k) g[k] += static_cast<double>(xs[n * features + k]) / (1 + std::exp(-d)) / samples;
      }
      const double T = static_cast<double>(first + step),
                   r = T > 0 ? 0.25 * std::sqrt(1 - std::pow(0.9, T)) / (1 - std::pow(0.8, T)) : 0.25;
      for (std::size_t k = 0; k < features; ++k) {
        const double slope = g[k] + 0.1 * w[k];
        v[k] = 0.8 * v[k] + 0.2 * slope;
        h[k] = 0.9 * h[k] + 0.1 * slope * slope;
        w[k] -= r * v[k] / (std::sqrt(h[k]) + 0.01);
      }
      model.train_on_batch(batch(), 0.25);
      for (std::size_t k = 0; k < features; ++k)
        EXPECT_NEAR(value(model, "w")[k], w[k], 2e-6) << "T begins at " << first << ", step " << step;
    }
  }
}

TEST(TrainingInfo, WhatIsNotFollowedIsNamed) {
  const auto reason = [](const Template& t) -> std::string {
    try {
      t.load().file().training_step();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  Template other = Template().softplus();
  other.add(gradient({"w"}, {"x", "t"}, "loss", {"g"})).add(node("Div", {"w", "g"}, {"w_new"}));
  bind(*other.info().mutable_update_binding(), "w", "w_new");
  EXPECT_NE(reason(other).find("Div 'node_w_new' computes what 'w' becomes"), std::string::npos) << reason(other);

  Template scheduled = Template().softplus();
  scheduled.add(node("Mul", {"r", "r"}, {"r2"}))
      .add(gradient({"w"}, {"x", "t"}, "loss", {"g"}))
      .add(node("Mul", {"r2", "g"}, {"rg"}))
      .add(node("Sub", {"w", "rg"}, {"w_new"}));
  bind(*scheduled.info().mutable_update_binding(), "w", "w_new");
  EXPECT_NE(reason(scheduled).find("learning rate 'r2', which is computed"), std::string::npos) << reason(scheduled);

  Template two = Template().softplus().plain_step();
  *two.model.proto.add_training_info() = two.model.proto.training_info(0);
  EXPECT_NE(reason(two).find("several algorithms"), std::string::npos) << reason(two);

  const Model sum = Template().softplus("ReduceSum").plain_step().load();
  ModelOptions o{.plan = {.batch = samples, .devices = parse_devices("cpu:0-1")}};
  EXPECT_THROW(sum.source().take_loss(*sum.file().training_step(), o), Error);
}

TEST(TrainingInfo, ItsInitializationDrawsWeightsThatAreNotThere) {
  Template t{std::vector<float>(features)};
  t.softplus().plain_step();
  *t.info().mutable_initialization()->add_node() =
      node("RandomUniform", {}, {"u"}, {{"shape", std::vector<std::int64_t>{features, 1}}, {"low", 4.0F}, {"high", 5.0F}});
  bind(*t.info().mutable_initialization_binding(), "w", "u");
  *t.info().mutable_initialization()->add_initializer() = float_tensor("zeros", {features, 1}, {0, 0, 0});
  *t.info().mutable_initialization()->add_node() = node("Identity", {"zeros"}, {"z"});
  bind(*t.info().mutable_initialization_binding(), "kept", "z");
  const auto first = [&](const char* init, const char* name) {
    Model model = t.load();
    ModelOptions o{.plan = {.batch = samples, .devices = parse_devices("cpu:0")}, .init = init};
    model.source().take_loss(*model.file().training_step(), o);
    model.compile(o, backends);
    return value(model, name);
  };
  for (const double w : first("training-info", "w")) EXPECT_TRUE(w >= 4 && w <= 5) << w;
  EXPECT_EQ(first("training-info", "kept"), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(first("keep", "w"), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(first("keep", "kept"), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(first("training-info", "w"), first("training-info", "w"));
}

struct RoundTrip {
  const char* name;
  OptimizerOptions optimizer;
};

TEST(TrainingInfo, OwnFilesGoOnToTheSameBits) {
  const auto with = [](const char* name, auto&& change) {
    OptimizerOptions o = optimizer_defaults(name);
    change(o);
    return o;
  };
  const RoundTrip rows[] = {
      {"sgd", with("sgd", [](auto& o) { o.weight_decay = 0.1; })},
      {"momentum", with("momentum", [](auto& o) { o.dampening = 0.25; })},
      {"nesterov", with("nesterov", [](auto& o) { o.weight_decay = 0.01; })},
      {"adagrad", with("adagrad", [](auto& o) { o.rate_decay = 0.1; })},
      {"adam", optimizer_defaults("adam")},
      {"adam, as ONNX has it", with("adam", [](auto& o) { o.epsilon_hat = true; })},
      {"adamw", optimizer_defaults("adamw")},
      {"rmsprop", optimizer_defaults("rmsprop")},
      {"groups", with("adam", [](auto& o) { o.groups = {{.patterns = {"w"}, .weight_decay = 0.5, .rate = 3}}; })},
  };
  for (const RoundTrip& row : rows) {
    const TemporaryFolder folder;
    test::Model m;
    m.input("x", "N,3").output("y").add(float_tensor("w", {features, 4}, drawn(12, 1))).add(float_tensor("v", {4, 1}, drawn(4, 2)));
    m.add(node("MatMul", {"x", "w"}, {"h"})).add(node("Tanh", {"h"}, {"a"})).add(node("MatMul", {"a", "v"}, {"y"}));
    Model whole(m.parse());
    whole.compile({.plan = {.batch = samples,
                            .devices = parse_devices("cpu:0"),
                            .loss = {.name = "mse", .accuracy = false},
                            .optimizer = row.optimizer}},
                  backends);
    for (int i = 0; i < 3; ++i) whole.train_on_batch(batch(), 0.01);
    whole.save(folder / "half.onnx", true, {.training = whole.training_step(0.01)});
    for (int i = 0; i < 3; ++i) whole.train_on_batch(batch(), 0.01);
    Model second = compiled(Model::load(folder / "half.onnx"), "cpu:0");
    const double rate = second.file().training_step()->learning_rate;
    EXPECT_EQ(second.plan().loss, "mse") << row.name;
    for (int i = 0; i < 3; ++i) second.train_on_batch(batch(), rate);
    for (const char* name : {"w", "v"}) EXPECT_EQ(value(second, name), value(whole, name)) << row.name;
    // The file that it writes has the states where they stand now.
    second.save(folder / "more.onnx");
    whole.train_on_batch(batch(), 0.01);
    Model third = compiled(Model::load(folder / "more.onnx"), "cpu:0");
    third.train_on_batch(batch(), rate);
    for (const char* name : {"w", "v"}) EXPECT_EQ(value(third, name), value(whole, name)) << row.name;
  }
}

TEST(TrainingInfo, WhatHasNoWordsIsNotWritten) {
  Model model(Template().softplus().plain_step().model.parse());
  const auto compile = [&](const char* optimizer, const char* loss) {
    model.compile({.plan = {.batch = samples,
                            .devices = parse_devices("cpu:0"),
                            .loss = {.name = loss, .accuracy = false},
                            .optimizer = optimizer_defaults(optimizer)}},
                  backends);
    const TemporaryFolder folder;
    try {
      model.file().check_write(folder / "a.onnx", {.training = model.training_step(0.1)});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(compile("lion", "mse").find("optimizer lion is not written"), std::string::npos);
  EXPECT_NE(compile("adafactor", "mse").find("optimizer adafactor is not written"), std::string::npos);
  EXPECT_NE(compile("sgd", "huber").find("loss huber is not written"), std::string::npos);
  EXPECT_EQ(compile("sgd", "mse"), "");
}

}  // namespace
}  // namespace tandem
