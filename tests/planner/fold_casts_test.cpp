// Which Casts around the loss go because its kernels read and write 16 bits, and that training in bf16 is the same to the bit.
#include "planner/rewrite/fusing.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

struct Network {
  Graph graph;
  ValueId scores = graph.add_input("scores", {DType::bfloat16, {4, 9}}), labels = graph.add_input("labels", {DType::int64, {4}});
  Node node(const char* op, std::vector<ValueId> in, Attributes a = {}, int outputs = 1) {
    return graph[graph.add_node(internal_operator(op), concat(op, graph.nodes.size()), std::move(a), std::move(in), outputs)];
  }
  ValueId cast(ValueId v, DType to) { return node("Cast", {v}, {{"to", static_cast<std::int64_t>(to)}}).outputs[0]; }
  ValueId softmax(const char* op) { return node(op, {cast(scores, DType::float32)}, {{"axis", std::int64_t{1}}}).outputs[0]; }
  ValueId looked_up() {
    const ValueId bytes = graph.add_input("bytes", {DType::uint8, {4, 9}}),
                  table = graph.add_constant("table", Tensor(TensorType{DType::float32, {1, 256}}));
    return node("LookUp", {bytes, table}, {{"axis", std::int64_t{1}}}).outputs[0];
  }
  // Of rows of a sum of two gradients, of which the one was of 16 bits.
  ValueId rows(ValueId* sum = nullptr) {
    const ValueId dy = graph.add_input("dy", {DType::float32, {4, 9}}), x = graph.add_input("x", {DType::float32, {4, 9}}),
                  r = graph.add_input("r", {DType::float32, {4, 1}});
    const ValueId both = node("Add", {dy, cast(scores, DType::float32)}).outputs[0];
    if (sum) *sum = both;
    return node("RowNormalizationBackward", {both, x, {}, r, r}, {{"axis", std::int64_t{1}}}).outputs[0];
  }
  // Of rows that a scale of their own multiplies.
  ValueId gradient() {
    const ValueId dy = graph.add_input("dy", {DType::float32, {4, 9}}), x = graph.add_input("x", {DType::float32, {4, 9}}),
                  r = graph.add_input("r", {DType::float32, {4, 1}}), s = graph.add_input("s", {DType::float32, {9}});
    return node("RowNormalizationBackward", {dy, x, s, r, r}, {{"axis", std::int64_t{1}}}, 2).outputs[0];
  }
  // Rows behind a sum, normalized; what is read of them in 16 bits, reshaped before or not.
  ValueId normalized() {
    const ValueId x = graph.add_input("x", {DType::float32, {4, 9}});
    const Attributes a{{"axis", std::int64_t{1}}, {"epsilon", 0.5F}};
    return node("RowNormalization", {x, {}, {}, cast(scores, DType::float32)}, a, 4).outputs[0];
  }
  ValueId flat(ValueId v) { return node("Reshape", {v}, {{"shape", Ints{36}}}).outputs[0]; }
  std::vector<ValueId> loss(ValueId of) { return node("SoftmaxCrossEntropyTraining", {of, labels}, {{"scale", 0.25F}}, 2).outputs; }
};

struct Row {
  const char* name;
  Fuses gains;  // what the plan's backends say
  std::vector<ValueId> (*outputs)(Network&);
  std::vector<std::string> expected;
};
const Fuses all =
                [](const KernelRequest& r) {
                  return r.op != "SoftmaxCrossEntropyTraining" || r.outputs.size() < 2 || r.outputs[1].dtype == r.inputs[0].dtype;
                },
            none = [](const KernelRequest&) { return false; };
const std::string direct = "SoftmaxCrossEntropyTraining(scores, labels)", widened = "SoftmaxCrossEntropyTraining(Cast(scores), labels)";
std::vector<ValueId> narrowed(Network& n) {
  const std::vector<ValueId> loss = n.loss(n.cast(n.scores, DType::float32));
  return {loss[0], n.cast(loss[1], DType::bfloat16)};
}
const Row rows[] = {
    {"both", all, narrowed, {direct, "SoftmaxCrossEntropyTraining:1(scores, labels)"}},
    {"not_offered", none, narrowed, {widened, "Cast(SoftmaxCrossEntropyTraining:1(Cast(scores), labels))"}},
    {"no_gradient_is_read", all, [](Network& n) { return std::vector<ValueId>{n.loss(n.cast(n.scores, DType::float32))[0]}; }, {widened}},
    {"the_gradient_is_read_in_float32",
     all,
     [](Network& n) {
       const std::vector<ValueId> loss = n.loss(n.cast(n.scores, DType::float32));
       return std::vector<ValueId>{n.cast(loss[1], DType::bfloat16), loss[1]};
     },
     {"Cast(SoftmaxCrossEntropyTraining:1(Cast(scores), labels))", "SoftmaxCrossEntropyTraining:1(Cast(scores), labels)"}},
    {"the_gradient_is_read_in_two_formats",
     all,
     [](Network& n) {
       const std::vector<ValueId> loss = n.loss(n.cast(n.scores, DType::float32));
       return std::vector<ValueId>{n.cast(loss[1], DType::bfloat16), n.cast(loss[1], DType::float16)};
     },
     {"Cast(SoftmaxCrossEntropyTraining:1(Cast(scores), labels))", "Cast(SoftmaxCrossEntropyTraining:1(Cast(scores), labels))"}},
    {"a_softmax", all, [](Network& n) { return std::vector<ValueId>{n.cast(n.softmax("Softmax"), DType::bfloat16)}; }, {"Softmax(scores)"}},
    {"a_softmax_that_is_read_in_float32", all,
     [](Network& n) {
       const ValueId y = n.softmax("LogSoftmax");
       return std::vector<ValueId>{n.cast(y, DType::bfloat16), y};
     },
     {"Cast(LogSoftmax(scores))", "LogSoftmax(scores)"}},
    {"a_softmax_that_is_not_offered", none, [](Network& n) { return std::vector<ValueId>{n.cast(n.softmax("Softmax"), DType::bfloat16)}; }, {"Cast(Softmax(Cast(scores)))"}},
    {"a_table", all, [](Network& n) { return std::vector<ValueId>{n.cast(n.looked_up(), DType::bfloat16)}; }, {"LookUp(bytes, table/bfloat16)"}},
    {"a_table_that_is_read_in_float32", all,
     [](Network& n) {
       const ValueId y = n.looked_up();
       return std::vector<ValueId>{n.cast(y, DType::bfloat16), y};
     },
     {"Cast(LookUp(bytes, table))", "LookUp(bytes, table)"}},
    {"a_sum_of_gradients", all, [](Network& n) { return std::vector<ValueId>{n.rows()}; }, {"RowNormalizationBackward(dy, x, -, r, r, -, scores)"}},
    {"a_sum_of_gradients_that_is_not_offered", none, [](Network& n) { return std::vector<ValueId>{n.rows()}; }, {"RowNormalizationBackward(Add(dy, Cast(scores)), x, -, r, r)"}},
    {"a_sum_of_gradients_that_another_reads", all,
     [](Network& n) {
       ValueId sum;
       const ValueId dx = n.rows(&sum);
       return std::vector<ValueId>{dx, sum};
     },
     {"RowNormalizationBackward(Add(dy, Cast(scores)), x, -, r, r)", "Add(dy, Cast(scores))"}},
    {"rows_that_are_read_in_both_types", all,
     [](Network& n) {
       const ValueId y = n.normalized();
       return std::vector<ValueId>{y, n.cast(y, DType::bfloat16), n.cast(n.flat(y), DType::bfloat16)};
     },
     {"RowNormalization(x, -, -, scores)", "RowNormalization:4(x, -, -, scores)", "Reshape(RowNormalization:4(x, -, -, scores))"}},
    {"rows_that_are_read_in_two_narrow_types", all,
     [](Network& n) {
       const ValueId y = n.normalized();
       return std::vector<ValueId>{n.cast(y, DType::bfloat16), n.cast(y, DType::float16)};
     },
     {"RowNormalization:4(x, -, -, scores)", "Cast(RowNormalization(x, -, -, scores))"}},
    {"rows_of_which_no_copy_is_offered", [](const KernelRequest& r) { return r.outputs.size() < 5; },
     [](Network& n) {
       const ValueId y = n.normalized();
       return std::vector<ValueId>{y, n.cast(y, DType::bfloat16)};
     },
     {"RowNormalization(x, -, -, scores)", "Cast(RowNormalization(x, -, -, scores))"}},
    {"a_gradient_that_is_read_in_both_types", all,
     [](Network& n) {
       const ValueId dx = n.gradient();
       return std::vector<ValueId>{dx, n.cast(dx, DType::bfloat16)};
     },
     {"RowNormalizationBackward(dy, x, s, r, r)", "RowNormalizationBackward:3(dy, x, s, r, r)"}},
    {"a_gradient_that_is_read_in_16_bits_alone", all, [](Network& n) { return std::vector<ValueId>{n.cast(n.gradient(), DType::bfloat16)}; }, {"RowNormalizationBackward:3(dy, x, s, r, r)"}},
    {"a_gradient_without_a_scale", all, [](Network& n) { return std::vector<ValueId>{n.cast(n.rows(), DType::bfloat16)}; }, {"Cast(RowNormalizationBackward(dy, x, -, r, r, -, scores))"}},
    {"a_gradient_of_which_no_copy_is_offered", [](const KernelRequest& r) { return r.outputs.size() < 4; },
     [](Network& n) { return std::vector<ValueId>{n.cast(n.gradient(), DType::bfloat16)}; },
     {"Cast(RowNormalizationBackward(dy, x, s, r, r))"}},
    {"a_count", all, [](Network& n) { return n.node("CountCorrect", {n.cast(n.scores, DType::float32), n.labels}).outputs; }, {"CountCorrect(scores, labels)"}},
};

class FoldedCasts : public testing::TestWithParam<Row> {};

TEST_P(FoldedCasts, AreThoseOfKernelsThatTake16Bits) {
  Network n;
  for (const ValueId v : GetParam().outputs(n)) n.graph.outputs.emplace_back(v);
  const Graph got = passed("fold_casts", n.graph, {.fuses = GetParam().gains});
  verify(got);
  EXPECT_EQ(test::expressions(got), GetParam().expected);
  for (std::size_t i = 0; i < got.outputs.size(); ++i) EXPECT_EQ(got[got.outputs[i]].type, n.graph[n.graph.outputs[i]].type);
}
INSTANTIATE_TEST_SUITE_P(Rows, FoldedCasts, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

TEST(FoldedCasts, TrainingIsTheSameToTheBit) {
  using namespace small_models;
  if (const std::string reason = cpu_backend().declines(Precision::bf16); !reason.empty()) GTEST_SKIP() << reason;
  for (const std::vector<double>& devices : {std::vector<double>{1}, {2, 1}}) {
    CompileOptions options = options_for(6, devices);
    options.precision = Precision::bf16;
    AskedCpu backend;
    const Trained wanted = train_on(backend, chain, options, 4, 0.05);
    backend.gains = [](const KernelRequest& r) { return r.op == "SoftmaxCrossEntropyTraining" || r.op == "CountCorrect"; };
    const Trained got = train_on(backend, chain, options, 4, 0.05);
    const auto casts = [](const Trained& t) {
      const std::vector<Step>& steps = t.plan.program_of(0).steps;
      return std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "Cast"; });
    };
    EXPECT_EQ(casts(got), casts(wanted) - 2);
    EXPECT_EQ(got.losses, wanted.losses);
  }
}

}  // namespace
}  // namespace tandem
