#include "planner/loss/probabilities.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr int deepest = 16;  // operators that are looked through

class Finder {
 public:
  explicit Finder(const Graph& graph) : graph_(graph) {}

  std::optional<FinalScores> find(ValueId v) const {
    const Node* const node = maker(v);
    if (!node) return std::nullopt;
    const std::string_view op = node->op->name;
    if (op == "Exp") return of_logarithm(node->inputs[0]);
    if (op == "Div") return quotient(v, node->inputs[0], node->inputs[1]);
    if (op == "Mul")
      for (const std::size_t i : {0U, 1U})
        if (const Node* const inverse = maker(node->inputs[i]); inverse && inverse->op->name == "Reciprocal")
          return quotient(v, node->inputs[1 - i], inverse->inputs[0]);
    const bool by_sum = (op == "Normalizer" && node->attributes.text("norm", "MAX") == "L1") ||
                        (op == "LpNormalization" && node->attributes.integer("p", 2) == 1);
    if (!by_sum || !never_negative(node->inputs[0], deepest)) return std::nullopt;
    const int last = graph_[v].type.shape.rank() - 1;
    return normalized(v, op == "Normalizer" ? std::min(1, last) : axis_of(node->attributes.integer("axis", -1), last + 1));
  }

 private:
  static int axis_of(std::int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

  // The node that makes a value, seen through what changes nothing.
  const Node* maker(ValueId v) const {
    v = through(v);
    return v.present() && graph_[v].producer.present() ? &graph_[graph_[v].producer] : nullptr;
  }
  ValueId through(ValueId v) const {
    for (int i = 0; i < deepest && v.present() && graph_[v].producer.present(); ++i) {
      const Node& node = graph_[graph_[v].producer];
      if (node.op->name != "Identity" && !(node.op->name == "Cast" && is_float(graph_[node.inputs[0]].type.dtype))) break;
      v = node.inputs[0];
    }
    return v;
  }
  bool is_number(ValueId v) const { return graph_[v].kind == ValueKind::constant && graph_[v].type.shape.elements() == 1; }

  // What a divisor sums, and along which axis; smoothing terms and what keeps it from 0 are looked through.
  struct Sum {
    ValueId of;
    int axis;
  };
  std::optional<Sum> sum(ValueId v, std::initializer_list<std::string_view> reductions, int depth) const {
    const Node* const node = maker(v);
    if (!node || depth == 0) return std::nullopt;
    const std::string_view op = node->op->name;
    if (std::find(reductions.begin(), reductions.end(), op) != reductions.end()) {
      const Ints axes = node->attributes.ints("axes", {});
      const int rank = graph_[node->inputs[0]].type.shape.rank();
      if (axes.size() != 1 || axis_of(axes[0], rank) == 0) return std::nullopt;
      return Sum{through(node->inputs[0]), axis_of(axes[0], rank)};
    }
    if (op == "Reshape" || op == "Unsqueeze" || op == "Expand" || op == "Clip") return sum(node->inputs[0], reductions, depth - 1);
    if (op == "Add" || op == "Max")
      for (const std::size_t i : {0U, 1U})
        if (node->inputs.size() == 2 && is_number(node->inputs[i])) return sum(node->inputs[1 - i], reductions, depth - 1);
    if (op == "Where")
      for (const std::size_t i : {1U, 2U})
        if (is_number(node->inputs[i])) return sum(node->inputs[3 - i], reductions, depth - 1);
    return std::nullopt;
  }

  FinalScores normalized(ValueId v, int axis) const { return {.kind = OutputKind::softmax, .logits = v, .axis = axis, .normalized = true}; }

  // exp(log softmax(z)), exp(z − log Σ exp(z))
  std::optional<FinalScores> of_logarithm(ValueId v) const {
    const Node* const node = maker(v);
    if (!node) return std::nullopt;
    const int rank = graph_[v].type.shape.rank();
    if (node->op->name == "LogSoftmax")
      return FinalScores{
          .kind = OutputKind::softmax, .logits = node->inputs[0], .axis = axis_of(node->attributes.integer("axis", -1), rank)};
    if (node->op->name != "Sub") return std::nullopt;
    const std::optional<Sum> all = sum(node->inputs[1], {"ReduceLogSumExp"}, deepest);
    if (!all || all->of != through(node->inputs[0])) return std::nullopt;
    return FinalScores{.kind = OutputKind::softmax, .logits = all->of, .axis = all->axis};
  }

  std::optional<FinalScores> quotient(ValueId v, ValueId x, ValueId divisor) const {
    const std::optional<Sum> all = sum(divisor, {"ReduceSum", "ReduceL1"}, deepest);
    if (!all || graph_[all->of].type.shape != graph_[v].type.shape) return std::nullopt;
    const Node* const magnitude = maker(all->of);
    const bool same = all->of == through(x) || (magnitude && magnitude->op->name == "Abs" && through(magnitude->inputs[0]) == through(x));
    if (!same || !never_negative(x, deepest)) return std::nullopt;
    return normalized(v, all->axis);
  }

  bool never_negative(ValueId v, int depth) const {
    v = through(v);
    if (!v.present() || depth == 0) return false;
    if (graph_[v].kind == ValueKind::constant) {
      if (!is_float(graph_[v].type.dtype)) return false;
      const std::vector<double> values = graph_[v].data->to_doubles();
      return std::all_of(values.begin(), values.end(), [](double x) { return x >= 0; });
    }
    const Node* const node = maker(v);
    if (!node) return false;
    const std::string_view op = node->op->name;
    constexpr std::string_view always[] = {"Sigmoid",  "HardSigmoid", "Softmax",  "Exp",      "Relu",           "Abs",
                                           "Softplus", "Sqrt",        "ReduceL1", "ReduceL2", "ReduceSumSquare"};
    if (std::find(std::begin(always), std::end(always), op) != std::end(always)) return true;
    constexpr std::string_view keep[] = {"Add", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Concat", "ReduceSum", "ReduceMean", "ReduceMax",
                                         "ReduceMin"};  // of such, such
    constexpr std::string_view move[] = {"Reshape", "Transpose", "Slice", "Gather", "Squeeze", "Unsqueeze", "Expand", "Clip", "Pow"};
    if (op == "Mul" && node->inputs[0] == node->inputs[1]) return true;
    if (std::find(std::begin(move), std::end(move), op) != std::end(move)) return never_negative(node->inputs[0], depth - 1);
    if (op == "Sub") return graph_[node->inputs[0]].kind == ValueKind::constant && is_one(node->inputs[0]) && at_most_one(node->inputs[1]);
    if (std::find(std::begin(keep), std::end(keep), op) == std::end(keep)) return false;
    return std::all_of(node->inputs.begin(), node->inputs.end(), [&](ValueId in) { return in.present() && never_negative(in, depth - 1); });
  }
  bool is_one(ValueId v) const {
    const std::vector<double> values = graph_[v].data->to_doubles();
    return std::all_of(values.begin(), values.end(), [](double x) { return x == 1; });
  }
  bool at_most_one(ValueId v) const {
    const Node* const node = maker(v);
    return node && (node->op->name == "Sigmoid" || node->op->name == "Softmax" || node->op->name == "HardSigmoid");
  }

  const Graph& graph_;
};

}  // namespace

std::optional<FinalScores> scores_of_probabilities(const Graph& graph, ValueId value) { return Finder(graph).find(value); }

}  // namespace tandem
