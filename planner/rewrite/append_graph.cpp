#include "planner/rewrite/append_graph.h"

#include <algorithm>

namespace tandem {
namespace {

class Appending {
 public:
  Appending(Graph& graph, const Graph& part, const std::map<std::string, ValueId>& inputs, const std::string& prefix, bool constants)
      : graph_(graph), part_(part), prefix_(prefix), map_(part.values.size()) {
    for (std::size_t i = 0; i < part.values.size(); ++i) {
      const ValueId id{static_cast<int>(i)};
      if (part[id].kind == ValueKind::input) map_[id] = given(part[id], inputs);
      if (part[id].kind == ValueKind::parameter || part[id].kind == ValueKind::constant)
        map_[id] = graph_.add_value(held(part[id], constants));
    }
  }

  std::vector<ValueId> run() {
    for (const Node& node : part_.nodes) append(node);
    std::vector<ValueId> outputs;
    for (const GraphOutput& out : part_.outputs) outputs.push_back(map_[out.value]);
    return outputs;
  }

 private:
  // The step's own numbers are the graph's, too.
  ValueId given(const Value& v, const std::map<std::string, ValueId>& inputs) {
    if (v.role == ValueRole::step_state) return GraphBuilder(graph_, prefix_, {}).input(v.name, v.type, v.role, v.of);
    const auto it = inputs.find(v.name);
    if (it == inputs.end()) fail("internal: '", v.name, "' of '", part_.name, "' is bound to nothing");
    if (graph_[it->second].type != v.type)
      fail("internal: '", v.name, "' of '", part_.name, "' is ", v.type, ", bound to ", graph_[it->second].type);
    return it->second;
  }

  Value held(Value v, bool constants) const {
    if (!v.data) fail(ExitCode::model, "'", part_.name, "' has no values for '", v.name, "'");
    if (v.kind == ValueKind::parameter) {
      v.role = ValueRole::teacher;
      v.of = v.name;
    }
    v.name = prefix_ + v.name;
    v.trainable = false;
    if (!constants || v.kind == ValueKind::constant) return v;
    if (v.type.shape != v.data->shape()) fail("internal: '", v.name, "' is held as ", v.type);
    return {.name = v.name, .type = v.type, .kind = ValueKind::constant, .data = v.data};
  }

  void append(const Node& node) {
    const auto used = [&](ValueId out) {
      return out.present() && (std::find(part_.outputs.begin(), part_.outputs.end(), out) != part_.outputs.end() ||
                               std::any_of(part_.nodes.begin(), part_.nodes.end(), [&](const Node& n) {
                                 return std::find(n.inputs.begin(), n.inputs.end(), out) != n.inputs.end();
                               }));
    };
    if (node.op->name == "Dropout" && std::none_of(node.outputs.begin() + 1, node.outputs.end(), used)) {
      map_[node.outputs[0]] = map_[node.inputs[0]];
      return;
    }
    Node now = node;
    now.name = prefix_ + node.name;
    for (std::string& origin : now.origin) origin = prefix_ + origin;
    if (node.op->name == "BatchNormalization") now.attributes.set("frozen", std::int64_t{1});
    bool batch = false;
    for (ValueId& in : now.inputs) {
      in = in.present() ? map_[in] : in;
      batch = batch || (in.present() && graph_[in].depends_on_batch);
    }
    const NodeId id{static_cast<int>(graph_.nodes.size())};
    for (ValueId& out : now.outputs) {
      if (!out.present()) continue;
      Value value = part_[out];
      value.name = prefix_ + value.name;
      value.producer = id;
      value.depends_on_batch = batch;
      out = map_[out] = graph_.add_value(std::move(value));
    }
    graph_.nodes.push_back(std::move(now));
  }

  Graph& graph_;
  const Graph& part_;
  const std::string& prefix_;
  IdVector<ValueId, ValueId> map_;
};

}  // namespace

std::vector<ValueId> append_graph(Graph& graph, const Graph& part, const std::map<std::string, ValueId>& inputs, const std::string& prefix,
                                  bool constants) {
  return Appending(graph, part, inputs, prefix, constants).run();
}

}  // namespace tandem
