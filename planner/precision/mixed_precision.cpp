// The 16-bit form of a forward graph: convolutions and products take 16-bit operands, what lies between them follows
// its operands, and what sums or exponentiates stays float32, as the operators' rows say (PrecisionRole). Parameters stay
// float32 too and are cast where they are read, so that the gradient of that Cast gives float32 gradients to sum over
// devices and to update by.
#include <map>

#include "graph/operator.h"
#include "planner/rewrite/graph_copy.h"
#include "planner/rewrite/pass.h"
#include "planner/rewrite/simplify.h"

namespace tandem::pass_rows {
namespace {

PrecisionRole role_of(const Operator& op) {
  const PrecisionRole role = precision_of(op);
  if (role == PrecisionRole::unsaid || role == PrecisionRole::parts)
    fail(op.name, ": its row does not say in which precision it runs, and it is in a graph where that is chosen");
  return role;
}

class Narrowing {
 public:
  Narrowing(const Graph& graph, DType storage) : graph_(graph), copy_(graph), storage_(storage) {}

  Graph run() {
    for (const Node& node : graph_.nodes) add(node);
    Graph& to = copy_.to;
    for (const GraphOutput& out : graph_.outputs) to.outputs.emplace_back(as(copy_.map(out), graph_[out].type.dtype), out.role, out.of);
    put_updates_last(to);
    return std::move(to);
  }

 private:
  bool is_activation(ValueId v) const { return graph_[v].kind == ValueKind::activation || graph_[v].kind == ValueKind::input; }

  static bool stays_wide(const Node& node, std::size_t operand) { return operand_of(*node.op, static_cast<int>(operand)).wide; }

  bool narrows(const Node& node) const {
    const PrecisionRole role = role_of(*node.op);
    if (role != PrecisionRole::follows) return role == PrecisionRole::narrow;
    bool any = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (stays_wide(node, i) || !in.present() || graph_[in].type.dtype != DType::float32 || !is_activation(in)) continue;
      if (copy_.to[copy_.map(in)].type.dtype != storage_) return false;
      any = true;
    }
    return any;
  }

  void add(const Node& node) {
    const bool narrow = narrows(node);
    std::vector<ValueId> inputs;
    bool changed = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId old = node.inputs[i];
      ValueId now = copy_.map(old);
      if (old.present() && graph_[old].type.dtype == DType::float32)
        now = as(now, narrow && !stays_wide(node, i) ? storage_ : DType::float32);
      changed = changed || (now.present() && copy_.to[now].type.dtype != graph_[old].type.dtype);
      inputs.push_back(now);
    }
    if (node.op->name == "RecurrentTraining") {  // its steps stay float32, its products need not
      copy_.copy(node, std::move(inputs), node.outputs.size());
      copy_.to.nodes.back().attributes.set("product_dtype", static_cast<std::int64_t>(storage_));
      return;
    }
    if (!changed) {  // types stay as they were
      copy_.copy(node);
      copy_.to.nodes.back().inputs = std::move(inputs);
      return;
    }
    copy_.copy(node, std::move(inputs), node.outputs.size());
  }

  // The value (of the new graph) in this type: itself, or one Cast of it for all that read it.
  ValueId as(ValueId v, DType dtype) {
    if (copy_.to[v].type.dtype == dtype) return v;
    const auto [it, fresh] = casts_.emplace(std::pair(v, dtype), ValueId{});
    if (!fresh) return it->second;
    const Value value = copy_.to[v];
    if (value.kind == ValueKind::constant)
      return it->second = copy_.to.add_constant(concat(value.name, '/', dtype), value.data->cast(dtype));
    const std::vector<std::string> origin = value.producer.present() ? copy_.to[value.producer].origin : std::vector<std::string>{};
    const NodeId id = copy_.to.add_node(internal_operator("Cast"), concat(value.name, '/', dtype),
                                        {{"to", static_cast<std::int64_t>(dtype)}}, {v}, 1, origin);
    return it->second = copy_.to[id].outputs[0];
  }

  const Graph& graph_;
  GraphCopy copy_;
  const DType storage_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

Graph mixed_precision(const Graph& graph, Precision precision) {
  if (storage_of(precision) == DType::float32) return graph;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter && is_16_bit(v.type.dtype))
      fail("parameter '", v.name, "' is ", v.type.dtype, ": ", precision, " needs a template with float32 weights, which it casts itself");
  return simplify(Narrowing(graph, storage_of(precision)).run());
}

}  // namespace

// Activations, and the operands of convolutions and products, in 16 bits where the precision has them, with a Cast wherever the types
// meet. Before differentiation: the gradient of a Cast is a Cast. Fails (model) on 16-bit parameters.
Pass mixed_precision() {
  return {.name = "mixed_precision",
          .run = [](Graph g, PassContext& c) { return mixed_precision(g, c.options.precision); },
          .needs = {Property::primitive},
          .why = "16 bits move, and multiply, at twice the speed",
          .required = "the plan would not be of the precision that was asked for"};
}

}  // namespace tandem::pass_rows
