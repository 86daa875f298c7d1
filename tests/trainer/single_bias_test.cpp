// A recurrence of Keras's layers has one bias: of the two that tf2onnx writes the second stays zero while the first trains.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/backend.h"
#include "tests/importer/model_builder.h"
#include "tests/trainer/temporary_folder.h"
#include "trainer/model.h"

namespace tandem {
namespace {

using test::node;
constexpr std::int64_t steps = 3, features = 2, units = 2, samples = 4;

struct Case {
  const char* what;
  const char* op = "LSTM";
  std::int64_t gates = 4;
  const char* producer = "tf2onnx";
  float second = 0;  // of its second bias
  std::vector<std::string> trainable = {};
  std::int64_t linear_before_reset = 0;
  bool stays = true;
};
const Case cases[] = {
    {.what = "Keras's LSTM"},
    {.what = "Keras's GRU", .op = "GRU", .gates = 3},
    {.what = "Keras's GRU with reset_after", .op = "GRU", .gates = 3, .linear_before_reset = 1, .stays = false},
    {.what = "another exporter's", .producer = "pytorch", .stays = false},
    {.what = "a second bias that is none", .second = 0.1F, .stays = false},
    {.what = "you said so", .trainable = {"B"}, .stays = false},
};

std::vector<float> waves(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 0.5F * std::sin(static_cast<float>(i) + 1);
  return v;
}

ModelFile file_of(const Case& c) {
  const std::int64_t rows = c.gates * units;
  std::vector<float> bias = waves(2 * rows);
  std::fill(bias.begin() + rows, bias.end(), c.second);
  test::AttributeList attributes{{"hidden_size", units}};
  if (c.op == std::string("GRU")) attributes.push_back({"linear_before_reset", c.linear_before_reset});
  test::Model m;
  m.proto.set_producer_name(c.producer);
  m.input("x", concat("N,", steps, ",", features)).output("y");
  m.add(test::float_tensor("W", {1, rows, features}, waves(rows * features)))
      .add(test::float_tensor("R", {1, rows, units}, waves(rows * units)));
  m.add(test::float_tensor("B", {1, 2 * rows}, bias)).add(test::int_tensor("one", {1}, {0}));
  m.add(node("Transpose", {"x"}, {"t"}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}}))
      .add(node(c.op, {"t", "W", "R", "B"}, {"all", "last"}, attributes));
  m.add(node("Squeeze", {"last", "one"}, {"y"}));
  return ModelFile::parse(m.bytes(), {}, {.trainable = c.trainable});
}

TEST(SingleBias, OfKerasTrainsAsOne) {
  const Backend* const backends[] = {&cpu_backend()};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    ModelOptions o;
    o.plan.batch = samples;
    o.plan.devices = parse_devices("cpu:0");
    o.init = "keep";
    Model model(file_of(c));
    const auto bias = [&] {
      for (const NamedTensor& t : model.parameters())
        if (t.name == "B") return t.tensor.to_doubles();
      return std::vector<double>{};
    };
    model.compile(o, backends);
    const std::vector<double> before = bias();
    const std::vector<Tensor> batch{Tensor::of<float>({samples, steps, features}, waves(samples * steps * features)),
                                    Tensor::of<std::int64_t>({samples}, std::vector<std::int64_t>{0, 1, 1, 0})};
    model.train_on_batch(batch, 0.1);
    const std::vector<double> after = bias();
    ASSERT_EQ(after.size(), static_cast<std::size_t>(2 * c.gates * units));
    const std::size_t half = after.size() / 2;
    bool moved = false;
    for (std::size_t k = 0; k < half; ++k) {
      EXPECT_NE(after[k], before[k]) << k;
      moved = moved || after[half + k] != before[half + k];
    }
    EXPECT_EQ(moved, !c.stays);
  }
}

}  // namespace
}  // namespace tandem
