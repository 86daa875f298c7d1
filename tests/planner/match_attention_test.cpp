// Attention as exporters write it: which becomes one node, which may not, and that training is the same.
#include <limits>
#include <numeric>

#include "planner/rewrite/expand.h"
#include "planner/rewrite/simplify.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

constexpr std::int64_t B = 2, H = 2, S = 6, D = 4;
constexpr float nothing = -std::numeric_limits<float>::infinity();

struct Network {
  Graph graph;
  ValueId q = graph.add_input("q", {DType::float32, {B, H, S, D}}), k = graph.add_input("k", {DType::float32, {B, H, S, D}}),
          v = graph.add_input("v", {DType::float32, {B, H, S, D}});
  ValueId mask = graph.add_input("mask", {DType::float32, {B, 1, 1, S}}), keep = graph.add_input("keep", {DType::boolean, {B, 1, S, S}});
  ValueId node(const char* op, std::vector<ValueId> in, Attributes a = {}, int outputs = 1) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), outputs)].outputs[0];
  }
  ValueId number(float x) { return graph.add_constant("number", Tensor::scalar(x)); }
  ValueId parameter(const Shape& shape) {
    return graph.add_parameter("p", {DType::float32, shape}, Tensor(TensorType{DType::float32, shape}), true);
  }
  ValueId turned(ValueId x) { return node("Transpose", {x}, {{"perm", Ints{0, 1, 3, 2}}}); }
  ValueId scores() { return node("MatMul", {q, turned(k)}); }
  ValueId scaled() { return node("Mul", {scores(), number(0.5F)}); }
  ValueId softmax(ValueId s) { return node("Softmax", {s}, {{"axis", std::int64_t{-1}}}); }
  ValueId product(ValueId p) { return node("MatMul", {p, v}); }
  ValueId whole(ValueId s) { return product(softmax(s)); }
  // `seen` up to the query's own place and `offset` more, else `hidden`.
  template <class T>
  ValueId triangle(T seen, T hidden, std::int64_t offset = 0) {
    Tensor t(TensorType{dtype_of<T>(), {S, S}});
    const auto values = t.write<T>();
    for (std::int64_t i = 0; i < S * S; ++i) values[static_cast<std::size_t>(i)] = i % S <= i / S + offset ? seen : hidden;
    return graph.add_constant("triangle", t);
  }
};

struct Row {
  const char* name;
  ValueId (*output)(Network&);
  std::string expected;   // what becomes of it; empty: it stays
  std::string attributes = {};
};
const std::string plain = "AttentionTraining(q, k, v)", half = "scale=0.5";
const Row rows[] = {
    {"without_scale", [](Network& n) { return n.whole(n.scores()); }, plain, "scale=1"},
    {"scaled_scores", [](Network& n) { return n.whole(n.scaled()); }, plain, half},
    {"divided_scores",
     [](Network& n) {
       return n.whole(n.node("Div", {n.scores(), n.number(4)}));
     },
     plain, "scale=0.25"},
    {"scaled_queries_and_keys",
     [](Network& n) {
       return n.whole(n.node("MatMul", {n.node("Mul", {n.q, n.number(0.5F)}), n.node("Mul", {n.number(0.25F), n.turned(n.k)})}));
     },
     plain, "scale=0.125"},
    {"keys_scaled_before_they_are_turned",
     [](Network& n) {
       return n.whole(n.node("MatMul", {n.q, n.turned(n.node("Mul", {n.k, n.number(0.5F)}))}));
     },
     plain, half},
    {"keys_by_attribute",
     [](Network& n) {
       return n.whole(n.node("MatMul", {n.q, n.k}, {{"transB", std::int64_t{1}}}));
     },
     plain},
    {"without_heads",
     [](Network& n) {
       const auto flat = [&](ValueId x) { return n.node("Reshape", {x}, {{"shape", Ints{B * H, S, D}}}); };
       const ValueId s = n.node("MatMul", {flat(n.q), n.node("Transpose", {flat(n.k)}, {{"perm", Ints{0, 2, 1}}})});
       return n.node("MatMul", {n.softmax(s), flat(n.v)});
     },
     "Reshape(AttentionTraining(Reshape(q), Reshape(k), Reshape(v)))"},
    {"masked_with_heads_apart",  // Bart: products without heads, the mask with them
     [](Network& n) {
       const auto flat = [&](ValueId x) { return n.node("Reshape", {x}, {{"shape", Ints{B * H, S, D}}}); };
       ValueId s = n.node("MatMul", {flat(n.q), n.node("Transpose", {flat(n.k)}, {{"perm", Ints{0, 2, 1}}})});
       s = n.node("Add", {n.node("Reshape", {s}, {{"shape", Ints{B, H, S, S}}}), n.mask});
       return n.node("MatMul", {n.softmax(n.node("Reshape", {s}, {{"shape", Ints{B * H, S, S}}})), flat(n.v)});
     },
     "Reshape(AttentionTraining(q, k, v, mask))"},
    {"added_mask",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.mask}));
     },
     "AttentionTraining(q, k, v, mask)", half},
    {"mask_that_is_added_to",
     [](Network& n) {
       return n.whole(n.node("Add", {n.mask, n.scaled()}));
     },
     "AttentionTraining(q, k, v, mask)", half},
    {"two_masks",
     [](Network& n) {
       return n.whole(n.node("Add", {n.node("Add", {n.scaled(), n.mask}), n.mask}));
     },
     "AttentionTraining(q, k, v, Add(mask, mask))"},
    {"chosen",
     [](Network& n) {
       return n.whole(n.node("Where", {n.keep, n.scaled(), n.number(-1e4F)}));
     },
     "AttentionTraining(q, k, v, keep)", "fill=-10000"},
    {"chosen_otherwise",
     [](Network& n) {
       return n.whole(n.node("Where", {n.keep, n.number(nothing), n.scaled()}));
     },
     "AttentionTraining(q, k, v, Not(keep))", "fill=-inf"},
    {"added_truth",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.node("Where", {n.keep, n.number(0), n.number(nothing)})}));
     },
     "AttentionTraining(q, k, v, keep)", "fill=-inf"},
    {"chosen_and_added",
     [](Network& n) {
       return n.whole(n.node("Add", {n.node("Where", {n.keep, n.scaled(), n.number(nothing)}), n.mask}));
     },
     "AttentionTraining(q, k, v, Add(Where(keep, 0, -inf), mask))"},
    {"causal_by_truth",
     [](Network& n) {
       return n.whole(n.node("Where", {n.triangle(true, false), n.scaled(), n.number(nothing)}));
     },
     plain, "causal=1"},
    {"causal_by_infinity",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.triangle(0.0F, nothing)}));
     },
     plain, "causal=1"},
    {"causal_by_the_least_number",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.triangle(0.0F, std::numeric_limits<float>::lowest())}));
     },
     plain, "causal=1"},
    {"causal_behind_a_past",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.triangle(0.0F, nothing, 2)}));
     },
     plain, "offset=2"},
    {"causal_and_padded",
     [](Network& n) {
       return n.whole(n.node("Add", {n.node("Where", {n.triangle(true, false), n.scaled(), n.number(-3e38F)}), n.mask}));
     },
     "AttentionTraining(q, k, v, mask)", "causal=1"},
    {"causal_in_a_sum",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.node("Add", {n.mask, n.triangle(0.0F, nothing)})}));
     },
     "AttentionTraining(q, k, v, mask)", "causal=1"},
    {"a_triangle_that_could_be_seen_through",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.triangle(0.0F, -1e4F)}));
     },
     "AttentionTraining(q, k, v, Reshape(triangle))", "causal=0"},
    {"a_triangle_without_its_diagonal",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.triangle(0.0F, nothing, -1)}));
     },
     "AttentionTraining(q, k, v, Reshape(triangle))", "causal=0"},
    {"guarded",
     [](Network& n) {
       const ValueId p = n.softmax(n.node("Add", {n.scaled(), n.mask}));
       return n.product(n.node("Where", {n.node("IsNaN", {p}), n.number(0), p}));
     },
     "AttentionTraining(q, k, v, mask)", "guarded=2"},
    {"guarded_by_the_mask",
     [](Network& n) {
       const ValueId hidden =
           n.node("Equal", {n.node("ReduceMax", {n.mask}, {{"axes", Ints{3}}, {"keepdims", std::int64_t{1}}}), n.number(nothing)});
       return n.product(n.node("Where", {hidden, n.number(0), n.softmax(n.node("Add", {n.scaled(), n.mask}))}));
     },
     "AttentionTraining(q, k, v, mask)", "guarded=1"},
    {"dropped",
     [](Network& n) {
       const ValueId random = n.graph.add_input("random", {DType::int64, {4}});
       return n.product(n.node("DropoutTraining", {n.softmax(n.scaled()), random}, {{"ratio", 0.25F}, {"layer", std::int64_t{9}}}));
     },
     "AttentionTraining(q, k, v, -, random)", "inner=0"},
    {"dropped_by_samples",
     [](Network& n) {
       const ValueId random = n.graph.add_input("random", {DType::int64, {4}}),
                     holder = n.graph.add_input("holder", {DType::float32, {1, 5}});
       return n.product(n.node("DropoutTraining", {n.softmax(n.scaled()), random, holder},
                               {{"ratio", 0.25F}, {"layer", std::int64_t{9}}, {"axis", std::int64_t{0}}, {"inner", std::int64_t{B}}}));
     },
     "AttentionTraining(q, k, v, -, random, holder)", "inner=2"},
    {"shared_keys",
     [](Network& n) {
       const auto repeated = [&](const char* name) {
         const ValueId x = n.node("Reshape", {n.graph.add_input(name, {DType::float32, {B, 1, S, D}})}, {{"shape", Ints{B, 1, 1, S, D}}});
         return n.node("Reshape", {n.node("Expand", {x}, {{"shape", Ints{B, 1, H, S, D}}})}, {{"shape", Ints{B, H, S, D}}});
       };
       const ValueId keys = n.turned(repeated("few_keys"));
       return n.node("MatMul", {n.softmax(n.node("MatMul", {n.q, keys})), repeated("few_values")});
     },
     "AttentionTraining(q, few_keys, few_values)"},

    {"along_another_axis",
     [](Network& n) {
       return n.product(n.node("Softmax", {n.scaled()}, {{"axis", std::int64_t{2}}}));
     },
     ""},
    {"probabilities_read_elsewhere",
     [](Network& n) {
       const ValueId p = n.softmax(n.scaled());
       return n.node("Concat", {n.product(p), p}, {{"axis", std::int64_t{3}}});
     },
     ""},
    {"scores_read_elsewhere",
     [](Network& n) {
       const ValueId s = n.scaled();
       return n.node("Concat", {n.whole(s), s}, {{"axis", std::int64_t{3}}});
     },
     ""},
    {"a_learned_mask",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.parameter({1, H, S, S})}));
     },
     ""},
    {"a_mask_that_is_computed_of_a_parameter",
     [](Network& n) {
       return n.whole(n.node("Add", {n.scaled(), n.node("Mul", {n.mask, n.parameter({1})})}));
     },
     ""},
    {"a_mask_that_is_scaled",
     [](Network& n) {
       return n.whole(n.node("Mul", {n.node("Add", {n.scores(), n.mask}), n.number(0.5F)}));
     },
     ""},
    {"scaled_by_no_number",
     [](Network& n) {
       return n.whole(n.node("Mul", {n.scores(), n.mask}));
     },
     ""},
    {"capped", [](Network& n) { return n.whole(n.node("Tanh", {n.scores()})); }, ""},
    {"chosen_by_a_number_and_added",
     [](Network& n) {
       return n.whole(n.node("Add", {n.node("Where", {n.keep, n.scaled(), n.number(-1e4F)}), n.mask}));
     },
     ""},
    {"guarded_by_another_mask",
     [](Network& n) {
       const ValueId other = n.graph.add_input("other", {DType::float32, {B, 1, 1, S}});
       const ValueId hidden =
           n.node("Equal", {n.node("ReduceMax", {other}, {{"axes", Ints{3}}, {"keepdims", std::int64_t{1}}}), n.number(nothing)});
       return n.product(n.node("Where", {hidden, n.number(0), n.softmax(n.node("Add", {n.scaled(), n.mask}))}));
     },
     ""},
    {"guarded_with_ones",
     [](Network& n) {
       const ValueId p = n.softmax(n.scaled());
       return n.product(n.node("Where", {n.node("IsNaN", {p}), n.number(1), p}));
     },
     ""},
};

const Fuses all = [](const KernelRequest& r) { return r.op == "AttentionTraining"; };

class MatchAttention : public testing::TestWithParam<Row> {};

TEST_P(MatchAttention, MakesOneNodeOrNone) {
  Network n;
  n.graph.outputs = {GetParam().output(n)};
  const Graph got = passed("match_attention", n.graph, {.fuses = all});
  verify(got);
  const auto one = std::find_if(got.nodes.begin(), got.nodes.end(), [](const Node& node) { return node.op->name == "AttentionTraining"; });
  if (GetParam().expected.empty()) {
    EXPECT_EQ(one, got.nodes.end()) << test::expression(got, got.outputs[0]);
    return;
  }
  EXPECT_EQ(test::expression(got, got.outputs[0]), GetParam().expected);
  ASSERT_NE(one, got.nodes.end());
  EXPECT_NE(concat(' ', one->attributes, ' ').find(GetParam().attributes), std::string::npos) << to_string(one->attributes);
  EXPECT_EQ(passed("match_attention", n.graph, {.fuses = [](const KernelRequest&) { return false; }}).nodes.size(), n.graph.nodes.size())
      << "where no backend offers it";
}
INSTANTIATE_TEST_SUITE_P(Rows, MatchAttention, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(MatchAttention, TakesALearnedMaskInInference) {
  Network n;
  n.graph.outputs = {n.whole(n.node("Add", {n.scaled(), n.parameter({1, H, S, S})}))};
  const Graph got = passed("match_attention", n.graph, {.fuses = all, .options = for_training(false)});
  EXPECT_EQ(test::expression(got, got.outputs[0]), "AttentionTraining(q, k, v, p)");
  EXPECT_EQ(got[got[got.outputs[0]].producer].outputs.size(), 1U) << "nothing is kept for a gradient";
}

// ONNX's operator, by way of what it expands to.
struct OnnxRow {
  const char* name;
  Attributes attributes;
  ValueId (*output)(Network&, const Attributes&);
  std::string expected;  // empty: it is composed
  std::string written = {};
};
ValueId onnx(Network& n, std::vector<ValueId> in, const Attributes& a, int outputs = 1) {
  return n.node("Attention", std::move(in), a, outputs);
}
const OnnxRow onnx_rows[] = {
    {"plain", {}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v}, a); }, plain, "scale=0.4999999"},  // √½ · √½ in float32
    {"scaled", {{"scale", 0.25F}}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v}, a); }, plain, "scale=0.25"},
    {"causal", {{"is_causal", std::int64_t{1}}}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v}, a); }, plain, "causal=1"},
    {"masked", {}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v, n.mask}, a); }, "AttentionTraining(q, k, v, mask)", "guarded=1"},
    {"masked_by_truth", {}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v, n.keep}, a); }, "AttentionTraining(q, k, v, keep)", "guarded=1"},
    {"masked_and_causal", {{"is_causal", std::int64_t{1}}}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v, n.keep}, a); }, "AttentionTraining(q, k, v, keep)", "causal=1"},
    {"shared_keys", {},
     [](Network& n, const Attributes& a) {
       const TensorType few{DType::float32, {B, 1, S, D}};
       return onnx(n, {n.q, n.graph.add_input("few_keys", few), n.graph.add_input("few_values", few)}, a);
     },
     "AttentionTraining(q, few_keys, few_values)"},
    {"heads_together", {{"q_num_heads", std::int64_t{2}}, {"kv_num_heads", std::int64_t{2}}},
     [](Network& n, const Attributes& a) {
       const ValueId x = n.graph.add_input("x", {DType::float32, {B, S, 8}});
       return onnx(n, {x, x, x}, a);
     },
     "Reshape(Transpose(AttentionTraining(Transpose(Reshape(x)), Transpose(Reshape(x)), Transpose(Reshape(x)))))"},
    {"capped", {{"softcap", 2.0F}}, [](Network& n, const Attributes& a) { return onnx(n, {n.q, n.k, n.v}, a); }, ""},
    {"with_its_probabilities", {{"qk_matmul_output_mode", std::int64_t{3}}},
     [](Network& n, const Attributes& a) {
       const ValueId y = onnx(n, {n.q, n.k, n.v}, a, 4);
       return n.node("Concat", {y, n.graph[n.graph[y].producer].outputs[3]}, {{"axis", std::int64_t{3}}});
     },
     ""},
};

TEST(MatchAttention, FindsOnnxsOwn) {
  for (const OnnxRow& row : onnx_rows) {
    SCOPED_TRACE(row.name);
    Network n;
    n.graph.outputs = {row.output(n, row.attributes)};
    const Graph got = passed("match_attention", simplify(expand(n.graph, true)), {.fuses = all});
    verify(got);
    const auto one =
        std::find_if(got.nodes.begin(), got.nodes.end(), [](const Node& node) { return node.op->name == "AttentionTraining"; });
    EXPECT_EQ(one != got.nodes.end(), !row.expected.empty());
    if (one == got.nodes.end()) continue;
    EXPECT_EQ(test::expression(got, got.outputs[0]), row.expected);
    EXPECT_NE(concat(' ', one->attributes, ' ').find(row.written), std::string::npos) << to_string(one->attributes);
  }
}

// Two blocks on sequences of tokens: the first masked by what is fed, the second causal and dropped.
Graph transformer(std::int64_t n) {
  constexpr std::int64_t tokens = 20, width = 24, heads = 3;
  small_models::Builder b;
  b.graph.name = "transformer";
  ValueId x = b.graph.add_input("x", {DType::float32, {n, tokens, width}});
  const ValueId level = b.graph.add_constant("level", Tensor::scalar(-0.9F));
  const auto constant = [&](Tensor t) { return b.graph.add_constant(concat("known", b.graph.nodes.size()), std::move(t)); };
  Tensor triangle(TensorType{DType::boolean, {tokens, tokens}});
  for (std::int64_t i = 0; i < tokens * tokens; ++i) triangle.write<bool>()[static_cast<std::size_t>(i)] = i % tokens <= i / tokens;
  for (const bool causal : {false, true}) {
    const std::string name = causal ? "second/" : "first/";
    const auto projected = [&](const char* what, Ints perm) {
      const ValueId y = b.node("MatMul", {x, b.weight(name + what, {width, width}, 0.3F)});
      return b.node("Transpose", {b.node("Reshape", {y}, {{"shape", Ints{n, tokens, heads, width / heads}}})}, {{"perm", std::move(perm)}});
    };
    ValueId s =
        b.node("Mul", {b.node("MatMul", {projected("q", {0, 2, 1, 3}), projected("k", {0, 2, 3, 1})}), constant(Tensor::scalar(0.35F))});
    if (causal) {
      s = b.node("Where", {constant(triangle), s, constant(Tensor::scalar(nothing))});
    } else {  // by samples: keys whose first number is not small are out of reach, of some samples all
      const ValueId first =
          b.node("Reshape",
                 {b.node("Slice", {b.graph.inputs[0]}, {{"starts", Ints{0}}, {"ends", Ints{1}}, {"axes", Ints{2}}, {"steps", Ints{1}}})},
                 {{"shape", Ints{n, 1, 1, tokens}}});
      s = b.node("Add", {s, b.node("Where", {b.node("Less", {first, level}), constant(Tensor::scalar(0.0F)),
                                             constant(Tensor::scalar(std::numeric_limits<float>::lowest()))})});
    }
    ValueId p = b.node("Softmax", {s}, {{"axis", std::int64_t{3}}});
    if (causal) p = b.node("Dropout", {p}, {{"ratio", 0.2F}});
    const ValueId y = b.node("Transpose", {b.node("MatMul", {p, projected("v", {0, 2, 1, 3})})}, {{"perm", Ints{0, 2, 1, 3}}});
    x = b.node(
        "Add",
        {x, b.node("MatMul", {b.node("Reshape", {y}, {{"shape", Ints{n, tokens, width}}}), b.weight(name + "o", {width, width}, 0.3F)})});
  }
  x = b.node("ReduceMean", {x}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("w", {width, 5}, 0.5F), b.weight("b", {5}, 0.1F)})};
  return b.graph;
}

std::ptrdiff_t steps_of(const Plan& plan, std::string_view op) {
  const std::vector<Step>& steps = plan.program_of(0).steps;
  return std::count_if(steps.begin(), steps.end(), [&](const Step& s) { return s.op() == op; });
}

TEST(MatchAttention, TrainingIsTheSame) {
  using namespace small_models;
  const Trained wanted = train_on(AskedCpu(), transformer, options_for(8, {1}), 4, 0.05);
  EXPECT_EQ(steps_of(wanted.plan, "Softmax"), 2);
  for (const std::vector<double>& devices : {std::vector<double>{1}, {1, 1}, {3, 1}, {1, 1, 1, 1}, {1, 0}}) {
    const Trained got = train(transformer, options_for(8, devices), 4, 0.05);
    EXPECT_EQ(steps_of(got.plan, "AttentionTraining"), 2);
    EXPECT_EQ(steps_of(got.plan, "AttentionBackward"), 2);
    EXPECT_EQ(steps_of(got.plan, "Softmax"), 0);
    EXPECT_EQ(steps_of(got.plan, "AllGather"), 0);
    expect_close(got, wanted);
    for (std::size_t d = 1; d < got.replicas.size(); ++d) expect_same_bits(got.replicas[d], got.replicas[0]);
    for (std::size_t d = 0; d < got.allocated.size(); ++d)
      EXPECT_EQ(got.allocated[d], got.plan.program_of(d).peak_bytes()) << devices.size();
  }
  const Trained again = train(transformer, options_for(8, {1}), 4, 0.05), once = train(transformer, options_for(8, {1}), 4, 0.05);
  expect_same_bits(again.replicas[0], once.replicas[0]);
}

TEST(MatchAttention, BFloat16FollowsFloat32) {
  using namespace small_models;
  if (const std::string reason = cpu_backend().declines(Precision::bf16); !reason.empty()) GTEST_SKIP() << reason;
  CompileOptions o = options_for(8, {1});
  const Trained wide = train(transformer, o, 12, 0.01);
  o.precision = Precision::bf16;
  const Trained narrow = train(transformer, o, 12, 0.01);
  EXPECT_EQ(steps_of(narrow.plan, "AttentionTraining"), 2);
  for (const Step& s : narrow.plan.program_of(0).steps)
    if (s.op() == "AttentionTraining") {
      EXPECT_EQ(narrow.plan.program_of(0).buffers[s.inputs[0]].operand.dtype, DType::bfloat16);
    }
  for (std::size_t i = 0; i < wide.losses.size(); ++i)
    EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.03F * wide.losses[0]) << "step " << i;
}

}  // namespace
}  // namespace tandem
