// What ONNX Runtime's optimizer and Olive make of several of ONNX's operators: taken apart again, so that everything that is known of
// the parts holds. Definitions: ONNX Runtime's ContribOperators.md.
#include "graph/operators/rules.h"

namespace tandem::operator_rows {
namespace {

constexpr std::string_view microsoft = "com.microsoft";
constexpr float quick = 1.702F;

// Input i is a list as long as the last axis of x.
void expect_feature(const InferContext& c, int i) {
  const Shape& x = c.shape(0);
  if (x.rank() < 1) c.fail("input 0 is ", x, ", expected an axis of features");
  expect_shape(c, i, Shape{x[x.rank() - 1]});
  expect_dtype(c, i, c.input(0).dtype);
}
void infer_with_bias(InferContext& c) {
  if (c.has_input(1)) expect_feature(c, 1);
  infer_same(c);
}
// All axes but the last may hold the samples; what has fewer axes holds none.
void follow_features(FollowContext& c) {
  if (c.place().axis == c.x().rank() - 1) c.fail("the samples lie along axis ", c.place().axis, ", its features");
  follow_broadcast(c);
}

ValueId with_bias(ExpandContext& e, int bias) { return e.has_x(bias) ? e.add(e.x(), e.x(bias)) : e.x(); }

// y = activation(x) as a fused operator's attributes name it; `first` and `second` are its parameters, where it has any.
struct Activation {
  std::string_view name;
  const char *first = nullptr, *second = nullptr;
};
constexpr Activation activations[] = {
    {"Relu"}, {"Tanh"}, {"Sigmoid"}, {"Softplus"}, {"Softsign"}, {"HardSwish"}, {"Gelu"}, {"LeakyRelu", "alpha"}, {"Elu", "alpha"}, {"ThresholdedRelu", "alpha"},
    {"HardSigmoid", "alpha", "beta"}, {"Clip", "min", "max"},
};

const Activation* activation_of(const Attributes& a) {
  const std::string name = a.text("activation", "");
  for (const Activation& row : activations)
    if (row.name == name) return &row;
  return nullptr;
}
void check_activation(const InferContext& c) {
  const std::string name = c.attributes().text("activation", "");
  if (!name.empty() && !activation_of(c.attributes())) c.fail("activation '", name, "' is not supported");
}
ValueId activate(ExpandContext& e, ValueId x) {
  const Attributes& a = e.attributes();
  const Activation* const row = activation_of(a);
  if (!row) return x;
  Attributes parameters;
  const Floats list = a.has("activation_params") ? a.floats("activation_params") : Floats{};
  const auto set = [&](const char* name, std::size_t place, const char* attribute) {
    if (!name) return;
    if (place < list.size()) parameters.set(name, list[place]);
    else if (a.has(attribute)) parameters.set(name, a.real(attribute));
  };
  set(row->first, 0, "activation_alpha");
  set(row->second, 1, "activation_beta");
  return e.emit(row->name, {x}, std::move(parameters));
}

// The node as one of ONNX's: its shape rule settles the attributes that both have.
TensorType infer_as(InferContext& c, std::string_view op, std::vector<TensorType> operands) {
  Graph graph;
  Node node{.op = find_operator(op), .name = c.node().name, .attributes = c.attributes()};
  for (TensorType& type : operands) node.inputs.push_back(graph.add_value({.type = std::move(type)}));
  node.outputs = {graph.add_value({})};
  InferContext context(graph, node);
  node.op->infer(context);
  c.node().attributes = node.attributes;
  return graph[node.outputs[0]].type;
}

Operator activation_row(std::string_view name, std::vector<ValueId> (*expand)(ExpandContext&)) {
  return {.name = name,
          .domain = microsoft,
          .since = {1},
          .types = {{"T", types::floats}},
          .infer = infer_same,
          .follow = follow_broadcast,
          .expand = expand,
          .precision = PrecisionRole::parts,
          .rectifies = true,
          .operands = {{"X"}}};
}

// FusedMatMul's operands: the first axis behind the other axes of the stack, where asked for.
Ints stack_perm(int rank, bool moved) {
  Ints perm = all_axes(rank);
  if (moved && rank > 2) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  return perm;
}
Shape permuted(const Shape& x, const Ints& perm) {
  Shape y = x;
  for (int i = 0; i < x.rank(); ++i) y[i] = x[static_cast<int>(perm[at(i)])];
  return y;
}
constexpr const char* stack_moved[] = {"transBatchA", "transBatchB"};

void infer_fused_matmul(InferContext& c) {
  std::vector<TensorType> operands;
  for (const int i : {0, 1})
    operands.push_back(
        {c.input(i).dtype, permuted(c.shape(i), stack_perm(c.shape(i).rank(), c.attributes().integer(stack_moved[i], 0) != 0))});
  c.set_output(0, infer_as(c, "MatMul", std::move(operands)));
}

std::vector<ValueId> expand_fused_matmul(ExpandContext& e) {
  ValueId operands[2];
  for (const int i : {0, 1}) {
    operands[i] = e.x(i);
    const int rank = e.shape(e.x(i)).rank();
    if (e.attributes().integer(stack_moved[i], 0) != 0 && rank > 2) operands[i] = e.transpose(e.x(i), stack_perm(rank, true));
  }
  const ValueId y = e.emit("MatMul", {operands[0], operands[1]},
                           {{"transA", e.attributes().integer("transA", 0)}, {"transB", e.attributes().integer("transB", 0)}});
  const double alpha = e.attributes().real("alpha", 1);
  return {alpha == 1 ? y : e.mul(y, alpha)};
}

Operator fused_matmul_row(std::string_view name) {
  return {.name = name, .domain = microsoft, .since = {1}, .inputs = {2, 2}, .types = {{"T", types::floats}},
          .infer = infer_fused_matmul,
          .follow =
              [](FollowContext& c) {
                for (const char* moved : stack_moved)
                  if (c.attributes().integer(moved, 0) != 0) c.fail(moved, " moves the axis of the samples");
                find_operator("MatMul")->follow(c);
              },
          .expand = expand_fused_matmul,
          .precision = PrecisionRole::parts,
          .operands = {{"A", OperandRole::matrix}, {"B", OperandRole::matrix}}};
}

Attributes without(const Attributes& from, std::initializer_list<std::string_view> names) {
  Attributes a = from;
  for (const std::string_view name : names) a.erase(name);
  return a;
}

}  // namespace

Operator microsoft_gelu() {
  return activation_row("Gelu", [](ExpandContext& e) -> std::vector<ValueId> { return {e.emit("GeluErf", {e.x()})}; });
}

// x · sigmoid(alpha · x)
Operator microsoft_quick_gelu() {
  return activation_row("QuickGelu", [](ExpandContext& e) -> std::vector<ValueId> {
    return {e.emit("Swish", {e.x()}, {{"alpha", e.attributes().real("alpha", quick)}})};
  });
}

// Gelu(A + B), B by features
Operator microsoft_bias_gelu() {
  return {.name = "BiasGelu",
          .domain = microsoft,
          .since = {1},
          .inputs = {2, 2},
          .types = {{"T", types::floats}},
          .infer = infer_with_bias,
          .follow = follow_features,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.emit("GeluErf", {with_bias(e, 1)})}; },
          .precision = PrecisionRole::parts,
          .rectifies = true,
          .operands = {{"A"}, {"B", OperandRole::bias}}};
}

// Gelu's form by tanh, of X + bias
Operator microsoft_fast_gelu() {
  return {.name = "FastGelu",
          .domain = microsoft,
          .since = {1},
          .inputs = {1, 2},
          .types = {{"T", types::floats}},
          .infer = infer_with_bias,
          .follow = follow_features,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.emit("GeluTanh", {with_bias(e, 1)})}; },
          .precision = PrecisionRole::parts,
          .rectifies = true,
          .operands = {{"X"}, {"bias", OperandRole::bias}}};
}

// X + bias + skip
Operator microsoft_bias_add() {
  return {.name = "BiasAdd", .domain = microsoft, .since = {1}, .inputs = {3, 3}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                expect_feature(c, 1);
                expect_shape(c, 2, c.shape(0));
                infer_same(c);
              },
          .follow = follow_features,
          .expand = [](ExpandContext& e) -> std::vector<ValueId> { return {e.add(with_bias(e, 1), e.x(2))}; },
          .precision = PrecisionRole::parts, .operands = {{"X"}, {"bias", OperandRole::bias}, {"skip", OperandRole::addend}}};
}

// Of X + bias the first half of the features times Gelu of the second
Operator microsoft_bias_split_gelu() {
  return {.name = "BiasSplitGelu", .domain = microsoft, .since = {1}, .inputs = {2, 2}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                expect_feature(c, 1);
                const Shape& x = c.shape(0);
                const int last = x.rank() - 1;
                if (x[last] % 2 != 0) c.fail("the last axis of ", x, " has no halves");
                c.set_output(0, c.input(0).dtype, with_dim(x, last, x[last] / 2));
              },
          .follow =
              [](FollowContext& c) {
                only_operand(c, 0);
                if (c.place().axis == c.x().rank() - 1) c.fail("the samples lie along axis ", c.place().axis, ", its features");
                c.set(0, c.place());
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            const ValueId x = with_bias(e, 1);
            const int last = e.shape(x).rank() - 1;
            const std::int64_t half = e.shape(x)[last] / 2;
            return {e.mul(slice_axis(e, x, last, 0, half), e.emit("GeluErf", {slice_axis(e, x, last, half, 2 * half)}))};
          },
          .precision = PrecisionRole::parts, .operands = {{"X"}, {"bias", OperandRole::bias}}};
}

// alpha · A' · B'; transBatchA, transBatchB move the first axis behind those of the stack
Operator microsoft_fused_matmul() { return fused_matmul_row("FusedMatMul"); }
Operator microsoft_transpose_matmul() { return fused_matmul_row("TransposeMatMul"); }

// activation(Gemm)
Operator microsoft_fused_gemm() {
  return {
      .name = "FusedGemm",
      .domain = microsoft,
      .since = {1},
      .inputs = {2, 3},
      .types = {{"T", types::floats}},
      .infer =
          [](InferContext& c) {
            check_activation(c);
            std::vector<TensorType> operands{c.input(0), c.input(1)};
            if (c.has_input(2)) operands.push_back(c.input(2));
            c.set_output(0, infer_as(c, "Gemm", std::move(operands)));
          },
      .follow = [](FollowContext& c) { find_operator("Gemm")->follow(c); },
      .expand = [](ExpandContext& e) -> std::vector<ValueId> {
        return {activate(e, e.emit("Gemm", e.node().inputs,
                                   without(e.attributes(), {"activation", "activation_alpha", "activation_beta", "activation_gamma"})))};
      },
      .precision = PrecisionRole::parts,
      .operands = {{"A", OperandRole::matrix}, {"B", OperandRole::matrix}, {"C", OperandRole::bias}}};
}

// activation(Conv + Z)
Operator microsoft_fused_conv() {
  return {.name = "FusedConv", .domain = microsoft, .since = {1}, .inputs = {2, 4}, .types = {{"T", types::floats}},
          .infer =
              [](InferContext& c) {
                check_activation(c);
                std::vector<TensorType> operands{c.input(0), c.input(1)};
                if (c.has_input(2)) operands.push_back(c.input(2));
                const TensorType y = infer_as(c, "Conv", std::move(operands));
                if (c.has_input(3)) expect_shape(c, 3, y.shape);
                c.set_output(0, y);
              },
          .follow =
              [](FollowContext& c) {
                for (const int i : {0, 3})
                  if (c.place(i).present() && c.place(i).axis != 0)
                    c.fail("the samples lie along axis ", c.place(i).axis, ", which it works on as a whole");
                if (!c.place(0).present() || c.place(1).present() || c.place(2).present() ||
                    (c.place(3).present() && c.place(3) != c.place(0)))
                  c.fail("its operands hold the samples at different places: samples would meet");
                if (c.has_input(3) && !c.place(3).present()) c.repeat(3, 0, c.place(0).outer);
                c.set(0, c.place(0));
              },
          .expand = [](ExpandContext& e) -> std::vector<ValueId> {
            std::vector<ValueId> operands{e.x(0), e.x(1)};
            if (e.has_x(2)) operands.push_back(e.x(2));
            const ValueId y = e.emit("Conv", std::move(operands), without(e.attributes(), {"activation", "activation_params"}));
            return {activate(e, e.has_x(3) ? e.add(y, e.x(3)) : y)};
          },
          .precision = PrecisionRole::parts,
          .operands = {{"X"}, {"W", OperandRole::filter}, {"B", OperandRole::bias}, {"Z", OperandRole::addend}}};
}

}  // namespace tandem::operator_rows
