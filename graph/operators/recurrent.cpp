// LSTM, GRU and RNN: what a model may say of them. They are rewritten (recurrent_steps.cpp) or become one node for all steps.
#include "graph/operators/recurrent.h"

#include <algorithm>

#include "graph/operators/rules.h"

namespace tandem {
namespace {

constexpr CellFacts cells[] = {
    {Cell::lstm, "LSTM", 4, 3, {"Sigmoid", "Tanh", "Tanh"}},
    {Cell::gru, "GRU", 3, 2, {"Sigmoid", "Tanh"}},
    {Cell::rnn, "RNN", 1, 1, {"Tanh"}},
};

}  // namespace

const CellFacts& facts_of(std::string_view name) {
  for (const CellFacts& c : cells)
    if (c.name == name) return c;
  fail("'", name, "' is no recurrent operator");
}

namespace operator_rows {
namespace {

constexpr int x = 0, weights = 1, recurrent = 2, bias = 3, lengths = 4, initial_h = 5, initial_c = 6, peepholes = 7;

// ONNX's activations; alpha and beta where an operator has them, with what they are where nothing is said.
struct Activation {
  std::string_view name;
  bool has_alpha = false, has_beta = false;
  float alpha = 0, beta = 0;
};
constexpr Activation activations[] = {
    {"Affine", true, true, 1, 0},     {"Elu", true, false, 1},  {"HardSigmoid", true, true, 0.2F, 0.5F},
    {"LeakyRelu", true, false, 0.01F}, {"Relu"},                 {"ScaledTanh", true, true, 1, 1},
    {"Sigmoid"},                       {"Softplus"},             {"Softsign"},
    {"Tanh"},                          {"ThresholdedRelu", true, false, 1},
};

std::string lower(std::string_view s) {
  std::string l(s);
  for (char& c : l) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return l;
}

// `activations` by name as the operators are called; `alphas` and `betas` have a number for each of them. ONNX's lists hold numbers
// for those alone that have one.
void settle_activations(InferContext& c, const CellFacts& cell, std::int64_t directions) {
  Attributes& a = c.node().attributes;
  const std::size_t count = static_cast<std::size_t>(cell.functions * directions);
  const bool settled = a.has("alphas");  // before
  if (settled && (!a.has("betas") || a.floats("alphas").size() != count || a.floats("betas").size() != count))
    c.fail("alphas and betas are not those of ", count, " activations");
  Strings names;
  if (const AttributeValue* given = a.find("activations")) {
    if (!std::holds_alternative<Strings>(*given)) c.fail("activations is ", to_string(*given), ", expected names");
    names = std::get<Strings>(*given);
  }
  if (names.empty())
    for (std::int64_t d = 0; d < directions; ++d) names.insert(names.end(), cell.defaults, cell.defaults + cell.functions);
  if (names.size() != count) c.fail("activations has ", names.size(), " entries, expected ", count);
  const Floats none, &alpha = a.has("activation_alpha") ? a.floats("activation_alpha") : none,
                     &beta = a.has("activation_beta") ? a.floats("activation_beta") : none;
  Floats alphas, betas;
  std::size_t alphas_read = 0, betas_read = 0;
  for (std::string& name : names) {
    const Activation* const found =
        std::find_if(std::begin(activations), std::end(activations), [&](const Activation& one) { return lower(one.name) == lower(name); });
    if (found == std::end(activations)) c.fail("activation '", name, "' is none of ONNX's");
    name = found->name;
    alphas.push_back(found->has_alpha && alphas_read < alpha.size() ? alpha[alphas_read++] : found->alpha);
    betas.push_back(found->has_beta && betas_read < beta.size() ? beta[betas_read++] : found->beta);
  }
  a.erase("activation_alpha");
  a.erase("activation_beta");
  a.set("activations", std::move(names));
  if (settled) return;
  a.set("alphas", std::move(alphas));
  a.set("betas", std::move(betas));
}

void settle_flag(InferContext& c, const char* name) {
  const std::int64_t n = c.attributes().integer(name, 0);
  if (n != 0 && n != 1) c.fail(name, " is ", n, ", expected 0 or 1");
  c.node().attributes.set(name, n);
}

void check_lengths(const InferContext& c, std::int64_t steps) {
  if (c.input(lengths).dtype != DType::int32) c.fail("sequence_lens is ", c.input(lengths), ", expected int32");
  if (const Tensor* known = c.constant(lengths))
    for (const std::int64_t n : known->to_int64s())
      if (n < 0 || n > steps) c.fail("sequence_lens holds ", n, ", expected 0 to ", steps, ", the steps of X");
}

void infer_recurrent(InferContext& c) {
  const CellFacts& cell = facts_of(c.node().op->name);
  Attributes& a = c.node().attributes;
  for (const int i : {x, weights, recurrent}) expect_rank(c, i, 3);
  for (const int i : {weights, recurrent, bias, initial_h, initial_c, peepholes})
    if (c.has_input(i)) expect_dtype(c, i, c.input(x).dtype);
  const std::string direction = lower(a.text("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    c.fail("direction is '", direction, "', expected forward, reverse or bidirectional");
  a.set("direction", direction);
  for (const char* name : {"layout", "input_forget", "linear_before_reset"}) settle_flag(c, name);
  const bool batch_first = a.integer("layout") != 0;
  const std::int64_t D = direction == "bidirectional" ? 2 : 1, T = c.shape(x)[batch_first ? 1 : 0], B = c.shape(x)[batch_first ? 0 : 1],
                     I = c.shape(x)[2];
  const std::int64_t H = a.integer("hidden_size", c.shape(recurrent)[2]), rows = cell.gates * H;
  if (H < 1 || H > (std::int64_t{1} << 32)) c.fail("hidden_size is ", H, ", expected at least 1");
  if (T < 1 || I < 1) c.fail("X is ", c.shape(x), ", expected at least one step of at least one number");
  expect_shape(c, weights, Shape{D, rows, I});
  expect_shape(c, recurrent, Shape{D, rows, H});
  if (c.has_input(bias)) expect_shape(c, bias, Shape{D, 2 * rows});
  const Shape state = batch_first ? Shape{B, D, H} : Shape{D, B, H};
  for (const int i : {initial_h, initial_c})
    if (c.has_input(i)) expect_shape(c, i, state);
  if (c.has_input(peepholes)) expect_shape(c, peepholes, Shape{D, 3 * H});
  if (c.has_input(lengths)) {
    expect_shape(c, lengths, Shape{B});
    check_lengths(c, T);
  }
  settle_activations(c, cell, D);
  if (a.has("clip") && !(a.real("clip") > 0)) c.fail("clip is ", a.real("clip"), ", expected a positive number");
  a.set("hidden_size", H);
  const DType dtype = c.input(x).dtype;
  const Shape outputs[] = {batch_first ? Shape{B, T, D, H} : Shape{T, D, B, H}, state, state};
  for (int i = 0; i < c.outputs(); ++i)
    if (c.has_output(i)) c.set_output(i, dtype, outputs[i]);
}

// Time must not hold samples, nor what is multiplied.
void follow_recurrent(FollowContext& c) {
  for (const int i : {weights, recurrent, bias, peepholes})
    if (c.place(i).present()) c.fail("its weights hold samples");
  const bool batch_first = c.attributes().integer("layout") != 0;
  const auto axis_of_operand = [&](int i) { return i == lengths || batch_first ? 0 : 1; };
  std::int64_t outer = 0;
  for (const int i : {x, lengths, initial_h, initial_c}) {
    const BatchPlace place = c.place(i);
    if (!place.present()) continue;
    if (place.axis != axis_of_operand(i))
      c.fail("axis ", place.axis, " of ", c.x(i), " holds the samples, and with layout ", c.attributes().integer("layout"), " it is ",
             i == x && place.axis == 1 - axis_of_operand(i) ? "time" : "worked on as a whole");
    if (outer != 0 && outer != place.outer) c.fail("its operands hold the samples at different places: samples would meet");
    outer = place.outer;
  }
  for (const int i : {x, lengths, initial_h, initial_c})
    if (c.has_input(i) && !c.place(i).present()) c.repeat(i, axis_of_operand(i), outer);
  for (int i = 0; i < c.outputs(); ++i) c.set(i, {.axis = batch_first ? 0 : i == 0 ? 2 : 1, .outer = outer});
}

Operator recurrent_row(std::string_view name, std::vector<int> since, Arity inputs, int outputs) {
  return {.name = name,
          .since = std::move(since),
          .inputs = inputs,
          .outputs = {0, outputs},
          .types = {{"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T", types::floats},
                    {"T1", {DType::int32}},
                    {"T", types::floats}},
          .infer = infer_recurrent,
          .follow = follow_recurrent,
          .expand = expand_recurrent,
          .precision = PrecisionRole::parts,
          .operands = {{"X"},
                       {"W", OperandRole::matrix},
                       {"R", OperandRole::matrix},
                       {"B", OperandRole::bias},
                       {"sequence_lens", OperandRole::index},
                       {"initial_h", OperandRole::bias}}};
}

}  // namespace

// Of each step, with gates stacked z, r, h and ∘ element by element (linear_before_reset: the product by R before r is applied):
// z = f(x·Wzᵀ + h·Rzᵀ + b), r = f(x·Wrᵀ + h·Rrᵀ + b), h' = g(x·Whᵀ + (r∘h)·Rhᵀ + b), h ← (1 − z)∘h' + z∘h
Operator gru() { return recurrent_row("GRU", {1, 3, 7, 14, 22}, {3, 6}, 2); }

// Gates are stacked i, o, f, c: i = f(x·Wiᵀ + h·Riᵀ + Pi∘c + b), f alike (1 − i where they are coupled), c' = g(x·Wcᵀ + h·Rcᵀ + b),
// c ← f∘c + i∘c', o = f(x·Woᵀ + h·Roᵀ + Po∘c + b) of the new c, h ← o∘h(c)
Operator lstm() {
  Operator op = recurrent_row("LSTM", {1, 7, 14, 22}, {3, 8}, 3);
  op.operands.push_back({"initial_c", OperandRole::bias});
  op.operands.push_back({"P", OperandRole::scale});
  return op;
}

// h ← f(x·Wᵀ + h·Rᵀ + b)
Operator rnn() { return recurrent_row("RNN", {1, 7, 14, 22}, {3, 6}, 2); }

}  // namespace operator_rows
}  // namespace tandem
