// What prepares data by its place in the graph, and filter banks by their values: not trained, and named in a warning; what looks like it
// and is learnt still trains.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>

#include "tests/importer/model_builder.h"

namespace tandem::test {
namespace {

std::vector<float> drawn(std::int64_t n, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<float>(random() >> 8) / 8388608.0F - 1);
  return values;
}
onnx::TensorProto held(const std::string& name, const std::vector<std::int64_t>& dims, unsigned seed = 1) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return float_tensor(name, dims, drawn(n, seed));
}

std::string value(const std::string& op, Model& m, const Names& inputs, const AttributeList& attributes = {}) {
  const std::string out = concat("v", m.proto.graph().node_size());
  m.add(node(op, inputs, {out}, attributes));
  return out;
}
// a layer over `in` [N,8] with a weight `w` and a bias `b`
std::string layer(Model& m, const std::string& in, const std::string& w = "w", const std::string& b = "b") {
  m.add(held(w, {8, 8}, 3)).add(held(b, {8}, 4));
  return value("Add", m, {value("MatMul", m, {in, w}), b});
}
void end(Model& m, const std::string& from) { m.add(node("Identity", {from}, {"y"})); }

// Columns at right angles: what a rotation in each plane of a product leaves.
std::vector<float> rotation(int n) {
  std::vector<double> q(static_cast<std::size_t>(n * n));
  for (int i = 0; i < n; ++i) q[static_cast<std::size_t>(i * n + i)] = 1;
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < a; ++b)
      for (int r = 0; r < n; ++r) {
        double &u = q[static_cast<std::size_t>(r * n + a)], &v = q[static_cast<std::size_t>(r * n + b)];
        const double angle = 0.3 + a + 0.7 * b, x = std::cos(angle) * u - std::sin(angle) * v;
        v = std::sin(angle) * u + std::cos(angle) * v;
        u = x;
      }
  return {q.begin(), q.end()};
}

enum class Window { none, hann, hamming, blackman };
// [2 * frequencies, n]: cosines and sines.
std::vector<double> fourier(int n, Window window) {
  std::vector<double> rows;
  for (const bool sine : {false, true})
    for (int k = 0; k <= n / 2; ++k)
      for (int i = 0; i < n; ++i) {
        const double turn = 2 * std::numbers::pi * i / n, angle = turn * k;
        const double w = window == Window::hann       ? 0.5 - 0.5 * std::cos(turn)
                         : window == Window::hamming  ? 0.54 - 0.46 * std::cos(turn)
                         : window == Window::blackman ? 0.42 - 0.5 * std::cos(turn) + 0.08 * std::cos(2 * turn)
                                                      : 1;
        rows.push_back(w * (sine ? std::sin(angle) : std::cos(angle)));
      }
  return rows;
}
std::vector<float> off_by(const std::vector<double>& values, double share) {
  std::vector<float> v;
  const std::vector<float> noise = drawn(static_cast<std::int64_t>(values.size()), 9);
  for (std::size_t i = 0; i < values.size(); ++i) v.push_back(static_cast<float>(values[i] + share * static_cast<double>(noise[i])));
  return v;
}

// [samples, filters] over even steps of `scale`: lines in frequency, or in mel as Kaldi and TensorFlow draw them.
std::vector<double> mel(int samples, int filters, bool lines) {
  const auto to_mel = [](double f) { return 1127 * std::log(1 + f / 700); };
  const auto from_mel = [](double m) { return 700 * (std::exp(m / 1127) - 1); };
  const double top = to_mel(8000);
  std::vector<double> values;
  for (int i = 0; i < samples; ++i)
    for (int k = 0; k < filters; ++k) {
      const double f = 8000.0 * i / (samples - 1), step = top / (filters + 1);
      const auto place = [&](int at) { return lines ? from_mel(step * at) : step * at; };
      const double x = lines ? f : to_mel(f);
      values.push_back(
          std::max(0.0, std::min((x - place(k)) / (place(k + 1) - place(k)), (place(k + 2) - x) / (place(k + 2) - place(k + 1)))));
    }
  return values;
}

struct Row {
  std::string name;
  std::function<void(Model&)> build;  // from x [N,8] (or p [N,3,6,6], s [N,1,256]) to y
  Names constants;                    // the others are trained
  std::string said;                   // that the warning says of them
  WeightOptions options = {};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

constexpr const char *by_place = "by their place in the graph they prepare data", *by_values = "values are those of a fixed filter bank";

std::string pixels(Model& m) {
  m.input("p", "N,3,6,6");
  return "p";
}
void images(Model& m, const std::string& from) {
  m.add(held("w", {8, 3, 3, 3}, 3));
  end(m, value("Flatten", m, {value("GlobalAveragePool", m, {value("Conv", m, {from, "w"})})}));
}
void sound(Model& m, const std::vector<float>& bank, std::int64_t n) {
  m.input("s", "N,1,256")
      .add(float_tensor("bank", {static_cast<std::int64_t>(bank.size()) / n, 1, n}, bank))
      .add(held("w", {4, static_cast<std::int64_t>(bank.size()) / n, 1}, 3));
  end(m, value("Flatten", m,
               {value("GlobalAveragePool", m,
                      {value("Conv", m,
                             {value("Abs", m, {value("Conv", m, {"s", "bank"}, {{"strides", std::vector<std::int64_t>{16}}})}), "w"})})}));
}
void spectrum(Model& m, const std::vector<float>& bank, std::int64_t filters) {
  const auto samples = static_cast<std::int64_t>(bank.size()) / filters;
  m.input("s", concat("N,", samples)).add(float_tensor("bank", {samples, filters}, bank)).add(held("w", {filters, 4}, 3));
  end(m, value("MatMul", m, {value("MatMul", m, {"s", "bank"}), "w"}));
}

// clang-format off
const Row rows[] = {
    // Between an input and the first weight
    {"mean_and_deviation", [](Model& m) { m.add(held("mean", {8})).add(held("std", {8}, 2)); end(m, layer(m, value("Div", m, {value("Sub", m, {"x", "mean"}), "std"}))); }, {"mean", "std"}, by_place},
    {"rescaling", [](Model& m) { m.add(held("scale", {})).add(held("offset", {})); end(m, layer(m, value("Add", m, {value("Mul", m, {"x", "scale"}), "offset"}))); }, {"scale", "offset"}, by_place},
    {"root_of_a_variance", [](Model& m) { m.add(held("mean", {1, 8})).add(float_tensor("variance", {1, 8}, {1, 2, 3, 4, 5, 6, 7, 9})); end(m, layer(m, value("Div", m, {value("Sub", m, {"x", "mean"}), value("Sqrt", m, {"variance"})}))); }, {"mean", "variance"}, ""},
    {"mean_image", [](Model& m) { m.add(held("mean", {3, 6, 6})); images(m, value("Sub", m, {pixels(m), "mean"})); }, {"mean"}, by_place},
    {"channels_turned", [](Model& m) { m.add(held("mean", {3})).add(held("scale", {3})); m.input("p", "N,6,6,3"); images(m, value("Transpose", m, {value("Mul", m, {value("Sub", m, {"p", "mean"}), "scale"})}, {{"perm", std::vector<std::int64_t>{0, 3, 1, 2}}})); }, {"mean", "scale"}, by_place},
    {"before_a_bank", [](Model& m) { m.add(held("gain", {1})); m.input("s", "N,129").add(float_tensor("bank", {129, 20}, off_by(mel(129, 20, true), 0))).add(held("w", {20, 4}, 3)).add(held("mean", {20}, 5)).add(held("floor", {1}, 7)); end(m, value("MatMul", m, {value("Sub", m, {value("Log", m, {value("Add", m, {value("MatMul", m, {value("Mul", m, {"s", "gain"}), "bank"}), "floor"})}), "mean"}), "w"})); }, {"gain", "bank", "mean", "floor"}, by_place},
    {"components", [](Model& m) { m.add(held("mean", {8})).add(float_tensor("axes", {8, 8}, rotation(8))).add(held("whiten", {8}, 5)); end(m, layer(m, value("Div", m, {value("MatMul", m, {value("Sub", m, {"x", "mean"}), "axes"}), "whiten"}))); }, {"mean", "axes", "whiten"}, by_place},
    {"two_inputs", [](Model& m) { m.input("z", "N,8").add(held("mean", {8})); end(m, layer(m, value("Add", m, {value("Sub", m, {"x", "mean"}), "z"}))); }, {"mean"}, by_place},
    {"said_trainable", [](Model& m) { m.add(held("mean", {8})); end(m, layer(m, value("Sub", m, {"x", "mean"}))); }, {}, "", {.trainable = {"mean"}}},
    {"first_layer_said_constant", [](Model& m) { m.add(held("mean", {8})); end(m, layer(m, layer(m, value("Sub", m, {"x", "mean"}), "v", "c"))); }, {"mean", "v"}, "", {.constant = {"v"}}},
    // What is no preparation
    {"without_a_layer", [](Model& m) { m.add(held("p", {8})); end(m, value("Mul", m, {"x", "p"})); }, {}, ""},
    {"behind_a_layer", [](Model& m) { m.add(held("p", {8})); end(m, layer(m, value("Mul", m, {layer(m, "x", "v", "c"), "p"}))); }, {}, ""},
    {"learnt_through_a_sigmoid", [](Model& m) { m.add(held("p", {8})); end(m, layer(m, value("Mul", m, {"x", value("Sigmoid", m, {"p"})}))); }, {}, ""},
    {"learnt_positions", [](Model& m) { m.input("t", "N,5,8").add(held("p", {1, 5, 8})); end(m, layer(m, value("ReduceMean", m, {value("Add", m, {"t", "p"})}, {{"axes", std::vector<std::int64_t>{1}}, {"keepdims", std::int64_t{0}}}))); }, {}, ""},
    {"centers_of_bumps", [](Model& m) { m.input("t", "N,1,8").add(held("p", {5, 8})).add(held("w", {5, 4}, 3)).add(int_tensor("last", {1}, {2})); end(m, value("MatMul", m, {value("Exp", m, {value("ReduceSum", m, {value("Neg", m, {value("Mul", m, {value("Sub", m, {"t", "p"}), value("Sub", m, {"t", "p"})})}), "last"}, {{"keepdims", std::int64_t{0}}})}), "w"})); }, {}, ""},
    {"normalization_of_the_input", [](Model& m) { m.add(held("g", {8})).add(held("c", {8}, 2)).add(node("LayerNormalization", {"x", "g", "c"}, {"n"})); end(m, layer(m, "n")); }, {}, ""},
    {"normalization_written_out", [](Model& m) { m.add(held("g", {8})).add(held("c", {8}, 2)); const AttributeList rows{{"axes", std::vector<std::int64_t>{1}}}; const std::string d = value("Sub", m, {"x", value("ReduceMean", m, {"x"}, rows)}); const std::string n = value("Div", m, {d, value("Sqrt", m, {value("ReduceMean", m, {value("Mul", m, {d, d})}, rows)})}); end(m, layer(m, value("Add", m, {value("Mul", m, {n, "g"}), "c"}))); }, {}, ""},
    {"matrix_at_right_angles", [](Model& m) { m.add(float_tensor("w", {8, 8}, rotation(8))); end(m, value("MatMul", m, {"x", "w"})); }, {}, ""},
    {"read_elsewhere", [](Model& m) { m.add(held("p", {8})); end(m, value("Mul", m, {layer(m, value("Mul", m, {"x", "p"})), "p"})); }, {}, ""},
    // Behind the last weight
    {"unscaling", [](Model& m) { m.add(held("std", {8})).add(held("mean", {8}, 2)); end(m, value("Add", m, {value("Mul", m, {layer(m, "x"), "std"}), "mean"})); }, {"std", "mean"}, by_place},
    {"unscaling_of_a_range", [](Model& m) { m.add(held("low", {8})).add(held("range", {8}, 2)); end(m, value("Add", m, {"low", value("Mul", m, {"range", value("Sigmoid", m, {layer(m, "x")})})})); }, {"low", "range"}, by_place},
    {"action_scale", [](Model& m) { m.add(held("limit", {8})); end(m, value("Mul", m, {value("Tanh", m, {layer(m, "x")}), "limit"})); }, {"limit"}, by_place},
    {"unscaling_of_one_result", [](Model& m) { m.add(held("w", {8, 1})).add(held("b", {1}, 5)).add(held("std", {})).add(held("mean", {}, 2)); end(m, value("Add", m, {value("Mul", m, {value("Gemm", m, {"x", "w", "b"}), "std"}), "mean"})); }, {"std", "mean"}, by_place},
    {"temperature_and_shift", [](Model& m) { m.add(held("temperature", {})).add(held("shift", {1}, 2)); end(m, value("Add", m, {value("Div", m, {layer(m, "x"), "temperature"}), "shift"})); }, {}, ""},
    {"unscaling_of_logarithms", [](Model& m) { m.add(held("std", {8})).add(held("mean", {8}, 2)); end(m, value("Exp", m, {value("Add", m, {value("Mul", m, {layer(m, "x"), "std"}), "mean"})})); }, {"std", "mean"}, by_place},
    {"temperature", [](Model& m) { m.add(held("temperature", {})); end(m, value("Mul", m, {layer(m, "x"), "temperature"})); }, {}, ""},
    {"normalization_at_the_end", [](Model& m) { m.add(held("g", {8})).add(held("c", {8}, 2)); const std::string h = layer(m, "x"); const AttributeList rows{{"axes", std::vector<std::int64_t>{1}}}; const std::string d = value("Sub", m, {h, value("ReduceMean", m, {h}, rows)}); const std::string n = value("Div", m, {d, value("Sqrt", m, {value("ReduceMean", m, {value("Mul", m, {d, d})}, rows)})}); end(m, value("Add", m, {value("Mul", m, {n, "g"}), "c"})); }, {}, ""},
    {"layer_before_an_activation", [](Model& m) { m.add(held("g", {8})).add(held("c", {8}, 2)); end(m, value("Sigmoid", m, {value("Add", m, {value("Mul", m, {layer(m, "x"), "g"}), "c"})})); }, {}, ""},
    {"bias_alone", [](Model& m) { end(m, value("Relu", m, {layer(m, "x")})); }, {}, ""},
    // Banks
    {"fourier", [](Model& m) { sound(m, off_by(fourier(64, Window::none), 0), 64); }, {"bank"}, by_values},
    {"hann", [](Model& m) { sound(m, off_by(fourier(64, Window::hann), 0), 64); }, {"bank"}, by_values},
    {"hamming", [](Model& m) { sound(m, off_by(fourier(32, Window::hamming), 0), 32); }, {"bank"}, by_values},
    {"blackman", [](Model& m) { sound(m, off_by(fourier(128, Window::blackman), 0), 128); }, {"bank"}, by_values},
    {"hann_as_a_matrix", [](Model& m) { spectrum(m, off_by(fourier(64, Window::hann), 0), 64); }, {"bank"}, by_values},
    {"nearly_hann", [](Model& m) { sound(m, off_by(fourier(64, Window::hann), 0.001), 64); }, {}, ", or nearly so"},
    {"far_from_hann", [](Model& m) { sound(m, off_by(fourier(64, Window::hann), 0.5), 64); }, {}, ""},
    {"mel", [](Model& m) { spectrum(m, off_by(mel(129, 20, true), 0), 20); }, {"bank"}, by_values},
    {"mel_in_mels", [](Model& m) { spectrum(m, off_by(mel(257, 24, false), 0), 24); }, {"bank"}, by_values},
    {"nearly_mel", [](Model& m) { spectrum(m, off_by(mel(129, 20, true), 0.005), 20); }, {}, ", or nearly so"},
    {"identity", [](Model& m) { std::vector<float> eye(32 * 32); for (std::size_t i = 0; i < 32; ++i) eye[i * 33] = 1; spectrum(m, eye, 32); }, {}, ""},
    {"zeros", [](Model& m) { spectrum(m, std::vector<float>(64 * 32), 32); }, {}, ""},
};
// clang-format on

class Preparation : public testing::TestWithParam<Row> {};

TEST_P(Preparation, IsToldFromWeights) {
  const Row& row = GetParam();
  Model m;
  m.input("x", "N,8").output("y");
  row.build(m);
  if (m.proto.graph().input_size() > 1 && m.proto.graph().input(1).name() != "z")
    m.proto.mutable_graph()->mutable_input()->DeleteSubrange(0, 1);
  const ModelFile file = ModelFile::parse(m.bytes(), {}, row.options);
  Names constants;
  for (const TemplateTensor& t : file.tensors())
    if (t.holding != Holding::trained) constants.push_back(t.name);
  Names wanted = row.constants;
  std::sort(constants.begin(), constants.end());
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(constants, wanted);
  const Graph graph = file.graph({.batch = 2});
  std::string said;
  for (const std::string& w : graph.warnings)
    if (w.find(by_place) != w.npos || w.find("filter bank") != w.npos) said += w + '\n';
  EXPECT_EQ(row.said.empty(), said.empty() || row.name == "root_of_a_variance" || row.name == "first_layer_said_constant") << said;
  if (row.said.empty()) return;
  EXPECT_NE(said.find(row.said), said.npos) << said;
  for (const std::string& name : row.constants) EXPECT_NE(said.find(concat('\'', name, '\'')), said.npos) << name << " in " << said;
}
INSTANTIATE_TEST_SUITE_P(Rows, Preparation, testing::ValuesIn(rows), [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace tandem::test
