// InstanceNormalization, GroupNormalization, and the Reshape, InstanceNormalization of ones and zeros, Reshape, Mul, Add that PyTorch
// writes for the latter, as one node each. What only the nodes of the formula read is dropped by simplify.
#include <algorithm>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/pattern.h"

namespace tandem::pass_rows {
namespace {

struct Normal {
  ValueId x, scale, bias;  // of [C], [G] or, behind ones and before them, C
  std::int64_t groups = 0;
  double epsilon = 0;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : p_(graph), graph_(graph) {}

  // What the node's output is, where it is a normalization of groups.
  std::optional<Normal> match(const Node& node) const {
    if (!node.op->domain.empty() || !is_float(graph_[node.outputs[0]].type.dtype)) return std::nullopt;
    const std::string_view op = node.op->name;
    auto found = op == "InstanceNormalization" || op == "GroupNormalization" ? written(node)
                 : op == "Reshape"                                           ? between_reshapes(node)
                 : op == "Mul"                                               ? scaled(node)
                 : op == "Add"                                               ? biased(node)
                                                                             : std::nullopt;
    if (found && shape(found->x).elements() == 0) return std::nullopt;
    return found;
  }

 private:
  const Shape& shape(ValueId v) const { return graph_[v].type.shape; }

  std::optional<Normal> written(const Node& node) const {
    const bool instance = node.op->name == "InstanceNormalization";
    return Normal{.x = node.inputs[0],
                  .scale = node.inputs[1],
                  .bias = node.inputs[2],
                  .groups = instance ? shape(node.inputs[0])[1] : node.attributes.integer("num_groups"),
                  .epsilon = static_cast<double>(node.attributes.real("epsilon", 1e-5F))};
  }

  bool all_are(ValueId v, double number) const {
    const Value& value = graph_[p_.through(v)];
    if (value.kind != ValueKind::constant || !value.data) return false;
    const std::vector<double> values = value.data->to_doubles();
    return std::all_of(values.begin(), values.end(), [&](double x) { return x == number; });
  }

  // x [N,C,...] as [N,G,...], its instances normalized, as [N,C,...] again
  std::optional<Normal> between_reshapes(const Node& back) const {
    const Node* const instance = p_.made_by(back.inputs[0], "InstanceNormalization");
    const Node* const apart = instance ? p_.made_by(instance->inputs[0], "Reshape") : nullptr;
    if (!apart || !all_are(instance->inputs[1], 1) || !all_are(instance->inputs[2], 0)) return std::nullopt;
    const Shape &x = shape(apart->inputs[0]), &parts = shape(instance->inputs[0]);
    if (shape(back.outputs[0]) != x || x.rank() < 2 || parts[0] != x[0] || parts[1] < 1 || x[1] % parts[1] != 0) return std::nullopt;
    return Normal{.x = apart->inputs[0],
                  .scale = {},
                  .bias = {},
                  .groups = parts[1],
                  .epsilon = static_cast<double>(instance->attributes.real("epsilon", 1e-5F))};
  }

  // A number a channel, the same for all samples.
  bool is_channels(ValueId v, const Normal& n) const {
    const Value& value = graph_[v];
    const Shape &s = value.type.shape, &x = shape(n.x);
    const int axis = 1 - (x.rank() - s.rank());
    if (value.depends_on_batch || value.kind == ValueKind::input || value.type.dtype != graph_[n.x].type.dtype || axis < 0) return false;
    return s[axis] == x[1] && s.elements() == x[1];
  }

  std::optional<Normal> reshaped(ValueId v) const {
    const Node* const back = p_.read_once(v) ? p_.made_by(v, "Reshape") : nullptr;
    return back ? between_reshapes(*back) : std::nullopt;
  }
  std::optional<Normal> scaled(const Node& mul) const {
    for (const std::size_t i : {0, 1}) {
      auto n = reshaped(mul.inputs[i]);
      if (!n || !is_channels(mul.inputs[1 - i], *n)) continue;
      n->scale = mul.inputs[1 - i];
      return n;
    }
    return std::nullopt;
  }
  std::optional<Normal> biased(const Node& add) const {
    for (const std::size_t i : {0, 1}) {
      const Node* const mul = p_.read_once(add.inputs[i]) ? p_.made_by(add.inputs[i], "Mul") : nullptr;
      auto n = mul ? scaled(*mul) : std::nullopt;
      if (!n || !is_channels(add.inputs[1 - i], *n)) continue;
      n->bias = add.inputs[1 - i];
      return n;
    }
    return std::nullopt;
  }

  const Pattern p_;
  const Graph& graph_;
};

Graph match_group_normalization(const Graph& graph, const Fuses& fuses) {
  const auto instance = [](const Node& n) { return n.op->name == "InstanceNormalization" || n.op->name == "GroupNormalization"; };
  if (!fuses || std::none_of(graph.nodes.begin(), graph.nodes.end(), instance)) return graph;
  const Matcher matcher(graph);
  const Operator& op = internal_operator("GroupNormalizationTraining");
  GraphCopy copy(graph);
  for (const Node& node : graph.nodes) {
    const std::optional<Normal> n = matcher.match(node);
    const Attributes attributes = n ? Attributes{{"groups", n->groups}, {"epsilon", static_cast<float>(n->epsilon)}} : Attributes{};
    const TensorType x = n ? graph[n->x].type : TensorType{};
    const auto like = [&](ValueId v) { return v.present() ? TensorType{x.dtype, Shape{x.shape[1]}} : TensorType{}; };
    if (!n || !offered(fuses, op, attributes, {x, like(n->scale), like(n->bias)}, 3)) {
      copy.copy(node);
      continue;
    }
    const ValueId operands[] = {n->x, n->scale, n->bias};
    const std::vector<std::string> origin = origin_of(graph, node, operands);
    GraphBuilder b(copy.to, node.name, origin);
    const auto channels = [&](ValueId v) {
      if (!v.present()) return v;
      const std::int64_t c = x.shape[1];
      if (graph[v].type.shape.elements() == c) return b.reshape(copy.map(v), Shape{c});
      return b.reshape(b.broadcast_to(b.reshape(copy.map(v), Shape{n->groups, 1}), Shape{n->groups, c / n->groups}), Shape{c});
    };
    std::vector<ValueId> inputs{copy.map(n->x), channels(n->scale), channels(n->bias)};
    while (!inputs.back().present()) inputs.pop_back();
    const NodeId id = copy.to.add_node(op, node.name, attributes, std::move(inputs), 3, origin);
    copy.to[copy.to[id].outputs[0]].name = graph[node.outputs[0]].name;
    copy.set(node.outputs[0], copy.to[id].outputs[0]);
  }
  return copy.finish();
}

}  // namespace

// InstanceNormalization, GroupNormalization and what exporters write for the latter become GroupNormalizationTraining where that is
// offered. Before expand.
Pass match_group_normalization() {
  return {.name = "match_group_normalization",
          .run = [](Graph g, PassContext& c) { return match_group_normalization(g, c.fuses); },
          .why = "one kernel in place of those of the formula"};
}

}  // namespace tandem::pass_rows
