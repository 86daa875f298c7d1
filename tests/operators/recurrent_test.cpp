// LSTM, GRU and RNN: all steps as one node against the steps written out, and those against ONNX's formulas, number by number.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/operator.h"
#include "planner/rewrite/expand.h"
#include "tests/operators/run_graph.h"

namespace tandem {
namespace {

constexpr std::int64_t one = 1;

struct Row {
  const char* name;
  const char* op;
  std::int64_t T, B, I, H;
  Attributes attributes;
  std::string operands = "b";   // b: bias, l: lengths, h: initial_h, c: initial_c, p: peepholes
  std::string outputs = "yhc";  // which of them there are
  bool fused = true;            // the CPU has a kernel
};
const Attributes reverse{{"direction", std::string("reverse")}}, both{{"direction", std::string("bidirectional")}},
    linear{{"linear_before_reset", one}};
Attributes with(Attributes a, const char* name, AttributeValue value) {
  a.set(name, std::move(value));
  return a;
}

const Row rows[] = {
    {"lstm", "LSTM", 5, 3, 4, 8, {}, "bhc"},
    {"lstm_bare", "LSTM", 4, 2, 3, 5, {}, ""},
    {"lstm_one_step", "LSTM", 1, 1, 1, 1, {}, "bhc"},
    {"lstm_reverse", "LSTM", 6, 5, 7, 9, reverse, "bhc"},
    {"lstm_both_ways", "LSTM", 7, 9, 5, 33, both, "bhc"},
    {"lstm_lengths", "LSTM", 6, 7, 5, 17, {}, "blhc"},
    {"lstm_reverse_lengths", "LSTM", 6, 7, 5, 17, reverse, "blhc"},
    {"lstm_both_ways_lengths", "LSTM", 6, 7, 5, 3, both, "bl"},
    {"lstm_batch_first", "LSTM", 6, 7, 5, 3, with(both, "layout", one), "blhc"},
    {"lstm_last_states_alone", "LSTM", 5, 3, 4, 6, both, "bhc", "hc"},
    {"lstm_last_h_alone", "LSTM", 5, 3, 4, 6, both, "bl", "h"},
    {"lstm_many_rows", "LSTM", 3, 70, 4, 40, both, "bh", "y"},
    {"lstm_long_sums", "LSTM", 2, 3, 4, 1100, {}, "b", "yc"},
    {"gru", "GRU", 5, 3, 4, 8, {}, "bh"},
    {"gru_bare", "GRU", 4, 2, 3, 5, {}, ""},
    {"gru_linear", "GRU", 5, 3, 4, 8, linear, "bh"},
    {"gru_linear_bare", "GRU", 5, 3, 4, 8, linear, ""},
    {"gru_both_ways", "GRU", 7, 9, 5, 33, both, "bh"},
    {"gru_linear_both_ways", "GRU", 7, 9, 5, 33, with(both, "linear_before_reset", one), "bh"},
    {"gru_reverse_lengths", "GRU", 6, 7, 5, 17, reverse, "blh"},
    {"gru_linear_lengths", "GRU", 6, 7, 5, 17, with(both, "linear_before_reset", one), "blh", "yh"},
    {"gru_batch_first", "GRU", 6, 7, 5, 3, with(linear, "layout", one), "blh", "h"},
    {"rnn", "RNN", 5, 3, 4, 8, {}, "bh"},
    {"rnn_relu", "RNN", 5, 3, 4, 8, {{"activations", Strings{"Relu"}}}, "bh"},
    {"rnn_both_ways_lengths", "RNN", 6, 7, 5, 17, both, "blh"},
    {"rnn_relu_both_ways_lengths", "RNN", 6, 7, 5, 17, with(both, "activations", Strings{"Relu", "Relu"}), "bl", "y"},
    // What is always written out.
    {"lstm_peepholes", "LSTM", 4, 3, 4, 5, both, "bhcp", "yhc", false},
    {"lstm_peepholes_lengths", "LSTM", 4, 3, 4, 5, {}, "blp", "yhc", false},
    {"lstm_coupled", "LSTM", 4, 3, 4, 5, {{"input_forget", one}}, "bhc", "yhc", false},
    {"lstm_clipped", "LSTM", 4, 3, 4, 5, {{"clip", 0.4F}}, "bhc", "yhc", false},
    {"lstm_activations", "LSTM", 4, 3, 4, 5, {{"activations", Strings{"HardSigmoid", "Softsign", "LeakyRelu"}}, {"activation_alpha", Floats{0.3F, 0.05F}}, {"activation_beta", Floats{0.4F}}}, "bhc", "yhc", false},
    {"gru_activations", "GRU", 4, 3, 4, 5, with(both, "activations", Strings{"Sigmoid", "Elu", "hardsigmoid", "ScaledTanh"}), "blh", "yhc", false},
    {"gru_clipped", "GRU", 4, 3, 4, 5, with(linear, "clip", 0.4F), "bh", "yhc", false},
    {"rnn_affine", "RNN", 4, 3, 4, 5, {{"activations", Strings{"Affine"}}, {"activation_alpha", Floats{0.3F}}, {"activation_beta", Floats{0.1F}}}, "bh", "yhc", false},
    {"rnn_thresholded", "RNN", 4, 3, 4, 5, {{"activations", Strings{"ThresholdedRelu"}}, {"activation_alpha", Floats{0.2F}}}, "bh", "yhc", false},
    {"rnn_softplus", "RNN", 4, 3, 4, 5, {{"activations", Strings{"Softplus"}}}, "bl", "yhc", false},
};

using Values = std::vector<double>;

// The graph of one node whose operands are parameters; its output a weighted sum of the node's.
struct Problem {
  Graph graph;
  NodeId node;
  std::vector<std::string> parameters;
  std::vector<ValueId> outputs;
  std::vector<std::int32_t> lengths;
  std::vector<NamedTensor> inputs;
  std::vector<std::pair<std::string, Values>> values;

  Problem(const Row& r, DType dtype) {
    const bool lstm = std::string_view(r.op) == "LSTM", batch_first = r.attributes.integer("layout", 0) != 0;
    const std::int64_t D = r.attributes.text("direction", "") == "bidirectional" ? 2 : 1, G = lstm                              ? 4
                                                                                              : std::string_view(r.op) == "GRU" ? 3
                                                                                                                                : 1;
    const Shape state = batch_first ? Shape{r.B, D, r.H} : Shape{D, r.B, r.H};
    const auto has = [&](char c) { return r.operands.find(c) != std::string::npos; };
    std::vector<ValueId> operands{parameter("X", batch_first ? Shape{r.B, r.T, r.I} : Shape{r.T, r.B, r.I}, dtype, 1),
                                  parameter("W", {D, G * r.H, r.I}, dtype, 1),
                                  parameter("R", {D, G * r.H, r.H}, dtype, 1 / std::sqrt(static_cast<double>(r.H))),
                                  has('b') ? parameter("B", {D, 2 * G * r.H}, dtype, 0.5) : ValueId{},
                                  {},
                                  has('h') ? parameter("h0", state, dtype, 1) : ValueId{}};
    if (lstm)
      operands.insert(operands.end(), {has('c') ? parameter("c0", state, dtype, 1) : ValueId{},
                                       has('p') ? parameter("P", {D, 3 * r.H}, dtype, 1) : ValueId{}});
    if (has('l')) {
      for (std::int64_t b = 0; b < r.B; ++b) lengths.push_back(static_cast<std::int32_t>((b * 5 + 2) % (r.T + 1)));
      lengths[0] = static_cast<std::int32_t>(r.T);
      operands[4] = graph.add_input("lengths", {DType::int32, {r.B}});
      inputs.push_back({"lengths", Tensor::of<std::int32_t>(Shape{r.B}, lengths)});
    }
    node = graph.add_node(*find_operator(r.op), "recurrence", r.attributes, operands, lstm ? 3 : 2);
    constexpr std::string_view letters = "yhc";
    GraphBuilder b(graph, "check", {});
    ValueId loss;
    for (std::size_t i = 0; i < graph[node].outputs.size(); ++i) {
      const ValueId out = graph[node].outputs[i];
      outputs.push_back(out);
      if (r.outputs.find(letters[i]) == std::string::npos) continue;
      const Shape shape = graph[out].type.shape;
      const ValueId weights = graph.add_constant("weights", tensor(shape, dtype, draw(shape, 1)));
      const ValueId sum = b.reduce_sum(b.mul(out, weights), all_axes_of(shape), false);
      loss = loss.present() ? b.add(loss, sum) : sum;
    }
    graph.outputs = {loss};
  }

  static Ints all_axes_of(const Shape& s) {
    Ints axes(static_cast<std::size_t>(s.rank()));
    for (std::size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<std::int64_t>(i);
    return axes;
  }
  Values draw(const Shape& shape, double scale) {
    std::uniform_real_distribution<double> number(-scale, scale);
    Values v(static_cast<std::size_t>(shape.elements()));
    for (double& x : v) x = static_cast<float>(number(random_));
    return v;
  }
  static Tensor tensor(const Shape& shape, DType dtype, const Values& v) { return Tensor::of<double>(shape, v).cast(dtype); }
  ValueId parameter(const char* name, Shape shape, DType dtype, double scale) {
    parameters.emplace_back(name);
    values.emplace_back(name, draw(shape, scale));
    return graph.add_parameter(name, {dtype, shape}, tensor(shape, dtype, values.back().second), true);
  }
  const Values& value(std::string_view name) const {
    static const Values none;
    for (const auto& [n, v] : values)
      if (n == name) return v;
    return none;
  }

 private:
  std::mt19937 random_{7};
};

// ONNX's formulas.
class Formula {
 public:
  Formula(const Row& r, const Problem& p)
      : r_(r),
        p_(p),
        a_(p.graph[p.node].attributes),
        D_(a_.text("direction") == "bidirectional" ? 2 : 1),
        lstm_(std::string_view(r.op) == "LSTM"),
        G_(lstm_                             ? 4
           : std::string_view(r.op) == "GRU" ? 3
                                             : 1),
        batch_first_(a_.integer("layout") != 0) {}

  std::vector<Values> run() {
    y_.resize(static_cast<std::size_t>(r_.T * D_ * r_.B * r_.H));
    h_.resize(static_cast<std::size_t>(D_ * r_.B * r_.H));
    c_ = h_;
    for (std::int64_t d = 0; d < D_; ++d)
      for (std::int64_t b = 0; b < r_.B; ++b) sequence(d, b);
    return {y_, h_, c_};
  }

 private:
  std::size_t state_at(std::int64_t d, std::int64_t b) const {
    return static_cast<std::size_t>((batch_first_ ? b * D_ + d : d * r_.B + b) * r_.H);
  }
  Values state(const char* name, std::int64_t d, std::int64_t b) const {
    const Values& all = p_.value(name);
    Values s(static_cast<std::size_t>(r_.H));
    if (!all.empty()) std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(state_at(d, b)), r_.H, s.begin());
    return s;
  }
  double at(const char* name, std::int64_t i) const { return p_.value(name).empty() ? 0 : p_.value(name)[static_cast<std::size_t>(i)]; }
  double bias(std::int64_t d, std::int64_t row, bool recurrent) const {
    return at("B", d * 2 * G_ * r_.H + (recurrent ? G_ * r_.H : 0) + row);
  }
  double by_x(std::int64_t d, std::int64_t row, std::int64_t t, std::int64_t b) const {
    double sum = bias(d, row, false);
    for (std::int64_t i = 0; i < r_.I; ++i)
      sum += at("W", (d * G_ * r_.H + row) * r_.I + i) * at("X", (batch_first_ ? b * r_.T + t : t * r_.B + b) * r_.I + i);
    return sum;
  }
  double by_h(std::int64_t d, std::int64_t row, const Values& h) const {
    double sum = bias(d, row, true);
    for (std::int64_t i = 0; i < r_.H; ++i) sum += at("R", (d * G_ * r_.H + row) * r_.H + i) * h[static_cast<std::size_t>(i)];
    return sum;
  }
  double activated(std::int64_t d, int function, double x) const {
    const std::size_t i = static_cast<std::size_t>(d * (lstm_ ? 3 : G_ == 3 ? 2 : 1) + function);
    const std::string& name = std::get<Strings>(*a_.find("activations"))[i];
    const double alpha = static_cast<double>(a_.floats("alphas")[i]), beta = static_cast<double>(a_.floats("betas")[i]);
    if (a_.has("clip") && function < 2) x = std::clamp(x, -static_cast<double>(a_.real("clip")), static_cast<double>(a_.real("clip")));
    if (name == "Sigmoid") return 1 / (1 + std::exp(-x));
    if (name == "Tanh") return std::tanh(x);
    if (name == "Relu") return std::max(0.0, x);
    if (name == "Affine") return alpha * x + beta;
    if (name == "LeakyRelu") return x < 0 ? alpha * x : x;
    if (name == "ThresholdedRelu") return x > alpha ? x : 0;
    if (name == "ScaledTanh") return alpha * std::tanh(beta * x);
    if (name == "HardSigmoid") return std::clamp(alpha * x + beta, 0.0, 1.0);
    if (name == "Elu") return x < 0 ? alpha * (std::exp(x) - 1) : x;
    if (name == "Softsign") return x / (1 + std::abs(x));
    if (name == "Softplus") return std::log(1 + std::exp(x));
    fail("no formula for ", name);
  }

  void sequence(std::int64_t d, std::int64_t b) {
    Values h = state("h0", d, b), c = state("c0", d, b);
    const std::int64_t length = p_.lengths.empty() ? r_.T : p_.lengths[static_cast<std::size_t>(b)];
    for (std::int64_t n = 0; n < length; ++n) {
      const std::int64_t t = d == 1 || a_.text("direction") == "reverse" ? length - 1 - n : n;
      step(d, b, t, h, c);
      const std::int64_t y = batch_first_ ? ((b * r_.T + t) * D_ + d) * r_.H : ((t * D_ + d) * r_.B + b) * r_.H;
      std::copy(h.begin(), h.end(), y_.begin() + static_cast<std::ptrdiff_t>(y));
    }
    std::copy(h.begin(), h.end(), h_.begin() + static_cast<std::ptrdiff_t>(state_at(d, b)));
    std::copy(c.begin(), c.end(), c_.begin() + static_cast<std::ptrdiff_t>(state_at(d, b)));
  }

  void step(std::int64_t d, std::int64_t b, std::int64_t t, Values& h, Values& c) const {
    const Values before = h;
    const std::int64_t H = r_.H;
    const auto sum = [&](std::int64_t gate, std::int64_t k) { return by_x(d, gate * H + k, t, b) + by_h(d, gate * H + k, before); };
    Values reset_h = before;  // r∘h
    if (G_ == 3)
      for (std::int64_t k = 0; k < H; ++k) reset_h[static_cast<std::size_t>(k)] *= activated(d, 0, sum(1, k));
    for (std::int64_t k = 0; k < H; ++k) {
      double &hk = h[static_cast<std::size_t>(k)], &ck = c[static_cast<std::size_t>(k)];
      if (lstm_) {
        const auto peephole = [&](std::int64_t gate) { return at("P", (d * 3 + gate) * H + k) * ck; };
        const double i = activated(d, 0, sum(0, k) + peephole(0));
        const double f = a_.integer("input_forget") != 0 ? 1 - i : activated(d, 0, sum(2, k) + peephole(2));
        ck = f * ck + i * activated(d, 1, sum(3, k));
        hk = activated(d, 0, sum(1, k) + peephole(1)) * activated(d, 2, ck);
      } else if (G_ == 3) {
        const double z = activated(d, 0, sum(0, k)), r = activated(d, 0, sum(1, k)), x = by_x(d, 2 * H + k, t, b);
        const double g =
            activated(d, 1, a_.integer("linear_before_reset") != 0 ? x + r * by_h(d, 2 * H + k, before) : x + by_h(d, 2 * H + k, reset_h));
        hk = (1 - z) * g + z * hk;
      } else {
        hk = activated(d, 0, sum(0, k));
      }
    }
  }

  const Row& r_;
  const Problem& p_;
  const Attributes& a_;
  std::int64_t D_;
  bool lstm_;
  std::int64_t G_;
  bool batch_first_;
  Values y_, h_, c_;
};

bool on_cpu() { return test::tested_backend()->name() == "cpu"; }
bool uses_kernel(const Plan& plan, std::string_view kernel) {
  for (const Step& s : plan.program_of(0).steps)
    if (const auto* launch = s.as<LaunchStep>(); launch && launch->kernel == kernel) return true;
  return false;
}

void expect_near(const std::string& what, const Values& got, const Values& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double scale = 1e-3;
  for (const double w : wanted) scale = std::max(scale, std::abs(w));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], wanted[i], tolerance * scale) << what << " at " << i;
}

// Rounding of a few steps, and of their sums.
double tolerance_of(DType dtype) { return dtype == DType::float64 ? 1e-13 : 3e-6; }

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
std::vector<Row> rows_that_are(bool fused) {
  std::vector<Row> list;
  for (const Row& row : rows)
    if (row.fused || !fused) list.push_back(row);
  return list;
}
std::string name_of_test(const testing::TestParamInfo<std::tuple<Row, DType>>& info) {
  return concat(std::get<0>(info.param).name, '_', std::get<1>(info.param));
}

class Recurrences : public testing::TestWithParam<std::tuple<Row, DType>> {};

TEST_P(Recurrences, FollowTheFormula) {
  const auto& [row, dtype] = GetParam();
  Problem p(row, dtype);
  const std::vector<Values> wanted = Formula(row, p).run();
  for (const bool written_out : {false, true}) {
    Graph graph = p.graph;
    graph.outputs.clear();
    for (const ValueId v : p.outputs) graph.outputs.emplace_back(v);
    test::GraphRun run(written_out ? expand(graph, false) : graph);
    const std::vector<NamedTensor> got = run.run(p.inputs);
    if (on_cpu()) {
      EXPECT_EQ(uses_kernel(run.plan(), "native.recurrent"), row.fused && !written_out);
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_near(concat(written_out ? "written out: " : "", "output ", i), got[i].tensor.to_doubles(), wanted[i], tolerance_of(dtype));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, Recurrences,
                         testing::Combine(testing::ValuesIn(rows_that_are(false)), testing::Values(DType::float32, DType::float64)),
                         name_of_test);

class FusedRecurrences : public Recurrences {};

TEST_P(FusedRecurrences, HaveTheGradientsOfTheirSteps) {
  const auto& [row, dtype] = GetParam();
  const Problem p(row, dtype);
  test::GraphRun fused(p.graph, p.parameters), steps(expand(p.graph, true), p.parameters);
  if (on_cpu()) {
    EXPECT_TRUE(uses_kernel(fused.plan(), "native.recurrent_backward"));
  }
  EXPECT_FALSE(uses_kernel(steps.plan(), "native.recurrent"));
  const std::vector<NamedTensor> got = fused.run(p.inputs), wanted = steps.run(p.inputs);
  ASSERT_EQ(got.size(), p.parameters.size() + 1);
  for (std::size_t i = 1; i < got.size(); ++i) {  // behind the loss
    ASSERT_EQ(got[i].name, wanted[i].name);
    expect_near(got[i].name, got[i].tensor.to_doubles(), wanted[i].tensor.to_doubles(), 4 * tolerance_of(dtype));
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, FusedRecurrences,
                         testing::Combine(testing::ValuesIn(rows_that_are(true)), testing::Values(DType::float32, DType::float64)),
                         name_of_test);

}  // namespace
}  // namespace tandem
