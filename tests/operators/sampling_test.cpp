// What ONNX's node tests leave out of resizing, sampling, pooling of regions and Fourier transforms: values of other implementations
// (as rows say), formulas, and gradients by central differences.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "graph/operator.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

using I = std::int64_t;
using Doubles = std::vector<double>;

struct Given {
  Shape shape;
  Doubles values;
  bool integer = false;
};
struct Row {
  const char* name;
  const char* op;
  Attributes attributes;
  std::vector<Given> inputs;  // the first is differentiated
  Doubles y;
};

std::string text(const char* s) { return s; }
const Given line{{1, 1, 8}, {1, 4, 2, -3, 5, 0, 2, 7}}, image{{1, 1, 2, 4}, line.values};
const Given images{{2, 1, 3, 4}, {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4}};
const Given grid{{1, 1, 3, 2}, {-1.3, 0.2, 0.4, -0.9, 1.6, 1.2}};
const Given regions{{2, 5}, {1, 0, 0, 3.5, 2.5, 0, 1, 1, 2, 2}}, corners{{2, 4}, {0, 0, 3.5, 2.5, 1, 1, 2, 2}}, owners{{2}, {1, 0}, true};

const Row rows[] = {
    // PyTorch's F.interpolate, as its exporters write it
    {"nearest", "Resize", {{"sizes", Ints{1, 1, 5}}, {"coordinate_transformation_mode", text("asymmetric")}, {"nearest_mode", text("floor")}}, {line}, {1, 4, -3, 5, 2}},
    {"linear", "Resize", {{"sizes", Ints{1, 1, 5}}, {"mode", text("linear")}, {"coordinate_transformation_mode", text("pytorch_half_pixel")}}, {line}, {1.9, 2.2, 1, 0.2, 5.5}},
    {"linear between corners", "Resize", {{"sizes", Ints{1, 1, 11}}, {"mode", text("linear")}, {"coordinate_transformation_mode", text("align_corners")}}, {line}, {1, 3.1, 3.2, 1.5, -2, 1, 4, 0.5, 1.2, 3.5, 7}},
    {"cubic", "Resize", {{"sizes", Ints{1, 1, 3, 6}}, {"mode", text("cubic")}, {"coordinate_transformation_mode", text("pytorch_half_pixel")}}, {image},
     {0.3320796, 2.720052, 4.432928, 2.91039, -1.15408, -4.377436, 3.086806, 2.5, 1.913195, 1.982639, 2, 2, 5.841532, 2.279948, -0.6065362, 1.05489, 5.154079, 8.377434}},
    {"cubic, antialiased", "Resize", {{"sizes", Ints{1, 1, 3}}, {"mode", text("cubic")}, {"cubic_coeff_a", -0.5F}, {"antialias", I{1}}, {"exclude_outside", I{1}}}, {line}, {2.13356, 0.8942136, 3.406449}},
    {"linear, antialiased", "Resize", {{"sizes", Ints{1, 1, 3}}, {"mode", text("linear")}, {"antialias", I{1}}, {"exclude_outside", I{1}}}, {line}, {2.105263, 1.095238, 3.210527}},
    // ONNX's reference
    {"cropped beyond the image", "Resize", {{"scales", Floats{1, 1, 1, 1.5F}}, {"mode", text("linear")}, {"coordinate_transformation_mode", text("tf_crop_and_resize")}, {"roi", Floats{0, 0, 0.2F, 0.1F, 1, 1, 0.9F, 1.2F}}, {"extrapolation_value", -1.0F}}, {images},
     {3.92, 4.184, 3.58, 3.144, 3.012, -1, 6.02, 8.264, 4.618, 3.392, 5.966, -1, 4.76, 4.232, 4.324, 5.296, 7.408, -1, 5.96, 5.432, 7.384, 7.144, 3.712, -1, 2.55, 2.88, 5.938, 6.736, 4.228, -1, 4.3, 2.32, 4.804, 5.728, 4.144, -1}},
    // ONNX Runtime's
    {"regions' largest elements", "MaxRoiPool", {{"pooled_shape", Ints{2, 2}}}, {images, regions}, {9, 9, 6, 6, 9, 2, 3, 5}},
    {"regions, sampled by their sizes", "RoiAlign", {{"output_width", I{2}}}, {images, corners, owners}, {5.197917, 6.222222, 8, 7.25}},
    {"regions' largest samples", "RoiAlign", {{"output_width", I{2}}, {"mode", text("max")}}, {images, corners, owners}, {9, 6.1875, 6.75, 6.75}},
    {"norm of order 3", "GlobalLpPool", {{"p", I{3}}}, {images}, {12.51465, 14.33057}},
    {"norm of order 1", "GlobalLpPool", {{"p", I{1}}}, {line}, {24}},
    // PyTorch's F.grid_sample
    {"at the border", "GridSample", {{"mode", text("linear")}, {"padding_mode", text("border")}}, {image, grid}, {3.8, 0.5, 7}},
    {"mirrored", "GridSample", {{"mode", text("linear")}, {"padding_mode", text("reflection")}}, {image, grid}, {3.54, 0.5, 3.5}},
    {"cubic at the border", "GridSample", {{"mode", text("cubic")}, {"padding_mode", text("border")}}, {image, grid}, {3.884001, 0.0355535, 7.472503}},
    {"cubic, mirrored", "GridSample", {{"mode", text("cubic")}, {"padding_mode", text("reflection")}}, {image, grid}, {3.651059, -0.1970792, 4.124386}},
};

Tensor tensor_of(const Given& g, DType dtype) { return Tensor::of<double>(g.shape, g.values).cast(g.integer ? DType::int64 : dtype); }

struct Made {
  Graph graph;
  std::vector<NamedTensor> inputs;
};
// Where `known` is set what is not differentiated is a constant.
Made make(const Row& row, DType dtype, bool known) {
  Made made;
  std::vector<ValueId> operands;
  for (const Given& g : row.inputs) {
    const std::string name = concat("x", operands.size());
    const Tensor value = tensor_of(g, dtype);
    if (known && !operands.empty()) {
      operands.push_back(made.graph.add_constant(name, value));
    } else {
      operands.push_back(made.graph.add_input(name, value.type()));
      made.inputs.push_back({name, value});
    }
  }
  const NodeId id = made.graph.add_node(internal_operator(row.op), "n", row.attributes, operands, 1);
  made.graph.outputs = {made.graph[id].outputs[0]};
  return made;
}

TEST(Sampling, GivesTheValuesOfOthers) {
  for (const Row& row : rows)
    for (const DType dtype : {DType::float32, DType::float64})
      for (const bool known : {false, true})
        for (const LayoutPreference layout : {LayoutPreference::blocked, LayoutPreference::channels_last}) {
          const Made made = make(row, dtype, known);
          const Doubles y = test::GraphRun(made.graph, layout).run(made.inputs)[0].tensor.to_doubles();
          ASSERT_EQ(y.size(), row.y.size()) << row.name;
          for (std::size_t i = 0; i < y.size(); ++i)
            EXPECT_NEAR(y[i], row.y[i], 5e-6 * std::max(1.0, std::abs(row.y[i]))) << row.name << ' ' << name_of(dtype) << " at " << i;
        }
}

// With `regions` each image's regions take from it by their place alone.
TEST(Sampling, RegionsOfTheImageTheyStandIn) {
  const Given three{{4, 4}, {0, 0, 3.5, 2.5, 1, 1, 2, 2, 0.5, 0, 3, 1, 2, 1, 4, 3}}, numbered{{4}, {0, 0, 1, 1}, true};
  for (const char* mode : {"avg", "max"})
    for (const I ratio : {0, 2}) {
      Row row{"", "RoiAlign", {{"output_width", I{2}}, {"mode", text(mode)}, {"sampling_ratio", ratio}}, {images, three, numbered}, {}};
      const Made all = make(row, DType::float64, false);
      row.attributes.set("regions", I{2});
      const Made own = make(row, DType::float64, false);
      EXPECT_EQ(test::GraphRun(own.graph).run(own.inputs)[0].tensor.to_doubles(),
                test::GraphRun(all.graph).run(all.inputs)[0].tensor.to_doubles())
          << mode << ' ' << ratio;
    }
}

TEST(Sampling, HasTheseGradients) {
  for (const Row& row : rows) {
    Made made = make(row, DType::float64, true);
    Graph& graph = made.graph;
    const ValueId x = graph.inputs[0];
    graph.inputs.clear();
    graph[x].kind = ValueKind::parameter;
    graph[x].trainable = true;
    graph[x].template_shape = graph[x].type.shape;
    graph[x].data = made.inputs[0].tensor;
    GraphBuilder b(graph, "check", {});
    const Shape shape = b.shape(graph.outputs[0]);
    Tensor weights(TensorType{DType::float64, shape});
    const auto w = weights.write<double>();
    for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.5 + 0.125 * static_cast<double>(i % 5);
    Ints axes(static_cast<std::size_t>(shape.rank()));
    std::iota(axes.begin(), axes.end(), 0);
    graph.outputs = {b.reduce_sum(b.mul(graph.outputs[0], graph.add_constant("weights", weights)), axes, false)};
    test::GraphRun run(graph, std::vector<std::string>{"x0"});
    const Doubles gradient = run.run({}).at(1).tensor.to_doubles();
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      double loss[2];
      for (const int side : {0, 1}) {
        Tensor moved = made.inputs[0].tensor;
        const auto values = moved.write<double>();
        values[i] += side == 0 ? -1e-5 : 1e-5;
        run.set({{"x0", moved}});
        loss[side] = run.run({}).at(0).tensor.to_doubles()[0];
      }
      if (std::string_view(row.op) == "MaxRoiPool" || row.attributes.text("mode", "") == "max") {
        EXPECT_LE(gradient[i], (loss[1] - loss[0]) / 1e-5 + 1e-6) << row.name << " at " << i;  // a share, where several are the largest
        continue;
      }
      EXPECT_NEAR(gradient[i], (loss[1] - loss[0]) / 2e-5, 1e-6) << row.name << " at " << i;
    }
  }
}

// Lengths of one table, of two, of three, and of a prime in between; the formula at some frequencies, and back.
TEST(Fourier, AgreesWithItsSum) {
  for (const I length : {I{12}, I{1030}, I{1536}, I{2062}}) {
    Tensor signal(TensorType{DType::float64, Shape{2, length, 3, 1}});
    const auto x = signal.write<double>();
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(0.37 * static_cast<double>(i)) + 0.01 * static_cast<double>(i % 7);
    Graph graph;
    const ValueId in = graph.add_input("x", signal.type());
    const auto add = [&](ValueId of, Attributes a) {
      a.set("axis", I{1});
      const NodeId id = graph.add_node(internal_operator("DFT"), "dft", std::move(a), {of}, 1);
      return graph[id].outputs[0];
    };
    const ValueId whole = add(in, {}), back = add(whole, {{"inverse", I{1}}}), half = add(in, {{"onesided", I{1}}});
    const ValueId real = add(half, {{"inverse", I{1}}, {"onesided", I{1}}, {"dft_length", length}}),
                  padded = add(in, {{"dft_length", 2 * length}});
    graph.outputs = {whole, back, half, real, padded};
    const std::vector<NamedTensor> y = test::GraphRun(graph).run({{"x", signal}});
    const auto at = [](const Tensor& t, I b, I n, I c, I part) {
      const Shape& s = t.shape();
      return t.values<double>()[static_cast<std::size_t>(((b * s[1] + n) * s[2] + c) * s[3] + part)];
    };
    for (const I k : {I{0}, I{1}, length / 3, length / 2}) {
      double sum[2] = {};
      for (I n = 0; n < length; ++n) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(n * k % length) / static_cast<double>(length);
        sum[0] += std::cos(angle) * at(signal, 1, n, 2, 0);
        sum[1] -= std::sin(angle) * at(signal, 1, n, 2, 0);
      }
      for (const I part : {I{0}, I{1}}) {
        EXPECT_NEAR(at(y[0].tensor, 1, k, 2, part), sum[part], 1e-9) << length << " at " << k;
        EXPECT_NEAR(at(y[2].tensor, 1, k, 2, part), sum[part], 1e-9) << length << " at " << k;
        EXPECT_NEAR(at(y[4].tensor, 1, 2 * k, 2, part), sum[part], 1e-9) << length << " at " << k;
      }
    }
    for (I n = 0; n < length; ++n) {
      EXPECT_NEAR(at(y[1].tensor, 0, n, 1, 0), at(signal, 0, n, 1, 0), 1e-11);
      EXPECT_NEAR(at(y[1].tensor, 0, n, 1, 1), 0, 1e-11);
      EXPECT_NEAR(at(y[3].tensor, 0, n, 1, 0), at(signal, 0, n, 1, 0), 1e-11);
    }
  }
}

}  // namespace
}  // namespace tandem
