// Models in which each sample is convolved by filters of its own (CondConv, StyleGAN2), as exporters write them: the samples are
// groups of channels. In any batch and on any number of devices they compute what they do in the file's batch.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::node;
using List = std::vector<std::int64_t>;

const Backend* const backends[] = {&cpu_backend()};
constexpr std::int64_t held = 2, samples = 6, channels = 4, filters = 6, size = 5;  // held: in the file's batch

struct Row {
  const char* name;
  const char* op;
  std::int64_t groups;  // of a sample
  List window;          // the filter's axes
  bool constant;        // what is convolved is the same for all samples: StyleGAN2's first
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
const Row rows[] = {
    {"convolved", "Conv", 1, {3, 3}, false},
    {"convolved_in_groups", "Conv", 2, {3, 3}, false},
    {"pointwise", "Conv", 1, {1, 1}, false},
    {"transposed", "ConvTranspose", 1, {3, 3}, false},
    {"of_one_constant", "Conv", 1, {3, 3}, true},
};

test::Model file_of(const Row& row) {
  const std::int64_t kernel = row.window[0] * row.window[1];
  const bool transposed = row.op == std::string("ConvTranspose");
  std::int64_t seed = 0;
  const auto waves = [&](const std::string& name, const List& dims) {
    std::vector<float> v(static_cast<std::size_t>(Shape(dims).elements()));
    for (float& x : v) x = 0.4F * std::sin(1.3F * static_cast<float>(++seed));
    return test::float_tensor(name, dims, v);
  };
  test::Model m;
  m.input("x", concat(held, ",", channels, ",", size, ",", size)).output("y");
  const auto reshape = [&](const std::string& from, const std::string& to, const List& shape) {
    m.add(test::int_tensor(to + ".shape", {static_cast<std::int64_t>(shape.size())}, shape))
        .add(node("Reshape", {from, to + ".shape"}, {to}));
  };
  m.add(node("GlobalAveragePool", {"x"}, {"p"}));
  reshape("p", "q", {held, channels});
  m.add(waves("w", {channels, filters * channels / row.groups * kernel})).add(node("MatMul", {"q", "w"}, {"f"}));
  List shape = transposed ? List{held * channels, filters / row.groups} : List{held * filters, channels / row.groups};
  shape.insert(shape.end(), row.window.begin(), row.window.end());
  reshape("f", "own", shape);
  if (row.constant) {
    onnx::TensorProto start = waves("start", {1, channels, size, size});
    m.add(start).add(test::int_tensor("all", {4}, {held, channels, size, size})).add(node("Expand", {"start", "all"}, {"image"}));
  }
  reshape(row.constant ? "image" : "x", "side_by_side", {1, held * channels, size, size});
  m.add(
      node(row.op, {"side_by_side", "own"}, {"c"}, {{"group", held * row.groups}, {"kernel_shape", row.window}, {"strides", List{2, 2}}}));
  const std::int64_t out = transposed ? (size - 1) * 2 + row.window[0] : (size - row.window[0]) / 2 + 1;
  reshape("c", "images", {held, filters, out, out});
  m.add(node("Tanh", {"images"}, {"t"})).add(node("GlobalAveragePool", {"t"}, {"g"}));
  reshape("g", "rows", {held, filters});
  m.add(waves("head", {filters, 3})).add(node("MatMul", {"rows", "head"}, {"y"}));
  return m;
}

Model model_of(const Row& row, std::int64_t batch, const char* devices, const char* weights = "") {
  ModelOptions o;
  o.plan.batch = batch;
  o.plan.devices = parse_devices(devices, weights);
  o.init = "keep";
  Model model(file_of(row).parse());
  model.compile(o, backends);
  return model;
}

Tensor images(std::int64_t first, std::int64_t n) {
  constexpr std::int64_t each = channels * size * size;
  std::vector<float> x(static_cast<std::size_t>(n * each));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37F * static_cast<float>(first * each + static_cast<std::int64_t>(i)));
  return Tensor::of<float>({n, channels, size, size}, x);
}

std::vector<double> losses(Model model) {
  const std::vector<Tensor> batch{images(0, samples), Tensor::of<std::int64_t>({samples}, std::vector<std::int64_t>{0, 1, 2, 2, 1, 0})};
  std::vector<double> list;
  for (int step = 0; step < 4; ++step) list.push_back(model.train_on_batch(batch, 0.5).loss);
  return list;
}

class OwnFilters : public testing::TestWithParam<Row> {};

TEST_P(OwnFilters, AreEachSamplesInAnyBatch) {
  Model whole = model_of(GetParam(), samples, "cpu:0"), as_held = model_of(GetParam(), held, "cpu:0");
  const Tensor x = images(0, samples);
  const std::vector<double> y = whole.predict_on_batch({&x, 1})[0].to_doubles();
  for (std::int64_t first = 0; first < samples; first += held) {
    const Tensor part = images(first, held);
    const std::vector<double> want = as_held.predict_on_batch({&part, 1})[0].to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(y[static_cast<std::size_t>(first) * 3 + i], want[i], 1e-6) << "sample " << first << ", " << i;
  }
}

TEST_P(OwnFilters, TrainAlikeOnAnyNumberOfDevices) {
  const std::vector<double> one = losses(model_of(GetParam(), samples, "cpu:0"));
  EXPECT_LT(one.back(), one.front());
  for (const char* weights : {"1,1", "2,1"}) {
    const std::vector<double> several = losses(model_of(GetParam(), samples, "cpu:0-1", weights));
    for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(several[i], one[i], 1e-5) << weights << ", step " << i;
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, OwnFilters, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tandem
