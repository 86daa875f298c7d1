// Reverse mode: walks the nodes backwards from values whose gradients are known; each operator's own rule (graph/operators) gives its part.
#include "planner/rewrite/differentiate.h"

#include <algorithm>


namespace tandem {
namespace {

// Which values depend, through float operands, on one of the wanted ones.
IdVector<ValueId, bool> dependents(const Graph& graph, std::span<const ValueId> wanted) {
  IdVector<ValueId, bool> depends(graph.values.size());
  for (const ValueId w : wanted) depends[w] = true;
  for (const Node& node : graph.nodes) {
    bool any = false;
    for (const ValueId in : node.inputs) any = any || (in.present() && depends[in]);
    if (!any) continue;
    for (const ValueId out : node.outputs)
      if (const DType t = out.present() ? graph[out].type.dtype : DType::undefined; is_float(t) || is_small_float(t)) depends[out] = true;
  }
  return depends;
}

// What a part that was taken along one axis gives back: nothing but its own places.
struct GradientOfPart {
  ValueId dy;
  int axis;
  std::int64_t begin, end;
};
std::optional<GradientOfPart> gradient_of_part(const Graph& graph, ValueId v) {
  if (!graph[v].producer.present()) return std::nullopt;
  const Node& node = graph[graph[v].producer];
  if (node.op->name != "SliceBackward" || node.attributes.ints("axes").size() != 1 || node.attributes.ints("steps")[0] != 1)
    return std::nullopt;
  const int axis = static_cast<int>(node.attributes.ints("axes")[0]);
  const std::int64_t begin = node.attributes.ints("starts")[0];
  return GradientOfPart{node.inputs[0], axis, begin, begin + graph[node.inputs[0]].type.shape[axis]};
}

// Where the parts make up a whole, as a Split's do, their gradients lie side by side. Absent: they do not.
ValueId joined(GraphBuilder& b, const std::vector<ValueId>& addends) {
  std::vector<GradientOfPart> parts;
  for (const ValueId v : addends)
    if (const auto part = gradient_of_part(b.graph(), v)) parts.push_back(*part);
  if (parts.size() != addends.size() || parts.size() < 2) return {};
  std::sort(parts.begin(), parts.end(), [](const GradientOfPart& a, const GradientOfPart& c) { return a.begin < c.begin; });
  std::int64_t end = 0;
  std::vector<ValueId> all;
  for (const GradientOfPart& p : parts) {
    if (p.axis != parts[0].axis || p.begin != end) return {};
    end = p.end;
    all.push_back(p.dy);
  }
  if (end != b.shape(addends[0])[parts[0].axis]) return {};
  return b.emit("Concat", std::move(all), {{"axis", std::int64_t{parts[0].axis}}});
}

// What all uses of a value give it, summed as they come; parts wait for the others.
class Gradients {
 public:
  explicit Gradients(Graph& graph) : graph_(graph), sums_(graph.values.size()), parts_(graph.values.size()) {}
  void add(ValueId v, ValueId dx, const std::vector<std::string>& origin) {
    if (gradient_of_part(graph_, dx))
      parts_[v].push_back(dx);
    else
      sums_[v] = sums_[v].present() ? builder(v, origin).add(sums_[v], dx) : dx;
  }
  ValueId of(ValueId v, const std::vector<std::string>& origin) {
    if (!v.present() || static_cast<std::size_t>(v.index) >= sums_.size()) return {};
    std::vector<ValueId>& parts = parts_[v];
    GraphBuilder b = builder(v, origin);
    if (const ValueId all = joined(b, parts); all.present()) parts = {all};
    for (const ValueId dx : parts) sums_[v] = sums_[v].present() ? b.add(sums_[v], dx) : dx;
    parts.clear();
    return sums_[v];
  }

 private:
  GraphBuilder builder(ValueId v, const std::vector<std::string>& origin) { return {graph_, concat("grad/", graph_[v].name), origin}; }
  Graph& graph_;
  IdVector<ValueId, ValueId> sums_;
  IdVector<ValueId, std::vector<ValueId>> parts_;
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph, ValueId scalar, std::span<const ValueId> wanted) {
  GraphBuilder builder(graph, "grad", {});
  const GradientOfValue one{scalar, builder.broadcast_to(builder.scalar(1, graph[scalar].type.dtype), graph[scalar].type.shape)};
  return differentiate(graph, std::span(&one, 1), wanted);
}

std::vector<ValueId> differentiate(Graph& graph, std::span<const GradientOfValue> given, std::span<const ValueId> wanted) {
  const IdVector<ValueId, bool> depends = dependents(graph, wanted);
  Gradients gradients(graph);
  for (const auto& [value, gradient] : given) gradients.add(value, gradient, {});
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const std::vector<ValueId> inputs = graph.nodes[n].inputs, outputs = graph.nodes[n].outputs;
    const std::vector<std::string> origin = graph.nodes[n].origin;
    std::vector<ValueId> dy;
    std::vector<bool> wants;
    bool flows = false, wants_any = false;
    for (const ValueId out : outputs) {
      dy.push_back(gradients.of(out, origin));
      flows = flows || dy.back().present();
    }
    for (const ValueId in : inputs) {
      wants.push_back(in.present() && static_cast<std::size_t>(in.index) < depends.size() && depends[in]);
      wants_any = wants_any || wants.back();
    }
    if (!flows || !wants_any) continue;
    const Operator& op = *graph.nodes[n].op;
    if (!op.differentiate)
      fail(op.name, " '", graph.nodes[n].name,
           "': this operator has no gradient, and the loss depends on a trainable parameter through it");
    // A fused Relu is undone first, by its output's sign.
    const bool masked = graph.nodes[n].attributes.has("activation") && !op.undoes_activation;
    if (masked) {
      dy[0] = GraphBuilder(graph, concat("grad/", graph.nodes[n].name), graph.nodes[n].origin).emit("ReluBackward", {dy[0], outputs[0]});
      graph.nodes[n].attributes.erase("activation");
    }
    GradientContext context(graph, {static_cast<int>(n)}, std::move(dy), std::move(wants));
    if (masked) graph.nodes[n].attributes.set("activation", std::string("Relu"));
    op.differentiate(context);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const ValueId dx = context.dx()[i]; dx.present()) gradients.add(inputs[i], dx, origin);
  }
  std::vector<ValueId> result;
  for (const ValueId w : wanted) result.push_back(gradients.of(w, {}));
  return result;
}

}  // namespace tandem
