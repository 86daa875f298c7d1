// Normalizations of rows as one node each: ONNX's own operators, and what exporters write out. Where a residual's sum is what is
// normalized, the node adds, too.
#include <algorithm>
#include <cmath>

#include "planner/rewrite/fusing.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/pattern.h"

namespace tandem::pass_rows {
namespace {

struct Normal {
  ValueId x, scale, bias;  // scale and bias are of a row's shape, but for ones before it; bias only with scale
  int axis = 0;
  double epsilon = 0;
  bool rms = false;
};

// 1/√(mean((x − m)²) + ε), with m = mean(x), or 0 where it is a root mean square.
struct Inverse {
  ValueId x, centred, mean;
  int axis = 0;
  double epsilon = 0;
};

class Matcher {
 public:
  explicit Matcher(const Graph& graph) : p_(graph), graph_(graph) {}

  // A sum's operands, the residual first: others read it, too.
  std::pair<ValueId, ValueId> operands_of(const Node& sum) const {
    const ValueId a = sum.inputs[0], b = sum.inputs[1];
    return p_.read_once(a) && !p_.read_once(b) ? std::pair(b, a) : std::pair(a, b);
  }

  // What the node's first output is, where it is a normalization; scale and bias where it is such a one's end.
  std::optional<Normal> match(const Node& node) const {
    if (!node.op->domain.empty() || !is_float(graph_[node.outputs[0]].type.dtype)) return std::nullopt;
    auto found = [&]() -> std::optional<Normal> {
      const std::string_view op = node.op->name;
      if (op == "LayerNormalization" || op == "RMSNormalization") return written(node);
      if (op == "Mul" || op == "Div") return scaled(node);
      if (op != "Add") return std::nullopt;
      auto sum = folded(node);
      return sum ? sum : biased(node);
    }();
    if (found)
      for (ValueId* const v : {&found->x, &found->scale, &found->bias}) *v = p_.through(*v);
    return found;
  }

 private:
  const Shape& shape(ValueId v) const { return graph_[v].type.shape; }

  std::optional<Normal> written(const Node& node) const {
    for (std::size_t i = 1; i < node.outputs.size(); ++i)
      if (node.outputs[i].present() && p_.read(node.outputs[i])) return std::nullopt;
    Normal n{.x = node.inputs[0], .rms = node.op->name == "RMSNormalization"};
    n.axis = normalize_axis(node.attributes.integer("axis", -1), shape(n.x).rank(), "axis");
    n.epsilon = static_cast<double>(node.attributes.real("epsilon", 1e-5F));
    if (node.inputs.size() > 1) n.scale = node.inputs[1];
    if (node.inputs.size() > 2) n.bias = node.inputs[2];
    for (const ValueId v : {n.scale, n.bias})
      if (v.present() && !is_row(v, n)) return std::nullopt;
    return n;
  }

  // The axis from which on the mean is taken, where nothing but a row is.
  std::optional<int> rows_of_mean(const Node& mean) const {
    const Ints& axes = mean.attributes.ints("axes");
    const int rank = shape(mean.inputs[0]).rank(), first = rank - static_cast<int>(axes.size());
    if (axes.empty() || mean.attributes.integer("keepdims", 1) == 0) return std::nullopt;
    for (std::size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != first + static_cast<int>(i)) return std::nullopt;
    return first;
  }

  // v² of what
  ValueId squared(ValueId v) const {
    if (const Node* const mul = p_.made_by(v, "Mul"))
      return p_.through(mul->inputs[0]) == p_.through(mul->inputs[1]) ? p_.through(mul->inputs[0]) : ValueId{};
    const Node* const pow = p_.made_by(v, "Pow");
    return pow && p_.is_number(pow->inputs[1], 2) ? p_.through(pow->inputs[0]) : ValueId{};
  }

  // (x − mean(x)), with which mean; x alone where it is none
  std::optional<Inverse> centre(ValueId c, int axis) const {
    Inverse n{.x = c, .centred = c, .mean = {}, .axis = axis};
    const Node* const sub = p_.made_by(c, "Sub");
    const Node* const mean = sub ? p_.made_by(sub->inputs[1], "ReduceMean") : nullptr;
    if (!mean || p_.through(mean->inputs[0]) != p_.through(sub->inputs[0]) || rows_of_mean(*mean) != axis) return n;
    n.x = p_.through(sub->inputs[0]);
    n.mean = mean->outputs[0];
    return n;
  }

  // mean(c²) + ε
  std::optional<Inverse> variance(ValueId v) const {
    const Node* const add = p_.made_by(v, "Add");
    if (!add) return std::nullopt;
    for (const std::size_t i : {0, 1}) {
      const auto epsilon = p_.number(add->inputs[i]);
      const Node* const mean = epsilon ? p_.made_by(add->inputs[1 - i], "ReduceMean") : nullptr;
      const auto axis = mean ? rows_of_mean(*mean) : std::nullopt;
      const ValueId c = axis ? squared(mean->inputs[0]) : ValueId{};
      if (!c.present()) continue;
      auto n = centre(c, *axis);
      // The mean square of what is centred elsewhere is no variance of it: x̂ is then that, by its root mean square.
      if (n) n->epsilon = *epsilon;
      return n;
    }
    return std::nullopt;
  }

  std::optional<Inverse> deviation(ValueId v) const {
    if (const Node* const sqrt = p_.made_by(v, "Sqrt")) return variance(sqrt->inputs[0]);
    const Node* const pow = p_.made_by(v, "Pow");
    return pow && p_.is_number(pow->inputs[1], 0.5) ? variance(pow->inputs[0]) : std::nullopt;
  }

  std::optional<Inverse> inverse(ValueId v) const {
    if (const Node* const reciprocal = p_.made_by(v, "Reciprocal")) return deviation(reciprocal->inputs[0]);
    if (const Node* const div = p_.made_by(v, "Div")) return p_.is_number(div->inputs[0], 1) ? deviation(div->inputs[1]) : std::nullopt;
    const Node* const pow = p_.made_by(v, "Pow");
    return pow && p_.is_number(pow->inputs[1], -0.5) ? variance(pow->inputs[0]) : std::nullopt;
  }

  static Normal normal_of(const Inverse& n) {
    return {.x = n.x, .scale = {}, .bias = {}, .axis = n.axis, .epsilon = n.epsilon, .rms = !n.mean.present()};
  }

  // x̂ = c / deviation, c · inverse
  std::optional<Normal> normal(const Node& node) const {
    const ValueId a = node.inputs[0], b = node.inputs[1];
    if (node.op->name == "Div") {
      const auto n = deviation(b);
      return n && n->centred == p_.through(a) ? std::optional(normal_of(*n)) : std::nullopt;
    }
    for (const auto& [c, r] : {std::pair(a, b), std::pair(b, a)})
      if (const auto n = inverse(r); n && n->centred == p_.through(c)) return normal_of(*n);
    return std::nullopt;
  }
  std::optional<Normal> normal(ValueId v, bool alone) const {
    if (alone && (!p_.read_once(v) || !p_.read_once(p_.through(v)))) return std::nullopt;
    for (const char* const op : {"Div", "Mul"})
      if (const Node* const node = p_.made_by(v, op)) return normal(*node);
    return std::nullopt;
  }

  // A parameter or constant as one row, behind ones: what is computed of samples is no scale of all of them.
  bool is_row(ValueId v, const Normal& n) const {
    const Value& value = graph_[v];
    if (value.depends_on_batch || value.kind == ValueKind::input) return false;
    const Shape &s = value.type.shape, &x = shape(n.x);
    const int row = x.rank() - n.axis, extra = s.rank() - row;
    if (value.type.dtype != graph_[n.x].type.dtype || extra < 0) return false;
    for (int i = 0; i < s.rank(); ++i)
      if (s[i] != (i < extra ? 1 : x[n.axis + i - extra])) return false;
    return extra <= n.axis;
  }

  // x̂ · scale, or x̂ alone; c · (inverse · scale)
  std::optional<Normal> scaled(const Node& node) const {
    if (node.op->name == "Mul") {
      const ValueId a = node.inputs[0], b = node.inputs[1];
      for (const auto& [v, scale] : {std::pair(a, b), std::pair(b, a)}) {
        auto n = normal(v, true);
        if (!n || !is_row(scale, *n)) continue;
        n->scale = scale;
        return n;
      }
      for (const auto& [c, factor] : {std::pair(a, b), std::pair(b, a)})
        if (auto n = inverse_times_scale(factor); n && n->first.centred == p_.through(c)) {
          Normal found = normal_of(n->first);
          found.scale = n->second;
          return found;
        }
    }
    return normal(node);
  }
  std::optional<std::pair<Inverse, ValueId>> inverse_times_scale(ValueId v) const {
    const Node* const mul = p_.made_by(v, "Mul");
    if (!mul) return std::nullopt;
    for (const std::size_t i : {0, 1})
      if (const auto n = inverse(mul->inputs[i]); n && is_row(mul->inputs[1 - i], normal_of(*n))) return std::pair(*n, mul->inputs[1 - i]);
    return std::nullopt;
  }

  // x̂ · scale + bias
  std::optional<Normal> biased(const Node& node) const {
    for (const std::size_t i : {0, 1}) {
      const ValueId v = node.inputs[i], bias = node.inputs[1 - i];
      const Node* const mul = p_.read_once(v) && p_.read_once(p_.through(v)) ? p_.made_by(v, "Mul") : nullptr;
      auto n = mul ? scaled(*mul) : std::nullopt;
      if (!n || !n->scale.present() || !is_row(bias, *n)) continue;
      n->bias = bias;
      return n;
    }
    return std::nullopt;
  }

  // TensorFlow's x · k + (bias − mean · k), k = inverse · scale
  std::optional<Normal> folded(const Node& node) const {
    for (const std::size_t i : {0, 1}) {
      const Node *const mul = p_.made_by(node.inputs[i], "Mul"), *const sub = p_.made_by(node.inputs[1 - i], "Sub");
      const Node* const shift = mul && sub ? p_.made_by(sub->inputs[1], "Mul") : nullptr;
      if (!shift) continue;
      for (const std::size_t k : {0, 1}) {
        const auto n = inverse_times_scale(mul->inputs[k]);
        if (!n || !n->first.mean.present() || p_.through(mul->inputs[1 - k]) != n->first.x) continue;
        const ValueId factor = p_.through(mul->inputs[k]), mean = p_.through(n->first.mean);
        const bool same = (p_.through(shift->inputs[0]) == factor && p_.through(shift->inputs[1]) == mean) ||
                          (p_.through(shift->inputs[1]) == factor && p_.through(shift->inputs[0]) == mean);
        Normal found = normal_of(n->first);
        if (!same || !is_row(sub->inputs[0], found)) continue;
        found.scale = n->second;
        found.bias = sub->inputs[0];
        return found;
      }
    }
    return std::nullopt;
  }

  const Pattern p_;
  const Graph& graph_;
};

// The node for a normalization, perhaps with an addend.
class Writer {
 public:
  Writer(const Graph& graph, const Fuses& fuses) : graph_(graph), fuses_(fuses), copy_(graph) {}

  bool offered_for(const Normal& n, bool adds) const {
    const TensorType& x = graph_[n.x].type;
    const TensorType row{x.dtype, Shape(Ints(x.shape.begin() + n.axis, x.shape.end()))};
    return offered(fuses_, internal_operator("RowNormalization"), attributes(n),
                   {x, n.scale.present() ? row : TensorType{}, n.bias.present() ? row : TensorType{}, adds ? x : TensorType{}}, adds ? 4 : 3);
  }

  std::vector<ValueId> add(const Normal& n, const Node& named, ValueId x, ValueId addend) {
    const ValueId operands[] = {x, addend, n.scale, n.bias};
    const std::vector<std::string> origin = origin_of(graph_, named, operands);
    GraphBuilder b(copy_.to, named.name, origin);
    const auto row = [&](ValueId v) {
      if (!v.present()) return v;
      const Shape& shape = graph_[n.x].type.shape;
      return b.reshape(copy_.map(v), Shape(Ints(shape.begin() + n.axis, shape.end())));
    };
    std::vector<ValueId> inputs{copy_.map(x), row(n.scale), row(n.bias)};
    if (addend.present()) inputs.push_back(copy_.map(addend));
    while (!inputs.back().present()) inputs.pop_back();
    const NodeId id = copy_.to.add_node(internal_operator("RowNormalization"), named.name, attributes(n), std::move(inputs),
                                        addend.present() ? 4 : 3, origin);
    return copy_.to[id].outputs;
  }

  GraphCopy& copy() { return copy_; }

 private:
  static Attributes attributes(const Normal& n) {
    Attributes a{{"axis", std::int64_t{n.axis}}, {"epsilon", static_cast<float>(n.epsilon)}};
    if (n.rms) a.set("rms", std::int64_t{1});
    return a;
  }
  const Graph& graph_;
  const Fuses& fuses_;
  GraphCopy copy_;
};

struct Found {
  Normal normal;
  NodeId sum;  // the Add that makes x, where the node does that, too
};

Graph match_normalization(const Graph& graph, const Fuses& fuses) {
  if (!fuses) return graph;
  const Matcher matcher(graph);
  Writer writer(graph, fuses);
  // From the end: what only a normalization's own formula reads is needed no more.
  IdVector<NodeId, std::optional<Found>> found(graph.nodes.size());
  IdVector<NodeId, NodeId> end_of(graph.nodes.size());  // of an Add: the normalization that it becomes a part of
  IdVector<NodeId, bool> needed(graph.nodes.size());
  const auto need = [&](ValueId v) {
    if (v.present() && graph[v].producer.present()) needed[graph[v].producer] = true;
  };
  for (const ValueId out : graph.outputs) need(out);
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    needed[i] = needed[i] || !node.op->in_place.empty();
    if (!needed[i]) continue;
    const auto n = matcher.match(node);
    if (!n || !writer.offered_for(*n, false)) {
      for (const ValueId in : node.inputs) need(in);
      continue;
    }
    for (const ValueId in : {n->x, n->scale, n->bias}) need(in);
    found[i] = Found{*n, {}};
    // Its operands must be there already where the sum is.
    const NodeId sum = graph[n->x].producer;
    const auto known = [&](ValueId v) { return !v.present() || graph[v].kind != ValueKind::activation; };
    if (!sum.present() || graph[sum].op->name != "Add" || end_of[sum].present() || !known(n->scale) || !known(n->bias)) continue;
    const ValueId a = graph[sum].inputs[0], b = graph[sum].inputs[1];
    const auto like_x = [&](ValueId v) { return graph[v].kind == ValueKind::activation && graph[v].type == graph[n->x].type; };
    if (a == b || !like_x(a) || !like_x(b) || !writer.offered_for(*n, true)) continue;
    found[i]->sum = sum;
    end_of[sum] = {static_cast<int>(i)};
  }

  GraphCopy& copy = writer.copy();
  const auto give = [&](const Node& node, ValueId y) {
    copy.to[y].name = graph[node.outputs[0]].name;
    copy.set(node.outputs[0], y);
  };
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!needed[i]) continue;
    if (end_of[i].present()) {
      const Node& end = graph[end_of[i]];
      const auto [x, addend] = matcher.operands_of(node);
      const std::vector<ValueId> y = writer.add(found[end_of[i]]->normal, end, x, addend);
      give(end, y[0]);
      give(node, y[3]);
    } else if (!found[i]) {
      copy.copy(node);
    } else if (!found[i]->sum.present()) {
      give(node, writer.add(found[i]->normal, node, found[i]->normal.x, {})[0]);
    }
  }
  return copy.finish();
}

}  // namespace

// LayerNormalization, RMSNormalization and what exporters write for them, with the residual's sum before it, become RowNormalization
// where that is offered. Before expand.
Pass match_normalization() {
  return {.name = "match_normalization",
          .run = [](Graph g, PassContext& c) { return match_normalization(g, c.fuses); },
          .why = "one kernel in place of those of the formula"};
}

}  // namespace tandem::pass_rows
