// scikit-learn's linear models stand in ai.onnx.ml's LinearClassifier and LinearRegressor, whose weights are attributes. They become
// products by tensors under the node's name, which are trained like any other and written back into the attributes. Where a
// classifier of two classes gives 1 − p beside p = sigmoid(s), that is written as the softmax of [0, s], which it is, and so known for
// what it is: scores of classes. Probabilities of a softmax are not made to sum to 1 once more.
#include <algorithm>
#include <set>

#include "importer/flat/linear_models.h"

namespace tandem {
namespace {

constexpr std::string_view ml = "ai.onnx.ml";
constexpr std::int64_t opset = 13;

class Lifter {
 public:
  explicit Lifter(FlatModel& model) : model_(model), names_(model.symbols.begin(), model.symbols.end()) {}

  void run() {
    std::vector<FlatNode> before = std::move(model_.main.nodes);
    model_.main.nodes.clear();
    for (FlatNode& node : before) {
      if (node.domain == ml && node.top_level && node.faults.empty() && node.inputs.size() == 1 &&
          (node.op == "LinearClassifier" || node.op == "LinearRegressor") && lift(node))
        continue;
      if (node.domain == ml && node.op == "Normalizer") leave_probabilities(node);
      if (node.domain.empty() && node.op == "Concat") scores_of_two(node);
      model_.main.nodes.push_back(std::move(node));
    }
  }

 private:
  Symbol symbol(const FlatNode& of, const std::string& suffix) {
    std::string name = of.name + suffix;
    while (!names_.insert(name).second) name += '_';
    model_.symbols.push_back(std::move(name));
    model_.stated.push_back(Stated::nothing);
    return {static_cast<int>(model_.symbols.size()) - 1};
  }

  Symbol add(const FlatNode& of, const std::string& op, std::vector<Symbol> inputs, Attributes attributes = {}, Symbol output = {}) {
    FlatNode node;
    node.id = model_.node_ids++;
    node.name = concat(of.name, '/', op, '_', node.id);
    node.op = op;
    node.opset = opset;
    node.attributes = std::move(attributes);
    node.inputs = std::move(inputs);
    node.outputs = {output.present() ? output : symbol(of, concat('/', op))};
    node.proto = of.proto;
    model_.main.nodes.push_back(std::move(node));
    return model_.main.nodes.back().outputs[0];
  }
  Symbol constant(const FlatNode& of, Tensor value) { return add(of, "Constant", {}, {{"value", std::move(value)}}); }

  // A weight of these rows; `mirrored`: only the second of two rows, the first of which is its negative.
  Symbol weight(const FlatNode& node, const char* attribute, Shape shape, bool mirrored) {
    const Floats& list = node.attributes.floats(attribute);
    const Floats kept(mirrored ? list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2) : list.begin(), list.end());
    const Symbol s = symbol(node, concat('.', attribute));
    const Tensor data = Tensor::of<float>(std::move(shape), kept);
    model_.main.initializers.push_back({s, data.type(), data});
    model_.attribute_weights.push_back({s, node.proto, attribute, mirrored});
    return s;
  }

  static bool is_mirrored(const Floats& list) {
    const std::size_t half = list.size() / 2;
    for (std::size_t i = 0; i < half; ++i)
      if (list[i] != -list[half + i]) return false;
    return list.size() % 2 == 0 && half > 0;
  }

  Symbol softmax_of_two(const FlatNode& node, Symbol score, Symbol output) {
    const Symbol nothing = add(node, "Sub", {score, score});
    return add(node, "Softmax", {add(node, "Concat", {nothing, score}, {{"axis", std::int64_t{1}}})}, {{"axis", std::int64_t{1}}}, output);
  }

  // False: it is left as it is, and reported.
  bool lift(const FlatNode& node) {
    const Attributes& a = node.attributes;
    const bool classifier = node.op == "LinearClassifier";
    const std::string post = a.text("post_transform", "NONE");
    if (!a.has("coefficients") || (post != "NONE" && post != "LOGISTIC" && post != "SOFTMAX")) return false;
    const std::int64_t labels = !classifier                 ? 0
                                : a.has("classlabels_ints") ? static_cast<std::int64_t>(a.ints("classlabels_ints").size())
                                                            : strings(a);
    const auto numbers = static_cast<std::int64_t>(a.floats("coefficients").size());
    const bool shifted = a.has("intercepts") && !a.floats("intercepts").empty();
    std::int64_t rows =
        classifier ? (shifted ? static_cast<std::int64_t>(a.floats("intercepts").size()) : labels) : a.integer("targets", 1);
    if (rows < 1 || numbers < 1 || numbers % rows != 0 || (shifted && static_cast<std::int64_t>(a.floats("intercepts").size()) != rows))
      return false;
    if (classifier && rows != labels && !(rows == 1 && labels == 2)) return false;
    const std::int64_t features = numbers / rows;
    const bool mirrored = classifier && rows == 2 && labels == 2 && post == "LOGISTIC" && is_mirrored(a.floats("coefficients")) &&
                          (!shifted || is_mirrored(a.floats("intercepts")));
    if (mirrored) rows = 1;
    const bool two = classifier && rows == 1 && labels == 2;

    const Symbol x = add(node, "Cast", node.inputs, {{"to", static_cast<std::int64_t>(DType::float32)}});
    std::vector<Symbol> operands{x, weight(node, "coefficients", {rows, features}, mirrored)};
    if (shifted) operands.push_back(weight(node, "intercepts", {rows}, mirrored));
    const Symbol given = node.outputs.size() > (classifier ? 1 : 0) ? node.outputs[classifier ? 1 : 0] : Symbol{};
    const bool plain = post == "NONE" || (two && post == "SOFTMAX");
    const Symbol score = add(node, "Gemm", operands, {{"transB", std::int64_t{1}}}, plain && !two ? given : Symbol{});
    Symbol result = score;
    if (two && plain)
      result =
          add(node, "Concat", {add(node, "Sub", {constant(node, Tensor::scalar(1.0F)), score}), score}, {{"axis", std::int64_t{1}}}, given);
    else if (two)
      result = softmax_of_two(node, score, given);
    else if (!plain)
      result = add(node, post == "SOFTMAX" ? "Softmax" : "Sigmoid", {score},
                   post == "SOFTMAX" ? Attributes{{"axis", std::int64_t{1}}} : Attributes{}, given);
    if (classifier && !node.outputs.empty() && node.outputs[0].present() && a.has("classlabels_ints")) {
      const Symbol best = add(node, "ArgMax", {result}, {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}});
      add(node, "Gather", {constant(node, Tensor::of<std::int64_t>(Shape{labels}, a.ints("classlabels_ints"))), best},
          {{"axis", std::int64_t{0}}}, node.outputs[0]);
    }
    return true;
  }
  static std::int64_t strings(const Attributes& a) {
    const AttributeValue* value = a.find("classlabels_strings");
    const auto* list = value ? std::get_if<Strings>(value) : nullptr;
    return list ? static_cast<std::int64_t>(list->size()) : 0;
  }

  const FlatNode* producer(Symbol s) const {
    for (const FlatNode& node : model_.main.nodes)
      if (std::find(node.outputs.begin(), node.outputs.end(), s) != node.outputs.end()) return s.present() ? &node : nullptr;
    return nullptr;
  }

  void leave_probabilities(FlatNode& node) {
    const FlatNode* from = node.inputs.size() == 1 ? producer(node.inputs[0]) : nullptr;
    if (!from || from->op != "Softmax" || !from->domain.empty() || from->attributes.integer("axis", -1) == 0 ||
        node.attributes.text("norm", "MAX") != "L1")
      return;
    node.op = "Identity";
    node.domain.clear();
    node.opset = opset;
    node.attributes = {};
  }

  bool is_one(Symbol s) const {
    for (const FlatInitializer& i : model_.main.initializers)
      if (i.symbol == s)
        return i.data && is_float(i.type.dtype) && size_of(i.type.dtype) > 2 && i.data->elements() == 1 && i.data->to_doubles()[0] == 1;
    return false;
  }

  // Concat(1 − p, p) of p = sigmoid(s) by columns.
  void scores_of_two(FlatNode& node) {
    if (node.inputs.size() != 2 || node.outputs.size() != 1 || !node.faults.empty() || node.attributes.integer("axis", 1) != 1) return;
    const FlatNode* rest = producer(node.inputs[0]);
    const FlatNode* sigmoid = producer(node.inputs[1]);
    if (!rest || !sigmoid || rest->op != "Sub" || !rest->domain.empty() || sigmoid->op != "Sigmoid" || !sigmoid->domain.empty()) return;
    if (rest->inputs.size() != 2 || !(rest->inputs[1] == node.inputs[1]) || !is_one(rest->inputs[0]) || sigmoid->inputs.size() != 1) return;
    const Symbol score = sigmoid->inputs[0], output = node.outputs[0];
    const Symbol nothing = add(node, "Sub", {score, score});
    const Symbol both = add(node, "Concat", {nothing, score}, {{"axis", std::int64_t{1}}});
    node.op = "Softmax";
    node.opset = opset;
    node.attributes = {{"axis", std::int64_t{1}}};
    node.inputs = {both};
    node.outputs = {output};
  }

  FlatModel& model_;
  std::set<std::string> names_;
};

}  // namespace

void lift_linear_models(FlatModel& model) {
  const bool any = std::any_of(model.main.nodes.begin(), model.main.nodes.end(), [](const FlatNode& n) { return n.domain == ml; });
  if (any) Lifter(model).run();
}

}  // namespace tandem
