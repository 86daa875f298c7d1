// The 16-bit form of a forward graph: convolutions and products take 16-bit operands, what lies between them follows
// its operands, and what sums or exponentiates stays float32. Parameters stay float32 too and are cast where they are
// read, so that the gradient of that Cast gives float32 gradients to sum over devices and to update by.
#include <map>

#include "planner/passes/graph_copy.h"
#include "planner/passes/passes.h"

namespace tandem {
namespace {

enum class Runs {
  narrow,   // in 16 bits, whatever it is given
  follows,  // in 16 bits where all activations that it reads are
  wide,     // in float32
};
struct Row {
  std::string_view op;
  Runs runs;
  unsigned wide_operands = 0;  // inputs of which that is not said, by bit: they stay float32
  bool said_of(std::size_t operand) const { return operand >= 32 || (wide_operands >> operand & 1) == 0; }
};
constexpr Row rows[] = {
    {"Conv", Runs::narrow},
    {"ConvTranspose", Runs::narrow},
    {"InnerProduct", Runs::narrow},
    {"MatMul", Runs::narrow},
    // Statistics, scale and bias in float32.
    {"BatchNormalization", Runs::follows, 0b11110},
    {"BatchNormalizationTraining", Runs::follows, 0b110},
    {"AveragePool", Runs::follows},
    {"MaxPool", Runs::follows},
    {"MaxPoolTraining", Runs::follows},
    {"LRN", Runs::follows},
    {"LRNTraining", Runs::follows},
    {"DropoutTraining", Runs::follows},
    {"Concat", Runs::follows},
    {"Expand", Runs::follows},
    {"Gather", Runs::follows},
    {"Pad", Runs::follows},
    {"Reshape", Runs::follows},
    {"Slice", Runs::follows},
    {"Tile", Runs::follows},
    {"Transpose", Runs::follows},
    // Elementwise operators follow, but for those whose results leave the range or lose the precision of 16 bits.
    {"Exp", Runs::wide},
    {"Log", Runs::wide},
    {"Pow", Runs::wide},
    {"Reciprocal", Runs::wide},
    {"Softplus", Runs::wide},
    {"Sqrt", Runs::wide},
};

Row row_of(const Operator& op) {
  for (const Row& row : rows)
    if (row.op == op.name) return row;
  return {op.name, op.elementwise ? Runs::follows : Runs::wide};
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

  bool narrows(const Node& node, const Row& row) const {
    if (row.runs != Runs::follows) return row.runs == Runs::narrow;
    bool any = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId in = node.inputs[i];
      if (!row.said_of(i) || !in.present() || graph_[in].type.dtype != DType::float32 || !is_activation(in)) continue;
      if (copy_.to[copy_.map(in)].type.dtype != storage_) return false;
      any = true;
    }
    return any;
  }

  void add(const Node& node) {
    const Row row = row_of(*node.op);
    const bool narrow = narrows(node, row);
    std::vector<ValueId> inputs;
    bool changed = false;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId old = node.inputs[i];
      ValueId now = copy_.map(old);
      if (old.present() && graph_[old].type.dtype == DType::float32) now = as(now, narrow && row.said_of(i) ? storage_ : DType::float32);
      changed = changed || (now.present() && copy_.to[now].type.dtype != graph_[old].type.dtype);
      inputs.push_back(now);
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
    const NodeId id = copy_.to.add_node(internal_operator("Cast"), concat(value.name, '/', dtype), {{"to", static_cast<std::int64_t>(dtype)}}, {v}, 1, origin);
    return it->second = copy_.to[id].outputs[0];
  }

  const Graph& graph_;
  GraphCopy copy_;
  const DType storage_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;
};

}  // namespace

Graph mixed_precision(const Graph& graph, Precision precision) {
  if (storage_of(precision) == DType::float32) return graph;
  for (const Value& v : graph.values)
    if (v.kind == ValueKind::parameter && is_16_bit(v.type.dtype))
      fail("parameter '", v.name, "' is ", v.type.dtype, ": ", precision, " needs a template with float32 weights, which it casts itself");
  return simplify(Narrowing(graph, storage_of(precision)).run());
}

}  // namespace tandem
