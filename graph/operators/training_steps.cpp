// ai.onnx.preview.training: one step of an optimizer for several tensors at once, and the derivative of a value in the graph.
// A step's operands are R, the rate, T, the number of the step, then the tensors, their gradients and their states, each kind together.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::string_view training = "ai.onnx.preview.training";
constexpr int first_tensor = 2;

// Of n tensors with s states each: n, n gradients and n·s states come in, n and n·s go out.
int tensors_of(const Node& node, int states) { return (static_cast<int>(node.inputs.size()) - first_tensor) / (2 + states); }

template <int states>
void infer_step(InferContext& c) {
  const int kinds = 2 + states, count = c.inputs() - first_tensor, n = count / kinds;
  if (count % kinds != 0)
    c.fail("has ", count, " tensors behind R and T, expected a multiple of ", kinds, ": tensors, gradients",
           states == 1 ? " and a state" : " and two states", " of each");
  if (c.outputs() > n * (1 + states)) c.fail("has ", c.outputs(), " outputs, expected ", n * (1 + states));
  for (const int i : {0, 1})
    if (c.shape(i).elements() != 1) c.fail(i == 0 ? "R" : "T", " is ", c.shape(i), ", expected a scalar");
  for (int i = n; i < count; ++i) {
    expect_shape(c, first_tensor + i, c.shape(first_tensor + i % n));
    expect_dtype(c, first_tensor + i, c.input(first_tensor + i % n).dtype);
  }
  if (const std::string mode = c.attributes().text("mode", "standard"); mode != "standard" && mode != "nesterov")
    c.fail("mode is '", mode, "', expected standard or nesterov");
  for (int i = 0; i < c.outputs(); ++i)
    if (c.has_output(i)) c.set_output(i, c.input(first_tensor + i % n));
}

// What a formula sees of one tensor: its operands, and what it gives, in the order of the outputs.
class Step {
 public:
  Step(ExpandContext& e, int tensor, int tensors) : b(e), e_(e), tensor_(tensor), tensors_(tensors) {}
  ValueId x() const { return kind(0); }
  ValueId state(int i) const { return kind(2 + i); }
  // With the gradient of ½·norm_coefficient·‖X‖².
  ValueId gradient() const {
    const double norm = number("norm_coefficient", 0);
    return norm == 0 ? kind(1) : b.add(b.mul(x(), norm), kind(1));
  }
  double number(std::string_view name, float absent) const { return static_cast<double>(e_.attributes().real(name, absent)); }
  bool nesterov() const { return e_.attributes().text("mode", "standard") == "nesterov"; }
  // Scalars are worked out in double: 1 − 0.999ᵗ keeps four digits of float32's seven.
  ValueId rate() const { return scalar(0, DType::float64); }
  ValueId step() const { return scalar(1, DType::float64); }
  ValueId begun() const { return b.emit("Greater", {step(), b.scalar(0, DType::float64)}); }
  ValueId as_tensor(ValueId v) const { return cast(b, v, b.type(x()).dtype); }
  ValueId power(double base, ValueId exponent) const { return b.emit("Pow", {b.scalar(base, DType::float64), exponent}); }
  ValueId sqrt(ValueId v) const { return b.emit("Sqrt", {v}); }

  ExpandContext& b;

 private:
  ValueId kind(int k) const { return e_.x(first_tensor + k * tensors_ + tensor_); }
  ValueId scalar(int input, DType dtype) const { return cast(b, b.reshape(e_.x(input), Shape{}), dtype); }
  ExpandContext& e_;
  int tensor_, tensors_;
};

template <int states>
std::vector<ValueId> expand_step(ExpandContext& e, std::vector<ValueId> (*formula)(const Step&)) {
  const int n = tensors_of(e.node(), states);
  std::vector<ValueId> all(at(n * (1 + states)));
  for (int i = 0; i < n; ++i) {
    const std::vector<ValueId> given = formula(Step(e, i, n));
    for (int k = 0; k <= states; ++k) all[at(k * n + i)] = given[at(k)];
  }
  return all;
}

// h' = h + g², x' = x − R/(1 + T·decay)·g/(√h' + ε)
std::vector<ValueId> adagrad_of(const Step& s) {
  const ValueId g = s.gradient(), h = s.b.add(s.state(0), s.b.mul(g, g));
  const ValueId rate = s.b.div(s.rate(), s.b.add(s.b.mul(s.step(), s.number("decay_factor", 0)), 1));
  return {s.b.sub(s.x(), s.b.div(s.b.mul(s.as_tensor(rate), g), s.b.add(s.sqrt(h), s.number("epsilon", 1e-6F)))), h};
}

// v' = αv + (1−α)g, h' = βh + (1−β)g², x' = (1−post)·(x − r·v'/(√h' + ε)), r = R·√(1−βᵀ)/(1−αᵀ), or R where T is 0
std::vector<ValueId> adam_of(const Step& s) {
  const double alpha = s.number("alpha", 0.9F), beta = s.number("beta", 0.999F), post = s.number("norm_coefficient_post", 0);
  const ValueId g = s.gradient();
  const ValueId v = s.b.add(s.b.mul(s.state(0), alpha), s.b.mul(g, 1 - alpha)),
                h = s.b.add(s.b.mul(s.state(1), beta), s.b.mul(s.b.mul(g, g), 1 - beta));
  const ValueId t = s.b.emit("Max", {s.step(), s.b.scalar(1, DType::float64)});  // where T is 0 this is not taken
  const auto correction = [&](double base) { return s.b.add(s.b.neg(s.power(base, t)), 1); };
  const ValueId corrected = s.b.mul(s.rate(), s.b.div(s.sqrt(correction(beta)), correction(alpha)));
  const ValueId rate = s.as_tensor(s.b.emit("Where", {s.begun(), corrected, s.rate()}));
  const ValueId x = s.b.sub(s.x(), s.b.mul(rate, s.b.div(v, s.b.add(s.sqrt(h), s.number("epsilon", 1e-6F)))));
  return {post == 0 ? x : s.b.mul(x, 1 - post), v, h};
}

// v' = αv + β·g, β taken as 1 where T is 0; x' = x − R·v', Nesterov's x' = x − R·(g + αv')
std::vector<ValueId> momentum_of(const Step& s) {
  const double alpha = s.number("alpha", 0);
  const ValueId g = s.gradient();
  const ValueId beta =
      s.as_tensor(s.b.emit("Where", {s.begun(), s.b.scalar(s.number("beta", 1), DType::float64), s.b.scalar(1, DType::float64)}));
  const ValueId v = s.b.add(s.b.mul(s.state(0), alpha), s.b.mul(beta, g));
  const ValueId along = s.nesterov() ? s.b.add(g, s.b.mul(v, alpha)) : v;
  return {s.b.sub(s.x(), s.b.mul(s.as_tensor(s.rate()), along)), v};
}

Operator step_row(std::string_view name, void (*infer)(InferContext&), std::vector<ValueId> (*expand)(ExpandContext&)) {
  return {.name = name, .domain = training, .since = {1}, .inputs = {5, Arity::any}, .outputs = {2, Arity::any},
          .types = {{"T1", types::floats}, {"T2", types::integers_64}, {"T3", types::floats}},
          .infer = infer,
          .follow = [](FollowContext& c) { c.fail("an optimizer's step takes weights and their gradients, not samples"); },
          .expand = expand,
          .precision = PrecisionRole::parts,
          .operands = {{"R"}, {"T"}, {"inputs"}, {"inputs"}, {"inputs"}}};
}

}  // namespace

Operator training_adagrad() {
  return step_row("Adagrad", infer_step<1>, [](ExpandContext& e) { return expand_step<1>(e, adagrad_of); });
}

Operator training_adam() {
  return step_row("Adam", infer_step<2>, [](ExpandContext& e) { return expand_step<2>(e, adam_of); });
}

// dy/dx of each of xs, at the values that the operands say. The importer puts the values that the attributes name behind the operands:
// those of xs, those of zs, y. What becomes of it is the planner's affair, which differentiates (planner/rewrite/gradient_nodes.cpp).
Operator training_gradient() {
  return {.name = "Gradient", .domain = training, .since = {1}, .inputs = {1, Arity::any}, .outputs = {1, Arity::any},  // of any types
          .infer =
              [](InferContext& c) {
                const std::int64_t count = c.attributes().integer("operands", 0), xs = c.attributes().integer("differentiated", 0);
                if (2 * count + 1 != c.inputs() || xs > count)
                  c.fail("has ", c.inputs(), " operands, expected as many as xs and zs name, ", count);
                if (c.outputs() > xs) c.fail("has ", c.outputs(), " outputs, expected at most one of each of xs, ", xs);
                for (int i = 0; i < count; ++i) {
                  const int named = i + static_cast<int>(count);
                  if (c.input(i) != c.input(named)) c.fail("operand ", i, " is ", c.input(i), ", what it stands for ", c.input(named));
                }
                for (int i = 0; i < c.outputs(); ++i) {
                  if (!is_float(c.input(i).dtype)) c.fail("operand ", i, " is ", c.input(i), ": only floats have a gradient");
                  if (c.has_output(i)) c.set_output(i, c.input(i));
                }
              },
          .follow = [](FollowContext& c) { c.fail("a gradient sums over the samples"); },
          .expand = [](ExpandContext&) -> std::vector<ValueId> { return {}; },
          .precision = PrecisionRole::parts,
          .operands = {{"Inputs"}}};
}

Operator training_momentum() {
  return step_row("Momentum", infer_step<1>, [](ExpandContext& e) { return expand_step<1>(e, momentum_of); });
}

}  // namespace tandem::operator_rows
