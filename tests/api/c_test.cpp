// The C API, called from C++: what it does is what the C++ API does, and what goes wrong comes as a code and a message.
#include "tandem/c.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "tandem/tandem.h"
#include "tests/api/c_helpers.h"
#include "tests/importer/model_builder.h"

namespace tandem {
namespace {

using test::Owned, test::taken;

// y = x w, 4 numbers to 3 classes.
class CApi : public testing::Test {
 protected:
  static constexpr std::int64_t samples = 24;

  CApi() : file_((folder_ / "model.onnx").string()), x_(samples * 4), y_(samples) {
    test::Model m;
    m.input("x", "N,4").add(test::float_tensor("w", {4, 3}, {.1F, .2F, .3F, -.1F, .4F, .2F, .5F, -.3F, .1F, .2F, .1F, -.2F}));
    m.add(test::node("MatMul", {"x", "w"}, {"y"}));
    test::write_file(file_, m.output("y").bytes());
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = std::sin(static_cast<float>(i));
    for (std::size_t i = 0; i < y_.size(); ++i) y_[i] = static_cast<std::int64_t>(i % 3);
  }

  Owned<tandem_tensor> view(int dtype, std::vector<std::int64_t> dims, const void* data) {
    tandem_tensor* t = nullptr;
    EXPECT_EQ(tandem_tensor_view(dtype, static_cast<int>(dims.size()), dims.data(), data, nullptr, nullptr, &t), 0) << tandem_last_error();
    return Owned<tandem_tensor>(t);
  }
  Owned<tandem_tensor> x(std::int64_t n = samples) { return view(TANDEM_FLOAT32, {n, 4}, x_.data()); }
  Owned<tandem_tensor> y(std::int64_t n = samples) { return view(TANDEM_INT64, {n}, y_.data()); }
  Owned<tandem_data> arrays() {
    const char* const names[] = {"x", "y"};
    const int roles[] = {TANDEM_INPUT, TANDEM_LABEL};
    const Owned<tandem_tensor> inputs = x(), labels = y();  // data keeps what it needs of them
    const tandem_tensor* const tensors[] = {inputs.get(), labels.get()};
    tandem_data* d = nullptr;
    EXPECT_EQ(tandem_data_from_arrays(2, names, roles, tensors, &d), 0) << tandem_last_error();
    return Owned<tandem_data>(d);
  }
  Owned<tandem_model> load(const char* options = options_of_all) {
    tandem_model* m = nullptr;
    EXPECT_EQ(tandem_model_load(file_.c_str(), options, &m), 0) << tandem_last_error();
    return Owned<tandem_model>(m);
  }
  static std::vector<float> weight(const tandem_model* m) {
    tandem_tensor* w = nullptr;
    EXPECT_EQ(tandem_model_get_weight(m, "w", &w), 0) << tandem_last_error();
    const Owned<tandem_tensor> owned(w);
    const auto* const values = static_cast<const float*>(tandem_tensor_data(w));
    return {values, values + tandem_tensor_bytes(w) / sizeof(float)};
  }

  static constexpr const char* options_of_all = R"({"batch-size": 8, "devices": "cpu:0-1", "autotune": false, "lr": 0.1, "momentum": 0.9})";
  test::TemporaryFolder folder_;
  std::string file_;

 public:  // a callback reads them
  std::vector<float> x_;
  std::vector<std::int64_t> y_;
};

TEST_F(CApi, TrainsAsTheCppApiDoes) {
  const Owned<tandem_model> m = load();
  const Owned<tandem_data> data = arrays();
  char* history = nullptr;
  OK(tandem_model_fit(m.get(), data.get(), data.get(), R"({"epochs": 3})", nullptr, &history));
  const Json report = Json::parse(taken(history));
  EXPECT_EQ(report.at("steps").integer(), 9);
  EXPECT_FALSE(report.at("stopped").boolean());
  EXPECT_LT(report.at("epochs").array()[2].at("val_loss").number(), report.at("epochs").array()[0].at("val_loss").number());

  auto memory = std::make_unique<MemoryDataset>("arrays");
  memory->add({.name = "x"}, Tensor::of(Shape{samples, 4}, std::span<const float>(x_)));
  memory->add({.name = "y", .role = Role::label}, Tensor::of(Shape{samples}, std::span<const std::int64_t>(y_)));
  Options options = Options::parse(options_of_all);
  options.set("epochs", 3);
  Model model = Model::load(file_, options.weights());
  RunOptions run = options.run(model, backends());
  run.splits.train = std::move(memory);
  const Prepared p = prepare(model, std::move(run), backends());
  model.compile(p.options, backends());
  model.fit(*p.data.train, p.fit);
  const Tensor expected = model.parameter("w");
  const auto values = expected.values<float>();
  EXPECT_EQ(weight(m.get()), std::vector<float>(values.begin(), values.end()));
}

TEST_F(CApi, MeasuresUsesAndSaves) {
  const Owned<tandem_model> m = load();
  const Owned<tandem_data> data = arrays();
  char *untrained = nullptr, *trained = nullptr, *again = nullptr;
  OK(tandem_model_evaluate(m.get(), data.get(), R"({"metrics": ["f1"]})", &untrained));
  OK(tandem_model_fit(m.get(), data.get(), nullptr, R"({"epochs": 4})", nullptr, nullptr));
  OK(tandem_model_evaluate(m.get(), data.get(), R"({"metrics": "f1"})", &trained));
  const Json before = Json::parse(taken(untrained)), after = Json::parse(taken(trained));
  EXPECT_EQ(after.at("samples").integer(), samples);
  EXPECT_LT(after.at("loss").number(), before.at("loss").number());
  EXPECT_TRUE(after.at("metrics").find("f1"));
  const std::string saved = (folder_ / "trained.onnx").string();
  OK(tandem_model_save(m.get(), saved.c_str(), R"({"metadata": false})"));

  tandem_model* other = nullptr;
  OK(tandem_model_load(saved.c_str(), options_of_all, &other));
  const Owned<tandem_model> reloaded(other);
  OK(tandem_model_evaluate(other, data.get(), nullptr, &again));
  EXPECT_NEAR(Json::parse(taken(again)).at("loss").number(), after.at("loss").number(), 1e-6);
  tandem_tensor *now = nullptr, *then = nullptr;
  std::size_t count = 0;
  OK(tandem_model_predict(m.get(), data.get(), nullptr, &now, 1, &count));
  const Owned<tandem_tensor> first(now);
  EXPECT_EQ(count, 1U);
  OK(tandem_model_predict(other, data.get(), nullptr, &then, 1, &count));
  const Owned<tandem_tensor> second(then);
  ASSERT_EQ(tandem_tensor_rank(now), 2);
  EXPECT_EQ(tandem_tensor_dims(now)[0], samples);
  for (std::size_t i = 0; i < samples * 3; ++i)
    EXPECT_NEAR(static_cast<const float*>(tandem_tensor_data(now))[i], static_cast<const float*>(tandem_tensor_data(then))[i], 1e-6);
}

TEST_F(CApi, CallbacksHearOfStepsAndEndThem) {
  struct Heard {
    std::vector<double> rates, losses;
    int epochs = 0, ends_at = 0;
  } heard;
  tandem_callbacks callbacks{sizeof callbacks, &heard, nullptr, nullptr, nullptr, nullptr};
  callbacks.on_step = [](void* context, const tandem_step* step) {
    auto& h = *static_cast<Heard*>(context);
    h.rates.push_back(step->learning_rate);
    h.losses.push_back(step->loss);
    return static_cast<int>(static_cast<int>(h.rates.size()) == h.ends_at);
  };
  callbacks.on_epoch = [](void* context, const tandem_epoch* epoch) {
    ++static_cast<Heard*>(context)->epochs;
    return static_cast<int>(Json::parse(epoch->json).at("loss").number() != epoch->loss);
  };
  const Owned<tandem_model> m = load();
  const Owned<tandem_data> data = arrays();
  callbacks.learning_rate = [](void*, std::int64_t step, double scheduled) { return scheduled / static_cast<double>(step); };
  OK(tandem_model_fit(m.get(), data.get(), nullptr, R"({"epochs": 2})", &callbacks, nullptr));
  EXPECT_EQ(heard.epochs, 2);
  EXPECT_EQ(heard.rates, (std::vector<double>{0.1, 0.1 / 2, 0.1 / 3, 0.1 / 4, 0.1 / 5, 0.1 / 6}));
  for (const double loss : heard.losses) EXPECT_TRUE(std::isfinite(loss));

  heard = {.ends_at = 2};
  char* history = nullptr;
  OK(tandem_model_fit(m.get(), data.get(), nullptr, R"({"epochs": 2})", &callbacks, &history));
  const Json report = Json::parse(taken(history));
  EXPECT_TRUE(report.at("stopped").boolean());
  EXPECT_EQ(report.at("steps").integer(), 2);

  callbacks.learning_rate = [](void*, std::int64_t, double) { return std::nan(""); };
  FAILS(tandem_model_fit(m.get(), data.get(), nullptr, nullptr, &callbacks, nullptr), TANDEM_USAGE, "learning rate nan of step 1");
  callbacks.bytes = 8;
  FAILS(tandem_model_fit(m.get(), data.get(), nullptr, nullptr, &callbacks, nullptr), TANDEM_USAGE, "tandem_callbacks of 8 bytes");
}

TEST_F(CApi, StopsFromAnotherThread) {
  const Owned<tandem_model> m = load();
  const Owned<tandem_data> data = arrays();
  tandem_callbacks callbacks{sizeof callbacks, m.get(), nullptr, nullptr, nullptr, nullptr};
  callbacks.on_step = [](void* context, const tandem_step* step) {
    if (step->step == 3) std::thread([context] { tandem_model_stop(static_cast<tandem_model*>(context)); }).join();
    return 0;
  };
  char* history = nullptr;
  OK(tandem_model_fit(m.get(), data.get(), nullptr, R"({"epochs": 100000})", &callbacks, &history));
  const Json report = Json::parse(taken(history));
  EXPECT_TRUE(report.at("stopped").boolean());
  EXPECT_LE(report.at("steps").integer(), 4);
  OK(tandem_model_fit(m.get(), data.get(), nullptr, R"({"epochs": 1})", nullptr, &history));
  EXPECT_FALSE(Json::parse(taken(history)).at("stopped").boolean()) << "it ends one fit alone";
  const Owned<tandem_model> fresh = load();
  tandem_model_stop(fresh.get());
  FAILS(tandem_model_fit(fresh.get(), data.get(), nullptr, nullptr, nullptr, nullptr), TANDEM_STOPPED, "stopped while planning");
}

TEST_F(CApi, TakesBatchesAndGivesWeights) {
  const Owned<tandem_model> m = load();
  const Owned<tandem_tensor> inputs = x(8), labels = y(8);
  const tandem_tensor* const batch[] = {inputs.get(), labels.get()};
  tandem_step report{sizeof report, 0, 0, 0, 0, 0, 0, 0, 0};
  OK(tandem_model_train_on_batch(m.get(), batch, 2, -1, &report));
  EXPECT_EQ(report.samples, 8);
  const double first = report.loss;
  for (int i = 0; i < 20; ++i) OK(tandem_model_train_on_batch(m.get(), batch, 2, 0.1, &report));
  EXPECT_LT(report.loss, first);

  char* text = nullptr;
  OK(tandem_model_test_on_batch(m.get(), batch, 2, &text));
  EXPECT_LT(Json::parse(taken(text)).at("loss").number(), first);
  OK(tandem_model_weights_json(m.get(), &text));
  EXPECT_EQ(taken(text), R"([{"name":"w","dtype":1,"dims":[4,3]}])");
  tandem_tensor *gradient = nullptr, *scores = nullptr, *zeros = nullptr;
  OK(tandem_model_gradient(m.get(), batch, 2, "w", &gradient));
  EXPECT_EQ(tandem_tensor_bytes(gradient), 48U);
  tandem_tensor_free(gradient);
  const std::int64_t dims[] = {4, 3};
  OK(tandem_tensor_new(TANDEM_FLOAT32, 2, dims, &zeros));
  OK(tandem_model_set_weight(m.get(), "w", zeros));
  tandem_tensor_free(zeros);
  EXPECT_EQ(weight(m.get()), std::vector<float>(12));
  std::size_t outputs = 0;
  OK(tandem_model_predict_on_batch(m.get(), batch, 1, &scores, 1, &outputs));
  EXPECT_EQ(static_cast<const float*>(tandem_tensor_data(scores))[0], 0);
  tandem_tensor_free(scores);
  FAILS(tandem_model_get_weight(m.get(), "v", &scores), TANDEM_MODEL, "'v'");
  FAILS(tandem_model_train_on_batch(m.get(), batch, 1, 0.1, nullptr), TANDEM_DATA, "a batch of 1 tensors for 2 inputs");
}

TEST_F(CApi, PlansInAllForms) {
  const Owned<tandem_model> m = load();
  const std::pair<const char*, const char*> forms[] = {
      {"text", "8 over 2 devices"}, {"summary", "8 over 2 devices"}, {"json", "{"}, {"dot", "digraph"},
      {"mermaid", "flowchart"},    {"svg", "<svg"},               {"html", "<"}, {"perfetto", "traceEvents"}};
  for (const auto& [form, held] : forms) {
    char* text = nullptr;
    std::size_t size = 0;
    OK(tandem_model_plan(m.get(), form, nullptr, &text, &size));
    const std::string plan = taken(text);
    EXPECT_NE(plan.find(held), std::string::npos) << form;
    EXPECT_EQ(plan.size(), size) << form;
  }
  char* text = nullptr;
  OK(tandem_model_compile(m.get(), nullptr, nullptr, R"({"batch-size": 16})"));
  OK(tandem_model_plan(m.get(), "summary", nullptr, &text, nullptr));
  EXPECT_NE(taken(text).find("16 over 2 devices"), std::string::npos);
  OK(tandem_model_config_json(m.get(), &text));
  EXPECT_EQ(Json::parse(taken(text)).at("batch").integer(), 16);
  OK(tandem_model_summary_json(m.get(), &text));
  EXPECT_EQ(Json::parse(taken(text)).at("parameters").integer(), 12);
  OK(tandem_model_notes_json(m.get(), &text));
  EXPECT_TRUE(Json::parse(taken(text)).is_array());
  FAILS(tandem_model_plan(m.get(), "poem", nullptr, &text, nullptr), TANDEM_USAGE, "format 'poem': expected text, summary");
}

// What a checkpoint holds is what a run goes on from.
TEST_F(CApi, KeepsACheckpoint) {
  const Owned<tandem_model> whole = load(), begun = load(), resumed = load();
  const Owned<tandem_data> data = arrays();
  const std::string run = (folder_ / "run").string();
  FAILS(tandem_model_checkpoint(begun.get(), run.c_str()), TANDEM_USAGE, "there was none");
  OK(tandem_model_fit(whole.get(), data.get(), nullptr, R"({"epochs": 4})", nullptr, nullptr));
  OK(tandem_model_fit(begun.get(), data.get(), nullptr, R"({"epochs": 2})", nullptr, nullptr));
  OK(tandem_model_checkpoint(begun.get(), run.c_str()));
  OK(tandem_model_fit(resumed.get(), data.get(), nullptr, concat(R"({"epochs": 4, "resume": true, "run-dir": ")", run, "\"}").c_str(),
                      nullptr, nullptr));
  EXPECT_EQ(weight(resumed.get()), weight(whole.get()));
}

TEST_F(CApi, ReadsSamplesByACallback) {
  struct Source {
    const CApi* test;
    int released = 0, fails = 0;
  } source{this};
  const std::int64_t four[] = {4};
  const tandem_field fields[] = {{"x", TANDEM_INPUT, TANDEM_FLOAT32, 1, four}, {"y", TANDEM_LABEL, TANDEM_INT64, 0, nullptr}};
  const tandem_read read = [](void* context, std::size_t field, const std::int64_t* wanted, std::size_t count, void* to) {
    const auto& s = *static_cast<const Source*>(context);
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(wanted[i]);
      if (field == 0) std::memcpy(static_cast<float*>(to) + 4 * i, s.test->x_.data() + 4 * at, 16);
      if (field == 1) static_cast<std::int64_t*>(to)[i] = s.test->y_[at];
    }
    return field == 1 ? s.fails : 0;
  };
  tandem_data* d = nullptr;
  OK(tandem_data_from_callback(
      "mine", samples, 2, fields, read, [](void* c) { ++static_cast<Source*>(c)->released; }, &source, &d));
  Owned<tandem_model> by_callback = load(), by_arrays = load();
  OK(tandem_model_fit(by_callback.get(), d, nullptr, nullptr, nullptr, nullptr));
  const Owned<tandem_data> data = arrays();
  OK(tandem_model_fit(by_arrays.get(), data.get(), nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(weight(by_callback.get()), weight(by_arrays.get()));
  source.fails = 7;
  FAILS(tandem_model_fit(by_callback.get(), d, nullptr, nullptr, nullptr, nullptr), TANDEM_DATA,
        "mine: reading 'y' has failed, the callback has returned 7");
  tandem_data_free(d);
  by_callback.reset();
  EXPECT_EQ(source.released, 1);
}

TEST_F(CApi, TakesSamplesAsAnIteratorGivesThem) {
  struct Source {
    const CApi* test;
    std::size_t at = 0, most = 0;  // the next sample; how many there are
    int released = 0;
  } source{this, 0, 2 * samples};
  const std::int64_t four[] = {4};
  const tandem_field fields[] = {{"x", TANDEM_INPUT, TANDEM_FLOAT32, 1, four}, {"y", TANDEM_LABEL, TANDEM_INT64, 0, nullptr}};
  const tandem_next next = [](void* context, std::size_t count, void* const* to) {
    auto& s = *static_cast<Source*>(context);
    if (s.at + count > s.most) return 3;
    for (std::size_t i = 0; i < count; ++i, ++s.at) {
      std::memcpy(static_cast<float*>(to[0]) + 4 * i, s.test->x_.data() + 4 * (s.at % samples), 16);
      static_cast<std::int64_t*>(to[1])[i] = s.test->y_[s.at % samples];
    }
    return 0;
  };
  tandem_data* d = nullptr;
  const auto release = [](void* c) { ++static_cast<Source*>(c)->released; };
  FAILS(tandem_data_from_iterator("mine", samples, 2, fields, nullptr, release, &source, &d), TANDEM_USAGE, "is null");
  EXPECT_EQ(source.released, 0);
  OK(tandem_data_from_iterator("mine", samples, 2, fields, next, release, &source, &d));
  Owned<tandem_model> by_iterator = load(), by_arrays = load();
  constexpr const char* epochs = R"({"epochs": 2, "shuffle": false, "batch-size": 9, "devices": "cpu:0-1"})";  // the last batch is short
  OK(tandem_model_fit(by_iterator.get(), d, nullptr, epochs, nullptr, nullptr));
  const Owned<tandem_data> data = arrays();
  OK(tandem_model_fit(by_arrays.get(), data.get(), nullptr, epochs, nullptr, nullptr));
  EXPECT_EQ(weight(by_iterator.get()), weight(by_arrays.get()));
  EXPECT_EQ(source.at, source.most) << "none is drawn beyond the last epoch";
  FAILS(tandem_model_fit(by_iterator.get(), d, nullptr, nullptr, nullptr, nullptr), TANDEM_DATA,
        "mine: reading the next 9 samples has failed, the callback has returned 3");
  Owned<tandem_model> other = load();
  for (const char* const options : {R"({"validation-split": 0.5})", R"({"normalize": "auto"})", R"({"class-weights": "balanced"})"})
    FAILS(tandem_model_fit(other.get(), d, nullptr, options, nullptr, nullptr), TANDEM_USAGE, "looks at all of them first");
  source.at = 0;
  y_[20] = 5;
  FAILS(tandem_model_fit(other.get(), d, nullptr, nullptr, nullptr, nullptr), TANDEM_DATA, "mine: sample 20 has label 5");
  tandem_data_free(d);
  by_iterator.reset();
  other.reset();
  EXPECT_EQ(source.released, 1);
}

TEST_F(CApi, SaysWhatWentWrong) {
  tandem_model* none = nullptr;
  FAILS(tandem_model_load((folder_ / "gone.onnx").c_str(), nullptr, &none), TANDEM_IO, "gone.onnx");
  FAILS(tandem_model_load(file_.c_str(), "{\"lr\"", &none), TANDEM_USAGE, "JSON");
  FAILS(tandem_model_load(file_.c_str(), R"({"batchsize": 1})", &none), TANDEM_USAGE, "did you mean batch_size?");
  FAILS(tandem_model_load(nullptr, nullptr, &none), TANDEM_USAGE, "the argument path is null");
  FAILS(tandem_model_load(file_.c_str(), nullptr, nullptr), TANDEM_USAGE, "the argument out is null");
  EXPECT_EQ(none, nullptr);
  FAILS(tandem_model_fit(nullptr, nullptr, nullptr, nullptr, nullptr, nullptr), TANDEM_USAGE, "the argument model is null");
  const Owned<tandem_model> m = load();
  const Owned<tandem_data> data = arrays();
  FAILS(tandem_model_fit(m.get(), nullptr, nullptr, nullptr, nullptr, nullptr), TANDEM_USAGE, "option data is missing");
  FAILS(tandem_model_save(m.get(), "x.onnx", nullptr), TANDEM_USAGE, "");
  FAILS(tandem_model_fit(m.get(), data.get(), nullptr, R"({"data": "random"})", nullptr, nullptr), TANDEM_USAGE, "give one of them");
  OK(tandem_model_fit(m.get(), data.get(), nullptr, nullptr, nullptr, nullptr));
  FAILS(tandem_model_fit(m.get(), data.get(), nullptr, R"({"precision": "bf16"})", nullptr, nullptr), TANDEM_USAGE,
        "option precision is none of a fit's");
  FAILS(tandem_model_save(m.get(), "x.onnx", R"({"metadat": false})"), TANDEM_USAGE, "did you mean metadata?");
  std::thread([] { EXPECT_EQ(std::string(tandem_last_error()), ""); }).join();
  EXPECT_NE(std::string(tandem_last_error()), "");
}

TEST_F(CApi, ListsOptionsAndDevices) {
  char* text = nullptr;
  OK(tandem_options_json("train", &text));
  EXPECT_GT(Json::parse(taken(text)).array().size(), 100U);
  FAILS(tandem_options_json("dance", &text), TANDEM_USAGE, "purpose 'dance'");
  OK(tandem_devices_json(&text));
  EXPECT_EQ(Json::parse(taken(text)).array()[0].at("device").text(), "cpu:0");
  EXPECT_EQ(tandem_abi_version(), TANDEM_ABI_VERSION);
  EXPECT_EQ(std::count(tandem_version(), tandem_version() + std::strlen(tandem_version()), '.'), 2);
}

}  // namespace
}  // namespace tandem
