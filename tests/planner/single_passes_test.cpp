// Single passes: a graph as text (graph/parse.h), and what the pass makes of it.
#include <gtest/gtest.h>

#include "graph/operator.h"
#include "graph/parse.h"
#include "tests/planner/passed.h"

namespace tandem {
namespace {

// A line for each input and parameter, for each node that somebody reads or that updates, and for each output. A node stands behind its
// operands, in their order: in which order a pass makes what does not depend on each other is the compiler's affair. Values that nodes give
// are v0, v1, ...; constants of one element are their number.
class Lines {
 public:
  explicit Lines(const Graph& graph) : graph_(graph), names_(graph.values.size()) {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      const Value& v = graph.values[i];
      if (v.kind != ValueKind::activation)
        names_[i] = v.kind == ValueKind::constant && v.data->elements() == 1 ? text_of(v.data->to_doubles()[0]) : v.name;
      if (v.kind == ValueKind::input) text_ += concat("given ", v.name, ' ', v.type, '\n');
      if (v.kind == ValueKind::parameter)
        text_ += concat(v.trainable ? "trained " : "kept ", v.name, ' ', v.type,
                        v.role == ValueRole::plain ? "" : concat(" as ", name_of(v.role)), '\n');
    }
  }

  std::string text() {
    for (const GraphOutput& out : graph_.outputs) name(out);
    for (const Node& node : graph_.nodes)
      if (!node.op->in_place.empty()) name(node.outputs[0]);
    for (const GraphOutput& out : graph_.outputs) text_ += concat("gives ", name(out), '\n');
    return text_;
  }

 private:
  std::string name(ValueId v) {
    if (!v.present()) return "-";
    if (names_[v].empty()) add(graph_[graph_[v].producer]);
    return names_[v];
  }

  void add(const Node& node) {
    std::string outputs, inputs;
    for (const ValueId in : node.inputs) inputs += concat(inputs.empty() ? "" : ", ", name(in));
    for (const ValueId out : node.outputs) {
      if (out.present()) names_[out] = concat('v', number_++);
      outputs += concat(outputs.empty() ? "" : ", ", out.present() ? names_[out] : "-");
    }
    text_ +=
        concat(outputs, " = ", node.op->name, '(', inputs, ')', node.attributes.empty() ? "" : concat(" {", node.attributes, '}'), '\n');
  }

  const Graph& graph_;
  IdVector<ValueId, std::string> names_;
  std::string text_;
  int number_ = 0;
};
std::string lines_of(const Graph& graph) { return Lines(graph).text(); }

struct Row {
  const char* name;
  const char* pass;
  const char* graph;
  void (*set)(PassInput&);
  const char* expected;  // empty: the pass leaves the graph as it is
  std::vector<std::string> warnings{};
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

void nothing(PassInput&) {}

constexpr const char* normalized =
    "given x float32[2,3,4,4]\n"
    "trained scale float32[3]\n"
    "trained bias float32[3]\n"
    "kept mean float32[3]\n"
    "kept variance float32[3]\n"
    "y = BatchNormalization(x, scale, bias, mean, variance) {epsilon=0.5}\n"
    "gives y\n";
constexpr const char* view =
    "given x float32[2,3]\n"
    "trained w float32[5,3]\n"
    "t = Transpose(w) {perm=[1,0]}\n"
    "y = MatMul(x, t)\n"
    "gives y\n";
constexpr const char* layers =
    "given x bfloat16[2,16]\n"
    "trained first bfloat16[32,16]\n"
    "trained middle bfloat16[16,32]\n"
    "trained odd bfloat16[20,16]\n"
    "trained last bfloat16[4,20]\n"
    "a = InnerProduct fc1(x, first)\n"
    "b = InnerProduct fc2(a, middle)\n"
    "c = InnerProduct fc3(b, odd)\n"
    "d = InnerProduct fc4(c, last)\n"
    "gives d\n";
constexpr const char* marked =
    "given x bfloat16[2,16]\n"
    "given dy bfloat16[2,32]\n"
    "trained w bfloat16[32,16]\n"
    "y = InnerProduct(x, w) {fp8=1}\n"
    "dx = InnerProductBackwardData(dy, w) {fp8=1, input_shape=[2,16]}\n"
    "gives y\n"
    "gives dx\n";
constexpr const char* kept =
    "given x float32[2,6]\n"
    "kept w float32[3,6]\n"
    "y = InnerProduct(x, w)\n"
    "gives y\n";

const Row rows[] = {
    {"bytes_are_looked_up", "give_bytes", "given x float32[2,3]\ny = Relu(x)\ngives y\n",
     [](PassInput& in) { in.options.given_bytes["x"] = {.perm = {}, .axis = 1, .table = std::vector<float>(256)}; },
     "given x uint8[2,3]\nv0 = LookUp(x, x/table) {axis=1}\nv1 = Relu(v0)\ngives v1\n"},
    {"bytes_in_another_order_are_turned_first", "give_bytes", "given x float32[2,3,4]\ny = Relu(x)\ngives y\n",
     [](PassInput& in) { in.options.given_bytes["x"] = {.perm = {0, 2, 1}, .axis = 1, .table = std::vector<float>(256)}; },
     "given x uint8[2,4,3]\nv0 = Transpose(x) {perm=[0,2,1]}\nv1 = LookUp(v0, x/table) {axis=1}\nv2 = Relu(v1)\ngives v2\n"},
    {"frozen_scale_and_bias_keep_the_statistics", "freeze", normalized, [](PassInput& in) { in.options.trained.freeze = {"scale", "bias"}; },
     "given x float32[2,3,4,4]\nkept scale float32[3]\nkept bias float32[3]\nkept mean float32[3]\nkept variance float32[3]\n"
     "v0 = BatchNormalization(x, scale, bias, mean, variance) {epsilon=0.5 frozen=1}\ngives v0\n",
     {"frozen: 1 BatchNormalization normalizes with running statistics, which stay as they are (to train with those of the batch: option unfreeze their names)"}},
    {"frozen_scale_alone_is_a_parameter_less", "freeze", normalized, [](PassInput& in) { in.options.trained.freeze = {"scale"}; },
     "given x float32[2,3,4,4]\nkept scale float32[3]\ntrained bias float32[3]\nkept mean float32[3]\nkept variance float32[3]\n"
     "v0 = BatchNormalization(x, scale, bias, mean, variance) {epsilon=0.5}\ngives v0\n"},
    {"unfrozen_statistics_follow_the_batch", "freeze", normalized,
     [](PassInput& in) {
       in.options.trained.freeze = {"*"};
       in.options.trained.unfreeze = {"mean"};
     },
     "given x float32[2,3,4,4]\nkept scale float32[3]\nkept bias float32[3]\nkept mean float32[3]\nkept variance float32[3]\n"
     "v0 = BatchNormalization(x, scale, bias, mean, variance) {epsilon=0.5}\ngives v0\n"},
    {"a_dialect_becomes_what_onnx_has", "expand_dialects", "given x float32[2,3]\ntrained b float32[3]\ny = com.microsoft::BiasGelu(x, b)\ngives y\n", nothing,
     "given x float32[2,3]\ntrained b float32[3]\nv0 = Add(x, b)\nv1 = GeluErf(v0)\ngives v1\n"},
    {"composites_of_onnx_stay", "expand_dialects", "given x float32[2,3]\ny = Gelu(x)\ngives y\n", nothing, ""},
    {"statistics_are_summed_over_devices", "synchronize_batch_norm",
     "given x float32[2,3,4,4]\ntrained scale float32[3]\ntrained bias float32[3]\ny, m, v, s = BatchNormalizationTraining(x, scale, bias) {epsilon=0.5}\ngives y\n",
     [](PassInput& in) {
       in.options.batch = 4;
       in.samples = 2;
     },
     "given x float32[2,3,4,4]\ntrained scale float32[3]\ntrained bias float32[3]\n"
     "v0 = ReduceSum(x) {axes=[0,2,3] keepdims=1 noop_with_empty_axes=0}\nv1 = AllReduce(v0)\nv2 = Mul(v1, 0.015625)\nv3 = Sub(x, v2)\nv4 = Mul(v3, v3)\n"
     "v5 = ReduceSum(v4) {axes=[0,2,3] keepdims=1 noop_with_empty_axes=0}\nv6 = AllReduce(v5)\nv7 = Mul(v6, 0.015625)\nv8 = Add(v7, 0.5)\nv9 = Sqrt(v8)\n"
     "v10 = Reciprocal(v9)\nv11 = Reshape(scale) {allowzero=1 shape=[1,3,1,1]}\nv12 = Mul(v10, v11)\nv13 = Mul(v3, v12)\nv14 = Reshape(bias) {allowzero=1 shape=[1,3,1,1]}\n"
     "v15 = Add(v13, v14)\ngives v15\n"},
    {"a_product_by_a_view_is_one_by_a_parameter", "expand_again", view, nothing, "given x float32[2,3]\ntrained w float32[5,3]\nv0 = InnerProduct(x, w)\ngives v0\n"},
    {"what_kernels_know_stays", "expand_again", "given x float32[2,3]\ny = Relu(x)\ngives y\n", nothing, ""},
    {"products_between_the_first_and_the_last_layer_in_8_bits", "choose_fp8", layers, [](PassInput& in) { in.options.precision = Precision::fp8; },
     "given x bfloat16[2,16]\ntrained first bfloat16[32,16]\ntrained middle bfloat16[16,32]\ntrained odd bfloat16[20,16]\ntrained last bfloat16[4,20]\n"
     "v0 = InnerProduct(x, first)\nv1 = InnerProduct(v0, middle) {fp8=1}\nv2 = InnerProduct(v1, odd)\nv3 = InnerProduct(v2, last)\ngives v3\n",
     {"precision fp8 is experimental: 1 product is computed in 8 bits, everything else as in bf16; of products by weights stay in bf16 1 first ('fc1'), 1 last ('fc4'), "
      "1 of sizes that are no multiples of 16 ('fc3')"}},
    {"no_product_in_8_bits_in_bf16", "choose_fp8", layers, [](PassInput& in) { in.options.precision = Precision::bf16; }, ""},
    {"marked_products_take_rounded_operands", "quantize_products", marked, [](PassInput& in) { in.options.precision = Precision::fp8; }, "given x bfloat16[2,16]\ngiven dy bfloat16[2,32]\ntrained w bfloat16[32,16]\nkept tandem.fp8 float32[3,17] as optimizer state\n"
     "v0, v1, v2 = QuantizeFp8(x, tandem.fp8) {slot=0 to=17}\nv3, v4, v5, v6 = QuantizeFp8(w, tandem.fp8) {slot=1 to=17}\nv7 = ProductFp8(v0, v3, v1, v4) {fast=1}\n"
     "v8, v9, v10 = QuantizeFp8(dy, tandem.fp8) {slot=2 to=19}\nv11 = ProductFp8(v8, v6, v9, v4) {fast=0}\n"
     "v12 = Fp8ScaleUpdate(tandem.fp8, v2, v5, v10) {margin=0 to=[17,17,19]}\ngives v7\ngives v11\n"},
    {"devices_agree_on_the_largest", "quantize_products", marked,
     [](PassInput& in) {
       in.options.precision = Precision::fp8;
       in.placement.emplace();
     },
     "given x bfloat16[2,16]\ngiven dy bfloat16[2,32]\ntrained w bfloat16[32,16]\nkept tandem.fp8 float32[3,17] as optimizer state\n"
     "v0, v1, v2 = QuantizeFp8(x, tandem.fp8) {slot=0 to=17}\nv3, v4, v5, v6 = QuantizeFp8(w, tandem.fp8) {slot=1 to=17}\nv7 = ProductFp8(v0, v3, v1, v4) {fast=1}\n"
     "v8, v9, v10 = QuantizeFp8(dy, tandem.fp8) {slot=2 to=19}\nv11 = ProductFp8(v8, v6, v9, v4) {fast=0}\n"
     "v12 = AllReduce(v2) {max=1}\nv13 = AllReduce(v5) {max=1}\nv14 = AllReduce(v10) {max=1}\n"
     "v15 = Fp8ScaleUpdate(tandem.fp8, v12, v13, v14) {margin=0 to=[17,17,19]}\ngives v7\ngives v11\n"},
    {"unmarked_products_stay", "quantize_products", layers, [](PassInput& in) { in.options.precision = Precision::fp8; }, ""},
    {"samples_go_from_what_draws", "forget_samples", "given x float32[4,3]\ngiven random int64[4]\ny = DropoutTraining(x, random, x) {ratio=0.5, axis=0, outer=1, inner=1}\ngives y\n", nothing,
     "given x float32[4,3]\ngiven random int64[4]\nv0 = DropoutTraining(x, random) {axis=0 inner=1 outer=1 ratio=0.5}\ngives v0\n"},
    {"parameters_in_the_owners_shape", "keep_parameters", kept,
     [](PassInput& in) {
       static const Plan owner = [] {
         Plan plan;
         plan.parameters.push_back(
             {.name = "w", .type = {DType::float32, {3, 6}}, .parts = {{.operand = {DType::float32, {3, 6, 1, 1}, {}}}}});
         return plan;
       }();
       in.parameters_of = &owner;
     },
     "given x float32[2,6]\nkept w float32[3,6,1,1]\nv0 = Reshape(w) {allowzero=1 shape=[3,6]}\nv1 = InnerProduct(x, v0)\ngives v1\n"},
    {"parameters_that_lie_turned_are_turned_back", "keep_parameters", kept,
     [](PassInput& in) {
       static const Plan owner = [] {
         Plan plan;
         plan.parameters.push_back(
             {.name = "w", .type = {DType::float32, {3, 6}}, .source = Layout("ba"), .parts = {{.operand = {DType::float32, {6, 3}, {}}}}});
         return plan;
       }();
       in.parameters_of = &owner;
     },
     "given x float32[2,6]\nkept w float32[6,3]\nv0 = Transpose(w) {perm=[1,0]}\nv1 = InnerProduct(x, v0)\ngives v1\n"},
};

class SinglePasses : public testing::TestWithParam<Row> {};

TEST_P(SinglePasses, Make) {
  const Row& row = GetParam();
  const Graph before = parse(row.graph);
  std::vector<std::string> warnings;
  PassInput in{.warnings = &warnings};
  row.set(in);
  const Graph got = passed(row.pass, before, in);
  verify(got);
  EXPECT_EQ(lines_of(got), std::string(row.expected).empty() ? lines_of(before) : row.expected);
  EXPECT_EQ(warnings, row.warnings);
}
INSTANTIATE_TEST_SUITE_P(Rows, SinglePasses, testing::ValuesIn(rows), [](const auto& row) { return std::string(row.param.name); });

TEST(SinglePass, SaysWhatItCannot) {
  PassInput bytes{.options = {}};
  bytes.options.given_bytes["z"] = {.table = std::vector<float>(256)};
  expect_error("has no input 'z' to be given as bytes",
               [&] { passed("give_bytes", parse("graph m\ngiven x float32[2]\ngives x"), bytes); });
  PassInput frozen;
  frozen.options.trained.freeze = {"bais"};
  expect_error("did you mean 'bias'?", [&] { passed("freeze", parse(normalized), frozen); });
  PassInput groups;
  groups.options.precision = Precision::fp8;
  groups.placement.emplace().groups.resize(2);
  expect_error("expected one group along one axis", [&] { passed("quantize_products", parse(marked), groups); });
}

}  // namespace
}  // namespace tandem
