// The C API's forward and backward pass: a loop by hand trains as the library's own training does, and what does not fit is told.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/api/c_helpers.h"
#include "tests/importer/model_builder.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using test::float_tensor, test::node, test::Owned, test::taken;

std::vector<float> drawn(std::size_t n, unsigned seed) {
  const Tensor noise = small_models::noise({static_cast<std::int64_t>(n)}, seed, 0.5F);
  const auto values = noise.values<float>();
  return {values.begin(), values.end()};
}

// Two layers with a normalization between; what lies before the second is an output, too.
class CAutograd : public testing::Test {
 protected:
  static constexpr std::int64_t batch = 8;

  CAutograd() : file_((folder_ / "model.onnx").string()), x_(drawn(batch * 4, 1)), t_(drawn(batch * 3, 2)) {
    test::Model m;
    m.input("x", "N,4").output("y").output("features");
    m.add(float_tensor("fc1.weight", {5, 4}, drawn(20, 3))).add(float_tensor("fc1.bias", {5}, drawn(5, 4)));
    m.add(float_tensor("bn.scale", {5}, {0.5F, 1, 1.5F, 2, 1})).add(float_tensor("bn.bias", {5}, drawn(5, 5)));
    m.add(test::filled_tensor("bn.mean", {5}, 0.1F)).add(test::filled_tensor("bn.var", {5}, 1));
    m.add(float_tensor("fc2.weight", {3, 5}, drawn(15, 6)));
    m.add(node("Gemm", {"x", "fc1.weight", "fc1.bias"}, {"a"}, {{"transB", std::int64_t{1}}}));
    m.add(node("BatchNormalization", {"a", "bn.scale", "bn.bias", "bn.mean", "bn.var"}, {"n"})).add(node("Relu", {"n"}, {"features"}));
    m.add(node("Gemm", {"features", "fc2.weight"}, {"y"}, {{"transB", std::int64_t{1}}}));
    test::write_file(file_, m.bytes());
  }

  static Owned<tandem_tensor> view(std::vector<std::int64_t> dims, const std::vector<float>& values) {
    tandem_tensor* t = nullptr;
    EXPECT_EQ(tandem_tensor_view(TANDEM_FLOAT32, static_cast<int>(dims.size()), dims.data(), values.data(), nullptr, nullptr, &t), 0)
        << tandem_last_error();
    return Owned<tandem_tensor>(t);
  }
  Owned<tandem_model> load(const std::string& file, const char* options = all) {
    tandem_model* m = nullptr;
    EXPECT_EQ(tandem_model_load(file.c_str(), options, &m), 0) << tandem_last_error();
    return Owned<tandem_model>(m);
  }
  static Owned<tandem_autograd> passes(tandem_model* m, int mode = TANDEM_TRAIN, const char* options = nullptr) {
    tandem_autograd* a = nullptr;
    const char* const inputs[] = {"x"};
    EXPECT_EQ(tandem_autograd_new(m, mode, options, inputs, 1, &a), 0) << tandem_last_error();
    return Owned<tandem_autograd>(a);
  }
  static std::vector<float> values(Owned<tandem_tensor> t) {
    const auto* const first = static_cast<const float*>(tandem_tensor_data(t.get()));
    return {first, first + tandem_tensor_bytes(t.get()) / sizeof(float)};
  }
  static std::vector<float> weight(const tandem_model* m, const char* name) {
    tandem_tensor* t = nullptr;
    EXPECT_EQ(tandem_model_get_weight(m, name, &t), 0) << tandem_last_error();
    return values(Owned<tandem_tensor>(t));
  }
  static std::vector<float> weight(const tandem_autograd* a, const char* name) {
    tandem_tensor* t = nullptr;
    EXPECT_EQ(tandem_autograd_get_weight(a, name, &t), 0) << tandem_last_error();
    return values(Owned<tandem_tensor>(t));
  }
  static std::vector<float> gradient(const tandem_autograd* a, const char* name) {
    tandem_tensor* t = nullptr;
    EXPECT_EQ(tandem_autograd_gradient(a, name, &t), 0) << tandem_last_error();
    return values(Owned<tandem_tensor>(t));
  }
  static void expect_near(const std::vector<float>& found, const std::vector<float>& wanted, const char* what) {
    ASSERT_EQ(found.size(), wanted.size()) << what;
    double distance = 0, norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) distance += std::pow(found[i] - wanted[i], 2), norm += std::pow(wanted[i], 2);
    EXPECT_LE(std::sqrt(distance), 1e-6 * std::sqrt(norm)) << what;
  }
  std::vector<float> forward(tandem_autograd* a, std::int64_t step = 1) {
    const Owned<tandem_tensor> x = view({batch, 4}, x_);
    const tandem_tensor* const inputs[] = {x.get()};
    tandem_tensor* y = nullptr;
    std::size_t outputs = 0;
    EXPECT_EQ(tandem_autograd_forward(a, inputs, 1, step, &y, 1, &outputs), 0) << tandem_last_error();
    EXPECT_EQ(outputs, 2U);
    return values(Owned<tandem_tensor>(y));
  }

  // One step of SGD by hand, of the mean square of y - t.
  void step(tandem_autograd* a, std::int64_t number, float rate) {
    std::vector<float> of_y = forward(a, number);
    for (std::size_t i = 0; i < of_y.size(); ++i) of_y[i] = 2 * (of_y[i] - t_[i]) / static_cast<float>(of_y.size());
    const Owned<tandem_tensor> g = view({batch, 3}, of_y);
    const tandem_tensor* const gradients[] = {g.get(), nullptr};
    OK(tandem_autograd_backward(a, gradients, 2));
    for (std::size_t i = 0; const char* const name = tandem_autograd_trained(a, i); ++i) {
      tandem_tensor* w = nullptr;
      OK(tandem_autograd_get_weight(a, name, &w));
      const Owned<tandem_tensor> owned(w);
      auto* const to = static_cast<float*>(tandem_tensor_write(w));
      const std::vector<float> dw = gradient(a, name);
      for (std::size_t k = 0; k < dw.size(); ++k) to[k] -= rate * dw[k];
      OK(tandem_autograd_set_weight(a, name, w));
    }
  }
  std::vector<std::string> trained(const tandem_autograd* a) {
    std::vector<std::string> names;
    while (const char* const name = tandem_autograd_trained(a, names.size())) names.emplace_back(name);
    return names;
  }

  static constexpr const char* all =
      R"({"batch-size": 8, "devices": "cpu", "autotune": false, "loss": "mse", "loss-on": "y", "momentum": 0})";
  static constexpr const char* weights[] = {"fc1.weight", "fc1.bias", "bn.scale", "bn.bias", "bn.mean", "bn.var", "fc2.weight"};
  test::TemporaryFolder folder_;
  std::string file_;
  std::vector<float> x_, t_;
};

TEST_F(CAutograd, ThreeStepsByHandAreThoseOfATraining) {
  const Owned<tandem_model> model = load(file_);
  const Owned<tandem_tensor> x = view({batch, 4}, x_), t = view({batch, 3}, t_);
  const tandem_tensor* const inputs[] = {x.get(), t.get()};
  for (int i = 0; i < 3; ++i) OK(tandem_model_train_on_batch(model.get(), inputs, 2, 0.1, nullptr));

  Owned<tandem_model> source = load(file_);
  const Owned<tandem_autograd> one = passes(source.get());
  const Owned<tandem_autograd> two = passes(source.get(), TANDEM_TRAIN, R"({"devices": "cpu:0-1", "sync-batch-norm": true})");
  source.reset();  // they need it no more
  for (tandem_autograd* const a : {one.get(), two.get()}) {
    for (int i = 1; i <= 3; ++i) step(a, i, 0.1F);
    for (const char* const name : weights) expect_near(weight(a, name), weight(model.get(), name), name);
    const std::string saved = (folder_ / "trained.onnx").string();
    OK(tandem_autograd_save(a, saved.c_str(), R"({"overwrite": true})"));
    const Owned<tandem_model> again = load(saved);
    const Owned<tandem_autograd> loaded = passes(again.get(), TANDEM_PREDICT);
    for (const char* const name : weights) EXPECT_EQ(weight(loaded.get(), name), weight(a, name)) << name;
  }
}

TEST_F(CAutograd, BeginsWithTheModelsWeightsAsTheyAre) {
  const Owned<tandem_model> model = load(file_);
  const Owned<tandem_tensor> x = view({batch, 4}, x_), t = view({batch, 3}, t_);
  const tandem_tensor* const inputs[] = {x.get(), t.get()};
  OK(tandem_model_train_on_batch(model.get(), inputs, 2, 0.1, nullptr));
  const Owned<tandem_autograd> a = passes(model.get(), TANDEM_EVAL);
  for (const char* const name : weights) EXPECT_EQ(weight(a.get(), name), weight(model.get(), name)) << name;
  forward(a.get());
  for (const char* const name : weights) EXPECT_EQ(weight(a.get(), name), weight(model.get(), name)) << name;
}

// By differences of the forward pass along a direction.
TEST_F(CAutograd, GivesTheGradientOfAnInput) {
  const Owned<tandem_model> model = load(file_);
  const Owned<tandem_autograd> a = passes(model.get(), TANDEM_EVAL);
  const std::vector<float> at = x_, direction = drawn(x_.size(), 9), of_y = drawn(batch * 3, 10);
  const auto moved = [&](float by) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = at[i] + by * direction[i];
    const std::vector<float> y = forward(a.get());
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * of_y[i];
    return sum;
  };
  const double wanted = (moved(1e-3F) - moved(-1e-3F)) / 2e-3;
  moved(0);
  const Owned<tandem_tensor> g = view({batch, 3}, of_y);
  const tandem_tensor* const gradients[] = {g.get()};
  OK(tandem_autograd_backward(a.get(), gradients, 1));
  double found = 0;
  const std::vector<float> dx = gradient(a.get(), "x");
  for (std::size_t i = 0; i < dx.size(); ++i) found += dx[i] * direction[i];
  EXPECT_NEAR(found, wanted, 2e-2 * std::abs(wanted));
}

TEST_F(CAutograd, FreezeSaysWhatHasAGradient) {
  const Owned<tandem_model> model = load(file_);
  EXPECT_EQ(trained(passes(model.get()).get()).size(), 5U);
  const Owned<tandem_autograd> a = passes(model.get(), TANDEM_TRAIN, R"({"freeze": "fc1*,bn*"})");
  EXPECT_EQ(trained(a.get()), std::vector<std::string>{"fc2.weight"});
  const std::vector<float> mean = weight(a.get(), "bn.mean");
  forward(a.get());
  EXPECT_EQ(weight(a.get(), "bn.mean"), mean) << "a normalization that is frozen stands still";
}

TEST_F(CAutograd, ThePlanSaysItsPasses) {
  const Owned<tandem_model> model = load(file_);
  char* text = nullptr;
  std::size_t size = 0;
  OK(tandem_autograd_plan(passes(model.get()).get(), "text", &text, &size));
  const std::string plan = taken(text);
  EXPECT_EQ(plan.size(), size);
  EXPECT_NE(plan.find("  passes          forward "), std::string::npos) << plan;
}

TEST_F(CAutograd, SaysWhatDoesNotFit) {
  const Owned<tandem_model> model = load(file_);
  tandem_autograd* none = nullptr;
  const char* const no_input[] = {"z"};
  FAILS(tandem_autograd_new(nullptr, TANDEM_TRAIN, nullptr, nullptr, 0, &none), TANDEM_USAGE, "the argument model is null");
  FAILS(tandem_autograd_new(model.get(), TANDEM_TRAIN, nullptr, nullptr, 1, &none), TANDEM_USAGE, "the argument inputs is null");
  FAILS(tandem_autograd_new(model.get(), 3, nullptr, nullptr, 0, &none), TANDEM_USAGE, "mode 3 is none of tandem_mode");
  FAILS(tandem_autograd_new(model.get(), TANDEM_TRAIN, nullptr, no_input, 1, &none), TANDEM_USAGE, "gradient of input 'z'");
  FAILS(tandem_autograd_new(model.get(), TANDEM_TRAIN, R"({"micro-batches": 2})", nullptr, 0, &none), TANDEM_USAGE, "micro_batches");
  FAILS(tandem_autograd_new(model.get(), TANDEM_TRAIN, R"({"bath-size": 2})", nullptr, 0, &none), TANDEM_USAGE, "did you mean batch_size?");
  tandem_model_stop(model.get());
  FAILS(tandem_autograd_new(model.get(), TANDEM_TRAIN, nullptr, nullptr, 0, &none), TANDEM_STOPPED, "stopped while planning");
  EXPECT_EQ(none, nullptr);

  const Owned<tandem_autograd> a = passes(model.get()), forward_alone = passes(model.get(), TANDEM_PREDICT);
  tandem_tensor* t = nullptr;
  std::size_t count = 0;
  const Owned<tandem_tensor> x = view({batch, 4}, x_), few = view({batch - 1, 4}, x_), w = view({2, 2}, x_);
  const tandem_tensor *const good[] = {x.get()}, *const bad[] = {few.get()}, *const three[] = {nullptr, nullptr, nullptr};
  FAILS(tandem_autograd_backward(a.get(), nullptr, 0), TANDEM_USAGE, "a backward pass needs the values of a forward pass");
  FAILS(tandem_autograd_gradient(a.get(), "fc2.weight", &t), TANDEM_USAGE, "no backward pass has given any yet");
  FAILS(tandem_autograd_forward(a.get(), good, 0, 1, &t, 1, &count), TANDEM_DATA, "a batch of 0 tensors for 1 inputs");
  FAILS(tandem_autograd_forward(a.get(), bad, 1, 1, &t, 1, &count), TANDEM_DATA, "expected float32[8,4], got float32[7,4]");
  FAILS(tandem_autograd_forward(a.get(), good, 1, 0, &t, 1, &count), TANDEM_USAGE, "step 0, expected 1 or more");
  forward(a.get());
  FAILS(tandem_autograd_backward(a.get(), three, 3), TANDEM_USAGE, "gradients of 3 outputs, the model has 2");
  FAILS(tandem_autograd_backward(a.get(), good, 1), TANDEM_DATA, "the gradient of output 'y': expected float32[8,3], got float32[8,4]");
  forward(a.get());
  OK(tandem_autograd_backward(a.get(), nullptr, 0));
  EXPECT_EQ(gradient(a.get(), "fc2.weight"), std::vector<float>(15));
  FAILS(tandem_autograd_gradient(a.get(), "bn.mean", &t), TANDEM_USAGE, "'bn.mean' has no gradient");
  FAILS(tandem_autograd_get_weight(a.get(), "fc3", &t), TANDEM_MODEL, "'fc3'");
  FAILS(tandem_autograd_set_weight(a.get(), "fc1.bias", w.get()), TANDEM_MODEL, "fc1.bias");
  FAILS(tandem_autograd_plan(a.get(), "poem", nullptr, nullptr), TANDEM_USAGE, "format 'poem'");
  FAILS(tandem_autograd_save(a.get(), nullptr, nullptr), TANDEM_USAGE, "the argument path is null");
  forward(forward_alone.get());
  FAILS(tandem_autograd_backward(forward_alone.get(), nullptr, 0), TANDEM_USAGE, "planned for its forward pass alone");
  EXPECT_EQ(tandem_autograd_trained(forward_alone.get(), 0), nullptr);
  tandem_autograd_free(nullptr);
}

}  // namespace
}  // namespace tandem
