// Plans whose products are computed in 8 bits: which ones are, of what they are made, and how they train.
#include <map>
#include <set>

#include "graph/fp8.h"
#include "planner/rewrite/fusing.h"
#include "planner/rewrite/pass.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

constexpr auto e4m3 = static_cast<std::int64_t>(DType::float8e4m3fn), e5m2 = static_cast<std::int64_t>(DType::float8e5m2);

CompileOptions options(Precision precision, const std::vector<double>& weights = {1}) {
  CompileOptions o = options_for(20, weights);
  o.precision = precision;
  return o;
}

// Rows of a table, as a model of language begins.
Graph embedded(std::int64_t n) {
  Builder b;
  b.graph.name = "embedded";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  const ValueId ids = b.node("Cast", {b.node("Abs", {x})}, {{"to", static_cast<std::int64_t>(DType::int64)}});
  ValueId y = b.node("Gather", {b.weight("table", {7, 16}, 1), ids}, {{"axis", std::int64_t{0}}});
  y = b.node("Relu", {b.node("MatMul", {y, b.weight("w1", {16, 32}, 0.2F)})});
  y = b.node("Relu", {b.node("MatMul", {y, b.weight("w2", {32, 16}, 0.2F)})});
  y = b.node("ReduceMean", {y}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {gemm(b, y, "out", 16, 5)};
  return b.graph;
}

// A product of what a convolution gives, whose features lie as the convolution wrote them.
Graph convolved(std::int64_t n) {
  Builder b;
  b.graph.name = "convolved";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 3, 8, 8}});
  x = b.node("Relu", {b.node("Conv", {x, b.weight("c", {12, 3, 3, 3}, 0.2F)},
                             {{"kernel_shape", Ints{3, 3}},
                              {"strides", Ints{2, 2}},
                              {"pads", Ints{1, 1, 1, 1}},
                              {"dilations", Ints{1, 1}},
                              {"group", std::int64_t{1}}})});
  x = b.node("Relu", {gemm(b, b.node("Flatten", {x}, {{"axis", std::int64_t{1}}}), "middle", 192, 32)});
  b.graph.outputs = {gemm(b, x, "out", 32, 5)};
  return b.graph;
}

struct Fp8 : testing::Test {
  void SetUp() override {
    if (const std::string reason = cpu_backend().declines(Precision::fp8); !reason.empty()) GTEST_SKIP() << reason;
  }
  static Plan plan_of(Graph (*model)(std::int64_t), const CompileOptions& o) {
    const Backend* backends[] = {&cpu_backend()};
    return compile(model, o, backends);
  }
  // As it stood behind that pass.
  static Graph behind(std::string_view pass, Graph (*model)(std::int64_t), CompileOptions o) {
    Graph graph;
    o.passes.after = [&](const PassResult& r) {
      if (r.name == pass) graph = r.graph;
    };
    plan_of(model, o);
    return graph;
  }
};

TEST_F(Fp8, ProductsBetweenTheFirstAndTheLastAreInEightBits) {
  const std::string begin = "precision fp8 is experimental: ", end = ", everything else as in bf16; of products by weights stay in bf16 ";
  EXPECT_EQ(
      plan_of(deep, options(Precision::fp8)).warnings.at(0),
      begin + "3 products are computed in 8 bits" + end + "1 first ('in'), 1 last ('out'), 1 of sizes that are no multiples of 16 ('odd')");
  EXPECT_EQ(plan_of(embedded, options(Precision::fp8)).warnings.at(0), begin + "2 products are computed in 8 bits" + end + "1 last ('out')")
      << "an embedding is a first layer";
  EXPECT_EQ(plan_of(convolved, options(Precision::fp8)).warnings.at(0), begin + "1 product is computed in 8 bits" + end + "1 last ('out')")
      << "so is a convolution";
  EXPECT_EQ(plan_of(mlp, options(Precision::fp8)).warnings.at(0),
            begin + "0 products are computed in 8 bits" + end + "1 first ('Gemm0'), 1 last ('Gemm2')");
  EXPECT_TRUE(plan_of(deep, options(Precision::bf16)).warnings.empty());
}

TEST_F(Fp8, ProductsReadWhatWasRoundedOnce) {
  const Graph g = behind("quantize_products", deep, options(Precision::fp8));
  std::map<std::string, int> count;
  std::map<std::int64_t, int> types;
  std::set<std::int64_t> slots;
  for (const Node& node : g.nodes) {
    ++count[std::string(node.op->name)];
    if (node.op->name == "QuantizeFp8") {
      ++types[node.attributes.integer("to")];
      slots.insert(node.attributes.integer("slot"));
    }
    if (node.op->name != "ProductFp8") continue;
    const auto made = [&](std::size_t i) { return g[g[node.inputs[i]].producer]; };
    for (const std::size_t i : {0, 1}) {
      EXPECT_EQ(made(i).op->name, "QuantizeFp8");
      EXPECT_EQ(made(i).outputs[1], node.inputs[2 + i]) << "each operand with its own scale";
    }
    const bool forward = made(0).attributes.integer("to") == e4m3;
    EXPECT_EQ(node.attributes.integer("fast"), forward) << "gradients are summed in float32";
    EXPECT_EQ(made(1).attributes.integer("to"), e4m3);
  }
  EXPECT_EQ(count["ProductFp8"], 9) << "three, forward and for both gradients";
  EXPECT_EQ(count["InnerProduct"], 3);
  EXPECT_EQ(count["QuantizeFp8"], 7) << "left and right read one value, and their gradients are one";
  EXPECT_EQ(types[e4m3], 5);
  EXPECT_EQ(types[e5m2], 2);
  EXPECT_EQ(slots.size(), 7U);
  EXPECT_EQ(count["Fp8ScaleUpdate"], 1);
  EXPECT_EQ(count["AllReduce"], 0);
}

// With weights of three devices one of which has no samples.
TEST_F(Fp8, DevicesAgreeOnTheLargestInOneExchange) {
  for (const std::vector<double>& weights : {std::vector<double>{3, 1}, {1, 0, 2}, {1, 1, 1, 1}}) {
    const Plan plan = plan_of(deep, options(Precision::fp8, weights));
    int largest = 0;
    for (const Exchange& e : plan.exchanges) {
      largest += e.kind == ExchangeKind::all_max;
      if (e.kind == ExchangeKind::all_max) {
        EXPECT_EQ(e.values.size(), 4U) << "weights are the same everywhere";
      }
    }
    EXPECT_EQ(largest, 1);
  }
}

std::vector<Fp8Row> rows_of(const std::vector<NamedTensor>& states) {
  for (const NamedTensor& t : states)
    if (t.name == "tandem.fp8") {
      std::vector<Fp8Row> rows(static_cast<std::size_t>(t.tensor.shape()[0]));
      std::memcpy(rows.data(), t.tensor.bytes().data(), t.tensor.bytes().size());
      return rows;
    }
  return {};
}

TEST_F(Fp8, ScalesAreThoseOfTheHistory) {
  const Trained run = train(deep, options(Precision::fp8), 3, 0.05);
  const std::vector<Fp8Row> rows = rows_of(run.states[0]);
  ASSERT_EQ(rows.size(), 7U);
  int large = 0;
  for (const Fp8Row& row : rows) {
    float largest = 0;
    for (int i = 0; i < Fp8Row::length; ++i) {
      EXPECT_EQ(row.history[i] > 0, i < 3) << "three steps";
      largest = std::max(largest, row.history[i]);
    }
    const float e4m3_scale = fp8_scale_for(largest, DType::float8e4m3fn, 0), e5m2_scale = fp8_scale_for(largest, DType::float8e5m2, 0);
    EXPECT_TRUE(row.scale == e4m3_scale || row.scale == e5m2_scale);
    large += row.scale == e5m2_scale;
  }
  EXPECT_EQ(large, 2);
}

// The steps of one device and of several see the same magnitudes, so they round alike: the first step to the bit of its state. Later ones
// differ by what sums over devices round in bf16.
TEST_F(Fp8, SeveralDevicesTrainAsOneDoes) {
  for (const auto model : {deep, embedded, convolved}) {
    const Trained first = train(model, options(Precision::fp8), 1, 0.05), one = train(model, options(Precision::fp8), 20, 0.01);
    for (const std::vector<double>& weights : {std::vector<double>{1, 1}, {3, 1}, {1, 0, 2}, {1, 1, 1, 1}}) {
      const Trained begun = train(model, options(Precision::fp8, weights), 1, 0.05);
      const std::vector<Fp8Row> a = rows_of(first.states[0]), b = rows_of(begun.states[0]);
      ASSERT_EQ(a.size(), b.size());
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(Fp8Row)), 0);
      const Trained run = train(model, options(Precision::fp8, weights), 20, 0.01);
      for (std::size_t s = 0; s < run.losses.size(); ++s)
        EXPECT_NEAR(run.losses[s], one.losses[s], 0.005F * one.losses[0]) << weights.size() << " devices, step " << s;
      for (std::size_t d = 1; d < run.replicas.size(); ++d) {
        expect_same_bits(run.replicas[0], run.replicas[d]);
        expect_same_bits(run.states[0], run.states[d]);
      }
      EXPECT_EQ(train(model, options(Precision::fp8, weights), 20, 0.01).losses, run.losses) << "the same bits again";
    }
  }
}

// A number of 8 bits is off by up to 2⁻⁴ of itself, a gradient's by 2⁻³, at random: sums of many average that out, and what is left moves
// the curve by less than a hundredth of where it begins.
TEST_F(Fp8, LossesFollowBFloat16) {
  for (const auto model : {deep, embedded, convolved}) {
    const Trained wide = train(model, options(Precision::bf16), 40, 0.01), narrow = train(model, options(Precision::fp8), 40, 0.01);
    EXPECT_LT(wide.losses.back(), 0.9F * wide.losses[0]) << "it learns";
    for (std::size_t s = 0; s < wide.losses.size(); ++s)
      EXPECT_NEAR(narrow.losses[s], wide.losses[s], 0.02F * wide.losses[0]) << "step " << s;
    EXPECT_NE(narrow.losses, wide.losses) << "it ran in bf16";
  }
}

TEST_F(Fp8, PlacementsOnMeshesAreRefused) {
  CompileOptions o = options(Precision::fp8, {1, 1});
  o.placement = PlacementRequest{
      .groups = {{.name = "all", .axes = {{"samples", {1, 1}}, {"columns", {1}}}, .devices = {0, 1}}}, .nodes = {}, .values = {}};
  try {
    plan_of(deep, o);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_EQ(std::string(e.what()),
              "precision fp8 with a placement on several groups or along several axes: expected one group along one axis");
  }
}

}  // namespace
}  // namespace tandem
