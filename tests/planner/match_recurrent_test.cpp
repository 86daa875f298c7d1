// LSTM, GRU and RNN: which become one node for all steps, and that training is the same, on several devices, too.
#include "planner/rewrite/expand.h"
#include "tests/graph/notation.h"
#include "tests/planner/passed.h"
#include "tests/planner/small_models.h"

namespace tandem {
namespace {

using namespace small_models;

struct Row {
  const char* name;
  const char* op;
  std::vector<std::string> inputs;
  Attributes attributes;
  std::string expected;  // of Y; empty: it stays
};
const std::string products = "Reshape(InnerProduct(Reshape(x0), Reshape(x1)";
const Row rows[] = {
    {"lstm", "LSTM", {"f[7,2,5]", "f[1,12,5]!", "f[1,12,3]!"}, {}, "RecurrentTraining(" + products + ")), x2)"},
    {"with_a_bias", "LSTM", {"f[7,2,5]", "f[1,12,5]!", "f[1,12,3]!", "f[1,24]!"}, {}, "RecurrentTraining(" + products + ", Reshape(Add(Slice(x3), Slice(x3))))), x2)"},
    {"samples_first", "GRU", {"f[2,7,5]", "f[1,9,5]!", "f[1,9,3]!", "-", "-", "f[2,1,3]"}, {{"layout", std::int64_t{1}}},
     "Transpose(RecurrentTraining(Reshape(InnerProduct(Reshape(Transpose(x0)), Reshape(x1))), x2, Transpose(x5)))"},
    {"bias_before_reset", "GRU", {"f[7,2,5]", "f[1,9,5]!", "f[1,9,3]!", "f[1,18]!"}, {{"linear_before_reset", std::int64_t{1}}},
     "RecurrentTraining(" + products + ", Reshape(Concat(Add(Slice(x3), Slice(x3)), Slice(x3))))), x2, -, -, -, Slice(x3))"},
    {"relu", "RNN", {"f[7,2,5]", "f[1,3,5]!", "f[1,3,3]!"}, {{"activations", Strings{"Relu"}}}, "RecurrentTraining(" + products + ")), x2)"},
    {"double", "RNN", {"d[7,2,5]", "d[1,3,5]!", "d[1,3,3]!"}, {}, "RecurrentTraining(" + products + ")), x2)"},
    {"not_clipped", "LSTM", {"f[7,2,5]", "f[1,12,5]!", "f[1,12,3]!"}, {{"clip", 1.0F}}, ""},
    {"not_coupled", "LSTM", {"f[7,2,5]", "f[1,12,5]!", "f[1,12,3]!"}, {{"input_forget", std::int64_t{1}}}, ""},
    {"not_with_peepholes", "LSTM", {"f[7,2,5]", "f[1,12,5]!", "f[1,12,3]!", "-", "-", "-", "-", "f[1,9]!"}, {}, ""},
    {"not_of_other_activations", "GRU", {"f[7,2,5]", "f[1,9,5]!", "f[1,9,3]!"}, {{"activations", Strings{"Sigmoid", "Relu"}}}, ""},
    {"not_of_two_activations", "RNN", {"f[7,2,5]", "f[2,3,5]!", "f[2,3,3]!"}, {{"direction", std::string("bidirectional")}, {"activations", Strings{"Tanh", "Relu"}}}, ""},
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

class Recurrences : public testing::TestWithParam<Row> {};

TEST_P(Recurrences, BecomeOneNode) {
  const Row& row = GetParam();
  test::OneNode one(row.op, row.inputs, row.attributes);
  one.graph.outputs = {one.graph[one.node].outputs[0]};
  const auto offers = [](const KernelRequest& request) { return request.op == "RecurrentTraining"; };
  for (const bool training : {false, true}) {
    const Graph got = passed("match_recurrent", one.graph, {.fuses = offers, .options = for_training(training)});
    const std::string as_it_was = test::expression(one.graph, one.graph.outputs[0]);
    EXPECT_EQ(test::expression(got, got.outputs[0]), row.expected.empty() ? as_it_was : row.expected);
    const Graph declined =
        passed("match_recurrent", one.graph, {.fuses = [](const KernelRequest&) { return false; }, .options = for_training(training)});
    EXPECT_EQ(test::expression(declined, declined.outputs[0]), as_it_was);
  }
}
INSTANTIATE_TEST_SUITE_P(Rows, Recurrences, testing::ValuesIn(rows), [](const auto& info) { return std::string(info.param.name); });

// Lengths that cut nothing are left out; others stay.
TEST(Recurrences, ReadLengthsWhereSomeAreShorter) {
  for (const std::int32_t shortest : {7, 6}) {
    test::OneNode one("RNN", {"f[7,2,5]", "f[1,3,5]!", "f[1,3,3]!", "-", "s[2]"}, {});
    Node& node = one.graph[one.node];
    node.inputs[4] = one.graph.add_constant("lengths", Tensor::of<std::int32_t>(Shape{2}, std::vector<std::int32_t>{7, shortest}));
    one.graph.outputs = {node.outputs[0]};
    const Graph got = passed("match_recurrent", one.graph, {.fuses = [](const KernelRequest&) { return true; }});
    EXPECT_EQ(got[got[got.outputs[0]].producer].inputs.size(), shortest < 7 ? 5U : 2U);
  }
}

TEST(Recurrences, AreNotWrittenOutBeyondReason) {
  test::OneNode one("RNN", {"f[100000,2,5]", "f[1,3,5]!", "f[1,3,3]!"}, {});
  one.graph.outputs = {one.graph[one.node].outputs[0]};
  try {
    expand(one.graph, true);
    ADD_FAILURE() << "written out";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("RNN 'n': 100000 steps would be written out"), std::string::npos) << e.what();
  }
}

// Two layers both ways, over samples in rows of six steps.
Graph layers(std::int64_t n, const char* op, std::int64_t gates, Attributes attributes) {
  Builder b;
  b.graph.name = "layers";
  attributes.set("direction", std::string("bidirectional"));
  ValueId x = b.node("Transpose", {b.graph.add_input("x", {DType::float32, {n, 6, 8}})}, {{"perm", Ints{1, 0, 2}}});
  std::int64_t width = 8;
  for (const std::string layer : {"first", "second"}) {
    const ValueId y = b.node(op,
                             {x, b.weight(layer + "_w", {2, gates * 5, width}, 0.3F), b.weight(layer + "_r", {2, gates * 5, 5}, 0.3F),
                              b.weight(layer + "_b", {2, 2 * gates * 5}, 0.1F)},
                             attributes);
    x = b.node("Reshape", {b.node("Transpose", {y}, {{"perm", Ints{0, 2, 1, 3}}})}, {{"shape", Ints{6, n, 10}}});
    width = 10;
  }
  x = b.node("ReduceMean", {x}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}});
  b.graph.outputs = {b.node("Gemm", {x, b.weight("head", {10, 5}, 0.5F), b.weight("head_b", {5}, 0.1F)})};
  return b.graph;
}
Graph lstm(std::int64_t n) { return layers(n, "LSTM", 4, {}); }
Graph gru(std::int64_t n) { return layers(n, "GRU", 3, {}); }
Graph gru_linear(std::int64_t n) { return layers(n, "GRU", 3, {{"linear_before_reset", std::int64_t{1}}}); }
Graph rnn(std::int64_t n) { return layers(n, "RNN", 1, {}); }

TEST(Recurrences, TrainOnSeveralDevicesAsOnOneAndAsTheirSteps) {
  AskedCpu written_out;
  for (Graph (*model)(std::int64_t) : {lstm, gru, gru_linear, rnn}) {
    const Trained one = train(model, options_for(8, {1}), 5, 0.1);
    const std::vector<Step>& steps = one.plan.program_of(0).steps;
    EXPECT_EQ(std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.op() == "RecurrentBackward"; }), 2);
    EXPECT_LT(one.losses.back(), one.losses.front());
    expect_close(one, train_on(written_out, model, options_for(8, {1}), 5, 0.1));
    for (const std::vector<double>& devices : {std::vector<double>{1, 1}, {2, 1}, {1, 0}}) {
      const Trained several = train(model, options_for(8, devices), 5, 0.1);
      expect_close(several, one);
      for (const Exchange& e : several.plan.exchanges) EXPECT_EQ(e.kind, ExchangeKind::all_reduce) << e.name;
    }
    expect_close(train_on(written_out, model, options_for(8, {1, 1}), 5, 0.1), one);
    EXPECT_EQ(train(model, options_for(8, {1}), 5, 0.1).losses, one.losses);
  }
}

}  // namespace
}  // namespace tandem
