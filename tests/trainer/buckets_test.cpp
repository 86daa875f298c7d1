// Samples of several lengths: lists that are filled up and masked, batches that are cut to the smallest size that holds them.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/feed/loader.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::float_tensor, test::int_tensor, test::node;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t words = 11, width = 8, samples = 45;

// Numbers without a pattern: rows of sines are taken for a filter bank.
std::vector<float> wave(std::int64_t n, double step) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(0.4 * std::sin(step * static_cast<double>((i + 1) * (i + 1)))));
  return values;
}

// ids, attention_mask [N,T] → the mean of tanh(table[id] · w) over what the mask leaves, · out; per_token: the scores of every place.
ModelFile model_of(bool per_token = false, std::int64_t positions = 0) {
  test::Model m;
  m.input("ids", "N,T", onnx::TensorProto::INT64).output("y");
  m.add(float_tensor("table", {words, width}, wave(words * width, 0.7))).add(float_tensor("w", {width, width}, wave(width * width, 1.3)));
  m.add(float_tensor("out", {width, per_token ? words : 2}, wave(width * (per_token ? words : 2), 2.1)));
  m.add(node("Gather", {"table", "ids"}, {"e"})).add(node("MatMul", {"e", "w"}, {"h"})).add(node("Tanh", {"h"}, {"t"}));
  if (positions > 0) {
    m.add(float_tensor("places", {1, positions, width}, wave(positions * width, 0.1)));
    m.add(node("Add", {"t", "places"}, {"p"}));
  }
  const std::string value = positions > 0 ? "p" : "t";
  if (per_token) {
    m.add(node("MatMul", {value, "out"}, {"y"}));
    return m.parse();
  }
  m.input("attention_mask", "N,T", onnx::TensorProto::INT64).add(int_tensor("one", {1}, {1})).add(int_tensor("two", {1}, {2}));
  m.add(node("Cast", {"attention_mask"}, {"f"}, {{"to", std::int64_t{onnx::TensorProto::FLOAT}}}))
      .add(node("Unsqueeze", {"f", "two"}, {"m"}));
  m.add(node("Mul", {value, "m"}, {"kept"})).add(node("ReduceSum", {"kept", "one"}, {"sum"}, {{"keepdims", std::int64_t{0}}}));
  m.add(node("ReduceSum", {"m", "one"}, {"count"}, {{"keepdims", std::int64_t{0}}}))
      .add(node("Div", {"sum", "count"}, {"mean"}))
      .add(node("MatMul", {"mean", "out"}, {"y"}));
  return m.parse();
}

// the first 16 take 4, the next 8, the others 16
std::int64_t length_of(std::int64_t i) { return i < 16 ? 1 + i % 4 : i < 32 ? 5 + i % 4 : 9 + i % 8; }
std::int64_t word(std::int64_t i, std::int64_t k) { return (i * 5 + k * 3) % words; }

// A line each: ids, and a class or a list of as many labels.
std::string lines(bool per_token) {
  std::string text;
  for (std::int64_t i = 0; i < samples; ++i) {
    std::string ids, labels;
    for (std::int64_t k = 0; k < length_of(i); ++k) {
      ids += concat(k ? "," : "", word(i, k));
      labels += concat(k ? "," : "", word(i, k + 1));
    }
    text += concat("{\"ids\": [", ids, "], \"label\": ", per_token ? concat("[", labels, "]") : concat(word(i, 0) % 2), "}\n");
  }
  return text;
}

ModelOptions options(bool buckets, const std::string& devices = "cpu") {
  ModelOptions o;
  o.plan.batch = 8;
  o.plan.devices = parse_devices(devices);
  o.init = "keep";
  if (buckets)
    o.buckets["T"] = {4, 8, 16};
  else
    o.dims["T"] = 16;
  return o;
}

struct Trained {
  std::vector<double> weights;
  double loss = 0;
  std::string found;
};
Trained train(ModelFile file, const std::string& spec, ModelOptions o, bool shuffle = false) {
  Model model(std::move(file));
  const Splits data = open_data(spec, model.data_request(o));
  model.source().fit_labels(o, *data.train);
  Trained result{.weights = {}, .found = model.source().check_data(*data.train, o, {})};
  model.compile(o, backends);
  result.loss = model.fit(*data.train, {.epochs = 2, .learning_rate = 0.2, .shuffle = shuffle}).epochs.back().loss;
  for (const NamedTensor& p : model.parameters())
    for (const double v : p.tensor.to_doubles()) result.weights.push_back(v);
  return result;
}
void expect_same(const Trained& a, const Trained& b) {
  EXPECT_NEAR(a.loss, b.loss, 1e-6);
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) ASSERT_NEAR(a.weights[i], b.weights[i], 2e-6) << i;
}

TEST(Buckets, CropTheFrontOfEveryTensor) {
  const Shape whole{2, 3, 4}, part{2, 2, 3};
  std::vector<std::int32_t> values(2 * 24);
  std::iota(values.begin(), values.end(), 0);
  auto* bytes = reinterpret_cast<std::byte*>(values.data());
  crop(bytes, bytes, 2, whole, part, sizeof(std::int32_t));
  std::size_t at = 0;
  for (const int n : {0, 1})
    for (const int i : {0, 1})
      for (const int j : {0, 1})
        for (const int k : {0, 1, 2}) EXPECT_EQ(values[at++], n * 24 + i * 12 + j * 4 + k);
}

TEST(Buckets, TrainAsTheLargestAlone) {
  const TemporaryFolder folder;
  folder.write("texts.jsonl", lines(false));
  const std::string spec = concat("jsonl:", (folder / "texts.jsonl").string());
  const Trained whole = train(model_of(), spec, options(false));
  for (const char* devices : {"cpu", "cpu:0-1"}) {
    const Trained cut = train(model_of(), spec, options(true, devices));
    EXPECT_EQ(cut.found, "samples by their length, after the data's lists: 16 of 4, 16 of 8, 13 of 16");
    expect_same(cut, whole);
  }
}

TEST(Buckets, LeaveOutWhatFillsLabelsUp) {
  const TemporaryFolder folder;
  folder.write("texts.jsonl", lines(true));
  const std::string spec = concat("jsonl:", (folder / "texts.jsonl").string());
  std::vector<Trained> all;
  for (const bool buckets : {false, true}) {
    ModelOptions o = options(buckets);
    o.plan.loss.ignore_index = -100;
    all.push_back(train(model_of(true), spec, o));
    o.plan.loss.class_axis = -1;
    o.plan.loss.shift_labels = true;  // the labels are the ids, one ahead: those of these lines but for the last place
    folder.write("ids.jsonl", [&] {
      std::string text = lines(true);
      for (std::size_t at; (at = text.find(", \"label\"")) != std::string::npos;) text.erase(at, text.find('\n', at) - at - 1);
      return text;
    }());
    all.push_back(train(model_of(true), concat("jsonl:", (folder / "ids.jsonl").string()), o));
  }
  expect_same(all[2], all[0]);
  expect_same(all[3], all[1]);
}

TEST(Buckets, TakeLengthsFromAMask) {
  MemoryDataset data("arrays");
  Tensor ids(TensorType{DType::int64, Shape{samples, 16}}), mask(TensorType{DType::int64, Shape{samples, 16}}),
      labels(TensorType{DType::int64, Shape{samples}});
  for (std::int64_t i = 0; i < samples; ++i) {
    labels.write<std::int64_t>()[static_cast<std::size_t>(i)] = word(i, 0) % 2;
    for (std::int64_t k = 0; k < 16; ++k) {
      ids.write<std::int64_t>()[static_cast<std::size_t>(16 * i + k)] = k < length_of(i) ? word(i, k) : 0;
      mask.write<std::int64_t>()[static_cast<std::size_t>(16 * i + k)] = k < length_of(i);
    }
  }
  mask.write<std::int64_t>()[0] = 0;  // padded in front, as far as one can tell
  data.add({.name = "ids"}, ids);
  data.add({.name = "attention_mask"}, mask);
  data.add({.name = "label", .role = Role::label}, labels);
  Model model(model_of());
  ModelOptions o = options(true);
  model.source().fit_labels(o, data);
  EXPECT_EQ(model.source().check_data(data, o, {}), "samples by their length, after 'attention_mask': 15 of 4, 16 of 8, 14 of 16");
}

TEST(Buckets, OrderKeepsSamplesOfABucketTogether) {
  auto needs = std::make_shared<std::vector<std::uint8_t>>();
  for (std::int64_t i = 0; i < 1003; ++i) needs->push_back(static_cast<std::uint8_t>(i % 3));
  const BatchOrder order{.samples = 1003, .batch = 10, .shuffle = true, .seed = 7, .buckets = needs};
  const std::vector<std::int64_t> epoch = order.epoch(1);
  EXPECT_EQ(epoch, order.epoch(1));
  EXPECT_NE(epoch, order.epoch(2));
  std::vector<std::int64_t> sorted = epoch;
  std::sort(sorted.begin(), sorted.end());
  for (std::int64_t i = 0; i < 1003; ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
  int mixed = 0, changes = 0;
  for (std::size_t b = 0; b < 100; ++b) {
    const auto bucket = [&](std::size_t i) { return (*needs)[static_cast<std::size_t>(epoch[i])]; };
    bool alike = true;
    for (std::size_t i = 1; i < 10; ++i) alike = alike && bucket(10 * b + i) == bucket(10 * b);
    mixed += !alike;
    changes += b > 0 && bucket(10 * b) != bucket(10 * b - 1);
  }
  EXPECT_LE(mixed, 6);    // two where buckets meet, in each of three parts
  EXPECT_GT(changes, 30);  // batches of a bucket do not follow each other
}

TEST(Buckets, TrainWhatIsShuffled) {
  const TemporaryFolder folder;
  folder.write("texts.jsonl", lines(false));
  const std::string spec = concat("jsonl:", (folder / "texts.jsonl").string());
  const Trained a = train(model_of(), spec, options(true), true), b = train(model_of(), spec, options(true, "cpu:0-2"), true);
  expect_same(a, b);
  EXPECT_LT(a.loss, 0.7);
}

TEST(Buckets, AreRefusedWhereTheyCannotBe) {
  Model fixed(model_of(false, 16));
  expect_error(ExitCode::model, "", [&] { fixed.source().check(options(true), backends); });  // 16 positions and 8 words do not add
  ModelOptions o = options(true);
  Model model(model_of());
  o.buckets["T"] = {8, 4};
  expect_error(ExitCode::usage, "option dims: the sizes of 'T' must rise", [&] { model.source().check(o, backends); });
  o.buckets = {{"N", {1, 2}}, {"T", {4, 8, 16}}};
  expect_error(ExitCode::usage, "option dims: 'T' has 3 sizes, 'N' 2", [&] { model.source().check(o, backends); });
}

TEST(Lists, OfSeveralLengthsAreFilledUpOrRefused) {
  const TemporaryFolder folder;
  const std::string path = (folder / "texts.jsonl").string();
  Model model(model_of());
  ModelOptions o = options(false);
  const auto open = [&](const std::string& text, const std::string& more = "") {
    folder.write("texts.jsonl", text);
    return open_data(concat("jsonl:", path, more), model.data_request(o)).train;
  };
  const auto read = [](const Dataset& data, std::size_t field) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(2 * data.fields()[field].sample.shape.elements())), both{0, 1};
    data.read(field, both, reinterpret_cast<std::byte*>(values.data()));
    return values;
  };
  o.dims["T"] = 4;
  const std::string two = "{\"ids\": [5, 6, 7], \"label\": 1}\n{\"ids\": [8], \"label\": 0}\n",
                    longer = two + "{\"ids\": [1, 2, 3, 4, 5], \"label\": 0}\n";
  const auto data = open(two);
  ASSERT_EQ(data->fields().size(), 3U);
  EXPECT_EQ(read(*data, 0), (std::vector<std::int64_t>{5, 6, 7, 0, 8, 0, 0, 0}));
  EXPECT_EQ(read(*data, 2), (std::vector<std::int64_t>{1, 1, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(data->length(0, 0), 3);
  EXPECT_EQ(data->length(0, 1), 1);
  EXPECT_EQ(read(*open(two, ",pad=9"), 0), (std::vector<std::int64_t>{5, 6, 7, 9, 8, 9, 9, 9}));
  EXPECT_EQ(read(*open(longer, ",truncate=on"), 0), (std::vector<std::int64_t>{5, 6, 7, 0, 8, 0, 0, 0}));
  expect_error(ExitCode::data, concat(path, ": line 3, column 'ids': a list of 5 numbers, the model takes 4: truncate=on"),
               [&] { open(longer); });
  expect_error(ExitCode::data, concat(path, ": line 2, column 'ids': a list of 1 numbers, those before have 3"),
               [&] { open("{\"ids\": [5, 6, 7], \"label\": 1}\n{\"ids\": 4, \"label\": 1}\n"); });
}

}  // namespace
}  // namespace tandem
