// Layers that devices share by parts: what of a model is split, what moves for it, and that it trains as one device does.
#include <gtest/gtest.h>

#include <set>

#include "graph/parse.h"
#include "planner/place/parallel.h"
#include "planner/plan/plan_file.h"
#include "tests/planner/placed_plans.h"

namespace tandem {
namespace {

using namespace small_models;

constexpr std::int64_t tokens = 6, width = 8, heads = 4;

std::vector<ValueId> parts(Builder& b, ValueId x, std::int64_t count) {
  const std::int64_t each = b.graph[x].type.shape[2] / count;
  const NodeId id = b.graph.add_node(internal_operator("Split"), concat("Split", b.graph.nodes.size()),
                                     {{"axis", std::int64_t{2}}, {"split", Ints(static_cast<std::size_t>(count), each)}}, {x},
                                     static_cast<int>(count));
  return b.graph[id].outputs;
}
ValueId by_heads(Builder& b, ValueId x, Ints perm) {
  const Shape shape = b.graph[x].type.shape;
  return b.node("Transpose", {b.node("Reshape", {x}, {{"shape", Ints{shape[0], shape[1], heads, shape[2] / heads}}})},
                {{"perm", std::move(perm)}});
}
ValueId mean_of_tokens(Builder& b, ValueId x) { return b.node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}}); }
ValueId dropped(Builder& b, ValueId x, float ratio) {
  return ratio == 0 ? x : b.node("Dropout", {x}, {{"ratio", ratio}, {"training_mode", std::int64_t{1}}});
}

// One weight for queries, keys and values, and one for a gate and what goes through it; dropout between and within. Keys have no bias: its
// gradient is zero but for rounding, of which Adam makes steps.
Graph fused_with(std::int64_t n, float ratio) {
  Builder b;
  b.graph.name = "fused";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  const std::vector<ValueId> qkv = parts(b, dense(b, normal(b, x, "norm1"), "qkv", width, 3 * width, false), 3);
  const ValueId q = by_heads(b, qkv[0], {0, 2, 1, 3}), k = by_heads(b, qkv[1], {0, 2, 3, 1}), v = by_heads(b, qkv[2], {0, 2, 1, 3});
  const ValueId scores = dropped(b, b.node("Softmax", {b.node("MatMul", {q, k})}, {{"axis", std::int64_t{-1}}}), ratio);
  const ValueId read = b.node("Transpose", {b.node("MatMul", {scores, v})}, {{"perm", Ints{0, 2, 1, 3}}});
  x = b.node("Add", {x, dropped(b, dense(b, b.node("Reshape", {read}, {{"shape", Ints{n, tokens, width}}}), "proj", width, width), ratio)});
  const std::vector<ValueId> gated = parts(b, dense(b, normal(b, x, "norm2"), "gate_up", width, 4 * width), 2);
  const ValueId swish = b.node("Mul", {gated[0], b.node("Sigmoid", {gated[0]})});
  x = b.node("Add", {x, dense(b, dropped(b, b.node("Mul", {swish, gated[1]}), ratio), "down", 2 * width, width)});
  b.graph.outputs = {dense(b, mean_of_tokens(b, x), "head", width, 5)};
  return b.graph;
}
Graph fused(std::int64_t n) { return fused_with(n, 0); }
Graph dropping(std::int64_t n) { return fused_with(n, 0.25F); }

// Runs of a value, as one Split gives them.
std::vector<ValueId> runs(Builder& b, ValueId x, const Ints& lengths) {
  const NodeId id = b.graph.add_node(internal_operator("Split"), concat("Split", b.graph.nodes.size()),
                                     {{"axis", std::int64_t{2}}, {"split", lengths}}, {x}, static_cast<int>(lengths.size()));
  return b.graph[id].outputs;
}

// Of one weight for queries and half as many keys and values, without bias as above.
struct Grouping {
  bool adapted = false;     // with an adapter's two beside it
  bool nested = false;      // keys and values are taken together, and then apart
  int layers = 1;           // that read the weight
  std::int64_t heads = 4;   // of two numbers
};
ValueId grouped_attention(Builder& b, ValueId x, ValueId qkv, const Grouping& way) {
  const std::int64_t n = b.graph[x].type.shape[0], wide = 2 * way.heads, narrow = way.heads;
  std::vector<ValueId> sliced = runs(b, qkv, way.nested ? Ints{wide, wide} : Ints{wide, narrow, narrow});
  if (way.nested) sliced = {sliced[0], runs(b, sliced[1], {narrow, narrow})[0], runs(b, sliced[1], {narrow, narrow})[1]};
  const auto heads_of = [&](std::size_t i, std::int64_t count, Ints perm) {
    return b.node("Transpose", {b.node("Reshape", {sliced[i]}, {{"shape", Ints{n, tokens, count, 2}}})}, {{"perm", std::move(perm)}});
  };
  const auto repeated = [&](ValueId v) {
    const Shape s = b.graph[v].type.shape;
    const ValueId apart = b.node("Reshape", {v}, {{"shape", Ints{n, s[1], 1, s[2], s[3]}}});
    return b.node("Reshape", {b.node("Expand", {apart}, {{"shape", Ints{n, s[1], 2, s[2], s[3]}}})},
                  {{"shape", Ints{n, way.heads, s[2], s[3]}}});
  };
  const ValueId scores = b.node("MatMul", {heads_of(0, way.heads, {0, 2, 1, 3}), repeated(heads_of(1, way.heads / 2, {0, 2, 3, 1}))});
  const ValueId shares = b.node("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  const ValueId read = b.node("MatMul", {shares, repeated(heads_of(2, way.heads / 2, {0, 2, 1, 3}))});
  return b.node("Reshape", {b.node("Transpose", {read}, {{"perm", Ints{0, 2, 1, 3}}})}, {{"shape", Ints{n, tokens, wide}}});
}
Graph grouped_with(std::int64_t n, const Grouping& way) {
  Builder b;
  b.graph.name = "grouped";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  const ValueId weight = b.weight("qkv", {width, 4 * way.heads}, 1 / std::sqrt(8.0F));
  for (int layer = 0; layer < way.layers; ++layer) {
    ValueId qkv = b.node("MatMul", {x, weight});
    if (way.adapted) qkv = b.node("Add", {qkv, dense(b, dense(b, x, "down", width, 4, false), "up", 4, 4 * way.heads, false)});
    const std::string number = layer == 0 ? "" : std::to_string(layer + 1);
    x = dense(b, grouped_attention(b, x, qkv, way), "proj" + number, 2 * way.heads, width);
  }
  b.graph.outputs = {dense(b, mean_of_tokens(b, x), "head", width, 5)};
  return b.graph;
}
template <bool adapted, bool nested, int layers, std::int64_t heads = 4>
Graph grouped_as(std::int64_t n) {
  return grouped_with(n, {adapted, nested, layers, heads});
}
constexpr auto grouped_in_one_weight = grouped_as<false, false, 1>;

// A gate and what goes through it of one weight, each taken apart twice more.
Graph nested_gate(std::int64_t n) {
  Builder b;
  b.graph.name = "gate";
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  const std::vector<ValueId> halves = runs(b, dense(b, x, "gate_up", width, 48), {24, 24});
  std::vector<std::vector<ValueId>> apart;
  for (const ValueId half : {b.node("Sigmoid", {halves[0]}), halves[1]}) {
    const std::vector<ValueId> outer = runs(b, half, {8, 16}), inner = runs(b, outer[1], {4, 12});
    apart.push_back({outer[0], inner[0], inner[1]});
  }
  const auto down = [&](std::size_t i, const char* name, std::int64_t in) {
    return dense(b, b.node("Mul", {apart[0][i], apart[1][i]}), name, in, width, false);
  };
  const ValueId y = b.node("Add", {b.node("Add", {down(0, "down8", 8), down(1, "down4", 4)}), down(2, "down12", 12)});
  b.graph.outputs = {dense(b, mean_of_tokens(b, y), "head", width, 5)};
  return b.graph;
}

// Each of two devices has a direction.
Graph both_directions(std::int64_t n, const char* op, std::int64_t gates) {
  Builder b;
  b.graph.name = op;
  const ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  const ValueId y = b.node(op,
                           {b.node("Transpose", {x}, {{"perm", Ints{1, 0, 2}}}), b.weight("w", {2, gates * 5, width}, 0.3F),
                            b.weight("r", {2, gates * 5, 5}, 0.3F), b.weight("b", {2, 2 * gates * 5}, 0.1F)},
                           {{"direction", std::string("bidirectional")}});
  const ValueId joined = b.node("Reshape", {b.node("Transpose", {y}, {{"perm", Ints{2, 0, 1, 3}}})}, {{"shape", Ints{n, tokens, 10}}});
  b.graph.outputs = {dense(b, mean_of_tokens(b, joined), "head", 10, 5)};
  return b.graph;
}
Graph lstm(std::int64_t n) {
  return both_directions(n, "LSTM", 4);
}
Graph gru(std::int64_t n) {
  return both_directions(n, "GRU", 3);
}

// Words are numbers of a table, which scores them again at the end.
constexpr std::int64_t words = 64;
Graph tied(std::int64_t n) {
  Builder b;
  b.graph.name = "tied";
  const ValueId given = b.graph.add_input("x", {DType::float32, {n, 2}});
  const ValueId word =
      b.node("Cast",
             {b.node("Clip", {b.node("Mul", {b.node("Abs", {given}), b.graph.add_constant("span", Tensor::scalar(20.0F))})},
                     {{"min", 0.0F}, {"max", static_cast<float>(words - 1)}})},
             {{"to", static_cast<std::int64_t>(DType::int64)}});
  const ValueId table = b.weight("table", {words, width}, 0.3F);
  const ValueId x = mean_of_tokens(b, b.node("Gather", {table, word}, {{"axis", std::int64_t{0}}}));
  const ValueId y = normal(b, b.node("Add", {x, dense(b, b.node("Relu", {dense(b, x, "up", width, 16)}), "down", 16, width)}), "norm");
  b.graph.outputs = {b.node("MatMul", {y, b.node("Transpose", {table}, {{"perm", Ints{1, 0}}})})};
  return b.graph;
}
Graph untied(std::int64_t n) {
  Graph g = tied(n);
  Builder b{std::move(g), 40};
  b.graph.outputs = {dense(b, b.graph[b.graph[b.graph.outputs[0]].producer].inputs[0], "head", width, words)};
  return b.graph;
}

// Three layers, of which the last tells the classes.
Graph three_layers(std::int64_t n) {
  Builder b;
  b.graph.name = "three";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 20}});
  x = b.node("Relu", {gemm(b, x, "first", 20, 32)});
  x = b.node("Gelu", {gemm(b, x, "second", 32, 16)});
  b.graph.outputs = {gemm(b, x, "third", 16, 5)};
  return b.graph;
}

// What is normalized and pooled is given by channel.
Graph channels(std::int64_t n) {
  Builder b;
  b.graph.name = "channels";
  const auto filled = [&](const char* name, float value) {
    const std::vector<float> values(24, value);
    return b.graph.add_parameter(name, {DType::float32, {24}}, Tensor::of<float>(Shape{24}, std::span<const float>(values)), false);
  };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 24, 6, 6}});
  x = b.node("BatchNormalization",
             {x, b.weight("scale", {24}, 0.5F), b.weight("bias", {24}, 0.1F), filled("mean", 0), filled("variance", 1)});
  x = b.node("MaxPool", {b.node("Relu", {x})}, {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}});
  x = b.node("Flatten", {b.node("AveragePool", {x}, {{"kernel_shape", Ints{3, 3}}})}, {{"axis", std::int64_t{1}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {24, 5}, 0.4F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}


// By norms: of the difference, and of what is wanted.
void expect_equal(const Trained& got, const Trained& wanted) {
  const auto share = [](const auto& a, const auto& b) {
    double difference = 0, all = 0;
    for (std::size_t i = 0; i < b.size(); ++i) {
      difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
      all += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / std::max(all, 1e-30));
  };
  EXPECT_LT(share(got.losses, wanted.losses), 1e-5);
  std::vector<float> a, b;
  for (std::size_t p = 0; p < wanted.replicas[0].size(); ++p) {
    const auto of_got = got.replicas[0][p].tensor.values<float>(), of_wanted = wanted.replicas[0][p].tensor.values<float>();
    a.insert(a.end(), of_got.begin(), of_got.end());
    b.insert(b.end(), of_wanted.begin(), of_wanted.end());
    EXPECT_LT(share(of_got, of_wanted), 1e-3) << wanted.replicas[0][p].name;
  }
  EXPECT_LT(share(a, b), 1e-5);
}

struct Layers {
  const char* name;
  Graph (*model)(std::int64_t);
  std::set<std::string> split;  // over two devices
  std::size_t exchanges;        // of a step
};
void PrintTo(const Layers& row, std::ostream* out) { *out << row.name; }
class ParallelLayers : public testing::TestWithParam<Layers> {};

TEST_P(ParallelLayers, AreSplit) {
  CompileOptions o = shared_by(2, "tensor=2");
  o.passes.after = [](const PassResult& r) {
    if (r.name == "place") EXPECT_EQ(print(parse(print(r.graph))), print(r.graph));
  };
  const Plan plan = plan_of(GetParam().model, o), read = parse_plan(serialize(plan));
  for (std::size_t p = 0; p < plan.parameters.size(); ++p) EXPECT_EQ(read.parameters[p].parts, plan.parameters[p].parts);
  EXPECT_EQ(split_of(plan), GetParam().split) << text_of_plan(plan, true);
  EXPECT_EQ(plan.exchanges.size(), GetParam().exchanges) << text_of_plan(plan, true);
  for (const Exchange& e : plan.exchanges) EXPECT_NE(e.kind, ExchangeKind::all_gather) << e.name;
}

TEST_P(ParallelLayers, TrainAsOnOneDevice) {
  for (const char* optimizer : {"sgd", "adamw"}) {
    const auto trained = [&](CompileOptions o) {
      o.optimizer = optimizer_defaults(optimizer);
      if (std::string_view(optimizer) == "sgd") o.optimizer.momentum = 0.9;
      return train(GetParam().model, o, 20, 0.02);
    };
    const Trained one = trained(options_for(8, {1}));
    for (const auto& [devices, parallel] : std::vector<std::pair<std::size_t, const char*>>{
             {2, "tensor=2"}, {4, "data=2,tensor=2"}, {4, "data=2,tensor=2,zero=3"}}) {
      SCOPED_TRACE(concat(parallel, ' ', optimizer));
      CompileOptions many = shared_by(devices, parallel);
      many.synchronize_batch_norm = devices > 2;
      expect_equal(trained(many), one);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ParallelLayers,
    testing::Values(Layers{"fused", fused, {"qkv:1/3", "proj:0", "gate_up:1/2", "gate_up.bias:0/2", "down:0"}, 4},
                    Layers{"dropping", dropping, {"qkv:1/3", "proj:0", "gate_up:1/2", "gate_up.bias:0/2", "down:0"}, 4},
                    Layers{"grouped", grouped_in_one_weight, {"qkv:1/2:1:1", "proj:0"}, 1},
                    Layers{"adapted", grouped_as<true, false, 1>, {"qkv:1/2:1:1", "up:1/2:1:1", "proj:0"}, 2},
                    Layers{"nested", grouped_as<false, true, 1>, {"qkv:1/2:1:1", "proj:0"}, 1},
                    Layers{"nested_and_adapted", grouped_as<true, true, 1>, {"qkv:1/2:1:1", "up:1/2:1:1", "proj:0"}, 2},
                    Layers{"read_twice", grouped_as<false, false, 2>, {"qkv:1/2:1:1", "proj:0", "proj2:0"}, 3},
                    Layers{"nested_gate", nested_gate, {"gate_up:1/2:1:3:2:1:3", "gate_up.bias:0/2:1:3:2:1:3", "down8:0", "down4:0", "down12:0"}, 1},
                    Layers{"lstm_by_directions", lstm, {"w:0", "r:0", "b:0", "head:0"}, 1},
                    Layers{"gru_by_directions", gru, {"w:0", "r:0", "b:0", "head:0"}, 1},
                    Layers{"tied", tied, {"table:0", "up:1", "up.bias:0", "down:0"}, 7},
                    Layers{"untied", untied, {"table:0", "head:1", "head.bias:0", "up:1", "up.bias:0", "down:0"}, 7},
                    Layers{"three_layers", three_layers, {"first:0", "firstb:0", "second:1"}, 1},
                    Layers{"convolutions", chain, {"c0:0", "scale1:0", "bias1:0", "mean1:0", "variance1:0", "c3:1", "c5:1"}, 2}),
    [](const auto& info) { return std::string(info.param.name); });

// Losses of which each device has some of the classes: neither scores nor labels as numbers of all classes are whole anywhere.
struct Classes {
  const char* name;
  void (*loss)(LossOptions&);
};
void PrintTo(const Classes& row, std::ostream* out) { *out << row.name; }
class ClassesInParts : public testing::TestWithParam<Classes> {};

TEST_P(ClassesInParts, AreNotGathered) {
  CompileOptions o = shared_by(2, "tensor=2");
  GetParam().loss(o.loss);
  const Plan plan = plan_of(untied, o);
  EXPECT_TRUE(split_of(plan).contains("head:1")) << text_of_plan(plan, true);
  for (const Exchange& e : plan.exchanges) EXPECT_NE(e.kind, ExchangeKind::all_gather) << e.name;
  for (const PlanTransfer& t : plan.transfers) EXPECT_LT(t.bytes, 8 * words * 4) << t.value;
  EXPECT_EQ(text_of_plan(plan, true).find(concat("[8,", words, "]")), std::string::npos) << text_of_plan(plan, true);
}

TEST_P(ClassesInParts, GiveTheLossOfOneDevice) {
  for (const auto& [devices, parallel] : std::vector<std::pair<std::size_t, const char*>>{{2, "tensor=2"}, {4, "data=2,tensor=2"}}) {
    SCOPED_TRACE(parallel);
    CompileOptions one = options_for(8, {1}), many = shared_by(devices, parallel);
    GetParam().loss(one.loss);
    GetParam().loss(many.loss);
    expect_equal(train(untied, many, 20, 0.02), train(untied, one, 20, 0.02));
  }
}

std::vector<double> rising_weights() {
  std::vector<double> weights;
  for (std::int64_t c = 0; c < words; ++c) weights.push_back(0.25 * static_cast<double>(1 + c % 5));
  return weights;
}
INSTANTIATE_TEST_SUITE_P(Rows, ClassesInParts,
                         testing::Values(Classes{"smoothed", [](LossOptions& l) { l.smoothing = 0.1; }},
                                         Classes{"weighted_by_class", [](LossOptions& l) { l.class_weights = rising_weights(); }},
                                         Classes{"weighted_by_sample", [](LossOptions& l) { l.sample_weights = true; }},
                                         Classes{"smoothed_but_for_one", [](LossOptions& l) {
                                                   l.smoothing = 0.1;
                                                   l.ignore_index = 2;
                                                 }},
                                         Classes{"all_of_it", [](LossOptions& l) {
                                                   l.smoothing = 0.2;
                                                   l.ignore_index = 1;
                                                   l.class_weights = rising_weights();
                                                   l.sample_weights = true;
                                                 }},
                                         Classes{"focal", [](LossOptions& l) { l.name = "focal"; }}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ParallelLayers, StatisticsOfChannelsAreTheBitsOfOneDevice) {
  CompileOptions many = shared_by(2, "tensor=2");
  many.parallel.splits =
      parse_splits({"x=tensor:1", "scale=tensor:0", "bias=tensor:0", "mean=tensor:0", "variance=tensor:0", "w=tensor:0"});
  const Trained one = train(channels, options_for(8, {1}), 5, 0.05), shared = train(channels, many, 5, 0.05);
  EXPECT_EQ(shared.plan.exchanges.size(), 1U) << text_of_plan(shared.plan, true);
  expect_equal(shared, one);
  const auto statistics = [](const Trained& t) {
    std::vector<NamedTensor> list;
    for (const NamedTensor& v : t.replicas[0])
      if (v.name == "mean" || v.name == "variance") list.push_back(v);
    return list;
  };
  expect_same_bits(statistics(shared), statistics(one));
}

// What stays whole is told with the number of devices that it could be shared out over.
TEST(ParallelLayers, TellHowManyPartsThereAre) {
  const Plan plan = plan_of(three_layers, shared_by(8, "tensor=8"));
  EXPECT_EQ(split_of(plan), (std::set<std::string>{"first:0", "firstb:0", "second:1"}));
  EXPECT_TRUE(std::ranges::any_of(plan.warnings, [](const std::string& w) {
    return w.find("'third': axis 0 of [5,16] has no 8 equal parts, but 5") != std::string::npos;
  })) << text_of_plan(plan, true);
}

// What of a weight no number of devices can share is told by its heads.
TEST(ParallelLayers, TellHowManyHeadsThereAre) {
  const auto told = [](Graph (*model)(std::int64_t), std::size_t devices, const std::string& text) {
    const Plan plan = plan_of(model, shared_by(devices, concat("tensor=", devices).c_str()));
    EXPECT_TRUE(std::ranges::any_of(plan.warnings, [&](const std::string& w) { return w.find(text) != std::string::npos; }))
        << text << '\n' << text_of_plan(plan, true);
  };
  told(grouped_as<false, false, 1, 6>, 2, "axis 2 of [8,6,3,2] has no 2 equal parts, but 3");
  told(grouped_in_one_weight, 4, "axis 2 of [8,6,2,2] has no 4 equal parts, but 2");
}

// With one head of keys there is nothing to share out.
TEST(ParallelLayers, TellWhichRunsOfAWeightHaveNoParts) {
  const Plan plan = plan_of(grouped_in_one_weight, shared_by(8, "tensor=8"));
  EXPECT_EQ(split_of(plan).count("qkv:1/2:1:1"), 0U);
  EXPECT_TRUE(std::ranges::any_of(plan.warnings, [](const std::string& w) {
    return w.find("'qkv': axis 0 of [16,8], in runs of 8, 4, 4, has no 8 equal parts, but 4") != std::string::npos;
  })) << text_of_plan(plan, true);
}

// Weights are cast where they are read, and split as they are in float32.
TEST(ParallelLayers, AreTheSameInSixteenBits) {
  for (const auto& model : {mlp, fused, grouped_in_one_weight}) {
    CompileOptions one = options_for(8, {1}), tensor = shared_by(2, "tensor=2");
    const std::set<std::string> wanted = split_of(plan_of(model, tensor));
    one.precision = tensor.precision = Precision::bf16;
    EXPECT_EQ(split_of(plan_of(model, tensor)), wanted);
    expect_trained_alike(train(model, tensor, 4, 0.05), train(model, one, 4, 0.05), 0.02);
  }
}

}  // namespace
}  // namespace tandem
