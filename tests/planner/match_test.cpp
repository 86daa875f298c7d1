// What exporters write for activations and normalizations: what becomes one node, and what must not.
#include <cmath>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/simplify.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using small_models::Builder;

// Values of [2,3,8]; numbers, and parameters by name.
struct Network : Builder {
  ValueId x = graph.add_input("x", {DType::float32, {2, 3, 8}}), z = graph.add_input("z", {DType::float32, {2, 3, 8}});
  ValueId number(double v) { return graph.add_constant("c", Tensor::of<float>(Shape{}, std::vector{static_cast<float>(v)})); }
  ValueId op(const char* name, ValueId a, ValueId b) { return node(name, {a, b}); }
  ValueId op(const char* name, ValueId a, double b) { return node(name, {a, number(b)}); }
  ValueId op(const char* name, ValueId a) { return node(name, {a}); }
  ValueId parameter(const std::string& name, Shape shape = {8}) { return weight(name, std::move(shape), 1); }
  ValueId mean(ValueId v, Ints axes = {2}, std::int64_t keepdims = 1) {
    return node("ReduceMean", {v}, {{"axes", std::move(axes)}, {"keepdims", keepdims}});
  }
  ValueId softened(ValueId v, Ints axes = {2}) { return op("Sqrt", op("Add", mean(op("Pow", v, 2), std::move(axes)), 1e-5)); }
  // As TorchScript writes a LayerNorm before opset 17.
  ValueId normal(ValueId v, Ints axes = {2}) {
    const ValueId centred = op("Sub", v, mean(v, axes));
    return op("Div", centred, softened(centred, axes));
  }
};

struct Row {
  const char* name;
  ValueId (*output)(Network&);
  std::string expected;  // empty: it stays as it is
};

const double bend = std::sqrt(2 / M_PI);
const Row activations[] = {
    {"gelu_of_torch", [](Network& n) { return n.op("Mul", n.op("Mul", n.x, n.op("Add", n.op("Erf", n.op("Div", n.x, M_SQRT2)), 1)), 0.5); }, "Gelu(x)"},
    {"gelu_of_tensorflow", [](Network& n) { return n.op("Mul", n.op("Mul", n.x, 0.5), n.op("Add", n.op("Erf", n.op("Mul", n.x, M_SQRT1_2)), 1)); }, "Gelu(x)"},
    {"gelu_half_inside", [](Network& n) { return n.op("Mul", n.x, n.op("Mul", n.op("Add", n.op("Erf", n.op("Div", n.x, 1.4142099618911743)), 1), 0.5)); }, "Gelu(x)"},
    {"gelu_halved", [](Network& n) { return n.op("Div", n.op("Mul", n.x, n.op("Add", n.op("Erf", n.op("Div", n.x, M_SQRT2)), 1)), 2); }, "Gelu(x)"},
    {"gelu_of_a_product",
     [](Network& n) {
       const ValueId p = n.op("Mul", n.x, n.z);
       return n.op("Mul", n.op("Mul", p, n.op("Add", n.op("Erf", n.op("Div", p, M_SQRT2)), 1)), 0.5);
     },
     "Gelu(Mul(x, z))"},
    {"gated_gelu", [](Network& n) { return n.op("Mul", n.op("Mul", n.op("Mul", n.x, n.op("Add", n.op("Erf", n.op("Div", n.x, M_SQRT2)), 1)), 0.5), n.z); }, "Mul(Gelu(x), z)"},
    {"gelu_by_tanh", [](Network& n) { return n.op("Mul", n.op("Mul", n.x, 0.5), n.op("Add", n.op("Tanh", n.op("Mul", n.op("Add", n.x, n.op("Mul", n.op("Pow", n.x, 3), 0.044715)), bend)), 1)); },
     "Gelu(x)"},
    {"gelu_by_tanh_factored",
     [](Network& n) {
       const ValueId inner = n.op("Mul", n.op("Mul", n.x, bend), n.op("Add", n.op("Mul", n.op("Mul", n.x, 0.044715), n.x), 1));
       return n.op("Mul", n.op("Mul", n.x, 0.5), n.op("Add", n.op("Tanh", inner), 1));
     },
     "Gelu(x)"},
    {"swish", [](Network& n) { return n.op("Mul", n.x, n.op("Sigmoid", n.x)); }, "Swish(x)"},
    {"quick_gelu", [](Network& n) { return n.op("Mul", n.x, n.op("Sigmoid", n.op("Mul", n.x, 1.702))); }, "Swish(x)"},
    {"hard_swish", [](Network& n) { return n.op("Mul", n.x, n.node("HardSigmoid", {n.x}, {{"alpha", 1.0F / 6}, {"beta", 0.5F}})); }, "HardSwish(x)"},
    {"hard_swish_by_clip", [](Network& n) { return n.op("Div", n.op("Mul", n.x, n.node("Clip", {n.op("Add", n.x, 3)}, {{"min", 0.0F}, {"max", 6.0F}})), 6); }, "HardSwish(x)"},
    {"not_of_the_same", [](Network& n) { return n.op("Mul", n.op("Mul", n.z, n.op("Add", n.op("Erf", n.op("Div", n.x, M_SQRT2)), 1)), 0.5); }, ""},
    {"not_by_another_root", [](Network& n) { return n.op("Mul", n.op("Mul", n.x, n.op("Add", n.op("Erf", n.op("Div", n.x, 1.5)), 1)), 0.5); }, ""},
    {"not_another_cubic", [](Network& n) { return n.op("Mul", n.op("Mul", n.x, 0.5), n.op("Add", n.op("Tanh", n.op("Mul", n.op("Add", n.x, n.op("Mul", n.op("Pow", n.x, 3), 0.05)), bend)), 1)); }, ""},
    {"not_a_gate", [](Network& n) { return n.op("Mul", n.x, n.op("Sigmoid", n.z)); }, ""},
    {"not_a_sigmoid_read_twice",
     [](Network& n) {
       const ValueId s = n.op("Sigmoid", n.x);
       return n.op("Add", n.op("Mul", n.x, s), s);
     },
     ""},
    {"not_another_hard_sigmoid", [](Network& n) { return n.op("Mul", n.x, n.node("HardSigmoid", {n.x}, {{"alpha", 0.2F}, {"beta", 0.5F}})); }, ""},
};

const std::string alone = "RowNormalization(x)", whole = "RowNormalization(x, s, b)";
const Row normalizations[] = {
    {"layer_norm", [](Network& n) { return n.node("LayerNormalization", {n.x, n.parameter("s"), n.parameter("b")}); }, whole},
    {"layer_norm_from_axis_1", [](Network& n) { return n.node("LayerNormalization", {n.x, n.parameter("s", {3, 8})}, {{"axis", std::int64_t{1}}}); }, "RowNormalization(x, s)"},
    {"rms_norm", [](Network& n) { return n.node("RMSNormalization", {n.x, n.parameter("s")}); }, "RowNormalization(x, s)"},
    {"of_torchscript", [](Network& n) { return n.op("Add", n.op("Mul", n.normal(n.x), n.parameter("s")), n.parameter("b")); }, whole},
    {"without_bias", [](Network& n) { return n.op("Mul", n.normal(n.x), n.parameter("s")); }, "RowNormalization(x, s)"},
    {"alone", [](Network& n) { return n.normal(n.x); }, alone},
    {"two_axes", [](Network& n) { return n.normal(n.x, {1, 2}); }, alone},
    {"scale_behind_ones", [](Network& n) { return n.op("Mul", n.normal(n.x), n.parameter("s", {1, 1, 8})); }, "RowNormalization(x, s)"},
    {"by_reciprocal",
     [](Network& n) {
       const ValueId c = n.op("Sub", n.x, n.mean(n.x));
       return n.op("Mul", n.op("Mul", c, n.op("Reciprocal", n.op("Sqrt", n.op("Add", n.mean(n.op("Mul", c, c)), 1e-5)))), n.parameter("s"));
     },
     "RowNormalization(x, s)"},
    {"of_tensorflow",
     [](Network& n) {
       const ValueId m = n.mean(n.x), c = n.op("Sub", n.x, m);
       const ValueId k = n.op("Mul", n.op("Reciprocal", n.op("Sqrt", n.op("Add", n.mean(n.op("Mul", c, c)), 1e-5))), n.parameter("s"));
       return n.op("Add", n.op("Mul", n.x, k), n.op("Sub", n.parameter("b"), n.op("Mul", m, k)));
     },
     whole},
    {"of_llama", [](Network& n) { return n.op("Mul", n.parameter("s"), n.op("Mul", n.x, n.op("Reciprocal", n.softened(n.x)))); }, "RowNormalization(x, s)"},
    {"by_one_over", [](Network& n) { return n.op("Mul", n.x, n.op("Div", n.number(1), n.softened(n.x))); }, alone},
    {"through_casts",
     [](Network& n) {
       const ValueId x = n.node("Cast", {n.x}, {{"to", std::int64_t{1}}});
       return n.op("Mul", n.parameter("s"), n.node("Cast", {n.op("Div", x, n.softened(x))}, {{"to", std::int64_t{1}}}));
     },
     "RowNormalization(x, s)"},
    {"residual", [](Network& n) { return n.node("LayerNormalization", {n.op("Add", n.op("Relu", n.x), n.op("Neg", n.z)), n.parameter("s"), n.parameter("b")}); },
     "RowNormalization(Relu(x), s, b, Neg(z))"},
    {"residual_that_stands_second",
     [](Network& n) {
       const ValueId x = n.op("Relu", n.x);
       return n.op("Add", n.node("LayerNormalization", {n.op("Add", n.op("Neg", n.z), x), n.parameter("s")}), x);
     },
     "Add(RowNormalization(Relu(x), s, -, Neg(z)), Relu(x))"},
    {"residual_read_on",
     [](Network& n) {
       const ValueId sum = n.op("Add", n.op("Relu", n.x), n.op("Neg", n.z));
       return n.op("Add", sum, n.node("LayerNormalization", {sum, n.parameter("s")}));
     },
     "Add(RowNormalization:3(Relu(x), s, -, Neg(z)), RowNormalization(Relu(x), s, -, Neg(z)))"},
    {"broadcast_is_no_residual", [](Network& n) { return n.node("LayerNormalization", {n.op("Add", n.op("Relu", n.x), n.parameter("p")), n.parameter("s")}); }, "RowNormalization(Add(Relu(x), p), s)"},
    {"normal_read_twice",
     [](Network& n) {
       const ValueId y = n.normal(n.x);
       return n.op("Add", n.op("Mul", y, n.parameter("s")), y);
     },
     "Add(Mul(RowNormalization(x), s), RowNormalization(x))"},
    {"scale_of_samples", [](Network& n) { return n.op("Mul", n.normal(n.x), n.z); }, "Mul(RowNormalization(x), z)"},
    {"scale_of_another_axis", [](Network& n) { return n.op("Mul", n.normal(n.x), n.parameter("s", {3, 1})); }, "Mul(RowNormalization(x), s)"},
    {"not_the_first_axes", [](Network& n) { return n.normal(n.x, {1}); }, ""},
    {"not_by_another_mean", [](Network& n) { return n.op("Div", n.op("Sub", n.x, n.mean(n.z)), n.softened(n.x)); }, ""},
    {"not_by_another_deviation", [](Network& n) { return n.op("Div", n.op("Sub", n.x, n.mean(n.x)), n.softened(n.op("Sub", n.z, n.mean(n.z)))); }, ""},
    {"not_cubes", [](Network& n) { return n.op("Div", n.x, n.op("Sqrt", n.op("Add", n.mean(n.op("Pow", n.x, 3)), 1e-5))); }, ""},
    {"not_with_statistics_read",
     [](Network& n) {
       const NodeId id = n.graph.add_node(internal_operator("LayerNormalization"), "l", {}, {n.x, n.parameter("s")}, 3);
       return n.op("Add", n.graph[id].outputs[0], n.graph[id].outputs[1]);
     },
     ""},
};

const Fuses rows_offered = [](const KernelRequest& r) { return r.op == "RowNormalization"; };

void expect(const Row& row, Graph (*pass)(const Graph&)) {
  Network n;
  n.graph.outputs = {row.output(n)};
  const Graph got = simplify(pass(n.graph));
  verify(got);
  EXPECT_EQ(test::expression(got, got.outputs[0]),
            row.expected.empty() ? test::expression(simplify(n.graph), n.graph.outputs[0]) : row.expected);
}

class Activations : public testing::TestWithParam<Row> {};
TEST_P(Activations, Become) { expect(GetParam(), [](const Graph& g) { return passed("match_activations", g); }); }
INSTANTIATE_TEST_SUITE_P(Rows, Activations, testing::ValuesIn(activations), [](const auto& info) { return std::string(info.param.name); });

class Normalizations : public testing::TestWithParam<Row> {};
TEST_P(Normalizations, Become) {
  expect(GetParam(), [](const Graph& g) { return passed("match_normalization", g, {.fuses = rows_offered}); });
}
TEST_P(Normalizations, StayWhereNothingIsOffered) {
  Network n;
  n.graph.outputs = {GetParam().output(n)};
  const Graph got = passed("match_normalization", n.graph, {.fuses = [](const KernelRequest&) { return false; }});
  EXPECT_EQ(test::expression(got, got.outputs[0]), test::expression(n.graph, n.graph.outputs[0]));
}
INSTANTIATE_TEST_SUITE_P(Rows, Normalizations, testing::ValuesIn(normalizations),
                         [](const auto& info) { return std::string(info.param.name); });

// As PyTorch writes a GroupNorm of one group.
ValueId of_one_group(Network& n, float scale = 1) {
  const auto numbers = [&](float v) { return n.graph.add_constant("c", Tensor::of<float>(Shape{1}, std::vector{v})); };
  const ValueId apart = n.node("Reshape", {n.x}, {{"shape", Ints{2, 1, 24}}});
  return n.node("Reshape", {n.node("InstanceNormalization", {apart, numbers(scale), numbers(0)}, {{"epsilon", 1e-3F}})},
                {{"shape", Ints{2, 3, 8}}});
}
const std::string grouped = "GroupNormalizationTraining(x, s, b)";
const Row groups[] = {
    {"instance_norm", [](Network& n) { return n.node("InstanceNormalization", {n.x, n.parameter("s", {3}), n.parameter("b", {3})}); }, grouped},
    {"group_norm", [](Network& n) { return n.node("GroupNormalization", {n.x, n.parameter("s", {3}), n.parameter("b", {3})}, {{"num_groups", std::int64_t{1}}}); }, grouped},
    {"group_norm_with_a_scale_a_group", [](Network& n) { return n.node("GroupNormalization", {n.x, n.parameter("s", {1}), n.parameter("b", {1})}, {{"num_groups", std::int64_t{1}}}); },
     "GroupNormalizationTraining(x, Reshape(Expand(s)), Reshape(Expand(b)))"},
    {"written_out", [](Network& n) { return n.op("Add", n.op("Mul", of_one_group(n), n.parameter("s", {3, 1})), n.parameter("b", {3, 1})); }, grouped},
    {"written_out_the_other_way", [](Network& n) { return n.op("Add", n.parameter("b", {1, 3, 1}), n.op("Mul", n.parameter("s", {1, 3, 1}), of_one_group(n))); }, grouped},
    {"written_out_without_bias", [](Network& n) { return n.op("Relu", n.op("Mul", of_one_group(n), n.parameter("s", {3, 1}))); }, "Relu(GroupNormalizationTraining(x, s))"},
    {"written_out_alone", [](Network& n) { return of_one_group(n); }, "GroupNormalizationTraining(x)"},
    {"not_a_scale_of_samples", [](Network& n) { return n.op("Mul", of_one_group(n), n.z); }, "Mul(GroupNormalizationTraining(x), z)"},
    {"not_a_scale_of_places", [](Network& n) { return n.op("Mul", of_one_group(n), n.parameter("s", {8})); }, "Mul(GroupNormalizationTraining(x), s)"},
    {"not_a_scale_of_groups_as_ones", [](Network& n) { return of_one_group(n, 2); }, "Reshape(GroupNormalizationTraining(Reshape(x), 2, 0))"},
};
const Fuses groups_offered = [](const KernelRequest& r) { return r.op == "GroupNormalizationTraining"; };
class Groups : public testing::TestWithParam<Row> {};
TEST_P(Groups, Become) {
  expect(GetParam(), [](const Graph& g) { return passed("match_group_normalization", g, {.fuses = groups_offered}); });
}
INSTANTIATE_TEST_SUITE_P(Rows, Groups, testing::ValuesIn(groups), [](const auto& info) { return std::string(info.param.name); });

Graph images(std::int64_t n) {
  Builder b;
  b.graph.name = "images";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 4, 6}});
  x = b.node("Conv", {x, b.weight("c", {6, 4, 3}, 0.4F)}, {{"kernel_shape", Ints{3}}, {"pads", Ints{1, 1}}});
  x = b.node("Relu", {b.node("GroupNormalization", {x, b.weight("g_scale", {6}, 0.5F), b.weight("g_bias", {6}, 0.1F)},
                             {{"num_groups", std::int64_t{3}}})});
  x = b.node("InstanceNormalization", {x, b.weight("i_scale", {6}, 0.7F), b.weight("i_bias", {6}, 0.2F)});
  x = b.node("ReduceMax", {x}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("head", {5, 6}, 0.3F), b.weight("head_b", {5}, 0.1F)}, {{"transB", std::int64_t{1}}})};
  return b.graph;
}

TEST(Groups, TrainOnSeveralDevicesAsOnOneAndAsTheirParts) {
  using namespace small_models;
  AskedCpu expands;
  expands.gains = [](const KernelRequest&) { return false; };
  const Trained one = train(images, options_for(8, {1}), 6, 0.05);
  const std::vector<Step>& steps = one.plan.program_of(0).steps;
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "GroupNormalizationTraining"; }), 2);
  EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "GroupNormalizationBackward"; }), 2);
  expect_close(one, train_on(expands, images, options_for(8, {1}), 6, 0.05));
  for (const std::vector<double>& devices : {std::vector<double>{1, 1}, {2, 1}, {1, 1, 1, 1}, {1, 0}})
    expect_close(train(images, options_for(8, devices), 6, 0.05), one);
}

// A block of a transformer without its attention: norms before and after a residual, Gelu between products of tokens.
Graph tokens(std::int64_t n) {
  Builder b;
  b.graph.name = "tokens";
  const auto norm = [&](ValueId v, const std::string& name) {
    return b.node("LayerNormalization", {v, b.weight(name + "_scale", {8}, 0.5F), b.weight(name + "_bias", {8}, 0.1F)});
  };
  const auto dense = [&](ValueId v, const std::string& name, std::int64_t in, std::int64_t out) {
    return b.node("Add", {b.node("MatMul", {v, b.weight(name, {in, out}, 0.3F)}), b.weight(name + "_b", {out}, 0.1F)});
  };
  ValueId x = b.graph.add_input("x", {DType::float32, {n, 6, 8}});
  x = dense(x, "embed", 8, 8);
  x = b.node("Add", {x, dense(b.node("Gelu", {dense(norm(x, "n1"), "up", 8, 24)}), "down", 24, 8)});
  x = norm(x, "n2");
  x = b.node("Add", {x, dense(b.node("Swish", {dense(x, "up2", 8, 16)}), "down2", 16, 8)});
  x = b.node("RMSNormalization", {x, b.weight("n3", {8}, 1)});
  const ValueId epsilon = b.graph.add_constant("epsilon", Tensor::of<float>(Shape{}, std::vector<float>{1e-2F}));
  const ValueId square = b.node("ReduceMean", {b.node("Mul", {x, x})}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{1}}});
  x = b.node("Mul", {b.node("Div", {x, b.node("Sqrt", {b.node("Add", {square, epsilon})})}), x});  // without a scale
  x = b.node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {dense(x, "head", 8, 5)};
  return b.graph;
}

TEST(Normalizations, TrainOnSeveralDevicesAsOnOneAndAsTheirParts) {
  using namespace small_models;
  AskedCpu expands;
  expands.gains = [](const KernelRequest&) { return false; };
  const Trained one = train(tokens, options_for(8, {1}), 6, 0.05);
  const std::vector<Step>& steps = one.plan.program_of(0).steps;
  const auto count = [&](std::string_view op, std::size_t outputs) {
    return std::count_if(steps.begin(), steps.end(), [&](const Step& s) { return s.op() == op && s.outputs.size() == outputs; });
  };
  EXPECT_EQ(count("RowNormalization", 4), 2);  // behind a residual's sum
  EXPECT_EQ(count("RowNormalization", 3), 2);
  EXPECT_EQ(count("RowNormalizationBackward", 3), 2);
  EXPECT_EQ(count("RowNormalizationBackward", 2), 1);
  EXPECT_EQ(count("RowNormalizationBackward", 1), 1);  // no scale
  EXPECT_EQ(count("ReduceSum", 1), 0) << "a bias's gradient is the product's";
  expect_close(one, train_on(expands, tokens, options_for(8, {1}), 6, 0.05));
  for (const std::vector<double>& devices : {std::vector<double>{1, 1}, {2, 1}, {1, 1, 1, 1}, {1, 0}})
    expect_close(train(tokens, options_for(8, devices), 6, 0.05), one);
  const Trained again = train(tokens, options_for(8, {1}), 6, 0.05);
  EXPECT_EQ(again.losses, one.losses);
}

TEST(FuseLayers, TheBiasOfAProductOfTokensIsTheProducts) {
  Network n;
  const ValueId rows = n.node("Reshape", {n.x}, {{"shape", Ints{6, 8}}});
  const ValueId product = n.node("Reshape", {n.node("InnerProduct", {rows, n.parameter("w", {4, 8})})}, {{"shape", Ints{2, 3, 4}}});
  n.graph.outputs = {n.op("Add", product, n.parameter("b", {4}))};
  const Graph got = passed("fuse_layers", n.graph);
  EXPECT_EQ(test::expression(got, got.outputs[0]), "Reshape(InnerProduct(Reshape(x), w, b))");
  n.graph.outputs = {n.op("Add", product, n.parameter("c", {3, 1}))};
  const Graph other = passed("fuse_layers", n.graph);
  EXPECT_EQ(test::expression(other, other.outputs[0]), "Add(Reshape(InnerProduct(Reshape(x), w)), c)");
}

}  // namespace
}  // namespace tandem
