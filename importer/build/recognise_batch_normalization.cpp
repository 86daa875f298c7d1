// From every Add, which may add the bias, the matcher goes back through products, quotients, roots and the views between, and gives
// up as soon as something does not fit. Where all fits the Add becomes the BatchNormalization; what it no longer reads is dropped
// later.
#include "importer/build/recognise_batch_normalization.h"

#include <algorithm>

#include "graph/operator.h"

namespace tandem {
namespace {

// The operands of y found so far.
struct Match {
  ValueId x, scale, bias, mean, variance;
  double epsilon = 0;
  std::vector<std::string> origin;
};

class Matcher {
 public:
  Matcher(const Graph& graph, const Node& add) : graph_(graph), rank_(graph[add.outputs[0]].type.shape.rank()) {
    if (rank_ > 1) channels_ = graph[add.outputs[0]].type.shape[1];
  }

  bool match(const Node& add) {
    if (rank_ < 2) return false;
    for (const int side : {0, 1}) {
      m_ = {};
      note(add);
      const ValueId bias = add.inputs[at(side)], product = add.inputs[at(1 - side)];
      if (parameter(bias, true, m_.bias) && product_of(product)) return m_.scale.present() && m_.variance.present() && m_.mean.present();
    }
    return false;
  }
  const Match& found() const { return m_; }

 private:
  const Node* producer(ValueId v) const { return graph_[v].producer.present() ? &graph_[graph_[v].producer] : nullptr; }
  void note(const Node& node) { m_.origin.insert(m_.origin.end(), node.origin.begin(), node.origin.end()); }

  std::optional<double> number(ValueId v) const {
    const DType dtype = graph_[v].type.dtype;
    return dtype == DType::float32 || dtype == DType::float64 ? known_number(graph_[v]) : std::nullopt;
  }

  // What a value is behind views, casts that change nothing and products with one.
  ValueId peel(ValueId v) {
    for (;;) {
      const Node* node = producer(v);
      if (!node) return v;
      const std::string_view op = node->op->name;
      ValueId inner;
      if (!node->inputs.empty() && operand_of(*node->op, 0).role == OperandRole::unchanged) inner = node->inputs[0];
      if (op == "Cast" && graph_[v].type.dtype == graph_[node->inputs[0]].type.dtype) inner = node->inputs[0];
      if (op == "Mul")
        for (const int i : {0, 1})
          if (number(node->inputs[at(1 - i)]) == 1.0) inner = node->inputs[at(i)];
      if (!inner.present() || graph_[inner].type.shape.elements() != graph_[v].type.shape.elements()) return v;
      note(*node);
      v = inner;
    }
  }

  // [C,1,...] beside x [N,C,...]: one entry a channel.
  bool per_channel(ValueId v) const {
    const Shape& s = graph_[v].type.shape;
    for (int i = 0; i < s.rank(); ++i)
      if (s[i] != (i == s.rank() - rank_ + 1 ? channels_ : 1)) return false;
    return s.elements() == channels_ && s.rank() >= rank_ - 1 && s.rank() <= rank_;
  }

  bool is_parameter(ValueId v, bool trained) const {
    const Value& value = graph_[v];
    return value.kind == ValueKind::parameter && value.type.shape == Shape{channels_} && (trained || !value.trainable);
  }
  bool parameter(ValueId view, bool trained, ValueId& found) {
    if (!per_channel(view)) return false;
    const ValueId v = peel(view);
    if (!is_parameter(v, trained) || found.present()) return false;
    found = v;
    return true;
  }

  // v = (x − mean) times factors
  bool product_of(ValueId v) {
    const Node* node = producer(v);
    if (!node) return false;
    note(*node);
    const std::string_view op = node->op->name;
    if (op == "Identity") return product_of(node->inputs[0]);
    if (op == "Sub") {
      m_.x = node->inputs[0];
      return graph_[m_.x].type.shape.rank() == rank_ && parameter(node->inputs[1], false, m_.mean);
    }
    if (op == "Div") return per_channel(node->inputs[1]) && root(node->inputs[1]) && product_of(node->inputs[0]);
    if (op != "Mul") return false;
    const int factor = per_channel(node->inputs[1]) ? 1 : 0;
    return per_channel(node->inputs[at(factor)]) && factor_of(node->inputs[at(factor)]) && product_of(node->inputs[at(1 - factor)]);
  }

  // The scale, 1/√(variance + epsilon), or the product or quotient of both.
  bool factor_of(ValueId view) {
    const ValueId v = peel(view);
    if (is_parameter(v, true) && !m_.scale.present()) {
      m_.scale = v;
      return true;
    }
    const Node* node = producer(v);
    if (!node) return false;
    note(*node);
    const std::string_view op = node->op->name;
    if (op == "Reciprocal") return root(node->inputs[0]);
    if (op == "Mul") return factor_of(node->inputs[0]) && factor_of(node->inputs[1]);
    if (op == "Div") return factor_of(node->inputs[0]) && root(node->inputs[1]);
    return false;
  }

  // √(variance + epsilon)
  bool root(ValueId view) {
    const Node* sqrt = producer(peel(view));
    if (!sqrt || sqrt->op->name != "Sqrt" || m_.variance.present()) return false;
    const Node* add = producer(peel(sqrt->inputs[0]));
    if (!add || add->op->name != "Add") return false;
    note(*sqrt);
    note(*add);
    for (const int i : {0, 1}) {
      const ValueId variance = peel(add->inputs[at(i)]);
      const std::optional<double> epsilon = number(add->inputs[at(1 - i)]);
      if (!epsilon || !is_parameter(variance, false)) continue;
      m_.variance = variance;
      m_.epsilon = *epsilon;
      return true;
    }
    return false;
  }

  const Graph& graph_;
  int rank_;
  std::int64_t channels_ = 0;
  Match m_;
};

}  // namespace

void recognise_batch_normalization(Graph& graph) {
  const Operator& op = internal_operator("BatchNormalization");
  for (Node& node : graph.nodes) {
    if (node.op->name != "Add") continue;
    Matcher matcher(graph, node);
    if (!matcher.match(node)) continue;
    const Match& m = matcher.found();
    if (graph[m.x].type != graph[node.outputs[0]].type) continue;
    node.op = &op;
    node.inputs = {m.x, m.scale, m.bias, m.mean, m.variance};
    node.attributes = {{"epsilon", static_cast<float>(m.epsilon)}};
    node.origin.clear();
    for (const std::string& name : m.origin)
      if (std::find(node.origin.begin(), node.origin.end(), name) == node.origin.end()) node.origin.push_back(name);
  }
}

}  // namespace tandem
